#include "lang/repair/rewrites.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "lang/heading.h"
#include "lang/idiom.h"
#include "lang/repair/foreign.h"

namespace tilec::lang::repair {
bool keywords(Draft& s) {
  for (std::size_t i = 0; i + 2 < s.size(); ++i) {
    if (!s.word(i) || !s.is(i + 1, "(") || (i > 0 && s.is(i - 1, ".")) || reduction_named(s[i]) ||
        is_scalar_function(s[i]))
      continue;
    const std::size_t close = s.closing(i + 1);
    if (close == s.size()) continue;
    std::vector<std::string> plain;
    std::map<std::string, std::string> named;
    for (const auto& [from, to] : s.list(i + 1)) {
      if (s.word(from) && s.is(from + 1, "=") && !s.is(from + 2, "="))
        named[std::string(s[from])] = s.slice(from + 2, to);
      else plain.push_back(s.slice(from, to));
    }
    const auto heading = std::find_if(standard_names().begin(), standard_names().end(),
        [&](const StandardName& each) { return each.name == s[i]; });
    if (heading == standard_names().end()) continue;
    const auto rank = [&](const std::string& name) {
      return s.shape(name) ? std::optional(s.shape(name)->size()) : std::nullopt;
    };
    if (const auto call = called_as(heading->heading, plain, named, rank))
      return s.replace(i, close + 1, std::string(s[i]) + *call);
  }
  return false;
}

bool prefixes(Draft& s) {
  for (std::size_t i = 0; i + 2 < s.size(); ++i) {
    if (s.word(i) && s.is(i + 1, ".") && s.word(i + 2) && is_module(s[i]) && !s.shape(s[i])) {
      if (const auto parts = s.is(i + 3, "(") ? s.list(i + 3) : std::vector<Range>();
          parts.size() == 2 && (s.is(i + 2, "mod") || s.is(i + 2, "remainder")))
        note_sign(s, s.slice(parts[0].first, parts[0].second), s.slice(parts[1].first, parts[1].second));
      return s.replace(i, i + 2, "");
    }
    const bool is_flat = s.is(i + 2, "flatten") || s.is(i + 2, "ravel");
    if (s.word(i) && s.is(i + 1, ".") && s.is(i + 3, "(") && (s.is(i + 2, "view") || (is_flat && s.is(i + 4, ")"))))
      return s.replace(i + 2, is_flat ? i + 4 : i + 3, is_flat ? "reshape(-1" : "reshape");
    if (s.word(i) && s.is(i + 1, ".") && s.word(i + 2) && s.is(i + 3, "(") &&
        (is_scalar_function(s[i + 2]) || reduction_named(s[i + 2]) || is_method(s[i + 2]))) {
      const std::size_t close = s.closing(i + 3);
      const std::string rest = s.slice(i + 4, close);
      return close < s.size() &&
          s.replace(
              i, close + 1, fmt::format("{}({}{}{})", s[i + 2], s[i], rest.empty() ? "" : ", ", rest));
    }
  }
  for (std::size_t i = 1; i + 2 < s.size(); ++i) {     // `(A + B).sum()`
    if (!s.is(i, ".") || !is_one_of(s[i - 1], ")]") || !s.word(i + 1) || !s.is(i + 2, "(") ||
        s.closing(i + 2) == s.size())
      continue;
    const std::size_t first = s.operand_first(i - 1), close = s.closing(i + 2);
    const std::string rest = s.slice(i + 3, close),
                      operand = s.is(first, "(") ? s.slice(first + 1, i - 1) : s.slice(first, i);
    return s.replace(
        first, close + 1, fmt::format("{}({}{}{})", s[i + 1], operand, rest.empty() ? "" : ", ", rest));
  }
  for (std::size_t i = 0; i + 1 < s.size(); ++i) {
    if (!s.word(i) || !s.is(i + 1, "(") || s.shape(s[i])) continue;
    for (const Alias& alias : aliases())
      if (alias.foreign == s[i] && is_scalar_function(alias.name) &&
          !(reduction_named(alias.foreign) && s.list(i + 1).size() == 1))
        return s.replace(i, i + 1, std::string(alias.name));
  }
  return false;
}

bool pairs(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 1 < s.size(); ++i) {
    if (s.is(i, "topk") && s.is(i + 1, "(")) return s.replace(i, i + 1, "top_k");
    if (!s.is(i, "top_k")) continue;
    const auto parts = s.is(i + 1, "(") ? s.list(i + 1) : std::vector<Range>();
    if (parts.size() == 2) {
      const auto [from, to] = parts[1];
      const std::string count = s.is(from + 1, "=") ? s.slice(from + 2, to) : s.slice(from, to);
      return s.replace(
          i + 1, s.closing(i + 1) + 1, fmt::format("<{}>({})", count, s.slice(parts[0].first, parts[0].second)));
    }
    if (i == s.equals + 1 && s.equals == 1 && s.word(0) && s.closing(i) + 1 >= s.size())
      return s.replace(0, 1, fmt::format("({}, {})", s[0], s.fresh("Index")));
  }
  return false;
}

