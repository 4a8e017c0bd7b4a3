#include "lang/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace tilec::lang {

namespace {

// Letters that are missing, too many, others, or exchanged with their neighbour; letters that differ in case only are equal.
std::size_t distance(std::string_view a, std::string_view b) {
  const auto same = [&](std::size_t i, std::size_t j) { return std::tolower(static_cast<unsigned char>(a[i])) == std::tolower(static_cast<unsigned char>(b[j])); };
  std::vector<std::size_t> earlier, before, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    earlier = std::exchange(before, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({before[j] + (same(i, j) ? 0 : 1), before[j + 1] + 1, row[j] + 1});
      if (i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j)) row[j + 1] = std::min(row[j + 1], earlier[j - 1] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t least = word.size() < 3 ? 1 : (word.size() + 1) / 4 + 1;  // `J` for `j`, but not `J` for `M`; nor `cond` for `conv2d`
  for (const std::string& candidate : candidates)
    if (const std::size_t d = distance(word, candidate); d < least) {
      least = d;
      best = candidate;
    }
  return best;
}

}  // namespace tilec::lang
