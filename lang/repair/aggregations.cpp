#include "lang/repair/rewrites.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lang/builtin.h"
#include "lang/repair/foreign.h"

namespace tilec::lang::repair {
bool sums_over_an_index(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 2 < s.size(); ++i) {
    const auto parts = s.word(i) && s.is(i + 1, "(") && reduction_named(s[i])
        ? s.list(i + 1)
        : std::vector<Range>();
    if (parts.size() != 2 || s.closing(i + 1) == s.size()) continue;
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
      const auto [from, to] = parts[k];
      const auto [first, last] = parts[1 - k];
      const std::size_t index = s.is(from, "axis") && s.is(from + 1, "=") ? from + 2 : from;
      if (index + 1 == to && s.word(index) && is_index_name(s[index]) &&
          s.indices_in(first, last).contains(std::string(s[index])))
        return s.replace(i + 2, s.closing(i + 1), s.slice(first, last));
    }
  }
  return false;
}

bool positions(Draft& s) {
  const std::size_t i = s.is(s.equals + 1, "=") && s.is(s.equals + 2, "(") ? s.equals + 3 : s.equals + 1;
  if (!s.has_element() || !(s.is(i, "argmax") || s.is(i, "argmin")) || !s.is(i + 1, "(")) return false;
  const auto left = s.kept();
  std::vector<Range> reads =
      s.word(i + 2) && s.is(i + 3, "[") ? s.list(i + 3) : std::vector<Range>();
  if (reads.empty() || s.closing(i + 3) + 1 != s.closing(i + 1) ||
      s.closing(i + 1) + (i == s.equals + 3 ? 2 : 1) != s.size())
    return false;
  std::vector<std::string> others;
  std::size_t axis = reads.size();
  for (std::size_t d = 0; d < reads.size(); ++d) {
    const std::string index = s.slice(reads[d].first, reads[d].second);
    if (std::any_of(left.begin(), left.end(), [&](const auto& each) { return each.first == index; }))
      others.push_back(index);
    else if (axis == reads.size()) axis = d;
    else return false;
  }
  const bool same = axis < reads.size() && others.size() == left.size() &&
      std::equal(
          left.begin(), left.end(), others.begin(),
          [](const auto& each, const std::string& index) { return each.first == index; });
  const std::string of = reads.size() == 1 ? "" : fmt::format(", {}", axis);
  return same &&
      s.replace(0, s.size(), fmt::format("{} = {}({}{})", s.slice(0, s.element()), s[i], s[i + 2], of));
}

namespace {

// Does an aggregation begin here: `+(`, not behind an operand?
const Reduction* aggregation(const Draft& s, std::size_t i) {
  if (i + 1 >= s.size() || !s.is(i + 1, "(") || i <= s.equals) return nullptr;
  if (s.word(i)) {
    const Reduction* named = reduction_named(s[i]);
    return named && s.list(i + 1).size() == 1 ? named : nullptr;
  }
  if (i > s.equals + 1 && s.ends_operand(i - 1)) return nullptr;
  const bool unary = s.is(i, "+") || s.is(i, "*") || s.is(i, ">") || s.is(i, "<");
  return unary ? reduction_marked(s[i]) : nullptr;
}

}  // namespace

bool reduction_inside(Draft& s) {
  for (std::size_t i = s.size(); i-- > s.equals + 1;) {
    const Reduction* reduction = aggregation(s, i);
    if (!reduction || (s.is_outermost(i) && s.has_element())) continue;
    const std::size_t close = s.closing(i + 1);
    if (close == s.size()) return false;
    const std::set<std::string> used = s.indices_in(i + 2, close);
    if (used.empty()) continue;                        // of a whole tensor that the text does not know
    std::vector<std::string> indices;
    Sizes sizes;
    for (const auto& [index, size] : s.kept()) {
      if (!used.contains(index)) continue;
      if (size.empty()) return false;
      indices.push_back(index), sizes.push_back(size);
    }
    std::string body = s.slice(i + 2, close);
    if (reduction->result == "Mean")
      for (const std::string& index : used)
        if (std::find(indices.begin(), indices.end(), index) == indices.end()) {
          const auto size = s.size_of_index(index);
          if (!size) return false;
          body += " / " + *size;
        }
    const std::string name = s.fresh(reduction->result);
    s.put_before(name, indices, sizes, fmt::format("{}({})", reduction->mark, body));
    return s.replace(i, close + 1, s.has_element() ? fmt::format("{}[{}]", name, fmt::join(indices, ", ")) : name);
  }
  return false;
}

