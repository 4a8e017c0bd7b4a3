#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cli/package.h"
#include "cli/standard.h"
#include "lang/lexis.h"
#include "lang/nearest.h"
#include "runtime/emit.h"
#include "runtime/target_hint.h"

namespace tilec::cli {

Options::Options() = default;
Options::Options(const Options&) = default;
Options::Options(Options&&) noexcept = default;
Options& Options::operator=(const Options&) = default;
Options& Options::operator=(Options&&) noexcept = default;
Options::~Options() = default;

namespace {

constexpr const char* overview_text = R"(tilec: compile tensor expressions to fast CPU and GPU kernels, with gradients

Examples:
  tilec run  conv.tile I=image.npy K=filter.npy O=out.npy       execute
  tilec run  std:softmax X=random:4x10                          a function of the library in place of a file, in any command
  tilec grad conv.tile --of O --wrt I,K                         print the gradient, as Tile
  tilec run  conv.tile --grad --wrt I,K I=… K=… dO=… dI=di.npy  execute the gradient
  tilec build conv.tile --size N=1,H=224,W=224 -o conv.tilec    save what is compiled; `tilec run conv.tilec I=…` needs no compiler
  tilec build conv.tile --size N=1,H=224,W=224 -o conv.o        the same for a program in C, with conv.h; or conv.a, conv.so
  tilec conv.tile --emit=loops --size N=1,H=224,W=224           show any stage
  tilec check conv.tile                                         report what is wrong
  tilec fmt  conv.tile                                          print canonical source
  tilec explain E0201                                           what an error means
  tilec explain conv.tile --size N=1,H=224,W=224                what becomes of each statement, and why
  tilec report conv.tile --size N=1,H=224,W=224 -o conv.html    the same as a page to look at: every stage, domains drawn, roofline
  tilec bench conv.tile I=random:1x224x224x3 K=random:7x7x3x64   how long a call takes, and what part of the machine's rates that is
  tilec bench matmul.tile A=random:512x512 B=random:512x512 --vs numpy   the same by NumPy, in turns
  tilec tune conv.tile --size N=1,H=224,W=224 --budget 60        search for a faster plan, which later compilations of the same follow
  tilec compare old.json new.json                               what has changed between two of `tilec bench --json`
  tilec test conv.tile                                          run the cases in its comments
  tilec targets                                                 what this machine can run
  tilec stages                                                  what each stage shows
  tilec cache [clear]                                           what is kept of programs that were compiled
  tilec lsp                                                     what an editor asks, over stdin and stdout (Language Server Protocol)
  tilec completion bash                                         what a shell must know to complete these words; also zsh, fish, man

Commands: check  run  bench  compare  tune  build  grad  test  explain  report  fmt  targets  stages  cache  lsp  completion   `tilec COMMAND --help` shows a command's options
Values:   A=file.npy  A=file.npz  A=file.npz:member  A=2x3xf32=[1 2 3][4 5 6]  S=0.5  A=random:2x3xf32  A=arange:6xi32  A=ones:4
Stages:   {}
Targets:  {}
Exit:     0 success, 1 error in the program or failed check, 2 wrong usage, 3 environment, 70 our bug
)";

constexpr const char* commands[] = {"build", "check", "run", "bench", "compare", "tune", "grad", "explain", "report",
    "fmt", "targets", "stages", "cache", "lsp", "completion", "test", "show"};

}  // namespace

std::string overview() {
  return fmt::format(
      fmt::runtime(overview_text), runtime::stage_names(110, "          "), fmt::join(runtime::target_names(), "  "));
}

namespace {

// NAME=NUMBER, as --size and --define take it.
std::from_chars_result read_number(std::string_view text, std::int64_t& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value);
}

std::from_chars_result read_number(std::string_view text, double& value) {
  const std::optional<lang::Real> real = lang::real_of(text);
  if (!real) return {text.data(), std::errc::invalid_argument};
  value = real->value;
  return {text.data() + text.size(), real->too_large ? std::errc::result_out_of_range : std::errc()};
}

