// The hull of each index of a conjunction of rows.
//
// Interval arithmetic solves each row for each of its indices, given the others' intervals, until nothing changes:
//   0 <= 2*x + k - 1 < 224 with 0 <= k < 3    gives    ceil(-1/2) = 0 <= x <= 112
// It never loses a point, but may keep a bound that no point attains: in 0 <= x + y < 5, 0 <= x - y < 5 it finds
// nothing at all. So a bound counts as exact only with a witness. One search (fix the index at its bound, tighten, fix
// the next) finds it at once in nearly every program, and its point witnesses other bounds too; a bound proven not
// attained moves inward and is tried again. What is left goes to isl, which is exact but may give up (solve.h).
#include "poly/hull.h"

#include <algorithm>
#include <numeric>

#include "poly/linear.h"

namespace tilec::poly {
namespace {

__extension__ using Wide = __int128;
constexpr Wide infinity = Wide{1} << 100;
constexpr std::int64_t limit = std::int64_t{1} << 62;

Wide floor_div(Wide a, Wide b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
Wide ceil_div(Wide a, Wide b) { return -floor_div(-a, b); }

// The least and greatest of c·i over an interval; ±infinity where open.
std::pair<Wide, Wide> span_of(std::int64_t c, const Interval& i) {
  const Wide low = i.lower ? Wide{*i.lower} * c : (c > 0 ? -infinity : infinity);
  const Wide high = i.upper ? Wide{*i.upper} * c : (c > 0 ? infinity : -infinity);
  return c > 0 ? std::pair{low, high} : std::pair{high, low};
}

struct Total { Wide finite = 0; int infinite = 0; };   // a sum of bounds, some of them infinite

bool infinite(Wide bound) { return bound >= infinity || bound <= -infinity; }
// A product of 64-bit numbers may be beyond `infinity`: such a bound counts as open, which is sound, and no sum leaves
// 128 bits.
void include(Total& total, Wide bound) { infinite(bound) ? ++total.infinite : total.finite += bound; }
void exclude(Total& total, Wide bound) { infinite(bound) ? --total.infinite : total.finite -= bound; }
// The sum without one of its terms; nullopt when it is infinite.
std::optional<Wide> without(const Total& total, Wide term) {
  const bool open = infinite(term);
  if (total.infinite - open > 0) return std::nullopt;
  return open ? total.finite : total.finite - term;
}

// c·i >= bound; returns whether an end moved. Multiplies first, since most rows move nothing and 128-bit division is
// slow.
bool at_least(Interval& i, Wide c, Wide bound) {
  std::optional<std::int64_t>& end = c > 0 ? i.lower : i.upper;
  if (end && Wide{*end} * c >= bound) return false;
  const Wide value = c > 0 ? ceil_div(bound, c) : floor_div(bound, c);
  if (value < -limit || value > limit) return false;
  end = static_cast<std::int64_t>(value);
  return true;
}

bool is_empty(const Interval& i) { return i.lower && i.upper && *i.lower > *i.upper; }

// One row solved for each of its indices. Returns whether some interval shrank.
bool tighten_by(const Row& row, Box& box) {
  const Wide top = row.extent ? Wide{row.divisor} * (Wide{*row.extent} - 1) : infinity;
  Total least, greatest;
  for (std::size_t k = 0; k < row.coefficients.size(); ++k) {
    if (row.coefficients[k] == 0) continue;
    const auto [low, high] = span_of(row.coefficients[k], box.index[k]);
    include(least, low);
    include(greatest, high);
  }
  if ((greatest.infinite == 0 && greatest.finite + row.constant < 0) ||
      (least.infinite == 0 && least.finite + row.constant > top)) {
    box.empty = true;
    return false;
  }
  if (least.infinite == 0 && greatest.infinite == 0 && least.finite + row.constant >= 0 &&
      greatest.finite + row.constant <= top)
    return false;
  bool changed = false;
  for (std::size_t k = 0; k < row.coefficients.size(); ++k) {
    const std::int64_t c = row.coefficients[k];
    if (c == 0) continue;
    const auto [low, high] = span_of(c, box.index[k]);
    bool moved = false;
    if (const std::optional<Wide> rest = without(greatest, high))
      moved |= at_least(box.index[k], c, -(*rest + row.constant));
    const std::optional<Wide> rest = without(least, low);                    // c·i <= top - (rest + e)
    if (rest && row.extent) moved |= at_least(box.index[k], -Wide{c}, *rest + row.constant - top);
    if (!moved) continue;
    if (is_empty(box.index[k])) {
      box.empty = true;
      return false;
    }
    changed = true;
    exclude(least, low);
    exclude(greatest, high);
    const auto [new_low, new_high] = span_of(c, box.index[k]);
    include(least, new_low);
    include(greatest, new_high);
  }
  return changed;
}

// Values of an index worth trying: the ends first, then inward, since rows bind at the ends.
std::int64_t candidate(const Interval& i, int attempt) {
  return attempt % 2 == 0 ? *i.lower + attempt / 2 : *i.upper - attempt / 2;
}

std::optional<std::size_t> narrowest_open(const Box& box) {
  std::optional<std::size_t> best;
  Wide width = infinity;
  for (std::size_t k = 0; k < box.index.size(); ++k) {
    const Wide here = Wide{*box.index[k].upper} - *box.index[k].lower;
    if (here > 0 && here < width) {
      best = k;
      width = here;
    }
  }
  return best;
}

bool bounded(const Box& box) {
  return std::all_of(box.index.begin(), box.index.end(), [](const Interval& i) { return i.lower && i.upper; });
}

// Moves one end of one index inward until a point attains it. False when the budget (of rows looked at) ended first.
bool settle(const std::vector<Row>& rows, Box& box, std::size_t k, bool upper, std::vector<Point>& witnesses,
    std::int64_t& budget) {
  for (int step = 0; step < 16 && budget > 0; ++step) {
    const std::int64_t end = upper ? *box.index[k].upper : *box.index[k].lower;
    if (std::any_of(witnesses.begin(), witnesses.end(), [&](const Point& p) { return p[k] == end; })) return true;
    Box fixed = box;
    fixed.index[k] = {end, end};
    budget -= tighten(rows, fixed);
    std::int64_t share = std::min<std::int64_t>(budget, 2'000);
    budget -= share;
    bool proven = fixed.empty;
    const std::optional<Point> point = fixed.empty ? std::nullopt : find_point(rows, fixed, share, proven);
    budget += std::max<std::int64_t>(share, 0);
    if (point) {
      witnesses.push_back(*point);
      return true;
    }
    if (!proven) return false;
    if (upper) --*box.index[k].upper;
    else ++*box.index[k].lower;
    if (is_empty(box.index[k])) {
      box.empty = true;
      return true;
    }
    budget -= tighten(rows, box);
    if (box.empty) return true;
  }
  return false;
}

void intersect(Box& box, const Box& other) {
  box.empty = box.empty || other.empty;
  for (std::size_t k = 0; k < box.index.size(); ++k) {
    Interval& mine = box.index[k];
    const Interval& theirs = other.index[k];
    if (theirs.lower && (!mine.lower || *theirs.lower > *mine.lower)) mine.lower = theirs.lower;
    if (theirs.upper && (!mine.upper || *theirs.upper < *mine.upper)) mine.upper = theirs.upper;
    box.empty = box.empty || is_empty(mine);
  }
}

// True when every end is attained (or the box is proven empty).
bool settle_all(const std::vector<Row>& rows, Box& box) {
  std::vector<Point> witnesses;
  std::int64_t budget = 12'000;                        // about a millisecond
  for (Box before; before.index != box.index;) {       // a moved end may take another's witness with it
    before = box;
    std::erase_if(witnesses, [&](const Point& p) {
      for (std::size_t k = 0; k < p.size(); ++k)
        if (p[k] < *box.index[k].lower || p[k] > *box.index[k].upper) return true;
      return false;
    });
    for (std::size_t k = 0; k < box.index.size(); ++k)
      for (const bool upper : {false, true}) {
        if (!settle(rows, box, k, upper, witnesses, budget)) return false;
        if (box.empty) return true;
      }
  }
  return true;
}

// Is there an integer point in the box where the rows hold and 0 <= sign·(c·i + e) + shift? False is a proof.
bool possible(const Row& row, std::int64_t sign, std::int64_t shift, const std::vector<Row>& rows, const Box& box) {
  std::vector<Row> all(rows);
  Row asked{row.coefficients, 0, 1, std::nullopt};
  std::int64_t constant;
  if (__builtin_mul_overflow(sign, row.constant, &constant) || __builtin_add_overflow(constant, shift, &asked.constant))
    return true;
  for (std::int64_t& c : asked.coefficients)
    if (__builtin_mul_overflow(c, sign, &c)) return true;
  all.push_back(std::move(asked));
  Box left = box;
  tighten(all, left);
  return !left.empty;
}

// Is row `a` implied by row `b`: the same form up to a constant or sign, and a range inside?
bool implied_by(const Row& a, const Row& b) {
  if (a.divisor != b.divisor) return false;
  const bool same = a.coefficients == b.coefficients;
  const bool negated = std::equal(a.coefficients.begin(), a.coefficients.end(), b.coefficients.begin(),
      [](auto x, auto y) { return Wide{x} == -Wide{y}; });
  if (!same && !negated) return false;
  const Wide shift = same ? Wide{a.constant} - b.constant : Wide{a.constant} + b.constant;   // v_a = ±v_b + shift
  if (shift % a.divisor != 0) return false;
  const Wide top_a = a.extent ? Wide{a.divisor} * (Wide{*a.extent} - 1) : infinity;
  const Wide top_b = b.extent ? Wide{b.divisor} * (Wide{*b.extent} - 1) : infinity;
  const Wide low = same ? shift : shift - top_b, high = same ? shift + top_b : shift;
  return low >= 0 && high <= top_a;
}

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

Row normal(Row row) {                                  // divided by what coefficients, constant and divisor share
  std::uint64_t common = std::gcd(magnitude(row.divisor), magnitude(row.constant));
  for (const std::int64_t c : row.coefficients) common = std::gcd(common, magnitude(c));
  if (common <= 1 || common > INT64_MAX) return row;
  const auto g = static_cast<std::int64_t>(common);
  for (std::int64_t& c : row.coefficients) c /= g;
  row.constant /= g;
  row.divisor /= g;
  return row;
}

}  // namespace

Row row_of(const Range& range) {
  Row row;
  for (const Size& c : range.value.coefficients) row.coefficients.push_back(c.get());
  row.constant = range.value.constant.get();
  row.divisor = range.value.divisor.get();
  if (range.extent) row.extent = range.extent->get();
  if (row.divisor < 0) {
    row.divisor = (-Exact(row.divisor)).get();
    row.constant = (-Exact(row.constant)).get();
    for (std::int64_t& c : row.coefficients) c = (-Exact(c)).get();
  }
  return normal(std::move(row));
}

Range range_of(const Row& row) {
  Range range;
  for (const std::int64_t c : row.coefficients) range.value.coefficients.push_back(c);
  range.value.constant = row.constant;
  range.value.divisor = row.divisor;
  if (row.extent) range.extent = *row.extent;
  return range;
}

std::vector<Row> rows_of(const Statement& statement) {
  std::vector<Row> rows;
  for (const Range& range : statement.domain) rows.push_back(row_of(range));
  return rows;
}

bool holds(const Row& row, const Point& point) {
  Wide value = row.constant;
  for (std::size_t k = 0; k < point.size(); ++k)
    if (__builtin_add_overflow(value, Wide{row.coefficients[k]} * point[k], &value))
      throw Overflow("a row of the domain does not fit 128 bits");
  return value >= 0 && value % row.divisor == 0 && (!row.extent || value / row.divisor < *row.extent);
}

std::int64_t tighten(const std::vector<Row>& rows, Box& box) {
  int rounds = 0;
  for (bool changed = true; changed && !box.empty && rounds < 40; ++rounds) {
    changed = false;
    for (const Row& row : rows) {
      changed = tighten_by(row, box) || changed;
      if (box.empty) break;
    }
  }
  return (rounds + 1) * static_cast<std::int64_t>(rows.size() + 1);
}

std::optional<Point> find_point(const std::vector<Row>& rows, const Box& box, std::int64_t& budget, bool& proven) {
  const std::optional<std::size_t> open = narrowest_open(box);
  if (!open) {
    Point point;
    for (const Interval& i : box.index) point.push_back(*i.lower);
    proven = !std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return holds(row, point); });
    return proven ? std::nullopt : std::optional(point);
  }
  const Wide count = Wide{*box.index[*open].upper} - *box.index[*open].lower + 1;
  proven = true;
  for (int attempt = 0; attempt < count; ++attempt) {
    if (budget < 0) {
      proven = false;
      return std::nullopt;
    }
    Box fixed = box;
    const std::int64_t value = candidate(box.index[*open], attempt);
    fixed.index[*open] = {value, value};
    budget -= tighten(rows, fixed);
    bool none = fixed.empty;
    if (std::optional<Point> point = none ? std::nullopt : find_point(rows, fixed, budget, none)) return point;
    proven = proven && none;
    if (!proven) return std::nullopt;
  }
  return std::nullopt;
}

bool implied(const Row& row, const Box& box) {
  Wide least = row.constant, greatest = row.constant;
  bool exact = row.constant % row.divisor == 0;        // one value per index: no division is left
  for (std::size_t k = 0; k < row.coefficients.size(); ++k) {
    const std::int64_t c = row.coefficients[k];
    if (c == 0) continue;
    if (!box.index[k].lower || !box.index[k].upper) return false;
    const auto [low, high] = span_of(c, box.index[k]);
    if (infinite(low) || infinite(high)) return false;
    least += low;
    greatest += high;
    exact = exact && c % row.divisor == 0;
  }
  if (least == greatest) exact = least % row.divisor == 0;
  return exact && least >= 0 && (!row.extent || greatest <= Wide{row.divisor} * (Wide{*row.extent} - 1));
}

bool follows(const Row& row, const std::vector<Row>& rows, const Box& box) {
  if (box.empty || implied(row, box)) return true;
  if (std::any_of(rows.begin(), rows.end(), [&](const Row& other) { return implied_by(row, other); })) return true;
  if (row.divisor != 1) return false;
  return !possible(row, -1, -1, rows, box) &&
      (!row.extent || *row.extent == INT64_MIN || !possible(row, 1, -*row.extent, rows, box));
}

Box hull(const std::vector<Row>& rows, std::size_t indices, unsigned long patience) {
  Box box{false, std::vector<Interval>(indices)};
  tighten(rows, box);
  if (box.empty) return box;
  if (bounded(box) && std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return implied(row, box); }))
    return box;
  if (bounded(box) && (settle_all(rows, box) || box.empty)) return box;
  const std::optional<Box> rational = rational_hull(rows, indices);
  if (rational) {
    intersect(box, *rational);
    if (!box.empty) tighten(rows, box);
    if (box.empty || !bounded(box)) return box;        // what no linear program bounds, nothing does
    settle_all(rows, box);
    return box;
  }
  if (patience == 0 && bounded(box)) return box;
  const std::optional<solve::Hull> exact = solve::hull(rows, indices, bounded(box) ? patience : solve::operation_cap);
  if (!exact) return box;
  if (exact->empty) box.empty = true;
  else box.index = exact->index;
  return box;
}