bool running(Draft& s) {
  if (!s.has_element() || s.equals < 3) return false;
  const auto left = s.kept();
  std::size_t first = s.equals + 1, last = s.size();
  if (s.is(first, "=") && s.is(first + 1, "(") && s.closing(first + 1) + 1 == last) first += 2, --last;
  const std::string_view name = s[s.opening(s.equals - 1) - 1];
  for (const auto& [index, size] : left)
    for (std::size_t i = first; i < last; ++i) {
      if (s[i] != name || !s.is(i + 1, "[") || s.slice(i + 2, s.closing(i + 1)).empty()) continue;
      std::vector<std::string> reads;
      for (const auto& [from, to] : s.list(i + 1)) {
        std::string part;
        for (std::size_t k = from; k < to; ++k) part += s[k];
        reads.push_back(part);
      }
      std::vector<std::string> wanted;
      for (const auto& [other, unused] : left) wanted.push_back(other == index ? index + "-1" : other);
      const std::size_t end = s.closing(i + 1) + 1;
      const bool begins = i == first && end + 1 < last && is_one_of(s[end], "+*"),
                 ends = end == last && i > first + 1 && is_one_of(s[i - 1], "+*");
      if (reads != wanted || (!begins && !ends)) continue;
      const std::string mark(s[begins ? end : i - 1]);
      const std::size_t from = begins ? end + 1 : first, to = begins ? last : i - 1;
      std::string body;
      const std::string other = s.fresh("k", true);
      for (std::size_t k = from; k < to; ++k) {
        if (s[k] == name ||
            (s.enclosing(k) == (from == first ? s.enclosing(first) : s.enclosing(from)) &&
                is_one_of(s[k], mark == "+" ? "?" : "+-?")))
          return false;
        if (k > from && !s.tokens[k].touches) body += " ";
        body += s[k] == index ? other : std::string(s[k]);
      }
      s.text = fmt::format("{} = {}({}), {} <= {}", s.slice(0, s.equals), mark, body, other, index);
      s.read();
      return true;
    }
  return false;
}

bool target(Draft& s) {
  if (!s.has_element()) return false;
  const std::size_t open = s.element();
  std::size_t colon = open;
  while (colon < s.equals && !s.is(colon, ":")) ++colon;
  if (colon == s.equals && open + 1 < s.equals - 1) {
    Sizes sizes;
    for (const auto& [from, to] : s.list(open)) {
      const auto size = s.size_of_index(s.slice(from, to));
      if (!size) return false;
      sizes.push_back(*size);
    }
    return s.replace(s.equals - 1, s.equals - 1, fmt::format(": {}", fmt::join(sizes, ", ")));
  }
  const std::size_t first = s.equals + 1;
  if (first >= s.size()) return false;
  const bool marked = is_one_of(s[first], "+*<>=") && s.is(first + 1, "(") && s.is_outermost(first);
  const bool named = s.word(first) && s.is(first + 1, "(") && s.is_outermost(first) &&
      (s.is(first, "sum") || s.is(first, "product") || s.is(first, "assign") ||
          ((s.is(first, "max") || s.is(first, "min")) && s.list(first + 1).size() == 1));
  if (marked || named) return false;
  if (s.is(first, "mean") && s.is_outermost(first) && s.list(first + 1).size() == 1) {
    std::string count;
    const auto left = s.kept();
    for (const std::string& index : s.indices_in(first + 2, s.closing(first + 1))) {
      if (std::any_of(left.begin(), left.end(), [&](const auto& each) { return each.first == index; })) continue;
      const auto size = s.size_of_index(index);
      if (!size) return false;
      count += " / " + *size;
    }
    return s.replace(
        first, s.closing(first + 1) + 1, fmt::format("+({}{})", s.slice(first + 2, s.closing(first + 1)), count));
  }
  for (std::size_t k = first; k + 1 < s.size(); ++k)
    // of whole tensors
    if (const Builtin* made = s.is(k + 1, "(") ? builtin_named(s[k]) : nullptr; made && made->makes_tensors)
      return false;
  std::set<std::string> free = s.indices_in(first, s.size());
  for (std::size_t k = open + 1; k < s.equals - 1; ++k) free.erase(std::string(s[k]));
  const std::size_t last = s.segment(first).second;
  if (const Reduction* reduction = s.word(first) && s.is_outermost(first) && s.list(first + 1).size() == 1
          ? reduction_named(s[first])
          : nullptr;
      reduction && reduction->result != "Mean")
    return s.replace(first, first + 1, std::string(reduction->mark));
  return s.replace(first, last, fmt::format("{}({})", free.empty() ? "=" : "+", s.slice(first, last)));
}

}  // namespace tilec::lang::repair
