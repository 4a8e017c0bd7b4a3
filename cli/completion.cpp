// `tilec completion SHELL`: what bash, zsh or fish must know to complete a line of tilec; `man`: the manual page. Both
// from what `--help` lists.
//
//   tilec completion bash > ~/.local/share/bash-completion/completions/tilec
//   tilec completion zsh  > ~/.zfunc/_tilec                                      a folder of fpath
//   tilec completion fish > ~/.config/fish/completions/tilec.fish
//   tilec completion man  > ~/.local/share/man/man1/tilec.1
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/options.h"
#include "cli/session.h"
#include "cli/standard.h"
#include "runtime/emit.h"
#include "runtime/target_hint.h"

namespace tilec::cli {

namespace {

std::vector<std::string> stages() {
  std::vector<std::string> names;
  for (const runtime::StageInfo& stage : runtime::all_stages()) names.emplace_back(stage.name);
  return names;
}

// What an option takes, where that is known.
std::vector<std::string> values_of(const std::string& option) {
  if (option == "--emit") return stages();
  if (option == "--target") return {runtime::target_names().begin(), runtime::target_names().end()};
  if (option == "--vs") return {"numpy", "torch", "jax"};
  return {};
}
constexpr const char* with_values[] = {"--emit", "--target", "--vs"};

std::vector<std::string> written_commands() {
  std::vector<std::string> names;
  for (const CommandHelp& command : all_help()) if (command.name != "show") names.push_back(command.name);
  return names;
}

std::vector<std::string> option_names(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const OptionHelp& option : command.options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// What the words of a command are, where they are no files.
std::vector<std::string> words_of(const std::string& command) {
  if (command == "cache") return {"clear"};
  if (command == "completion") return {"bash", "zsh", "fish", "man"};
  return {};
}

std::string bash() {
  std::string cases;
  for (const CommandHelp& command : all_help())
    cases += fmt::format("    {}) options=\"{}\"; words=\"{}\" ;;\n", command.name == "show" ? "*" : command.name,
        fmt::join(option_names(command), " "), fmt::join(words_of(command.name), " "));
  // `*` must stand last.
  const auto first_end = cases.find('\n') + 1;
  cases = cases.substr(first_end) + cases.substr(0, first_end);
  std::string values;
  for (const char* option : with_values)
    values += fmt::format("    {}) offered=\"{}\" ;;\n", option, fmt::join(values_of(option), " "));
  return fmt::format(R"(# bash completion of tilec, made by `tilec completion bash`
_tilec() {{
  local at=$COMP_CWORD word=${{COMP_WORDS[COMP_CWORD]}} whole=${{COMP_WORDS[COMP_CWORD]}} offered= before options words
  COMPREPLY=()
  # Bash divides a word at `:` and `=`: `cuda:math=tf32` is five, and what stands before the cursor stays as it is.
  while ((at > 1)) && [[ ${{COMP_WORDS[at-1]}} != -* && ( ${{COMP_WORDS[at]}} == [:=] || ${{COMP_WORDS[at-1]}} == [:=] && ${{COMP_WORDS[at-2]}} != -* ) ]]; do whole=${{COMP_WORDS[--at]}}$whole; done
  before=${{COMP_WORDS[at-1]}}
  if [[ $word == [:=] ]]; then word=; fi
  if [[ $whole == = ]]; then whole=; elif [[ $before == = ]]; then before=${{COMP_WORDS[at-2]}}; fi
  if [[ $whole == std:* ]]; then offered="{}"; fi
  case $before in
{}  esac
  if [[ $offered ]]; then COMPREPLY=($(compgen -W "$offered" -- "$whole")); COMPREPLY=("${{COMPREPLY[@]#"${{whole%"$word"}}"}}"); return; fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word")); return; fi
  if [[ $COMP_CWORD == 1 ]]; then words="{}"; fi
  COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
}}
complete -o filenames -F _tilec tilec
)",
      fmt::join(standard_words(), " "), values, cases, fmt::join(written_commands(), " "));
}

// Within single quotes of zsh and fish; in a description zsh ends at `]` and divides at `:`.
std::string quoted(const std::string& text, bool zsh) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') safe += zsh ? "'\\''" : "\\'";
    else if (zsh && (c == '[' || c == ']' || c == ':')) safe += std::string("\\") + c;
    else if (!zsh && c == '\\') safe += "\\\\";
    else safe += c;
  }
  return safe;
}

std::string zsh_values(const std::string& option) {
  const std::vector<std::string> values = values_of(option);
  return values.empty() ? ":value:_files"
                        : fmt::format(":value:({})", quoted(fmt::format("{}", fmt::join(values, " ")), true));
}