template <class Number>
std::pair<std::string, Number> assignment(const std::string& text, const char* option, const char* example) {
  const auto equals = text.find('=');
  const std::string hint = fmt::format("write `{} {}`", option, example);
  if (equals == std::string::npos || equals == 0)
    throw UsageError{fmt::format("{} takes NAME=NUMBER, not `{}`", option, text), hint};
  const std::string number = text.substr(equals + 1);
  Number value{};
  const auto [end, fault] = read_number(number, value);
  if (fault == std::errc::result_out_of_range)
    throw UsageError{fmt::format("`{}` in {} does not fit in {}", lang::shortened(number), option,
                         std::is_same_v<Number, double> ? "`f64`" : "64 bits"),
        {}};
  if (fault == std::errc() && end == number.data() + number.size()) return {text.substr(0, equals), value};
  const std::optional<lang::Real> real = std::is_same_v<Number, std::int64_t> ? lang::real_of(number) : std::nullopt;
  if (!real) throw UsageError{fmt::format("`{}` in `{} {}` is not a number", number, option, text), hint};
  const bool whole = std::fabs(real->value) < 0x1p53 && real->value == std::floor(real->value);
  throw UsageError{fmt::format("`{}` in `{} {}` is not an integer", number, option, text),
      whole ? fmt::format("write `{} {}={:.0f}`", option, text.substr(0, equals), real->value) : hint};
}

// Whether the f64 is what the text says, where that is an integer.
bool is_exact(std::string_view text, double value) {
  const bool minus = text.starts_with('-');
  if (minus) text.remove_prefix(1);
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return true;
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
  return fmt::format("{:.0f}", std::fabs(value)) == text;
}

// S=2, or F=relu: a number, or the name of a function or aggregation.
std::pair<std::string, std::variant<double, std::string>> definition(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw UsageError{fmt::format("--define takes NAME=VALUE, a number, a function or an aggregation, not `{}`", text),
        "write `--define S=2` or `--define F=relu`"};
  const std::string given = text.substr(equals + 1);
  if (given == "true" || given == "false") return {text.substr(0, equals), given == "true" ? 1.0 : 0.0};
  if (std::isalpha(static_cast<unsigned char>(given[0])) != 0) return {text.substr(0, equals), given};
  const auto [name, value] = assignment<double>(text, "--define", "S=2");
  if (!is_exact(given, value))
    throw UsageError{fmt::format("`{}` in --define is passed as a 64-bit float and does not fit one exactly",
                         lang::shortened(given)),
        fmt::format("write the float that is meant, such as `{}={:.1f}`", name, value)};
  return {name, value};
}

// CLI11 takes `-1` for the largest number and cuts what is larger.
CLI::Validator whole(std::uint64_t low, std::uint64_t high) {
  const auto fault = [low, high](const std::string& text) {
    std::uint64_t value = 0;
    const char* const stop = text.data() + text.size();
    const auto [end, failed] = std::from_chars(text.data(), stop, value);
    if (failed == std::errc() && end == stop && value >= low && value <= high) return std::string();
    return fmt::format("`{}` is no integer from {} to {}", lang::shortened(text), low, high);
  };
  return {fault, "", "whole"};
}

CLI::Validator seconds() {
  const auto fault = [](const std::string& text) {
    const std::optional<lang::Real> real = lang::real_of(text);
    return real && std::isfinite(real->value) && real->value > 0
        ? std::string()
        : fmt::format("`{}` is no number of seconds above 0", lang::shortened(text));
  };
  return {fault, "", "seconds"};
}

struct Raw {
  std::vector<std::string> sizes, ranks, defines, of, wrt;
  int grad = 0, forward = 0, vmap = 0, vjp = 0;
  std::string target, check, diagnostics = "text";
};

// What a text leaves open.
void add_open_options(CLI::App& app, Raw& raw, const char* sizes, const char* ranks) {
  app.add_option("--size", raw.sizes, sizes)->delimiter(',')->type_name("N=8,…")->allow_extra_args(false);
  app.add_option("--rank", raw.ranks, ranks)->delimiter(',')->type_name("B=2,…")->allow_extra_args(false);
  app.add_option("--define", raw.defines, "compile-time parameters: numbers, functions, aggregations")
      ->delimiter(',')
      ->type_name("S=2,…")
      ->allow_extra_args(false);
}

