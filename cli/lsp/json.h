// What the protocol's messages hold, read from JSON and written to it.
//
//   {"line": 2, "character": 7}      ⇔  Spot{2, 7}
//   error[E0201] at a span           ⇒  {"range": …, "severity": 1, "code": "E0201", "message": …}
//
// What a client leaves out or mistypes is a Refusal, which the server answers with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/lsp/edits.h"
#include "cli/lsp/text.h"
#include "cli/lsp/workspace.h"

namespace tilec::cli::lsp {

using Json = nlohmann::json;

enum Fault {
  parse_error = -32700,
  invalid_request = -32600,
  unknown_method = -32601,
  invalid_params = -32602,
  internal_error = -32603,
  not_initialized = -32002
};
struct Refusal { Fault code; std::string why; };

const Json& member(const Json& object, const char* name);  // null where there is none
std::string text_in(const Json& object, const char* name);
std::size_t count_in(const Json& object, const char* name);
std::optional<std::int64_t> version_in(const Json& object);
Spot spot_in(const Json& position);

Json range_of(const Lines& lines, lang::Span span);
Json markdown(const std::string& text);
Json edit_of(const Lines& lines, const Edit& edit);

// The lines of each source, found once.
class Sources {
 public:
  explicit Sources(const std::vector<lang::Source>& sources) : sources_(sources) {}
  const Lines& lines(std::uint32_t number) {
    const auto [at, is_new] = lines_.try_emplace(number, nullptr);
    if (is_new)
      at->second = std::make_unique<Lines>(
          number < sources_.size() ? std::string_view(sources_[number].text) : std::string_view());
    return *at->second;
  }
  const lang::Source* source(std::uint32_t number) const {
    return number < sources_.size() ? &sources_[number] : nullptr;
  }

 private:
  const std::vector<lang::Source>& sources_;
  std::map<std::uint32_t, std::unique_ptr<Lines>> lines_;
};

// With the URI of the text that it is shown in: another than the document's where it is about an import.
std::pair<std::string, Json> json_of_diagnostic(
    const Workspace& workspace, const Document& document, const lang::Diagnostic& d, Sources& sources);

}  // namespace tilec::cli::lsp