std::string zsh() {
  std::string cases;
  std::string shown;
  for (const CommandHelp& command : all_help()) {
    std::string lines;
    for (const OptionHelp& option : command.options)
      for (const std::string& name : option.names)
        lines += fmt::format(" \\\n      '*{}{}[{}]{}'", name, option.takes_value && name.starts_with("--") ? "=" : "",
            quoted(option.description, true), option.takes_value ? zsh_values(name) : "");
    const std::vector<std::string> words = words_of(command.name);
    const std::string rest =
        words.empty() ? "*:file:_tilec_program" : fmt::format("*:word:({})", fmt::join(words, " "));
    const std::string one = fmt::format(
        "    {}) _arguments -s{} \\\n      '{}' ;;\n", command.name == "show" ? "*" : command.name, lines, rest);
    (command.name == "show" ? shown : cases) += one;
  }
  return fmt::format(R"(#compdef tilec
# zsh completion of tilec, made by `tilec completion zsh`
_tilec_program() {{
  if [[ $PREFIX == std:* ]]; then compadd -- {}; else _files; fi
}}
_tilec() {{
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    compadd -- {}
    _tilec_program
    return
  fi
  local command=$words[2]
  if (( ${{${{(s: :):-"{}"}}[(Ie)$command]}} )); then shift words; (( CURRENT-- )); fi
  case $command in
{}{}  esac
}}
_tilec "$@"
)",
      fmt::join(standard_words(), " "), fmt::join(written_commands(), " "), fmt::join(written_commands(), " "), cases,
      shown);
}

std::string fish() {
  const std::vector<std::string> names = written_commands();
  std::string lines = fmt::format(
      "# fish completion of tilec, made by `tilec completion fish`\ncomplete -c tilec -n 'not __fish_seen_subcommand_from {}' -a '{}'\n",
      fmt::join(names, " "), fmt::join(names, " "));
  lines += fmt::format("complete -c tilec -n 'string match -q \"std:*\" -- (commandline -ct)' -f -a '{}'\n",
      fmt::join(standard_words(), " "));
  for (const CommandHelp& command : all_help()) {
    const std::string when = command.name == "show"
        ? fmt::format("not __fish_seen_subcommand_from {}", fmt::join(names, " "))
        : fmt::format("__fish_seen_subcommand_from {}", command.name);
    for (const OptionHelp& option : command.options) {
      std::string spelled;
      for (const std::string& name : option.names)
        spelled +=
            name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
      if (const auto values = values_of(option.names.back()); !values.empty())
        spelled += fmt::format(" -x -a '{}'", fmt::join(values, " "));
      else if (option.takes_value) spelled += " -r";
      lines += fmt::format("complete -c tilec -n '{}'{} -d '{}'\n", when, spelled, quoted(option.description, false));
    }
    if (const auto words = words_of(command.name); !words.empty())
      lines += fmt::format("complete -c tilec -n '{}' -f -a '{}'\n", when, fmt::join(words, " "));
  }
  return lines;
}

// A line of roff: no backslash, and no dot or quote in front, means anything.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') safe += "\\e";
    else if (c == '-') safe += "\\-";
    else safe += c;
    if (c == '\n') safe += "\\&";
  }
  return "\\&" + safe;
}

std::string man() {
  std::string page =
      ".TH TILEC 1\n.SH NAME\ntilec \\- compile tensor expressions to fast CPU and GPU kernels, with gradients\n.SH OVERVIEW\n.nf\n" +
      roff(overview()) + "\n.fi\n";
  for (const CommandHelp& command : all_help()) {
    page += fmt::format(".SH {}\n", command.name == "show" ? "tilec FILE" : "tilec " + command.name);
    for (const OptionHelp& option : command.options)
      page += fmt::format(
          ".TP\n\\fB{}\\fR\n{}\n", roff(fmt::format("{}", fmt::join(option.names, ", "))), roff(option.description));
  }
  return page;
}

}  // namespace

int completion_command(const Options& options) {
  if (options.words.size() != 1) throw UsageError{"`tilec completion` takes one word", "write bash, zsh, fish or man"};
  const std::string& shell = options.words[0];
  if (shell == "bash") put(bash(), options);
  else if (shell == "zsh") put(zsh(), options);
  else if (shell == "fish") put(fish(), options);
  else if (shell == "man") put(man(), options);
  else throw UsageError{fmt::format("`{}` is no shell that tilec knows", shell), "write bash, zsh, fish or man"};
  return success;
}

}  // namespace tilec::cli
