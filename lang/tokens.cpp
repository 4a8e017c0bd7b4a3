#include "lang/tokens.h"

#include <algorithm>

namespace tilec::lang {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

template <class Holds> std::size_t run(std::string_view text, std::size_t at, const Holds& holds) {
  while (at < text.size() && holds(text[at])) ++at;
  return at;
}

std::size_t number_end(std::string_view text, std::size_t at) {
  at = run(text, at, is_digit);
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) at = run(text, at + 1, is_digit);
  const std::size_t sign = at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+') ? at + 2 : at + 1;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E') && sign < text.size() && is_digit(text[sign]))
    at = run(text, sign, is_digit);
  return at;
}

std::size_t character_end(std::string_view text, std::size_t at) {
  return run(text, at + 1, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
}

// The end of a comment, or of a string in either quotation mark on one line; `at` when there is none.
std::size_t quoted_end(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) == "/*") return std::min(text.find("*/", at + 2), text.size() - 2) + 2;
  if (text.substr(at, 2) == "//") return std::min(text.find('\n', at), text.size());
  if (text[at] != '"' && text[at] != '\'') return at;
  const std::size_t close = text.find_first_of(text[at] == '"' ? "\"\n" : "'\n", at + 1);
  return close == std::string_view::npos || text[close] == '\n' ? at : close + 1;
}

std::size_t token_end(std::string_view text, std::size_t at) {
  const auto word = [](char c) { return is_letter(c) || is_digit(c); };
  if (const std::size_t end = quoted_end(text, at); end > at) return end;
  if (is_letter(text[at])) return run(text, at, word);
  if ((text[at] == '#' || text[at] == '$') && at + 1 < text.size() && is_letter(text[at + 1]))
    return run(text, at + 1, word);
  return is_digit(text[at]) ? number_end(text, at) : character_end(text, at);
}

// A comment is a token only where it may be meant for a division: `X // 2;`.
bool is_inline_division(std::string_view comment) {
  return comment.starts_with("//") && comment.find(';') != std::string_view::npos;
}

}  // namespace

bool is_word(std::string_view text) { return is_letter(text[0]); }
bool is_number(std::string_view text) { return is_digit(text[0]); }
bool is_one_of(std::string_view text, std::string_view marks) {
  return text.size() == 1 && marks.find(text) != std::string_view::npos;
}

Tokens tokens_of(std::string_view text, std::size_t begin, std::size_t stop) {
  stop = std::min(stop, text.size());
  Tokens tokens;
  bool starts = true;
  for (std::size_t at = begin, before = 0; at < stop;) {
    if (is_blank(text[at])) {
      ++at;
      continue;
    }
    const std::size_t end = token_end(text, at);
    const std::string_view token = text.substr(at, end - at);
    const bool comment = token.starts_with("//") || token.starts_with("/*");
    if (!comment || is_inline_division(token)) {
      tokens.push_back({token, at, before == at, starts});
      starts = is_one_of(token, ";{}");
    }
    before = at = end;
  }
  return tokens;
}

}  // namespace tilec::lang
