// `tilec explain CODE`: the error's page of docs/errors, which the build put into the binary.
// `tilec explain FILE --size …`: what becomes of each statement of a program, and why.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "cli/error_pages.h"
#include "cli/session.h"
#include "cli/standard.h"
#include "codegen/explain.h"
#include "lang/nearest.h"

namespace tilec::cli {

namespace {

void explain_code(const Options& options, const std::string& word) {
  std::vector<std::string> codes;
  for (const ErrorPage& page : error_pages()) codes.emplace_back(page.code);
  std::string code = word;
  std::transform(code.begin(), code.end(), code.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto page = std::find(codes.begin(), codes.end(), code);
  if (page == codes.end()) {
    const std::optional<std::string> near = lang::nearest(code, codes);
    throw UsageError{fmt::format("there is no page for `{}`", word), near ? fmt::format("did you mean `tilec explain {}`?", *near) : "codes look like E0201; a message shows its own in brackets"};
  }
  put(error_pages()[static_cast<std::size_t>(page - codes.begin())].text, options);
}

int explain_program(const Options& options, const std::string& path) {
  Session session(options, path);
  if (!session.file) return session.report();
  const codegen::Request request = session.request();
  const bool plans = request.target.family != codegen::Target::Family::Reference;
  const std::optional<codegen::Stages> stages = codegen::compile(*session.file, request, plans ? codegen::Until::Plan : codegen::Until::Reduced, session.diagnostics);
  if (stages && !options.dump_to.empty()) dump(session, *stages, request);
  if (stages && !session.failed()) put(codegen::explain(*stages, request.target), options);
  return session.report();
}

}  // namespace

int explain_command(const Options& options) {
  if (options.words.empty()) throw UsageError{"nothing is named that could be explained", "write `tilec explain E0201`, or `tilec explain FILE --size N=8`"};
  const bool to_file = !options.output.empty() && options.output != "-";
  if (to_file && options.words.size() > 1) throw UsageError{fmt::format("`-o {}` holds one explanation, and {} things are named", options.output, options.words.size()), "name one"};
  int worst = success;
  for (const std::string& word : options.words) {
    if (names_program(word)) worst = std::max(worst, explain_program(options, word));
    else explain_code(options, word);
  }
  return worst;
}

}  // namespace tilec::cli
