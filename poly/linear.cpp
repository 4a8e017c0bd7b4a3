// The simplex method on one dictionary for all 2n questions, in integers: entries are minors of the rows over one
// common denominator, so a pivot multiplies and divides without remainder (Edmonds; Bareiss) and nothing is rounded.
//
// Every row 0 <= c·i + e <= d(R - 1) is two slacks that are not negative. First each index is solved for by a slack
// (Gauss), so that the columns are slacks too; what remains a column is a direction in which nothing happens. Then
// slacks below zero are pivoted up by Bland's rule (no column helps: empty), and each index is driven up and down from
// where the last one ended, a few pivots each.
#include "poly/linear.h"

#include <algorithm>
#include <numeric>

namespace tilec::poly {
namespace {

__extension__ using Wide = __int128;

constexpr int pivot_cap = 400;
constexpr int steepest_for = 30;                       // pivots per question by the largest coefficient; then Bland's
                                                       // rule, which ends

struct GaveUp {};

// (a·b - c·d)/e, which divides.
Wide cross(Wide a, Wide b, Wide c, Wide d, Wide e) {
  Wide left, right, sum;
  if (__builtin_mul_overflow(a, b, &left) || __builtin_mul_overflow(c, d, &right) ||
      __builtin_sub_overflow(left, right, &sum))
    throw GaveUp{};
  return e == 1 ? sum : sum / e;
}
Wide floor_div(Wide a, Wide b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

// value of row r = (constant + Σ entry·column)/denominator. Labels: index k is k, slack s is n + s.
struct Dictionary {
  struct Line { std::size_t label; Wide constant; std::vector<Wide> entries; };
  std::size_t n = 0;
  Wide denominator = 1;
  std::vector<Line> rows;
  std::vector<std::size_t> columns;                    // labels
  int pivots = 0;

  bool is_slack(std::size_t label) const { return label >= n; }

  void pivot(std::size_t r, std::size_t j) {
    if (++pivots > pivot_cap) throw GaveUp{};
    const Line by = rows[r];
    const Wide p = by.entries[j], d = denominator, sign = p < 0 ? -1 : 1;
    const bool scaled = sign * p != d;                 // else only what `by` adds to changes: of sparse rows little
    for (std::size_t s = 0; s < rows.size(); ++s) {
      Line& row = rows[s];
      if (s == r) continue;
      const Wide factor = row.entries[j];
      if (factor == 0 && !scaled) continue;
      row.constant = sign * cross(p, row.constant, factor, by.constant, d);
      for (std::size_t l = 0; l < row.entries.size(); ++l) {
        const bool added = factor != 0 && by.entries[l] != 0;
        if (l == j) row.entries[l] = sign * factor;
        else if (added || (scaled && row.entries[l] != 0))
          row.entries[l] = sign * cross(p, row.entries[l], factor, by.entries[l], d);
      }
    }
    rows[r].constant = -sign * by.constant;
    for (std::size_t l = 0; l < by.entries.size(); ++l) rows[r].entries[l] = l == j ? sign * d : -sign * by.entries[l];
    denominator = sign * p;
    std::swap(rows[r].label, columns[j]);
  }
};

Dictionary dictionary_of(const std::vector<Row>& rows, std::size_t n) {
  Dictionary result;
  result.n = n;
  for (std::size_t k = 0; k < n; ++k) result.columns.push_back(k);
  const auto add = [&](const Row& row, Wide sign, Wide constant) {
    std::vector<Wide> entries;
    for (const std::int64_t c : row.coefficients) entries.push_back(sign * c);
    result.rows.push_back({n + result.rows.size(), constant, std::move(entries)});
  };
  for (const Row& row : rows) {
    add(row, 1, row.constant);
    if (row.extent) add(row, -1, Wide{row.divisor} * (Wide{*row.extent} - 1) - row.constant);
  }
  return result;
}

// Each index leaves the columns where some slack mentions it.
void solve_for_indices(Dictionary& dictionary) {
  for (std::size_t j = 0; j < dictionary.columns.size(); ++j)
    for (std::size_t r = 0; r < dictionary.rows.size(); ++r)
      if (dictionary.is_slack(dictionary.rows[r].label) && dictionary.rows[r].entries[j] != 0) {
        dictionary.pivot(r, j);
        break;
      }
}

// No slack below zero afterwards; false when that cannot be.
bool make_feasible(Dictionary& dictionary) {
  for (;;) {
    std::optional<std::size_t> leaving, entering;
    for (std::size_t r = 0; r < dictionary.rows.size(); ++r) {
      const Dictionary::Line& row = dictionary.rows[r];
      if (dictionary.is_slack(row.label) && row.constant < 0 &&
          (!leaving || row.label < dictionary.rows[*leaving].label))
        leaving = r;
    }
    if (!leaving) return true;
    for (std::size_t j = 0; j < dictionary.columns.size(); ++j)
      if (dictionary.rows[*leaving].entries[j] > 0 &&
          (!entering || dictionary.columns[j] < dictionary.columns[*entering]))
        entering = j;
    if (!entering) return false;
    dictionary.pivot(*leaving, *entering);
  }
}

// The slack that first becomes zero when column j grows.
std::optional<std::size_t> first_to_leave(const Dictionary& dictionary, std::size_t j) {
  std::optional<std::size_t> best;
  for (std::size_t r = 0; r < dictionary.rows.size(); ++r) {
    const Dictionary::Line& row = dictionary.rows[r];
    if (!dictionary.is_slack(row.label) || row.entries[j] >= 0) continue;
    if (best) {                                        // constant/-entry against the best so far
      const Dictionary::Line& other = dictionary.rows[*best];
      const Wide difference = cross(row.constant, -other.entries[j], other.constant, -row.entries[j], 1);
      if (difference > 0 || (difference == 0 && row.label > other.label)) continue;
    }
    best = r;
  }
  return best;
}

// The greatest value of sign·index; nullopt for infinity.
std::optional<Wide> greatest(Dictionary& dictionary, std::size_t index, Wide sign) {
  const auto at = std::find_if(
      dictionary.rows.begin(), dictionary.rows.end(), [&](const Dictionary::Line& row) { return row.label == index; });
  if (at == dictionary.rows.end()) return std::nullopt;                      // still a column: nothing mentions it
  const auto r = static_cast<std::size_t>(at - dictionary.rows.begin());
  for (int step = 0;; ++step) {
    std::optional<std::size_t> entering;
    for (std::size_t j = 0; j < dictionary.columns.size(); ++j) {
      const Wide gain = sign * dictionary.rows[r].entries[j];
      if (gain != 0 && !dictionary.is_slack(dictionary.columns[j])) return std::nullopt;
      if (gain <= 0) continue;
      const bool better = !entering ||
          (step < steepest_for ? gain > sign * dictionary.rows[r].entries[*entering]
                               : dictionary.columns[j] < dictionary.columns[*entering]);
      if (better) entering = j;
    }
    if (!entering) return floor_div(sign * dictionary.rows[r].constant, dictionary.denominator);
    const std::optional<std::size_t> leaving = first_to_leave(dictionary, *entering);
    if (!leaving) return std::nullopt;
    dictionary.pivot(*leaving, *entering);
  }
}

std::optional<std::int64_t> narrow(const std::optional<Wide>& value) {
  constexpr Wide limit = Wide{1} << 62;
  if (!value || *value > limit || *value < -limit) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

}  // namespace

std::optional<Box> rational_hull(const std::vector<Row>& rows, std::size_t indices) try {
  Dictionary dictionary = dictionary_of(rows, indices);
  Box box{false, std::vector<Interval>(indices)};
  solve_for_indices(dictionary);
  if (!make_feasible(dictionary)) return Box{true, std::vector<Interval>(indices)};
  for (std::size_t k = 0; k < indices; ++k) {
    dictionary.pivots = 0;
    box.index[k].upper = narrow(greatest(dictionary, k, 1));
    box.index[k].lower = narrow(greatest(dictionary, k, -1));
    if (box.index[k].lower) box.index[k].lower = -*box.index[k].lower;
    box.empty = box.empty || (box.index[k].lower && box.index[k].upper && *box.index[k].lower > *box.index[k].upper);
  }
  return box;
} catch (const GaveUp&) {
  return std::nullopt;
}

}  // namespace tilec::poly
