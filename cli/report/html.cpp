#include "cli/report/html.h"

#include <cstddef>
#include <cstdint>

namespace tilec::cli::report {

namespace {

// Bytes of the character that begins here; 0: no UTF-8.
std::size_t length_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U; };
  const unsigned first = byte(at);
  const std::size_t length = first < 0x80 ? 1
      : first >= 0xF0 && first < 0xF5     ? 4
      : first >= 0xE0 && first < 0xF0     ? 3
      : first >= 0xC2 && first < 0xE0     ? 2
                                          : 0;
  std::uint32_t code = first & (0x7FU >> (length < 2 ? 0 : length));
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(at + k) & 0xC0U) != 0x80U) return 0;
    code = code << 6 | (byte(at + k) & 0x3FU);
  }
  const bool too_long = (length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10FFFF));
  const bool control = code < 0x20 ? code != '\t' && code != '\n' : code >= 0x7F && code < 0xA0;
  return too_long || control || (code >= 0xD800 && code < 0xE000) ? 0 : length;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const std::size_t length = length_at(text, at);
    if (c == '&') safe += "&amp;";
    else if (c == '<') safe += "&lt;";
    else if (c == '>') safe += "&gt;";
    else if (c == '"') safe += "&quot;";
    else if (length > 0) safe += text.substr(at, length);
    else if (c != '\r') safe += "\xEF\xBF\xBD";
    at += length > 0 ? length : 1;
  }
  return safe;
}

}  // namespace tilec::cli::report
