#include "cli/lsp/edits.h"

#include <fmt/core.h>

#include <optional>
#include <regex>

#include "lang/repair/statement_text.h"
#include "lang/tokens.h"

namespace tilec::cli::lsp {

std::uint32_t import_place(std::string_view text) {
  std::size_t place = std::string_view::npos;
  const lang::Tokens tokens = lang::tokens_of(text);
  for (std::size_t k = 0; k + 2 < tokens.size(); ++k) {
    if (tokens[k].text == "{") break;
    if (tokens[k].text != "import") continue;
    const std::size_t end = tokens[k + 2].text == "as" ? k + 4 : k + 2;
    if (end >= tokens.size() || tokens[end].text != ";") continue;
    const std::size_t line = text.find('\n', tokens[end].end());
    place = line == std::string_view::npos ? text.size() : line + 1;
  }
  return place == std::string_view::npos ? 0 : static_cast<std::uint32_t>(place);
}

Edit import_edit(std::string_view text, std::uint32_t at, const std::string& import) {
  return {{at, at, 0}, fmt::format("{}{}\n", at > 0 && text[at - 1] != '\n' ? "\n" : "", import)};
}

std::vector<Edit> edits_of(const std::string& text, const lang::Diagnostic& diagnostic, const std::string& hint) {
  static const std::regex import("write `(import [^`]*;)` in front of the functions(?:, and here `([^`]*)`)?"),
      write("write `([^`]*)`|did you mean `([^`]*)`\\?");
  const lang::Span span = diagnostic.span;
  if (span.source != 0 || span.empty() || span.end > text.size() || hint.size() > 2000) return {};
  std::smatch found;
  const auto statement = lang::StatementTexts(text).at(span.begin);
  const auto in_statement = [&](const std::string& with) {
    return Edit{{static_cast<std::uint32_t>(statement->begin), static_cast<std::uint32_t>(statement->end), 0}, with};
  };
  if (std::regex_match(hint, found, import)) {
    std::vector<Edit> edits{import_edit(text, import_place(text), found[1])};
    if (found[2].matched && !statement) return {};
    if (found[2].matched) edits.push_back(in_statement(found[2]));
    return edits;
  }
  if (!std::regex_match(hint, found, write)) return {};
  const std::string with = found[1].matched ? found[1] : found[2];
  if (with.find("…") != std::string::npos || with.starts_with("[[") || with.starts_with("->") ||
      with.starts_with("tilec") || with.starts_with("gradient"))
    return {};
  if (with.starts_with("function")) {
    const auto heading = lang::heading_at(text, span.begin);
    if (!heading || with.find('{') != std::string::npos) return {};
    return {{{static_cast<std::uint32_t>(heading->begin), static_cast<std::uint32_t>(heading->end), 0}, with}};
  }
  if (!with.ends_with(';')) return {{span, with}};
  if (!statement) return {};
  return {in_statement(with)};
}

}  // namespace tilec::cli::lsp
