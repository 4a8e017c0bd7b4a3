// Enumerates a domain depth first.
//
// A row 0 <= c·i + e < R bounds each of its indices as soon as the others are known, or lie in known intervals. First
// the intervals: every row tightens every index until nothing changes (`0 <= i + j < 8` with j in [0, 3) gives i in
// [-2, 8)). Rows like `0 <= i + j < 8, 0 <= i - j < 8` never start that way, for neither index is bounded alone; there
// isl is asked. Then the loops: with the outer indices fixed, each row gives the next index its exact interval over
// what inner intervals allow, so the innermost loop runs over points of the domain only. Where divisors ask that
// c·i + rest be a multiple of d, the congruences of an index are solved together (Chinese remainders), and it goes in
// steps: `i/1000000007` reads one i in a billion.
#include "poly/points.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lang/diagnostic.h"
#include "poly/solve.h"

namespace tilec::poly {
namespace {

__extension__ using Wide = __int128;

constexpr Wide infinite = Wide{1} << 120;              // beyond any sum of products of 64-bit numbers of a sane program

constexpr unsigned long patience = 100'000'000;        // operations of isl; the oracle may wait

struct Bounded {
  std::vector<std::int64_t> coefficients;
  std::int64_t constant, divisor;
  Wide limit;                                          // of the numerator: 0 <= numerator <= limit
  std::size_t last = 0;                                // one past the last index it mentions
  std::size_t mentioned = 0;                           // how many
};

struct Reach { Wide low = -infinite, high = infinite; };

Wide floor_div(Wide a, Wide b) {
  const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
  if (b == 1) return a;
  if (x == a && y == b && y > 0) return x / y - (x % y < 0);  // 128 bits take ten times as long
  return a / b - ((a % b != 0) && ((a % b < 0) != (b < 0)));
}
Wide ceil_div(Wide a, Wide b) { return -floor_div(-a, b); }

Wide saturated_product(Wide a, Wide b) {
  Wide product;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? infinite : -infinite;
  return std::clamp(product, -infinite, infinite);
}

Reach scaled(const Reach& x, Wide factor) {
  if (factor == 0) return {0, 0};
  const Wide low = saturated_product(x.low, factor), high = saturated_product(x.high, factor);
  return factor > 0 ? Reach{low, high} : Reach{high, low};
}

Wide sum(Wide a, Wide b) {
  if (a <= -infinite || b <= -infinite) return -infinite;
  if (a >= infinite || b >= infinite) return infinite;
  return a + b;
}

Wide modulo(Wide a, Wide m) { return a % m < 0 ? a % m + m : a % m; }

// x with a·x ≡ 1 modulo m; a and m have no common divisor.
Wide inverse(Wide a, Wide m) {
  Wide r = m, next_r = modulo(a, m), t = 0, next_t = 1;
  while (next_r != 0) {
    const Wide q = r / next_r;
    r = std::exchange(next_r, r - q * next_r);
    t = std::exchange(next_t, t - q * next_t);
  }
  return modulo(t, m);
}

Wide gcd(Wide a, Wide b) { return b == 0 ? a : gcd(b, a % b); }

// Values start, start + step, … of an index, as far as they are below 2^64 or so: a step that is longer than any range
// is not made longer.
struct Steps {
  Wide start = 0, step = 1;
  bool empty = false;

  // Of these, those at which coefficient·x + rest is a multiple of `divisor`.
  void keep(std::int64_t coefficient, Wide rest, std::int64_t divisor) {
    const Wide d = divisor, c = modulo(coefficient, d) * modulo(step, d) % d,
               wanted = modulo(-modulo(rest, d) - modulo(coefficient, d) * modulo(start, d), d);
    const Wide common = gcd(c, d), period = d / common;
    empty = empty || wanted % common != 0;
    if (empty || period == 1) return;
    const Wide turns = wanted / common * inverse(c / common, period) % period;
    start += step * turns;
    step *= period;
  }