void add_program_options(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--function", options.function, "the function to compile, where the file has several")
      ->type_name("NAME");
  add_open_options(app, raw, "sizes by name", "how many dimensions `B...` stands for, where no input's shape tells");
  const bool prints = options.command == "grad";
  app.add_flag("--grad", raw.grad,
         prints ? "the gradient, dX from dO (default); repeat for higher orders: --grad --grad"
                : "the gradient instead of the function: dX from dO; repeat for higher orders: --grad --grad")
      ->disable_flag_override();
  app.add_flag(
         "--forward", raw.forward, "the forward derivative: tO from tX; --grad --forward is a Hessian-vector product")
      ->disable_flag_override();
  app.add_flag("--vmap", raw.vmap,
         "the function for a batch: the inputs that --wrt behind it names (default: all) and the outputs have a leading dimension")
      ->disable_flag_override();
  app.add_option("--of", raw.of, "outputs that the derivative before it starts from (default: all float ones)")
      ->type_name("O,…")
      ->allow_extra_args(false);
  app.add_option("--wrt", raw.wrt,
         "inputs that the derivative before it is taken by (default: all float ones); of --vmap, those of the batch")
      ->type_name("I,…")
      ->allow_extra_args(false);
  app.add_option("--target", raw.target, fmt::format("{} (default: cpu)", runtime::target_forms))->type_name("NAME");
  app.add_option("--threads", options.threads,
         options.command == "build"
             ? "of -o f.o: threads that may have memory of their own in the workspace (default: 16); 1: no turns are shared out"
             : "threads of the cpu target (default: all)")
      ->check(whole(1, 4096))
      ->type_name("N");
  if (options.command != "grad")
    app.add_option("--plan", options.plan,
           "compile as this file says, which --emit=plan prints; what it does not say is chosen")
        ->type_name("FILE");
  app.add_option("--dump-to", options.dump_to, "write every stage to this folder")->type_name("DIR");
  app.add_flag("--time", options.time, "print how long each pass took; of a run, each launch too");
}

void add_common_options(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--include", options.include, "folders where imported files are looked for")
      ->delimiter(',')
      ->type_name("DIR,…")
      ->allow_extra_args(false);
  if (options.command == "lsp") {
    const std::string told = "accepted, as editors write it: there is no other way";
    app.add_flag("--stdio", told);
    return;
  }
  app.add_option("--diagnostics", raw.diagnostics, "text or json (one object a line)")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORM");
  app.add_option("-W", options.warnings,
         "error, error=dimension or error=W0210: warnings that are errors; no-dimension or no-W0210: warnings that are not shown")
      ->type_name("WORD")
      ->allow_extra_args(false);
  app.add_flag("-q,--quiet", options.quiet, "no warnings and no summaries");
  app.add_flag("-v,--verbose", options.verbose, "remarks too");
}

const char* words_of(const std::string& c) {
  if (c == "explain")
    return "codes such as E0201, files of Tile, NAME=2x3xf32 for inputs whose shape or type these leave open";
  if (c == "lsp") return "none: texts come from the editor";
  if (c == "compare")
    return "two files of `tilec bench --json`, the older first; a row that a file has several times has the widest of its intervals. Exit 1: a row is slower";
  if (c == "bench" || c == "tune")
    return "the file, then NAME=VALUE for inputs; those left out are random, where --size or others tell their shape";
  if (c == "run")
    return "the file or package, then NAME=VALUE for inputs and NAME=FILE for outputs: NAME=FILE.npz writes the archive anew, NAME=FILE.npz:MEMBER one member of it";
  if (c == "show" || c == "grad" || c == "build" || c == "report")
    return "the file, then NAME=2x3xf32 for inputs whose shape or type it leaves open, NAME=default for those that are not given";
  return "files of Tile";
}