std::vector<Range> bounded_domain(const std::vector<Range>& domain, const Box& hull) {
  const std::size_t n = hull.index.size();
  std::vector<Range> result;
  for (std::size_t k = 0; k < n; ++k) {
    const std::int64_t low = hull.empty ? 0 : *hull.index[k].lower;
    const std::int64_t extent = hull.empty ? 0 : (Exact(*hull.index[k].upper) - low + 1).get();
    Row row{std::vector<std::int64_t>(n, 0), -low, 1, extent};
    row.coefficients[k] = 1;
    result.push_back(range_of(row));
  }
  if (hull.empty) {
    if (n == 0) result.push_back(range_of(Row{{}, 0, 1, 0}));              // no index to carry the empty extent
    return result;
  }
  // A row may go when it and every row gone before it still follow from what stays: verify() asks again, from there
  // only.
  std::vector<Row> kept, gone;
  for (const Range& range : domain) {
    const Row row = row_of(range);
    if (!implied(row, hull)) kept.push_back(row);
  }
  for (std::size_t at = kept.size(); at-- > 0;) {
    std::vector<Row> others(kept), proven(gone);
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
    proven.push_back(kept[at]);
    if (!std::all_of(proven.begin(), proven.end(), [&](const Row& row) { return follows(row, others, hull); }))
      continue;
    kept = std::move(others);
    gone = std::move(proven);
  }
  for (const Row& row : kept) result.push_back(range_of(row));
  return result;
}

}  // namespace tilec::poly