namespace {

// What a tuple or a list holds.
std::vector<Range> listed(const Draft& s, Range part) {
  const bool is_list = is_one_of(s[part.first], "([") && s.closing(part.first) + 1 == part.second;
  return is_list ? s.list(part.first) : std::vector<Range>();
}

}  // namespace

bool movements(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 2 < s.size(); ++i) {
    if (!s.word(i) || !s.is(i + 1, "(") || s.closing(i + 1) == s.size()) continue;
    const auto parts = s.list(i + 1);
    if (parts.empty()) continue;
    const bool joins = s.is(i, "cat") || s.is(i, "concat") || s.is(i, "concatenate") || s.is(i, "stack"),
               rolls = s.is(i, "roll");
    if (!joins && !rolls && !s.is(i, "flip")) continue;
    const bool apart = joins && listed(s, parts[0]).empty();  // `cat(A, B)`
    const auto operands = apart ? parts : joins ? listed(s, parts[0]) : std::vector{parts[0]};
    if (operands.size() < (joins ? 2 : 1) || (s.is(i, "stack") && operands.size() > 2)) continue;
    std::size_t rank = 0;
    bool known = true;
    for (const auto& [from, to] : operands) {
      const Sizes* sizes = to == from + 1 ? s.shape(s[from]) : nullptr;
      known = known && sizes && !sizes->empty();
      if (known) rank = sizes->size();
    }
    std::optional<std::int64_t> axis = joins || rank == 1 ? std::optional<std::int64_t>(0) : std::nullopt;
    std::string shift;
    for (std::size_t p = 1; p < parts.size() && !apart; ++p) {
      const bool named = s.is(parts[p].first + 1, "=");
      const std::string text = s.slice(parts[p].first + (named ? 2 : 0), parts[p].second);
      if (rolls && (named ? s[parts[p].first].starts_with("shift") : p == 1)) shift = text;
      else if (text.size() <= 2 && is_number(text.substr(text[0] == '-'))) axis = std::stoi(text);
      else known = false;
    }
    const auto name = known && axis && rolls == !shift.empty() ? moving(s[i], rank, *axis, shift) : std::nullopt;
    if (!name) continue;
    std::string call = s.slice(operands[0].first, operands[0].second);
    if (!joins) call = fmt::format("{}({})", *name, call);
    for (std::size_t p = 1; p < operands.size(); ++p)
      call = fmt::format("{}({}, {})", *name, call, s.slice(operands[p].first, operands[p].second));
    if (call != s.slice(i, s.closing(i + 1) + 1)) return s.replace(i, s.closing(i + 1) + 1, call);
  }
  return false;
}

bool reshapes(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 2 < s.size(); ++i) {
    const Sizes* sizes = s.is(i, "reshape") && s.is(i + 1, "(") && s.word(i + 2) ? s.shape(s[i + 2]) : nullptr;
    const auto parts = sizes ? s.list(i + 1) : std::vector<Range>();
    if (sizes == nullptr || parts.size() < 2 || parts[0].second != i + 3) continue;
    const auto given = parts.size() == 2 && !listed(s, parts[1]).empty() ? listed(s, parts[1])
                                                                      : std::vector(parts.begin() + 1, parts.end());
    Sizes rest = *sizes;
    std::string divisors;
    std::vector<std::string> wanted;
    std::optional<std::size_t> open;
    for (const auto& [from, to] : given) {
      wanted.push_back(s.slice(from, to));
      if (wanted.back() == "-1") {
        if (open) return false;
        open = wanted.size() - 1;
      } else if (const auto at = std::find(rest.begin(), rest.end(), wanted.back()); at != rest.end()) rest.erase(at);
      else if (wanted.back() != "1") divisors += " / " + (to == from + 1 ? wanted.back() : "(" + wanted.back() + ")");
    }
    if (!open) continue;
    wanted[*open] = (rest.empty() ? "1" : fmt::format("{}", fmt::join(rest, " * "))) + divisors;
    return s.replace(
        i, s.closing(i + 1) + 1, fmt::format("reshape({}, {})", s[i + 2], fmt::join(wanted, ", ")));
  }
  return false;
}

void note_sign(Draft& s, const std::string& of, const std::string& by) {
  const std::string rest = fmt::format("mod({}, {})", of, by);
  const bool above_0 = std::isdigit(static_cast<unsigned char>(by.front())) != 0;
  const std::string other_sign = above_0 ? rest + " < 0" : fmt::format("({0} < 0) != ({1} < 0) & {0} != 0", rest, by);
  s.note = fmt::format(
      "`mod` has the sign of its first operand, as `%` in C; for that of the second, as in Python, write `{1} ? {0} + {2} : {0}`",
      rest, other_sign, by);
}

bool remainders(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 1 < s.size(); ++i) {
    if (!s.is(i, "%") || !s.ends_operand(i - 1)) continue;
    const std::size_t open = s.enclosing(i);
    if (open != s.size() && s.is(open, "[")) return false;
    const std::size_t first = s.operand_first(i - 1), end = s.operand_end(i + 1);
    note_sign(s, s.slice(first, i), s.slice(i + 1, end));
    return s.replace(first, end, fmt::format("mod({}, {})", s.slice(first, i), s.slice(i + 1, end)));
  }
  return false;
}

}  // namespace tilec::lang::repair
