// `tilec explain CODE`: the error's page of docs/errors, which the build put into the binary.
// `tilec explain FILE --size …`: what becomes of each statement of a program, and why.
// `tilec explain std:softmax`: what the function is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "cli/arguments.h"
#include "cli/cases.h"
#include "cli/error_pages.h"
#include "cli/session.h"
#include "cli/standard.h"
#include "codegen/explain.h"
#include "lang/at.h"
#include "lang/by_name.h"
#include "lang/nearest.h"
#include "lang/print.h"

namespace tilec::cli {

namespace {

void explain_code(const Options& options, const std::string& word) {
  std::vector<std::string> codes;
  for (const ErrorPage& page : error_pages()) codes.emplace_back(page.code);
  std::string code = word;
  std::transform(
      code.begin(), code.end(), code.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto page = std::find(codes.begin(), codes.end(), code);
  if (page == codes.end()) {
    const std::optional<std::string> near = lang::nearest(code, codes);
    throw UsageError{fmt::format("there is no page for `{}`", word),
        near ? fmt::format("did you mean `tilec explain {}`?", *near)
             : "codes look like E0201; a message shows its own in brackets"};
  }
  put(error_pages()[static_cast<std::size_t>(page - codes.begin())].text, options);
}

// A function without a comment is described by that of the one before it.
std::string said_of(const lang::Function& function, const lang::File& file, const std::string& text) {
  std::string said;
  for (const auto& item : file.items) {
    const auto* each = std::get_if<lang::Function>(&item);
    if (each == nullptr) continue;
    if (std::string own = lang::comment_above(text, each->span.begin);
        !own.empty() && each->role == lang::Function::Role::Function)
      said = std::move(own);
    if (each == &function) break;
  }
  return said;
}

// Of `2x2xf32=[0 0][1 1]`, `20xf64:-3..3` and `ones:4` the shape and the type, `4` being a vector; nothing of a number.
std::optional<std::string> form_in(const CaseValue& value) {
  const std::string& text = value.value;
  const auto word = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz");
  const bool made = word != 0 && word != std::string::npos && text[word] == ':' && !is_form(text.substr(0, word));
  const std::string shown = made ? text.substr(word + 1) : text;
  std::string form = shown.substr(0, shown.find_first_of("=:["));
  if (is_form(form)) return form;
  const bool vector = form.find_first_not_of("0123456789") == std::string::npos && (made || form.size() < shown.size());
  return vector && !form.empty() ? std::optional(form + "xf32") : std::nullopt;
}

// The options of `tilec explain` with which a case of the library's comments is what is explained. `whole`: the type of
// its numbers; none: they are sizes.
Options example_of(const Case& example, const lang::Function& function, const Options& options,
    const std::optional<std::string>& whole) {
  Options result = options;
  for (const CaseValue& value : example.inputs) {
    // a cotangent
    if (std::ranges::none_of(
            function.inputs, [&](const lang::Input& input) { return input.target.name.text == value.name; }))
      continue;
    const std::optional<std::string> form = form_in(value);
    const bool integer = value.value.find_first_not_of("0123456789") == std::string::npos;
    if (form) result.forms.emplace_back(value.name, *form);
    else if (integer && !whole) result.sizes.emplace(value.name, std::stoll(value.value));
    else result.forms.emplace_back(value.name, integer ? *whole : "f32");
  }
  for (const poly::Define& define : example.defines) result.defines.emplace_back(define.name, define.value);
  return result;
}

// As it is typed.
std::string words_of(const Options& options) {
  std::vector<std::string> words, sizes, defines;
  for (const auto& [name, form] : options.forms) words.push_back(fmt::format("{}={}", name, form));
  for (const auto& [name, size] : options.sizes) sizes.push_back(fmt::format("{}={}", name, size));
  for (const auto& [name, value] : options.defines)
    defines.push_back(std::visit([&](const auto& v) { return fmt::format("{}={}", name, v); }, value));
  if (!sizes.empty()) words.push_back(fmt::format("--size {}", fmt::join(sizes, ",")));
  if (!defines.empty()) words.push_back(fmt::format("--define {}", fmt::join(defines, ",")));
  return fmt::to_string(fmt::join(words, " "));
}

// The first case of the function with which explain has something to say: shapes that fit each other.
std::optional<std::string> shapes_that_fit(const Session& session, const std::string& word) {
  lang::Diagnostics unheard;
  for (const Case& example : read_cases(session.sources[0], &*session.file, unheard)) {
    if (example.function != session.entry()->name->text || !example.called || example.error) continue;
    for (const std::optional<std::string>& whole :
        {std::optional<std::string>(), std::optional<std::string>("f32"), std::optional<std::string>("i64")}) {
      const Options options = example_of(example, *session.entry(), session.options, whole);
      Session tried(options, word);
      lang::Diagnostics said;
      try {
        if (tried.file && codegen::compile(*tried.file, tried.request(), codegen::Until::Plan, said))
          return words_of(options);
      } catch (const UsageError&) {
        continue;                                        // a call by name has to say more than this case does
      }
    }
  }
  return std::nullopt;
}

// Of the library, when nothing is said of its inputs.
std::string about_standard(const Session& session, const std::string& word) {
  const lang::Function& function = *session.entry();
  const std::string& file = session.sources[0].name;
  std::vector<std::string> values;
  for (const lang::Input& input : function.inputs)
    if (!input.value) values.push_back(fmt::format("{}=…", input.target.name.text));
  const std::string layout = lang::layout_hint(function);
  std::string text =
      fmt::format("{}\n\n{}{}\n\nA function of {}: `import \"{}\";`, or `tilec run {} {}`.", lang::heading(function),
          said_of(function, *session.file, session.sources[0].text),
          layout.empty() ? "" : fmt::format("\n\n{}.", layout), file, file, word, fmt::join(values, " "));
  if (const auto words = shapes_that_fit(session, word))
    text +=
        fmt::format(" What becomes of it with given shapes, and what it costs:\n`tilec explain {} {}`.", word, *words);
  return text + "\n";
}

int explain_program(const Options& options, const std::string& path) {
  Session session(options, path);
  if (!session.file) return session.report();
  const bool alone = options.forms.empty() && options.sizes.empty() && options.ranks.empty() &&
      options.defines.empty() && options.derivatives.empty() && options.plan.empty() && options.dump_to.empty();
  if (is_standard(path) && alone) {
    put(about_standard(session, path), options);
    return session.report();
  }
  const codegen::Request request = session.request();
  const bool plans = request.target.family != codegen::Target::Family::Reference;
  const std::optional<codegen::Stages> stages = codegen::compile(
      *session.file, request, plans ? codegen::Until::Plan : codegen::Until::Reduced, session.diagnostics);
  if (stages && !options.dump_to.empty()) dump(session, *stages, request);
  if (stages && !session.failed()) put(codegen::explain(*stages, request.target), options);
  return session.report();
}

}  // namespace

int explain_command(const Options& options) {
  if (options.words.empty())
    throw UsageError{
        "nothing is named that could be explained", "write `tilec explain E0201`, or `tilec explain FILE --size N=8`"};
  const bool to_file = !options.output.empty() && options.output != "-";
  if (to_file && options.words.size() > 1)
    throw UsageError{
        fmt::format("`-o {}` holds one explanation, and {} things are named", options.output, options.words.size()),
        "name one"};
  int worst = success;
  for (const std::string& word : options.words) {
    if (names_program(word)) worst = std::max(worst, explain_program(options, word));
    else explain_code(options, word);
  }
  return worst;
}

}  // namespace tilec::cli
