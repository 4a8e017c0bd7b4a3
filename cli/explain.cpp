// `tilec explain CODE`: the error's page of docs/errors, which the build put into the binary.
// `tilec explain FILE --size …`: what becomes of each statement of a program, and why.
// `tilec explain std:softmax`: what the function is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "cli/error_pages.h"
#include "cli/session.h"
#include "cli/standard.h"
#include "codegen/explain.h"
#include "lang/at.h"
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

// Of the library, when nothing is said of its inputs.
std::string about_standard(const Session& session, const std::string& word) {
  const lang::Function& function = *session.entry();
  const std::string& file = session.sources[0].name;
  std::vector<std::string> values, shapes;
  for (const lang::Input& input : function.inputs) {
    if (input.value) continue;
    values.push_back(fmt::format("{}=…", input.target.name.text));
    shapes.push_back(fmt::format("{}=2x3xf32", input.target.name.text));
  }
  return fmt::format(
      "{}\n\n{}\n\nA function of {}: `import \"{}\";`, or `tilec run {} {}`. What becomes of it with given shapes, and what it costs:\n`tilec explain {} {}`.\n",
      lang::heading(function), said_of(function, *session.file, session.sources[0].text), file, file, word,
      fmt::join(values, " "), word, fmt::join(shapes, " "));
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