  Wide from(Wide low) const { return low + modulo(start - low, step); }
};

Bounded row_of(const Range& range, std::size_t indices) {
  Bounded row{{}, range.value.constant.get(), range.value.divisor.get(), infinite};
  if (row.divisor <= 0) throw lang::InternalError("a row of a domain has a divisor that is not positive");
  for (std::size_t k = 0; k < indices; ++k) {
    row.coefficients.push_back(range.value.coefficients.at(k).get());
    if (row.coefficients[k] == 0) continue;
    row.last = k + 1;
    ++row.mentioned;
  }
  if (range.extent) row.limit = (Wide{range.extent->get()} - 1) * row.divisor;
  return row;
}

class Enumeration {
 public:
  Enumeration(const std::vector<Range>& domain, std::size_t indices, const Visit& visit)
      : count_(indices), visit_(visit), hull_(indices), narrowing_(indices), dividing_(indices), point_(indices) {
    for (const auto& range : domain) rows_.push_back(row_of(range, indices));
    for (const auto& row : rows_)
      if (row.last > 0 && row.divisor != 1) dividing_[row.last - 1].push_back(&row);
  }

  void run() {
    if (!find_hull()) return;
    if (count_ == 0) return visit_(point_, 0, 0);
    for (std::size_t k = 0; k < count_; ++k)
      // What a row says of its only index is in the hull.
      for (const auto& row : rows_)
        if (row.coefficients[k] != 0 && row.mentioned > 1) narrowing_[k].push_back(&row);
    walk(0);
  }

  Extent box() {
    if (!find_hull()) return {};
    Extent extent{1, 1};
    for (std::size_t k = 0; k < count_; ++k) {
      const double values = values_of(k);
      extent.points *= values;
      if (k + 1 < count_ || !dividing_[k].empty()) extent.runs *= values;
    }
    return extent;
  }

 private:
  // Of index k in the hull, about; no fewer where rows with a divisor mention no other.
  double values_of(std::size_t k) const {
    const auto& [low, high] = hull_[k];
    const bool alone =
        std::all_of(dividing_[k].begin(), dividing_[k].end(), [](const Bounded* row) { return row->mentioned == 1; });
    const Steps steps = steps_of(k, hull_[k]);
    if (!alone) return std::max(1.0, static_cast<double>(high - low + 1) / static_cast<double>(steps.step));
    const Wide first = steps.from(low);
    if (steps.empty || first > high) return 0;
    const Wide count = (high - first) / steps.step + 1;
    return static_cast<double>(count);
  }

  // False when the domain is empty.
  bool find_hull() { return constants_hold() && (count_ == 0 || (tighten() && (bounded() || ask_isl()))); }

  bool constants_hold() const {
    return std::all_of(rows_.begin(), rows_.end(), [](const Bounded& row) {
      return row.last > 0 || (row.constant >= 0 && row.constant <= row.limit && row.constant % row.divisor == 0);
    });
  }

  bool bounded() const {
    return std::all_of(
        hull_.begin(), hull_.end(), [](const Reach& x) { return x.low > -infinite && x.high < infinite; });
  }

  // What row allows index k, where the others lie in `hull`. False when nothing.
  bool narrow(const Bounded& row, std::size_t k, const std::vector<Reach>& hull, Reach& x) const {
    Reach rest{row.constant, row.constant};
    for (std::size_t j = 0; j < count_; ++j) {
      if (j == k || row.coefficients[j] == 0) continue;
      const auto part = scaled(hull[j], row.coefficients[j]);
      rest = {sum(rest.low, part.low), sum(rest.high, part.high)};
    }
    // 0 - rest.high <= c·x <= limit - rest.low
    const Wide c = row.coefficients[k];
    const Wide least = rest.high >= infinite ? -infinite : -rest.high;
    const Wide most = row.limit >= infinite || rest.low <= -infinite ? infinite : row.limit - rest.low;
    if (least > -infinite)
      (c > 0 ? x.low : x.high) = c > 0 ? std::max(x.low, ceil_div(least, c)) : std::min(x.high, floor_div(least, c));
    if (most < infinite)
      (c > 0 ? x.high : x.low) = c > 0 ? std::min(x.high, floor_div(most, c)) : std::max(x.low, ceil_div(most, c));
    return x.low <= x.high;
  }

