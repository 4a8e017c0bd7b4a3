#include "cli/lsp/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace tilec::cli::lsp {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
std::size_t units(char lead) { return continues(lead) ? 0 : static_cast<unsigned char>(lead) >= 0xF0 ? 2 : 1; }

int digit(char c) {
  return c >= '0' && c <= '9' ? c - '0'
      : c >= 'a' && c <= 'f'  ? c - 'a' + 10
      : c >= 'A' && c <= 'F'  ? c - 'A' + 10
                              : -1;
}

}  // namespace

Lines::Lines(std::string_view text) : text_(text), starts_{0} {
  for (std::size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\n' || (text[at] == '\r' && (at + 1 == text.size() || text[at + 1] != '\n')))
      starts_.push_back(at + 1);
}

Spot Lines::spot(std::size_t offset) const {
  offset = std::min(offset, text_.size());
  const auto line = std::prev(std::upper_bound(starts_.begin(), starts_.end(), offset));
  Spot spot{static_cast<std::size_t>(line - starts_.begin()), 0};
  for (std::size_t at = *line; at < offset; ++at) spot.column += units(text_[at]);
  return spot;
}

std::size_t Lines::offset(Spot spot) const {
  if (spot.line >= starts_.size()) return text_.size();
  std::size_t at = starts_[spot.line];
  for (std::size_t column = 0; at < text_.size() && text_[at] != '\n' && text_[at] != '\r';) {
    column += units(text_[at]);
    if (column > spot.column) break;                    // also in the middle of a pair
    do ++at;
    while (at < text_.size() && continues(text_[at]));
  }
  return at;
}

std::optional<std::string> path_of(std::string_view uri) {
  constexpr std::string_view scheme = "file://";
  if (!uri.starts_with(scheme)) return std::nullopt;
  uri.remove_prefix(scheme.size());
  if (uri.starts_with("localhost/")) uri.remove_prefix(std::string_view("localhost").size());
  if (!uri.starts_with('/')) return std::nullopt;
  std::string path;
  for (std::size_t at = 0; at < uri.size(); ++at) {
    const bool escaped = uri[at] == '%' && at + 2 < uri.size() && digit(uri[at + 1]) >= 0 && digit(uri[at + 2]) >= 0;
    path += escaped ? static_cast<char>(digit(uri[at + 1]) * 16 + digit(uri[at + 2])) : uri[at];
    if (escaped) at += 2;
  }
  if (path.find('\0') != std::string::npos) return std::nullopt;
  return path;
}

std::string uri_of(const std::string& path) {
  std::error_code fault;
  std::string uri = "file://";
  for (const char c : std::filesystem::absolute(path, fault).lexically_normal().string())
    uri +=
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("/-._~").find(c) != std::string_view::npos
        ? std::string(1, c)
        : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return uri;
}

}  // namespace tilec::cli::lsp
