#include "lang/repair/rewrites.h"

#include <fmt/format.h>

namespace tilec::lang::repair {
bool choices(Draft& s) {
  for (std::size_t i = s.equals + 1; i < s.size(); ++i) {
    if (s.is(i, "where") && s.is(i + 1, "(")) {
      const auto parts = s.list(i + 1);
      if (parts.size() != 3 || (i > 0 && s.is(i - 1, "."))) continue;
      return s.replace(i, s.closing(i + 1) + 1,
          fmt::format("({} ? {} : {})", s.slice(parts[0].first, parts[0].second),
              s.slice(parts[1].first, parts[1].second), s.slice(parts[2].first, parts[2].second)));
    }
    if (!s.is(i, "if")) continue;
    const auto [first, last] = s.segment(i);
    std::size_t otherwise = i;
    while (otherwise < last && !(s.is(otherwise, "else") && s.enclosing(otherwise) == s.enclosing(i))) ++otherwise;
    if (otherwise >= last || first >= i) continue;
    if (first == s.equals + 1 && is_one_of(s[first], "+*<>=") && s.is(first + 1, "(") &&
        s.closing(first + 1) + 1 == i) {
      if (!s.is(first, "=") || s.is(otherwise + 1, "0") || s.is(otherwise + 1, "0.0")) continue;  // a constraint
      return s.replace(first + 2, last,
          fmt::format(
              "{} ? {} : {})", s.slice(i + 1, otherwise), s.slice(first + 2, i - 1), s.slice(otherwise + 1, last)));
    }
    return s.replace(first, last,
        fmt::format("{} ? {} : {}", s.slice(i + 1, otherwise), s.slice(first, i), s.slice(otherwise + 1, last)));
  }
  return false;
}

namespace {

std::optional<std::string> ranged(const Draft& s, std::size_t i, std::size_t last) {
  if (!s.is(i, "for")) return s.slice(i + 1, last);
  if (!s.word(i + 1) || !s.is(i + 2, "in") || !s.is(i + 3, "range") || !s.is(i + 4, "(")) return std::nullopt;
  const auto parts = s.list(i + 4);
  const std::string index(s[i + 1]);
  if (parts.size() == 1) {
    const std::string bound = s.slice(parts[0].first, parts[0].second);
    const auto size = s.size_of_index(index);
    return size && *size == bound ? "" : fmt::format("{} < {}", index, bound);
  }
  return parts.size() == 2 ? std::optional(fmt::format("{} <= {} < {}", s.slice(parts[0].first, parts[0].second), index,
                                 s.slice(parts[1].first, parts[1].second)))
                           : std::nullopt;
}

}  // namespace

bool conditions(Draft& s) {
  for (std::size_t i = s.equals + 1; i < s.size(); ++i) {
    if ((!s.is(i, "if") && !s.is(i, "where") && !s.is(i, "for")) || (s.is(i, "where") && s.is(i + 1, "("))) continue;
    if (i == 0 || !s.ends_operand(i - 1)) continue;
    const std::size_t last = s.segment(i).second;
    std::size_t end = i;                               // of the condition: what no point reaches is 0
    while (end < last && !s.is(end, "else")) ++end;
    if (end < last && (end + 2 != last || (!s.is(end + 1, "0") && !s.is(end + 1, "0.0")))) return false;
    const auto constraint = ranged(s, i, end);
    if (!constraint) return false;
    const std::size_t open = s.enclosing(i), close = open == s.size() ? s.size() : s.closing(open);
    const std::string rest = s.slice(last, close), behind = close < s.size() ? ")" + s.slice(close + 1, s.size()) : "";
    if (open != s.size() && s.enclosing(open) != s.size()) return false;  // of an inner expression
    s.text = fmt::format("{}{}{}{}{}", s.slice(0, i), rest, behind, constraint->empty() ? "" : ", ", *constraint);
    s.read();
    return true;
  }
  return false;
}

bool comparison_of_constraint(Draft& s) {
  for (std::size_t i = s.equals + 2; i + 1 < s.size(); ++i) {
    if (!s.is(i, ">") || s.is(i + 1, "=") || s.is(i + 1, "(") || s.enclosing(i) != s.size() || !s.ends_operand(i - 1))
      continue;
    const auto [first, last] = s.segment(i);
    if (first == s.equals + 1) continue;
    return s.replace(i, last, fmt::format(">= {} + 1", s.slice(i + 1, last)));
  }
  return false;
}

bool constraint_of_elements(Draft& s) {
  const std::size_t first = s.equals + 1;
  if (!s.has_element() || first + 1 >= s.size() || !s.is(first + 1, "(") || !s.is_outermost(first)) return false;
  const std::size_t close = s.closing(first + 1);
  for (std::size_t i = close + 2; i + 1 < s.size(); ++i) {
    const auto [from, to] = s.segment(i);
    if (from > close && s.word(i) && s.is(i + 1, "[") && (s.is(first, "+") || s.is(first, "=") || s.is(first, "sum"))) {
      const std::string rest = s.slice(close + 1, from - 1) + (to < s.size() ? s.slice(to, s.size()) : "");
      return s.replace(first, s.size(),
          fmt::format("{}({} ? {} : 0.0){}", s[first], s.slice(from, to), s.slice(first + 2, close), rest));
    }
  }
  return false;
}

}  // namespace tilec::lang::repair
