#include "lang/repair/rewrites.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "lang/repair/foreign.h"

namespace tilec::lang::repair {
bool einsums(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 2 < s.size(); ++i) {
    if (!s.is(i, "einsum") || !s.is(i + 1, "(") || s.closing(i + 1) == s.size() || s.is(i - 1, ".")) continue;
    const auto parts = s.list(i + 1);
    std::string letters;
    for (const char c : s[i + 2])
      if (c != ' ' && c != '"' && c != '\'') letters += c;
    const std::size_t arrow = std::min(letters.find("->"), letters.size());
    std::map<char, std::string> sizes;
    std::string result = arrow < letters.size() ? letters.substr(arrow + 2) : "", body;
    std::size_t at = 0;
    for (std::size_t k = 1; k < parts.size(); ++k) {
      const std::string own = letters.substr(at, std::min(letters.find(',', at), arrow) - at);
      at += own.size() + 1;
      const Sizes* of = parts[k].second == parts[k].first + 1 ? s.shape(s[parts[k].first]) : nullptr;
      if (!of || of->size() != own.size() || at > arrow + 1 ||
          !std::all_of(own.begin(), own.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
        return false;
      for (std::size_t d = 0; d < own.size(); ++d) sizes.emplace(own[d], (*of)[d]);
      body += fmt::format("{}{}[{}]", k > 1 ? " * " : "", s[parts[k].first], fmt::join(own, ", "));
    }
    if (at != arrow + 1) return false;
    if (arrow == letters.size())
      for (const auto& [letter, size] : sizes)
        if (std::count(letters.begin(), letters.end(), letter) == 1) result += letter;
    std::vector<std::string> indices;
    Sizes kept;
    for (const char c : result) {
      if (!sizes.contains(c) || std::count(result.begin(), result.end(), c) > 1) return false;
      indices.emplace_back(1, c);
      kept.push_back(sizes.at(c));
    }
    return s.compute(i, s.closing(i + 1) + 1, "Product", indices, kept,
        fmt::format("{}({})", result.size() == sizes.size() ? "=" : "+", body));
  }
  return false;
}

namespace {

// `sum(exp(X) * 2.0)`: what is reduced gets a name and the shape of its largest tensor.
bool named_first(Draft& s, std::size_t from, std::size_t to, bool of_two) {
  const Sizes* largest = nullptr;
  for (std::size_t k = from; k < to; ++k) {
    const Sizes* sizes = s.word(k) ? s.shape(s[k]) : nullptr;
    if (sizes && (!largest || sizes->size() > largest->size())) largest = sizes;
    if (is_one_of(s[k], "[:.@%!") || is_between(s[k]) ||
        (s.word(k) && s.is(k + 1, "(") && !is_scalar_function(s[k])))
      return false;
  }
  if (!largest || of_two || to == from + 1) return false;
  const std::string name = s.fresh("T");
  s.shapes[name] = *largest;
  s.before.push_back(fmt::format("{} = {};", name, s.slice(from, to)));
  return s.replace(from, to, name);
}

}  // namespace

bool whole_reductions(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 2 < s.size(); ++i) {
    const Reduction* reduction = s.word(i) && s.is(i + 1, "(") ? reduction_named(s[i]) : nullptr;
    const Sizes* sizes = reduction && s.word(i + 2) ? s.shape(s[i + 2]) : nullptr;
    const auto parts = reduction ? s.list(i + 1) : std::vector<Range>();
    if (parts.empty() || s.has_element()) continue;
    if (!sizes || parts[0].second != i + 3) {
      if (named_first(s, parts[0].first, parts[0].second, parts.size() > 1 && (s.is(i, "max") || s.is(i, "min"))))
        return true;
      continue;
    }
    std::optional<std::size_t> axis;
    bool keeps = false, known = true;
    const bool both = s.is(i, "max") || s.is(i, "min");    // `max(X, 0)` is the larger of two
    for (std::size_t p = 1; p < parts.size(); ++p) {
      std::size_t at = parts[p].first;
      const std::string_view name = s[at];
      if (s.is(at + 1, "=")) at += 2;
      if (name == "keepdims" || name == "keepdim") keeps = s.is(at, "True") || s.is(at, "true") || s.is(at, "1");
      else if (const std::string text = s.slice(at, parts[p].second); text == "-1") axis = sizes->size() - 1;
      else if (text.size() == 1 && is_number(text) && (name == "axis" || name == "dim" || (name == text && !both)))
        axis = text[0] - std::size_t{'0'};
      else known = false;
    }
    if (!known || (axis && *axis >= sizes->size())) continue;
    std::vector<std::string> all, indices;
    Sizes left;
    std::string count;
    for (std::size_t d = 0; d < sizes->size(); ++d) {
      all.push_back(s.fresh("i", true));
      if (axis && d != *axis) indices.push_back(all.back()), left.push_back((*sizes)[d]);
      else if (keeps) indices.emplace_back("0"), left.emplace_back("1");
      if (!axis || d == *axis) count += " / " + (*sizes)[d];
    }
    const std::string read = fmt::format("{}[{}]", s[i + 2], fmt::join(all, ", "));
    return s.compute(i, s.closing(i + 1) + 1, reduction->result, indices, left,
        fmt::format("{}({}{})", reduction->mark, read, reduction->result == "Mean" ? count : ""));
  }
  return false;
}

bool products(Draft& s) {
  for (std::size_t i = 0; i + 1 < s.size(); ++i) {
    std::size_t first = i, last, left, right;
    if (s.is(i, "@") && i > 0 && s.word(i - 1) && s.word(i + 1)) first = left = i - 1, right = i + 1, last = i + 2;
    else if (s.word(i) && (s.is(i, "dot") || s.is(i, "matmul") || s.is(i, "mm") || s.is(i, "inner")) &&
        s.is(i + 1, "(") && s.list(i + 1).size() == 2)
      left = i + 2, right = i + 4, last = i + 6;
    else continue;
    if (right >= s.size() || !s.word(left) || !s.word(right)) continue;
    const Sizes *a = s.shape(s[left]), *b = s.shape(s[right]);
    if (!a || !b || a->empty() || b->empty() || a->size() > 2 || b->size() > 2) continue;
    const std::string A(s[left]), B(s[right]);
    std::vector<std::string> indices;
    Sizes sizes;
    if (a->size() == 2) indices.push_back(s.fresh("i", true)), sizes.push_back((*a)[0]);
    if (b->size() == 2) indices.push_back(s.fresh("j", true)), sizes.push_back((*b)[1]);
    const std::string k = s.fresh("k", true);
    const std::string reads_a = a->size() == 2 ? indices.front() + ", " + k : k,
                      reads_b = b->size() == 2 ? k + ", " + indices.back() : k;
    return s.compute(first, last, "Product", indices, sizes, fmt::format("+({}[{}] * {}[{}])", A, reads_a, B, reads_b));
  }
  return false;
}

}  // namespace tilec::lang::repair