void add_check_options(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--function", options.function, "the function to check further, with --size, --rank and --define")
      ->type_name("NAME");
  add_open_options(app, raw, "sizes by name: bounds are checked too", "how many dimensions `B...` stands for");
}

void add_pair_options(CLI::App& app, Options& options, Raw& raw) {
  app.add_flag("--vjp", raw.vjp, "the function and its gradient as a pair: forward keeps what backward takes")
      ->disable_flag_override();
  app.add_option("--room", options.room,
         "bytes that forward of --vjp may keep (default: what costs more to make again than to keep)")
      ->check(whole(0, std::numeric_limits<std::int64_t>::max()))
      ->type_name("BYTES");
}

void add_build_options(CLI::App& app, Options& options) {
  app.add_option("--name", options.name,
         "what the function is called in C, of -o f.o (default: as in the file, else as the file)")
      ->type_name("NAME");
  app.add_flag("--multi-target", options.multi_target,
         "machine code for x86-64-v3 (AVX2) and x86-64-v4 (AVX-512) in one object file; each call runs what its CPU can run")
      ->disable_flag_override();
  app.add_flag("--checked", options.checked,
         "of -o f.o: an index of gather or scatter that is out of range is a status of the call")
      ->disable_flag_override();
}

// What is made, and where it is written.
void add_output_options(CLI::App& app, Options& options, Raw& raw) {
  const std::string& c = options.command;
  if (c == "show" || c == "grad") app.add_option("--emit", options.stage, "the stage to print")->type_name("STAGE");
  if (c == "show" || c == "grad" || c == "build")
    app.add_flag("--stats", options.stats,
        "memory, code and launches of what was compiled, and of CUDA kernels registers and spills");
  if (c == "build" || c == "report") add_pair_options(app, options, raw);
  if (c == "build") add_build_options(app, options);
  if (c == "show" || c == "grad" || c == "fmt" || c == "build" || c == "explain" || c == "report" || c == "bench" ||
      c == "compare" || c == "tune")
    app.add_option("-o,--output", options.output,
           c == "build"
               ? "f.tilec: a package, which tilec runs; f.o, f.a, f.so: machine code for a program in C, with f.h beside it that says how it is called; f.c: with --target cuda:sm_80,sm_90a the same as text"
               : c == "tune" ? "write the plan to this file, as --plan takes it"
                             : "write to this file")
        ->type_name("FILE");
}

void add_seed(CLI::App& app, Options& options, const char* of) {
  app.add_option("--seed", options.seed, of)
      ->check(whole(0, std::numeric_limits<std::uint64_t>::max()))
      ->type_name("N");
}

void add_report_options(CLI::App& app, Options& options) {
  app.add_flag("--measure", options.measure,
      "run it on random inputs, on one thread unless --threads says more, and draw what each launch takes");
  add_seed(app, options, "of random values");
}

void add_bench_options(CLI::App& app, Options& options) {
  app.add_option(
         "--seconds", options.seconds, "how long to measure, where the median does not settle before (default: 2)")
      ->check(seconds())
      ->type_name("S");
  app.add_option("--vs", options.peers,
         "measure numpy, torch or jax beside it, in turns, with one thread each unless --threads says more: products and convolutions in the peer's own words, anything else by an expression of Python over the inputs: --vs 'torch=torch.softmax(X, -1)'")
      ->type_name("PEER[=EXPRESSION]")
      ->allow_extra_args(false);
  app.add_flag("--json", options.json_output, "one object of JSON, in seconds and bytes");
  add_seed(app, options, "of random: values");
}

void add_tune_options(CLI::App& app, Options& options) {
  options.seconds = 60;
  app.add_option("--budget", options.seconds,
         "seconds of the search (default: 60); Ctrl-C ends it and keeps what is best by then")
      ->check(seconds())
      ->type_name("S");
  add_seed(app, options, "of random: values");
}

