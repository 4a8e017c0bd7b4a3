#include "lang/repair/rewrites.h"

#include <fmt/format.h>

namespace tilec::lang::repair {
bool commas(Draft& s) {
  for (std::size_t i = 0; i + 1 < s.size(); ++i)
    if (s.is(i, ",") && i > 0 && !is_one_of(s[i - 1], "([,") &&
        (is_one_of(s[i + 1], ")]") || (s.is(i + 1, ":") && i < s.equals)))
      return s.replace(i, i + 1, "");
  return false;
}

bool tuples(Draft& s) {
  std::size_t end = 0;
  while (s.word(end) && s.is(end + 1, ",")) end += 2;
  if (end == 0 || !s.word(end) || !s.is(end + 1, "=") || s.is(end + 2, "=")) return false;
  return s.replace(0, end + 1, fmt::format("({})", s.slice(0, end + 1)));
}

bool calls_of_tensors(Draft& s) {
  const auto bracket = [&](std::size_t open) {
    const std::size_t close = s.closing(open);
    if (close == s.size()) return false;
    s.text[s.tokens[open].begin] = '[';
    s.text[s.tokens[close].begin] = ']';
    s.read();
    return true;
  };
  const std::size_t mark = s.equals > 0 && is_one_of(s[s.equals - 1], "+*") ? s.equals - 1 : s.equals;
  if (s.word(0) && s.is(1, "(") && s.equals < s.size() && s.closing(1) + 1 == mark) return bracket(1);
  for (std::size_t i = s.equals + 1; i + 1 < s.size(); ++i)
    if (s.word(i) && s.is(i + 1, "(") && s.shape(s[i])) return bracket(i + 1);
  return false;
}

bool additions(Draft& s) {
  if (s.equals < 3 || s.equals + 1 >= s.size() || !is_one_of(s[s.equals - 1], "+*") || !s.is(s.equals - 2, "]"))
    return false;
  // `+=!` begins at 0
  const std::size_t first = s.equals + (s.is(s.equals + 1, "!") ? 2 : 1),
                    last = first < s.size() ? s.segment(first).second : first;
  if (first >= last) return false;
  return s.replace(s.equals - 1, last, fmt::format("= {}({})", s[s.equals - 1], s.slice(first, last)));
}

bool returns(Draft& s) {
  if (!s.is(0, "return") || s.result.empty()) return false;
  return s.replace(0, 1, s.result + " =");
}

namespace {

// Behind an aggregation and its comma, in no brackets.
bool is_constraint(const Draft& s, std::size_t i) {
  const std::size_t first = s.equals + 1;
  if (first >= s.size() || !is_one_of(s[first], "+*<>=") || !s.is(first + 1, "(") || s.enclosing(i) != s.size())
    return false;
  return i > s.closing(first + 1) + 1 && s.is(s.closing(first + 1) + 1, ",");
}

// Conditions with `&` or `|` between them; a tensor that stands there alone is true where it is not 0.
bool joined(Draft& s, std::size_t i, std::size_t end, const std::string& mark) {
  const auto ends = [&](std::size_t k) {
    return k >= s.size() || is_one_of(s[k], ")&|?,") || s.is(k, "and") || s.is(k, "or");
  };
  const auto begins = [&](std::size_t k) {
    return k == s.equals || is_one_of(s[k], "(&|?:,") || s.is(k, "and") || s.is(k, "or");
  };
  const auto condition = [&](std::size_t from, std::size_t to, bool alone) {
    return s.slice(from, to) + (alone && s.shape(s[from]) ? " != 0" : "");
  };
  if (i == 0) return false;
  const std::size_t first = s.operand_first(i - 1), last = s.operand_end(end);
  return s.replace(first, last,
      fmt::format(
          "{} {} {}", condition(first, i, first > 0 && begins(first - 1)), mark, condition(end, last, ends(last))));
}

}  // namespace

bool marks(Draft& s) {
  static constexpr std::pair<std::string_view, std::string_view> spelled[] = {{"×", "*"}, {"·", "*"}, {"−", "-"},
      {"÷", "/"}, {"≤", "<="}, {"≥", ">="}, {"≠", "!="}, {"∞", "inf"}, {"π", "3.141592653589793"}};
  for (std::size_t i = 0; i < s.size(); ++i) {
    for (const auto& [from, to] : spelled)
      if (s[i] == from) return s.replace(i, i + 1, std::string(to));
    const bool twice = i + 1 < s.size() && s.tokens[i + 1].touches && s[i] == s[i + 1];
    if (is_constraint(s, i) && ((twice && s.is(i, "&")) || s.is(i, "and") || s.is(i, "&")))
      return s.replace(i - 1, i + (twice ? 2 : 1), fmt::format("{},", s[i - 1]));
    if (twice && is_one_of(s[i], "&|")) return joined(s, i, i + 2, std::string(s[i]));
    if (i > 0 && s.is(i, "and") && s.ends_operand(i - 1)) return joined(s, i, i + 1, "&");
    if (i > 0 && s.is(i, "or") && s.ends_operand(i - 1)) return joined(s, i, i + 1, "|");
    if (s.is(i, ":") && i + 1 < s.size() && s.is(i + 1, "=") && s.tokens[i + 1].touches)
      return s.replace(i, i + 2, "=");
    if (s.is(i, ".") && i > 0 && s.ends_operand(i - 1) && i + 1 < s.size() && is_one_of(s[i + 1], "*/^+-") &&
        s.tokens[i + 1].touches)
      return s.replace(i, i + 2, s.is(i + 1, "^") ? "**" : std::string(s[i + 1]));
  }
  return false;
}

bool numbers(Draft& s) {
  for (std::size_t i = 1; i < s.size(); ++i)
    if (is_number(s[i - 1]) && s.tokens[i].touches && s.word(i)) {
      if (is_one_of(s[i], "fFlLuUd")) return s.replace(i, i + 1, "");
      if (s[i][0] == '_' || s[i] == "j" ||
          (s[i - 1] == "0" && is_one_of(s[i].substr(0, 1), "xbo")))
        return false;
      return s.replace(i, i + 1, " * " + std::string(s[i]));
    }
  return false;
}

bool powers(Draft& s) {
  for (std::size_t i = s.size(); i-- > 1;) {
    if (!s.is(i, "*") || !s.is(i - 1, "*") || !s.tokens[i].touches || i < 2 || !s.ends_operand(i - 2)) continue;
    const std::size_t first = s.operand_first(i - 2), end = s.operand_end(i + 1);
    const auto bare = [&](std::size_t from, std::size_t to) {
      return s.is(from, "(") && s.closing(from) + 1 == to ? s.slice(from + 1, to - 1) : s.slice(from, to);
    };
    return s.replace(first, end, fmt::format("pow({}, {})", bare(first, i - 1), bare(i + 1, end)));
  }
  return false;
}

bool negations(Draft& s) {
  for (std::size_t i = s.equals + 1; i < s.size(); ++i) {
    const bool mark = s.is(i, "!") && !(s.is(i + 1, "=") && s.tokens[i + 1].touches);
    if (!mark && !s.is(i, "not") && !(s.is(i, "~") && s.is(i + 1, "("))) continue;
    if (s.is(i, "~")) continue;
    std::size_t end = mark || s.is(i + 1, "(") ? s.operand_end(i + 1) : s.segment(i).second;
    for (std::size_t k = i + 1; k < end && !mark; ++k)
      if (s.enclosing(k) == s.enclosing(i) &&
          (s.is(k, "&") || s.is(k, "|") || s.is(k, "?") || s.is(k, "if") || s.is(k, "else")))
        end = k;
    const std::string operand = s.slice(i + 1, end);
    const bool simple = end == s.operand_end(i + 1);
    return s.replace(i, end, simple ? fmt::format("({} == 0)", operand) : fmt::format("(({}) == 0)", operand));
  }
  return false;
}

bool brackets(Draft& s) {
  for (std::size_t i = 1; i + 1 < s.size(); ++i)
    if (s.is(i, "]") && s.is(i + 1, "[") && s.word(s.opening(i) - 1)) return s.replace(i, i + 2, ", ");
  return false;
}

}  // namespace tilec::lang::repair
