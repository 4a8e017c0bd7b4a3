// A heading as Python, Rust or C write it, in the order of Tile.
//
//   (A: float32[N],) -> B   ⇒   (f32 A[N]) -> (B)

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "lang/repair/foreign.h"
#include "lang/repair.h"
#include "lang/repair/token_text.h"

namespace tilec::lang {
namespace repair {
namespace {

// Behind `->`; size(): there is none.
std::size_t results_of(const TokenText& h) {
  std::size_t i = 2;
  while (i < h.size() && !(h.is(i - 2, "-") && h.is(i - 1, ">"))) ++i;
  return i;
}

bool commas(TokenText& h) {
  for (std::size_t i = 1; i + 1 < h.size(); ++i)
    if (h.is(i, ",") && !is_one_of(h[i - 1], "([,") && is_one_of(h[i + 1], ")]"))
      return h.replace(i, i + 1, "");
  return false;
}

// `A: f32`, `A: f32[N]`, `A[N]: float`, `float A[N]`
bool types(TokenText& h) {
  for (std::size_t i = 1; i + 1 < h.size(); ++i) {
    const std::optional<std::string> type = is_word(h[i]) ? type_called(h[i]) : std::nullopt;
    if (type && is_word(h[i + 1]) && is_one_of(h[i - 1], "(,") && *type != h[i])
      return h.replace(i, i + 1, *type);
    // `f32[N] A`
    if (type && is_one_of(h[i - 1], "(,") && h.is(i + 1, "[") && is_word(h[h.closing(i + 1) + 1])) {
      const std::size_t close = h.closing(i + 1);
      return h.replace(i, close + 2, fmt::format("{} {}{}", *type, h[close + 1], h.slice(i + 1, close + 1)));
    }
    if (!type || !h.is(i - 1, ":")) continue;
    std::size_t name = i - 2;
    const bool sized = h.is(name, "]");
    if (sized)
      while (name > 0 && !h.is(name, "[")) --name;
    if (sized && name > 0) --name;
    if (name == 0 || !is_word(h[name]) || !is_one_of(h[name - 1], "(,")) continue;
    const std::size_t end = h.is(i + 1, "[") && !sized ? std::min(h.closing(i + 1) + 1, h.size()) : i + 1;
    return h.replace(name, end, fmt::format("{} {}{}", *type, h.slice(name, i - 1), h.slice(i + 1, end)));
  }
  return false;
}

bool results(TokenText& h) {
  for (std::size_t i = 2; i + 1 < h.size(); ++i)
    if (h.is(i - 2, ")") && h.is(i - 1, "=") && h.is(i, ">")) return h.replace(i - 1, i + 1, "->");
  const std::size_t first = results_of(h);
  if (!is_word(h[first]) || type_called(h[first]) || first + 1 < h.size()) return false;
  return h.replace(first, first + 1, fmt::format("({})", h[first]));
}

// Statements say the sizes of results.
bool sizes_of_results(TokenText& h) {
  for (std::size_t i = results_of(h) + 1; i + 1 < h.size(); ++i)
    if (h.is(i, "[") && is_word(h[i - 1]) && h.closing(i) < h.size())
      return h.replace(i, h.closing(i) + 1, "");
  return false;
}

}  // namespace
}  // namespace repair

std::optional<std::string> repaired_heading(std::string_view heading) {
  using namespace repair;
  TokenText h(heading);
  bool changed = false;
  for (int steps = 0; steps < 60 && (commas(h) || types(h) || results(h) || sizes_of_results(h)); ++steps)
    changed = true;
  return changed ? std::optional(h.text) : std::nullopt;
}

}  // namespace tilec::lang
