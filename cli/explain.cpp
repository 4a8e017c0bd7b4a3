// `tilec explain CODE`: the error's page of docs/errors, which the build put into the binary.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/error_pages.h"
#include "lang/nearest.h"
#include "cli/session.h"

namespace tilec::cli {

int explain_command(const Options& options) {
  std::vector<std::string> codes;
  for (const ErrorPage& page : error_pages()) codes.emplace_back(page.code);
  if (options.words.empty()) throw UsageError{"no code is named", codes.empty() ? std::string() : fmt::format("write `tilec explain {}`", codes[0])};
  for (const std::string& word : options.words) {
    std::string code = word;
    std::transform(code.begin(), code.end(), code.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const auto page = std::find(codes.begin(), codes.end(), code);
    if (page == codes.end()) {
      const std::optional<std::string> near = lang::nearest(code, codes);
      throw UsageError{fmt::format("there is no page for `{}`", word), near ? fmt::format("did you mean `tilec explain {}`?", *near) : "codes look like E0201; a message shows its own in brackets"};
    }
    fmt::print("{}", error_pages()[static_cast<std::size_t>(page - codes.begin())].text);
  }
  return success;
}

}  // namespace tilec::cli
