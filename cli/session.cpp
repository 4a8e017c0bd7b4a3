#include "cli/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "cli/arguments.h"
#include "cli/near_file.h"
#include "cli/standard.h"
#include "lang/load.h"
#include "lang/messages.h"
#include "lang/pack.h"
#include "lang/render.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/find.h"
#include "runtime/package_file.h"
#include "runtime/target_hint.h"

namespace tilec::cli {

namespace messages = lang::messages;

bool colour(int descriptor) {
  const char* no = std::getenv("NO_COLOR");
  return ::isatty(descriptor) != 0 && (no == nullptr || *no == '\0');
}

namespace {

bool asked(const Options& options, const std::string& word, const lang::Diagnostic& diagnostic) {
  const auto given = [&](const std::string& text) {
    return std::find(options.warnings.begin(), options.warnings.end(), text) != options.warnings.end();
  };
  return diagnostic.severity == lang::Severity::Warning &&
      (given(word + diagnostic.code) || (diagnostic.code == "W0210" && given(word + "dimension")));
}

// `-Wno-dimension` leaves W0210 out, `-Wno-W0211` W0211.
bool is_left_out(const lang::Diagnostic& diagnostic, const Options& options) {
  return asked(options, "no-", diagnostic);
}

// `-Werror=dimension` makes W0210 an error, `-Werror` every warning.
bool is_error_here(const lang::Diagnostic& diagnostic, const Options& options) {
  if (is_left_out(diagnostic, options)) return false;
  const bool all = std::find(options.warnings.begin(), options.warnings.end(), "error") != options.warnings.end();
  return (all && diagnostic.severity == lang::Severity::Warning) || asked(options, "error=", diagnostic);
}

}  // namespace

void show(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources, const Options& options) {
  lang::Diagnostics shown;
  for (lang::Diagnostic diagnostic : diagnostics.all()) {
    if (is_left_out(diagnostic, options)) continue;
    if (is_error_here(diagnostic, options)) diagnostic.severity = lang::Severity::Error;
    if (diagnostic.severity == lang::Severity::Remark && !options.verbose) continue;
    if (diagnostic.severity == lang::Severity::Warning && options.quiet) continue;
    shown.add(diagnostic);
  }
  if (shown.all().empty()) return;
  const std::string text = lang::render(shown, sources, {colour(2) && !options.json, options.json});
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void put(std::string_view text, const Options& options, bool binary) {
  if (!options.output.empty() && options.output != "-") return runtime::write_file(options.output, text);
  if (binary && ::isatty(1) != 0) throw UsageError{"this stage is binary and stdout is a terminal", "write `-o FILE`"};
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written != text.size() || std::fflush(stdout) != 0)
    throw runtime::machine_error(runtime::messages::unwritable, "standard output", std::strerror(errno));
}

std::string only_file(const Options& options) {
  if (options.words.empty())
    throw UsageError{"no file of Tile is named",
        options.command == "show" ? "`tilec --help` shows examples"
                                  : fmt::format("write `tilec {} FILE`", options.command)};
  if (options.words.size() > 1)
    throw UsageError{fmt::format("`{}` is one word too many: this command takes one file", options.words[1]), {}};
  return options.words[0];
}

codegen::Target target_of(const std::string& name) {
  std::optional<codegen::Target> target = runtime::target_here(name);
  if (target) return *target;
  throw runtime::argument_error(runtime::messages::unknown_target, name).hint(runtime::target_hint(name));
}

std::string program_or_package(const std::string& path) {
  if (is_standard(path)) return std::string(standard_function(path).text);
  try {
    return with_near_file(path, [&] { return runtime::read_text(path); });
  } catch (runtime::RuntimeError& fault) {
    const std::string word = standard_word(path);
    if (fault.diagnostic.code == runtime::messages::unreadable.code && fault.diagnostic.hints.empty() && !word.empty())
      fault.hint(fmt::format("did you mean `{}`?", word));
    throw;
  }
}

std::string text_of(const std::string& path) {
  std::string text = program_or_package(path);
  if (!runtime::is_package(text)) return text;
  throw UsageError{fmt::format("`{}` is a package, not a text", path),
      path == "-" ? "save it to a file, and write `tilec run FILE NAME=VALUE…`"
                  : fmt::format("write `tilec run {} NAME=VALUE…`", path)};
}

Session::Session(const Options& given, const std::string& path) : Session(given, path, text_of(path)) {}

Session::Session(const Options& given, const std::string& path, const std::string& text) : options(given) {
  const auto found = is_standard(path) ? std::optional(standard_function(path)) : std::nullopt;
  if (found) standard = path;
  if (found && options.function && *options.function != found->function)
    throw UsageError{fmt::format("`{}` names a function, and --function {} another", path, *options.function),
        "leave --function out"};
  entry_name = found ? std::optional(found->function) : options.function;
  file = lang::load({found                ? found->path
                            : path == "-" ? "<stdin>"
                                          : path,
                        text},
      runtime::find_in(options.include), sources, diagnostics);
  if (!standard) files.reads(path);
  for (std::size_t k = 1; k < sources.size(); ++k) files.reads(sources[k].name);
  if (!options.plan.empty()) {
    sources.push_back({options.plan == "-" ? "<stdin>" : options.plan,
        with_near_file(options.plan, [&] { return runtime::read_text(options.plan); })});
    files.reads(options.plan);
  }
  if (!options.output.empty() && options.output != "-") files.writes(options.output);
  if (failed()) file.reset();
}

const lang::Function* Session::entry() const {
  const lang::Function* only = nullptr;
  std::size_t count = 0;
  if (!file) return nullptr;
  for (const auto& item : file->items) {
    const auto* function = std::get_if<lang::Function>(&item);
    if (function == nullptr || function->role != lang::Function::Role::Function) continue;
    if (entry_name ? function->name && function->name->text == *entry_name : !function->name) return function;
    only = function;
    ++count;
  }
  return count == 1 && !entry_name ? only : nullptr;
}

namespace {

// `X=random:2x3` and `X=2x1xf32=[1][2]` as commands take them that run something, and `S=3` of a scalar.
std::string form_meant(const lang::Function* function, const std::string& name, const std::string& text) {
  const std::size_t colon = text.find(':');
  const bool made = text.starts_with("random:") || text.starts_with("ones:") || text.starts_with("zeros:") ||
      text.starts_with("arange:");
  const std::string behind = made ? text.substr(colon + 1) : text, form = behind.substr(0, behind.find_first_of("=:"));
  if ((made || form.size() < behind.size()) && parse_form(form))
    return fmt::format("nothing is run here: write `{}={}`", name, form);
  const auto is_scalar = [&](const lang::Input& input) {
    return input.target.name.text == name && (!input.sizes || input.sizes->empty());
  };
  const bool number = text.find_first_not_of("0123456789") == std::string::npos;
  if (number && function && std::ranges::any_of(function->inputs, is_scalar))
    return fmt::format(
        "nothing is run here: a size is given with `--size {}={}`, a scalar that is computed with as its type, `{}=f32`",
        name, text, name);
  return fmt::format(
      "nothing is run here: write for instance `{}=2x3xf32`, or `{}=3xf32` for three elements", name, name);
}

}  // namespace

// NAME=2x3xf32: what an input is; NAME=default: it is not given.
void Session::give_forms(codegen::Request& request) const {
  const lang::Function* function = entry();
  for (const auto& [name, text] : options.forms) {
    if (text == "default") {
      request.signature.omitted.push_back(name);
      continue;
    }
    const auto form = is_form(text) ? parse_form(text) : std::nullopt;
    if (!form)
      throw runtime::argument_error(messages::bad_value, name, fmt::format("`{}` is no shape or type", text))
          .hint(form_meant(function, name, text));
    if (std::ranges::count(request.signature.inputs, name, &poly::Given::name) > 0)
      throw UsageError{fmt::format("`{}` is given twice", name), {}};
    std::vector<std::string> known;
    for (const lang::Input& input : function ? function->inputs : std::vector<lang::Input>()) {
      known.push_back(input.target.name.text);
      const auto sizes = known.back() == name ? lang::sizes_shown(input, form->shape.size()) : std::nullopt;
      for (std::size_t d = 0; sizes && d < form->shape.size(); ++d)
        if (const auto* size = (*sizes)[d].as<lang::Variable>())
          request.sizes.emplace(size->name.spelled(), form->shape[d]);
    }
    if (function && std::ranges::count(known, name) == 0)
      throw runtime::argument_error(
          messages::not_an_input, name, function->name ? fmt::format("`{}`", function->name->text) : "the function")
          .hint(fmt::format("its inputs are {}", fmt::join(known, ", ")));
    poly::Given given{name, form->dtype, std::vector<poly::Size>{}, std::nullopt, false};
    for (const std::int64_t extent : form->shape) given.shape->push_back(extent);
    request.signature.inputs.push_back(std::move(given));
  }
}

// Where no input that is given has the pack, `--size B0=2,B1=3` says that `B...` stands for two dimensions.
void Session::count_sizes(codegen::Request& request) const {
  const lang::Function* function = entry();
  if (function == nullptr) return;
  const auto given = [&](const std::string& name) {
    const auto is_value = [&](const std::string& word) {
      return word.starts_with(name + "=") && word != name + "=default";
    };
    return std::ranges::any_of(options.words, is_value) ||
        std::ranges::any_of(options.forms, [&](const auto& form) { return is_value(form.first + "=" + form.second); });
  };
  std::set<std::string> told;
  for (const lang::Input& input : function->inputs)
    for (const lang::Expr& size :
        input.sizes&& given(input.target.name.text) ? *input.sizes : std::vector<lang::Expr>())
      if (const auto* variable = size.as<lang::Variable>(); variable != nullptr && variable->pack)
        told.insert(variable->name.text);
  for (const lang::Name& pack : lang::packs_of(*function)) {
    std::int64_t rank = 0;
    while (options.sizes.contains(lang::dimension(pack, static_cast<std::size_t>(rank)).text)) ++rank;
    if (rank > 0 && !told.contains(pack.text)) request.signature.ranks.emplace(pack.text, rank);
  }
}

// As far as options tell them: by `X=2x3`, else how many dimensions there are by `--rank A=1` or `--size A0=2`.
Shapes Session::shapes_in(const codegen::Request& request) const {
  Shapes all;
  for (const auto& [name, text] : options.forms)
    if (const auto form = is_form(text) ? parse_form(text) : std::nullopt) all.emplace(name, form->shape);
  for (const lang::Input& input : entry()->inputs) {
    const auto rank_of = [&](const lang::Expr& size) -> std::optional<std::size_t> {
      const lang::Name* pack = lang::pack(size);
      if (pack == nullptr) return 1;
      const auto told = request.signature.ranks.find(pack->text);
      return told == request.signature.ranks.end() ? std::nullopt : std::optional<std::size_t>(told->second);
    };
    std::optional<std::size_t> rank = 0;
    for (const lang::Expr& size : input.sizes.value_or(std::vector<lang::Expr>())) {
      const std::optional<std::size_t> more = rank_of(size);
      rank = rank && more ? std::optional(*rank + *more) : std::nullopt;
    }
    if (rank) all.emplace(input.target.name.text, std::vector<std::int64_t>(*rank, 0));
  }
  return all;
}

void Session::refuse_unsaid(const Shapes& shapes) const {
  if (!standard) return;
  std::set<std::string> defines;
  for (const auto& [name, value] : options.defines) defines.insert(name);
  cli::refuse_unsaid(*standard, *entry(), defines, shapes);
}

codegen::Request Session::request() const {
  codegen::Request request;
  request.signature.function = entry_name;
  for (const auto& [name, value] : options.defines) request.signature.defines.push_back({name, value});
  request.signature.ranks = options.ranks;
  count_sizes(request);
  request.sizes = options.sizes;
  for (const auto& [name, value] : options.sizes) request.asked_sizes.push_back(name);
  // a size the text spells in lower case
  for (const auto& [name, value] : options.sizes) request.sizes.emplace("#" + name, value);
  for (const auto& [name, value] : options.defines)      // a define that names a scalar input used as a size
    if (const double* number = std::get_if<double>(&value);
        number && *number == std::floor(*number) && std::fabs(*number) < 0x1p62)
      request.sizes.emplace(name, static_cast<std::int64_t>(*number));
  give_forms(request);
  if (standard) refuse_unsaid(shapes_in(request));
  request.derivatives = options.derivatives;
  request.checked = options.checked;
  request.room = options.room;
  request.keeps_rewrites = !options.dump_to.empty();
  request.target = target_of(options.target);
  request.threads_hint = options.threads;
  if (!options.plan.empty())
    request.plan = codegen::PlanText{sources.back().text, static_cast<std::uint32_t>(sources.size() - 1)};
  return request;
}

bool Session::failed() const {
  return std::ranges::any_of(diagnostics.all(),
      [&](const lang::Diagnostic& d) { return d.severity == lang::Severity::Error || is_error_here(d, options); });
}

int Session::report() const {
  for (const lang::Diagnostic& d : diagnostics.all())    // wrong usage, as any other option that does not exist
    if (d.code == messages::unknown_size.code) throw UsageError{d.message, d.hints.at(0)};
  show(diagnostics, sources, options);
  return failed() ? program_error : success;
}

}  // namespace tilec::cli