  // Rational hulls may take forever to converge; any interval that holds the domain will do.
  bool tighten() {
    for (int round = 0; round < 100; ++round) {
      bool changed = false;
      for (const auto& row : rows_)
        for (std::size_t k = 0; k < row.last; ++k) {
          if (row.coefficients[k] == 0) continue;
          const auto before = hull_[k];
          if (!narrow(row, k, hull_, hull_[k])) return false;
          changed |= before.low != hull_[k].low || before.high != hull_[k].high;
        }
      if (!changed) break;
    }
    return true;
  }

  bool ask_isl();

  void walk(std::size_t k) {
    Reach x = hull_[k];
    for (const auto* row : narrowing_[k])
      if (!narrow(*row, k, hull_, x)) return;
    const auto low = static_cast<std::int64_t>(x.low), high = static_cast<std::int64_t>(x.high);
    const bool innermost = k + 1 == count_;
    if (innermost && dividing_[k].empty()) return visit_(point_, low, high);
    const Steps steps = steps_of(k, x);
    if (steps.empty) return;
    const auto saved = hull_[k];
    for (Wide value = steps.from(low); value <= high; value += steps.step) {
      const auto here = static_cast<std::int64_t>(value);
      point_[k] = here;
      if (innermost) {
        visit_(point_, here, here);
        continue;
      }
      hull_[k] = {value, value};
      walk(k + 1);
      hull_[k] = saved;
    }
  }

  // Where the rows that mention no later index divide.
  Steps steps_of(std::size_t k, const Reach& x) const {
    Steps steps;
    for (const auto* row : dividing_[k]) {
      Wide rest = row->constant;
      for (std::size_t j = 0; j < k; ++j) rest += Wide{row->coefficients[j]} * point_[j];
      if (steps.step <= x.high - x.low) {
        steps.keep(row->coefficients[k], rest, row->divisor);
        continue;
      }
      const Wide only = steps.from(x.low);             // at most one is left
      steps.empty = steps.empty || only > x.high || (rest + row->coefficients[k] * only) % row->divisor != 0;
    }
    return steps;
  }

  std::size_t count_;
  const Visit& visit_;
  std::vector<Bounded> rows_;
  std::vector<Reach> hull_;                            // of an index that is fixed: its value
  std::vector<std::vector<const Bounded*>> narrowing_; // of each index: the rows that say more of it where others are
                                                       // fixed
  std::vector<std::vector<const Bounded*>> dividing_;  // of each index: the rows with a divisor whose last it is
  std::vector<std::int64_t> point_;
};

// False when the domain is empty. That a divisor divides is left out, which only makes the intervals longer.
bool Enumeration::ask_isl() {
  std::vector<Row> rows;
  for (const auto& row : rows_) {
    Row asked{row.coefficients, row.constant, 1, std::nullopt};
    if (row.limit < INT64_MAX) asked.extent = static_cast<std::int64_t>(row.limit + 1);
    rows.push_back(std::move(asked));
  }
  const auto answer = solve::hull(rows, count_, patience);
  if (answer && answer->empty) return false;
  for (std::size_t k = 0; k < count_; ++k) {
    if (answer && answer->index[k].lower) hull_[k].low = std::max(hull_[k].low, Wide{*answer->index[k].lower});
    if (answer && answer->index[k].upper) hull_[k].high = std::min(hull_[k].high, Wide{*answer->index[k].upper});
  }
  if (!bounded()) throw lang::InternalError("a domain to be enumerated has an index that nothing bounds");
  return true;
}

}  // namespace

void for_each_run(const std::vector<Range>& domain, std::size_t indices, const Visit& visit) {
  Enumeration(domain, indices, visit).run();
}

Extent points_at_most(const std::vector<Range>& domain, std::size_t indices) {
  return Enumeration(domain, indices, {}).box();
}

}  // namespace tilec::poly
