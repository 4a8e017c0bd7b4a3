#include "lang/repair/draft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tilec::lang::repair {
namespace {

// The sizes of inputs and of what statements have assigned with sizes.
std::map<std::string, Sizes> shapes_in(std::string_view text) {
  std::map<std::string, Sizes> shapes;
  const Tokens t = tokens_of(text);
  std::size_t heading = 0;
  while (heading < t.size() && t[heading].text != "{") ++heading;
  for (std::size_t i = 0; i + 1 < t.size(); ++i) {
    if (!is_word(t[i].text) || t[i + 1].text != "[") continue;
    const std::size_t end = closing(t, i + 1);
    if (end == t.size()) continue;
    std::size_t from = i + 2;
    const bool statement = i > heading;
    if (statement && !(t[i].starts || (i > 0 && t[i - 1].starts && is_word(t[i - 1].text)))) continue;
    if (statement) {
      while (from < end && t[from].text != ":") ++from;
      ++from;
    }
    Sizes sizes;
    int depth = 0;
    for (std::size_t k = from; k < end;) {
      std::size_t stop = k;
      for (; stop < end && (depth > 0 || t[stop].text != ","); ++stop)
        depth += is_one_of(t[stop].text, "([") - is_one_of(t[stop].text, ")]");
      sizes.emplace_back(text.substr(t[k].begin, t[stop - 1].end() - t[k].begin));
      k = stop + 1;
    }
    shapes.emplace(t[i].text, std::move(sizes));
  }
  return shapes;
}

}  // namespace

bool is_index_name(std::string_view word) { return word[0] >= 'a' && word[0] <= 'z'; }

Draft::Draft(std::string_view statement, std::string_view before_it, std::string_view function)
    : TokenText(statement), shapes(shapes_in(before_it)) {
  const Tokens t = tokens_of(function);
  for (const Token& token : t) words.emplace(token.text);
  for (std::size_t i = 0; i + 3 < t.size() && t[i].text != "{"; ++i)
    if (t[i].text == "-" && t[i + 1].text == ">" && t[i + 2].text == "(" && is_word(t[i + 3].text))
      result = t[i + 3].text;
}

std::string Draft::fresh(std::string_view base, bool index) {
  static constexpr std::string_view letters[] = {"i", "j", "k", "l", "m", "n", "p", "q", "r", "s"};
  if (index && words.emplace(base).second) return std::string(base);
  if (index)
    for (const std::string_view letter : letters)
      if (words.emplace(letter).second) return std::string(letter);
  std::string name(base);
  for (int number = 2; !words.emplace(name).second; ++number) name = fmt::format("{}{}", base, number);
  return name;
}

const Sizes* Draft::shape(std::string_view name) const {
  const auto at = shapes.find(std::string(name));
  return at == shapes.end() ? nullptr : &at->second;
}

void Draft::put_before(
    const std::string& name, const std::vector<std::string>& indices, const Sizes& sizes, const std::string& value) {
  before.push_back(fmt::format("{}[{}{}{}] = {};", name, fmt::join(indices, ", "), indices.empty() ? "" : ": ",
      fmt::join(sizes, ", "), value));
  shapes[name] = sizes;
}

bool Draft::compute(std::size_t first, std::size_t last, std::string_view name, const std::vector<std::string>& indices,
    const Sizes& sizes, const std::string& value) {
  if (!has_element() && first == equals + 1 && last == tokens.size()) {
    const std::string target = slice(0, equals);
    text = fmt::format("{}[{}{}{}] = {}", target, fmt::join(indices, ", "), indices.empty() ? "" : ": ",
        fmt::join(sizes, ", "), value);
    read();
    return true;
  }
  const std::string made = fresh(name);
  put_before(made, indices, sizes, value);
  return replace(first, last, made);
}

bool Draft::has_element() const {
  return equals < tokens.size() && equals > 0 && is(equals - 1, "]") && element() > 0 && word(element() - 1);
}

std::size_t Draft::element() const { return opening(equals - 1); }

std::vector<std::pair<std::string, std::string>> Draft::kept() const {
  std::vector<std::pair<std::string, std::string>> all;
  if (!has_element()) return all;
  std::vector<std::string> left, right;
  bool sizes = false;
  for (std::size_t k = element() + 1; k < equals - 1;) {
    std::size_t stop = k;
    for (int depth = 0; stop < equals - 1 && (depth > 0 || (!is(stop, ",") && !is(stop, ":"))); ++stop)
      depth += is_one_of(tokens[stop].text, "([") - is_one_of(tokens[stop].text, ")]");
    (sizes ? right : left).push_back(slice(k, stop));
    sizes |= is(stop, ":");
    k = stop + 1;
  }
  for (std::size_t k = 0; k < left.size(); ++k)
    if (!left[k].empty() && is_index_name(left[k]))
      all.emplace_back(left[k], k < right.size() ? right[k] : size_of_index(left[k]).value_or(""));
  return all;
}

std::optional<std::string> Draft::size_of_index(std::string_view index) const {
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const Sizes* sizes = word(i) && is(i + 1, "[") && i > equals ? shape(tokens[i].text) : nullptr;
    if (!sizes) continue;
    const auto parts = list(i + 1);
    for (std::size_t d = 0; d < parts.size() && d < sizes->size(); ++d)
      if (parts[d].second == parts[d].first + 1 && tokens[parts[d].first].text == index) return (*sizes)[d];
  }
  return std::nullopt;
}

std::optional<std::string> Draft::index_size(const std::string& index) const {
  for (const auto& [name, size] : kept())
    if (name == index && !size.empty()) return size;
  return size_of_index(index);
}

std::set<std::string> Draft::indices_in(std::size_t first, std::size_t last) const {
  std::set<std::string> found;
  int depth = 0;
  for (std::size_t k = first; k < last; ++k) {
    depth += is(k, "[") - is(k, "]");
    if (depth > 0 && word(k) && is_index_name(tokens[k].text) && !is(k + 1, "(") && !is(k + 1, "[") &&
        !shape(tokens[k].text))
      found.emplace(tokens[k].text);
  }
  return found;
}

bool Draft::is_outermost(std::size_t i) const {
  if (i != equals + 1) return false;
  const std::size_t close = closing(i + 1);
  return close + 1 >= tokens.size() || is(close + 1, ",") || is(close + 1, "default") || is(close + 1, "no_defract") ||
      is(close + 1, "no_reduce");
}

}  // namespace tilec::lang::repair