void add_run_options(CLI::App& app, Options& options, Raw& raw) {
  app.add_flag("--check", raw.check,
      "compare with the interpreter; where that takes long, up to 4096 elements of each output chosen by --seed, or as many as --check=N says; --check=all compares all");
  app.add_flag(
      "--checked", options.checked, "an index of gather or scatter that is out of range is an error, not clamped");
  app.add_flag(
      "--grad-check", options.grad_check, "compare the gradient, or the last derivative, with finite differences");
  add_seed(app, options, "of random: values, and of the elements that --check chooses");
}

void add_test_options(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--target", raw.target, fmt::format("{} (default: cpu)", runtime::target_forms))->type_name("NAME");
  app.add_option("--filter", options.filter, "only cases whose `FILE:LINE:COLUMN: FUNCTION: NAME` matches")
      ->type_name("REGEX");
  app.add_option("--threads", options.threads, "cases that run at a time (default: one a processor)")
      ->check(whole(1, 4096))
      ->type_name("N");
}

void add_fmt_options(CLI::App& app, Options& options) {
  app.add_flag("--in-place,-i", options.in_place, "rewrite the files");
  app.add_flag("--check", options.check, "exit 1 when a file is not in canonical form");
}

std::unique_ptr<CLI::App> make_app(Options& options, Raw& raw) {
  const std::string& c = options.command;
  auto app = std::make_unique<CLI::App>("", "tilec " + (c == "show" ? std::string() : c));
  app->set_help_flag("-h,--help", "show this");
  app->add_option("words", options.words, words_of(c))->type_name("");
  add_common_options(*app, options, raw);
  if (c == "run" || c == "bench" || c == "tune" || c == "grad" || c == "show" || c == "build" || c == "explain" ||
      c == "report")
    add_program_options(*app, options, raw);
  if (c == "check") add_check_options(*app, options, raw);
  add_output_options(*app, options, raw);
  if (c == "report") add_report_options(*app, options);
  if (c == "bench") add_bench_options(*app, options);
  if (c == "tune") add_tune_options(*app, options);
  if (c == "run") add_run_options(*app, options, raw);
  if (c == "test") add_test_options(*app, options, raw);
  if (c == "fmt") add_fmt_options(*app, options);
  return app;
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (end > at) names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

// A stage that has a derivative where none is asked for.
bool makes_gradient(const std::string& name) {
  const runtime::StageInfo* stage = runtime::stage_named(name);
  return stage != nullptr &&
      (stage->of == runtime::StageInfo::Of::Derivative || stage->of == runtime::StageInfo::Of::Pair);
}

// A pair is of the last derivative.
void after_vjp(const CLI::Option& option) {
  for (const char* name : {"--grad", "--forward", "--vmap", "--vjp"})
    if (option.check_name(name))
      throw UsageError{fmt::format("{} follows --vjp", name),
          "--vjp makes a pair of the last derivative: write it once, behind the others"};
}

// `--grad --of L --forward --wrt X`: --of and --wrt name tensors of the derivative that they follow; in front of all,
// of the first.
void read_derivatives(const CLI::App& app, const Raw& raw, Options& options) {
  std::vector<codegen::Derivative>& derivatives = options.derivatives;
  codegen::Derivative& first = options.gradient;
  std::size_t of = 0, wrt = 0;
  const auto name = [&](std::vector<std::string> codegen::Derivative::* list, const std::string& names,
                        const char* option) {
    std::vector<std::string>& place = (derivatives.empty() ? first : derivatives.back()).*list;
    if (!place.empty())
      throw UsageError{fmt::format("{} is given twice for one derivative", option),
          fmt::format("write `{} {},{}`, or `--grad` between them", option, fmt::join(place, ","), names)};
    place = names_in(names);
    if (place.empty())
      throw UsageError{fmt::format("{} names nothing", option), fmt::format("write for instance `{} X,Y`", option)};
  };
  for (const CLI::Option* option : app.parse_order()) {
    const bool forward = option->check_name("--forward");
    if (options.vjp) after_vjp(*option);
    options.vjp = options.vjp || option->check_name("--vjp");
    const bool batch = option->check_name("--vmap");
    if (forward || batch || option->check_name("--grad") || option->check_name("--vjp")) {
      derivatives.push_back(derivatives.empty() ? first : codegen::Derivative{});
      derivatives.back().forward = forward;
      derivatives.back().batch = batch;
    } else if (option->check_name("--of")) name(&codegen::Derivative::of, raw.of.at(of++), "--of");
    else if (option->check_name("--wrt")) name(&codegen::Derivative::wrt, raw.wrt.at(wrt++), "--wrt");
  }
  for (const codegen::Derivative& derivative : derivatives)
    if (derivative.batch && !derivative.of.empty())
      throw UsageError{"--of belongs to a derivative, and --vmap is none",
          "every output is one of the batch; inputs of the batch are named by --wrt"};
  const bool makes_one =
      !derivatives.empty() || options.command == "grad" || makes_gradient(options.stage) || options.grad_check;
  // which says so itself
  const bool of_package = options.command == "run" && !options.words.empty() && is_package_file(options.words[0]);
  if (!makes_one && of + wrt > 0 && !of_package)
    throw UsageError{fmt::format("{} belongs to a derivative, and none is asked for", of > 0 ? "--of" : "--wrt"),
        "write `--grad` or `--forward` in front of it"};
}

// `--check`, `--check=all`, `--check=1000`
void read_check(const Raw& raw, Options& options) {
  if (options.command != "run" || raw.check.empty() || raw.check == "false") return;
  options.check = true;
  if (raw.check == "true") return;
  std::uint64_t elements = std::numeric_limits<std::uint64_t>::max();
  const char* const stop = raw.check.data() + raw.check.size();
  const auto [end, fault] = std::from_chars(raw.check.data(), stop, elements);
  const bool number = fault == std::errc() && end == stop && elements > 0;
  if (!number && raw.check != "all")
    throw UsageError{fmt::format("--check takes a number of elements or `all`, not `{}`", raw.check),
        "write `--check`, `--check=1000` or `--check=all`"};
  options.check_elements = number ? elements : std::numeric_limits<std::uint64_t>::max();
}

// `X=2x3xf32` behind the file: what an input is, where nothing is run.
void read_forms(Options& options) {
  const std::string& c = options.command;
  if (c != "show" && c != "grad" && c != "build" && c != "explain" && c != "report") return;
  std::vector<std::string> others;
  for (const std::string& word : options.words) {
    const auto equals = word.find('=');
    if (others.empty() || equals == std::string::npos || equals == 0 || names_program(word.substr(0, equals)))
      others.push_back(word);
    else options.forms.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  options.words = std::move(others);
}

// `std:conv2d --define layout=channels_first` means another function, whose parameter this is none.
void choose_layout(Options& options) {
  const auto layout = std::ranges::find(options.defines, "layout", &decltype(options.defines)::value_type::first);
  if (layout == options.defines.end()) return;
  const std::string name = std::visit([](const auto& value) { return fmt::format("{}", value); }, layout->second);
  bool taken = false;
  for (std::string& word : options.words) {
    if (!is_standard(word)) continue;
    const std::optional<std::string> other = standard_in_layout(word, name);
    taken = taken || other;
    word = other.value_or(word);
  }
  if (taken) options.defines.erase(layout);
}

void finish(const CLI::App& app, Options& options, const Raw& raw) {
  read_forms(options);
  read_check(raw, options);
  for (const std::string& text : raw.sizes) {
    const auto [name, value] = assignment<std::int64_t>(text, "--size", "N=8");
    if (!options.sizes.emplace(name, value).second) throw UsageError{fmt::format("size `{}` is given twice", name), {}};
  }
  for (const std::string& text : raw.ranks) {
    const auto [name, value] = assignment<std::int64_t>(text, "--rank", "B=2");
    if (value < 0)
      throw UsageError{fmt::format("--rank {} is below 0", text), "a pack stands for 0 dimensions or more"};
    if (!options.ranks.emplace(name, value).second) throw UsageError{fmt::format("rank `{}` is given twice", name), {}};
  }
  for (const std::string& text : raw.defines) options.defines.push_back(definition(text));
  choose_layout(options);
  for (const std::string& word : options.warnings)
    if (word != "error" && word != "error=dimension" && !word.starts_with("error=W") && word != "no-dimension" &&
        !word.starts_with("no-W"))
      throw UsageError{fmt::format("-W{} is no option about warnings", word),
          "write `-Werror`, `-Werror=dimension`, `-Werror=W0210`, `-Wno-dimension` or `-Wno-W0210`"};
  read_derivatives(app, raw, options);
  options.target_given = !raw.target.empty();
  if (options.target_given) options.target = raw.target;
  options.json = raw.diagnostics == "json";
  for (const CLI::Option* option : app.parse_order())
    if (const auto& given = option->results(); std::find(given.begin(), given.end(), "") != given.end())
      throw UsageError{option->get_positional() ? std::string("an empty word is no file and no value")
                                                : fmt::format("{} is given nothing", option->get_name()),
          {}};
}

// The option a mistyped one is nearest to, from CLI11's own list.
std::string option_hint(const CLI::App& app, const Options& options, const std::string& message) {
  const auto ends_in = [&](std::string_view option) {
    return message.find(fmt::format(": {}", option)) != std::string::npos;
  };
  if (options.command == "run" && (ends_in("-o") || ends_in("--output")))
    return "a result is written by its name: `O=o.npy`";
  if (ends_in("--emit"))
    return fmt::format("a stage is shown without `{}`: `tilec {} --emit=loops --size N=8`", options.command,
        options.words.empty() ? "FILE" : options.words[0]);
  const auto at = message.rfind("--");
  if (at == std::string::npos) return {};
  const std::string typed = message.substr(at, message.find_first_of(" =:", at) - at);
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::optional<std::string> near = lang::nearest(typed, names);
  if (near == typed) return {};
  return near ? fmt::format("did you mean `{}`?", *near) : std::string("`--help` lists the options");
}

}  // namespace

Parsed parse_options(int argc, char** argv) {
  Parsed parsed;
  Options& options = parsed.options;
  const std::string first = argc > 1 ? argv[1] : "--help";
  if (first == "--help" || first == "-h" || first == "help") return {options, overview()};
  if (first == "--version") return {options, "tilec " TILEC_VERSION "\n"};
  const bool named = std::find(std::begin(commands), std::end(commands), first) != std::end(commands);
  if (!named && first[0] != '-' && !names_program(first)) {
    std::optional<std::string> near = lang::nearest(first, {std::begin(commands), std::end(commands)});
    if (const std::string word = standard_word(first); !near && !word.empty()) near = word;
    throw UsageError{fmt::format("`{}` is no command and no file of Tile", first),
        near ? fmt::format("did you mean `tilec {}`?", *near) : "`tilec --help` lists the commands"};
  }
  options.command = named ? first : "show";
  Raw raw;
  const std::unique_ptr<CLI::App> app = make_app(options, raw);
  const int skip = named ? 1 : 0;
  try {
    app->parse(argc - skip, argv + skip);
  } catch (const CLI::CallForHelp&) {
    return {options, named ? app->help() : overview() + "\n" + app->help()};
  } catch (const CLI::ParseError& fault) {
    throw UsageError{fault.what(), option_hint(*app, options, fault.what())};
  }
  finish(*app, options, raw);
  return parsed;
}

std::vector<CommandHelp> all_help() {
  std::vector<CommandHelp> all;
  for (auto command = std::rbegin(commands); command != std::rend(commands); ++command) {
    Options options;
    Raw raw;
    options.command = *command;
    const std::unique_ptr<CLI::App> app = make_app(options, raw);
    CommandHelp help{*command, {}};
    for (const CLI::Option* option : app->get_options()) {
      OptionHelp one{{}, option->get_description(), option->get_expected_max() > 0};
      for (const std::string& name : option->get_snames()) one.names.push_back("-" + name);
      for (const std::string& name : option->get_lnames()) one.names.push_back("--" + name);
      if (!one.names.empty()) help.options.push_back(std::move(one));
    }
    all.push_back(std::move(help));
  }
  return all;
}

}  // namespace tilec::cli
