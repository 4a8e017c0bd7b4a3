#include "lang/nearest.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace tilec::lang {

namespace {

constexpr std::size_t most = 9;                        // of any word, however long

// Letters that are missing, too many, others, or exchanged with their neighbour; letters that differ in case only are
// equal. `bound` where there are as many or more. What lies `bound` off the diagonal has that distance at least and is
// not looked at.
std::size_t distance(std::string_view a, std::string_view b, std::size_t bound) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= bound) return bound;
  const auto same = [&](std::size_t i, std::size_t j) {
    return std::tolower(static_cast<unsigned char>(a[i])) == std::tolower(static_cast<unsigned char>(b[j]));
  };
  std::vector<std::size_t> earlier(b.size() + 1, bound), before(b.size() + 1, bound), row(b.size() + 1, bound);
  for (std::size_t j = 0; j <= std::min(bound, b.size()); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::swap(earlier, before);
    std::swap(before, row);
    const std::size_t from = i + 1 > bound ? i + 1 - bound : 0, to = std::min(b.size(), i + 1 + bound);
    row[from] = from == 0 ? i + 1 : bound;
    std::size_t least = row[from];
    for (std::size_t j = from; j < to; ++j) {
      const std::size_t above = j + 1 < i + 1 + bound ? before[j + 1] : bound;
      row[j + 1] = std::min({before[j] + (same(i, j) ? 0 : 1), above + 1, row[j] + 1});
      if (i > 0 && j > from && same(i, j - 1) && same(i - 1, j)) row[j + 1] = std::min(row[j + 1], earlier[j - 1] + 1);
      least = std::min(least, row[j + 1]);
    }
    if (least >= bound) return bound;
  }
  return std::min(row.back(), bound);
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  // `J` for `j`, but not `J` for `M`; nor `cond` for `conv2d`
  std::size_t least = word.size() < 3 ? 1 : std::min((word.size() + 1) / 4 + 1, most);
  for (const std::string& candidate : candidates)
    if (const std::size_t d = distance(word, candidate, least); d < least) {
      least = d;
      best = candidate;
    }
  return best;
}

}  // namespace tilec::lang
