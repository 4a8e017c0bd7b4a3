#include "lang/repair/token_text.h"

#include <algorithm>

namespace tilec::lang::repair {

std::size_t closing(const Tokens& t, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < t.size(); ++i) {
    if (is_one_of(t[i].text, "([")) ++depth;
    if (is_one_of(t[i].text, ")]") && --depth == 0) return i;
  }
  return t.size();
}

bool is_between(std::string_view word) {
  constexpr std::string_view words[] = {
      "if", "else", "and", "or", "not", "for", "in", "where", "return", "default", "lambda"};
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

void TokenText::read() {
  tokens = tokens_of(text);
  int depth = 0;
  for (equals = 0; equals < tokens.size(); ++equals) {
    depth += is_one_of(tokens[equals].text, "([") - is_one_of(tokens[equals].text, ")]");
    if (depth == 0 && tokens[equals].text == "=") break;
  }
}

bool TokenText::replace(std::size_t first, std::size_t last, const std::string& with) {
  const std::size_t from = tokens[first].begin, to = first < last ? tokens[last - 1].end() : from;
  text = text.substr(0, from) + with + text.substr(to);
  read();
  return true;
}

std::string TokenText::slice(std::size_t first, std::size_t last) const {
  last = std::min(last, tokens.size());
  return first >= last ? "" : text.substr(tokens[first].begin, tokens[last - 1].end() - tokens[first].begin);
}

bool TokenText::balanced() const {
  std::string open;
  for (const Token& token : tokens) {
    if (is_one_of(token.text, "([")) open += token.text[0] == '(' ? ')' : ']';
    if (!is_one_of(token.text, ")]")) continue;
    if (open.empty() || open.back() != token.text[0]) return false;
    open.pop_back();
  }
  return open.empty();
}

std::size_t TokenText::opening(std::size_t close) const {
  int depth = 0;
  for (std::size_t i = close + 1; i-- > 0;) {
    if (is_one_of(tokens[i].text, ")]")) ++depth;
    if (is_one_of(tokens[i].text, "([") && --depth == 0) return i;
  }
  return 0;
}

std::size_t TokenText::enclosing(std::size_t i) const {
  int depth = 0;
  for (std::size_t k = i; k-- > 0;) {
    if (is_one_of(tokens[k].text, ")]")) ++depth;
    if (is_one_of(tokens[k].text, "([") && --depth < 0) return k;
  }
  return tokens.size();
}

bool TokenText::ends_operand(std::size_t i) const {
  return is_one_of(tokens[i].text, ")]") || is_number(tokens[i].text) ||
      (is_word(tokens[i].text) && !is_between(tokens[i].text));
}

std::size_t TokenText::operand_first(std::size_t last) const {
  std::size_t i = last;
  while (is_one_of(tokens[i].text, ")]")) {
    i = opening(i);
    if (i == 0 ||
        !(is_one_of(tokens[i - 1].text, "])") || (is_word(tokens[i - 1].text) && !is_between(tokens[i - 1].text))))
      return i;
    --i;
  }
  return i;
}

std::size_t TokenText::operand_end(std::size_t first) const {
  std::size_t i = first;
  while (i < tokens.size() && is_one_of(tokens[i].text, "-+")) ++i;
  if (i >= tokens.size()) return i;
  if (is(i, "(")) i = std::min(closing(i) + 1, tokens.size());
  else ++i;
  while (i < tokens.size() && is_one_of(tokens[i].text, "([") && ends_operand(i - 1))
    i = std::min(closing(i) + 1, tokens.size());
  return i;
}

Range TokenText::segment(std::size_t i) const {
  std::size_t first = i, last = i;
  for (int depth = 0; first > 0; --first) {
    const std::string_view before = tokens[first - 1].text;
    if (is_one_of(before, ")]")) ++depth;
    if (is_one_of(before, "([") && --depth < 0) break;
    if (depth == 0 && (before == "," || first - 1 == equals)) break;
  }
  for (int depth = 0; last < tokens.size(); ++last) {
    if (is_one_of(tokens[last].text, "([")) ++depth;
    if (is_one_of(tokens[last].text, ")]") && --depth < 0) break;
    if (depth == 0 && tokens[last].text == ",") break;
  }
  return {first, last};
}

std::vector<Range> TokenText::list(std::size_t open) const {
  std::vector<Range> parts;
  const std::size_t close = closing(open);
  for (std::size_t k = open + 1; k < close;) {
    const auto part = segment(k);
    parts.push_back({k, part.second});
    k = part.second + 1;
  }
  return parts;
}

}  // namespace tilec::lang::repair
