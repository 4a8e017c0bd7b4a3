#include "codegen/elements.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "codegen/part.h"

namespace tilec::codegen {

namespace {

using poly::Affine;
using poly::Statement;

constexpr std::int64_t large = std::int64_t{1} << 28;  // with what is smaller, no product of two overflows
constexpr int most_rounds = 8;                         // of bounds that follow from bounds

bool small(const Affine& e) {
  return e.divisor.is(1) && std::abs(e.constant.get()) < large &&
      std::ranges::all_of(e.coefficients, [](const poly::Size& c) { return std::abs(c.get()) < large; });
}

std::int64_t floor_of(std::int64_t a, std::int64_t d) { return a / d - (a % d < 0); }

// A row over other places: q of dimension d is scale · q + shift.
void replace(AtLeast0& row, std::size_t d, std::int64_t scale, std::int64_t shift) {
  row.constant += row.coefficients[d] * shift;
  row.coefficients[d] *= scale;
}

// The values from `from` on, so many, every `step`-th, of a dimension.
void cut(Elements& part, std::size_t d, std::int64_t from, std::int64_t count, std::int64_t step = 1) {
  Side& side = part.sides[d];
  for (AtLeast0& row : part.rows) replace(row, d, step, from);
  side = {side.first + side.step * from, side.step * step, std::max<std::int64_t>(0, count)};
}

struct Span { std::int64_t least, most; };
Span span_of(const Elements& part, const AtLeast0& row) {
  Span span{row.constant, row.constant};
  for (std::size_t d = 0; d < part.sides.size(); ++d) {
    const std::int64_t c = row.coefficients[d], end = c * (part.sides[d].count - 1);
    (c > 0 ? span.most : span.least) += end;
  }
  return span;
}

// Bounds of one dimension that a row leaves; true: they are closer.
bool bound(Elements& part, std::size_t at, std::size_t d) {
  const AtLeast0& row = part.rows[at];
  const std::int64_t c = row.coefficients[d], count = part.sides[d].count;
  if (c == 0) return false;
  // c q + rest >= 0, where rest is at most this
  const std::int64_t rest = span_of(part, row).most - std::max<std::int64_t>(0, c * (count - 1));
  const std::int64_t low = c > 0 ? std::max<std::int64_t>(0, -floor_of(rest, c)) : 0,
                     high = c > 0 ? count : std::min(count, floor_of(rest, -c) + 1);
  if (low == 0 && high == count) return false;
  cut(part, d, low, high - low);
  return true;
}

bool no_elements(const Elements& part) {
  return std::ranges::any_of(part.sides, [](const Side& side) { return side.count <= 0; });
}

// Two rows of which one is at most what makes the other one false.
bool contradict(const AtLeast0& a, const AtLeast0& b) {
  for (std::size_t d = 0; d < a.coefficients.size(); ++d)
    if (a.coefficients[d] != -b.coefficients[d]) return false;
  return a.constant + b.constant < 0;
}

// The sides as close as rows leave them, without rows that they imply. False: nothing is left.
bool tighten(Elements& part) {
  if (no_elements(part)) return false;
  for (std::size_t a = 0; a < part.rows.size(); ++a)
    for (std::size_t b = a + 1; b < part.rows.size(); ++b) if (contradict(part.rows[a], part.rows[b])) return false;
  bool closer = true;
  for (int round = 0; closer && round < most_rounds; ++round) {
    closer = false;
    for (std::size_t at = 0; at < part.rows.size(); ++at) {
      if (span_of(part, part.rows[at]).most < 0) return false;
      for (std::size_t d = 0; d < part.sides.size(); ++d) closer = bound(part, at, d) || closer;
      if (no_elements(part)) return false;
    }
  }
  std::erase_if(part.rows, [&](const AtLeast0& row) { return span_of(part, row).least >= 0; });
  return std::ranges::none_of(part.rows, [&](const AtLeast0& row) { return span_of(part, row).most < 0; });
}

// Cuts one side of `part` to what `side` has of it; what is outside goes to `outside`, each for itself. False: they do
// not fit. Nothing in common: the side is empty.
bool meet(Elements& part, std::size_t d, const Side& side, std::vector<Elements>& outside) {
  const auto leave = [&](const Elements& one) { if (!no_elements(one)) outside.push_back(one); };
  if (part.sides[d].count == 1) part.sides[d].step = 1;
  const std::int64_t own = part.sides[d].count == 1 ? side.step : part.sides[d].step,
                     other = side.count == 1 ? own : side.step;
  if (own % other != 0 && other % own != 0) return false;
  if (other > own) {                                   // each other residue
    const std::int64_t times = other / own;
    const Elements all = part;
    const std::int64_t count = all.sides[d].count;
    bool found = false;
    for (std::int64_t r = 0; r < std::min(times, count); ++r) {
      Elements one = all;
      cut(one, d, r, (count - r + times - 1) / times, times);
      if ((one.sides[d].first - side.first) % other == 0) part = std::move(one), found = true;
      else leave(one);
    }
    if (!found) return part.sides[d].count = 0, true;
  } else if ((part.sides[d].first - side.first) % other != 0) {
    leave(part);
    part.sides[d].count = 0;
    return true;
  }
  const Side mine = part.sides[d];
  const std::int64_t from = std::clamp<std::int64_t>(-floor_of(mine.first - side.first, mine.step), 0, mine.count),
                     to = std::clamp<std::int64_t>(floor_of(side.last() - mine.first, mine.step) + 1, from, mine.count);
  Elements before = part, after = part;
  cut(before, d, 0, from), leave(before);
  cut(after, d, to, mine.count - to), leave(after);
  cut(part, d, from, to - from);
  return true;
}

// A row of `from` over the places of `part`, whose sides are within those of `from`.
AtLeast0 seen_from(const AtLeast0& row, const Elements& from, const Elements& part) {
  AtLeast0 seen = row;
  for (std::size_t d = 0; d < part.sides.size(); ++d) {
    const Side &own = part.sides[d], &other = from.sides[d];
    if (row.coefficients[d] == 0) continue;
    replace(seen, d, own.count == 1 ? 0 : own.step / other.step, (own.first - other.first) / other.step);
  }
  return seen;
}

AtLeast0 not_so(AtLeast0 row) {
  for (std::int64_t& c : row.coefficients) c = -c;
  row.constant = -row.constant - 1;
  return row;
}

// What part of a side each index is: place of the index's value in it.
struct Place { std::size_t d = 0; std::int64_t sign = 1, shift = 0; };

// The side of one dimension; the index it goes with, if any.
std::optional<Side> side_of(const Statement& s, const Affine& e, std::optional<std::size_t>& index, Place& place) {
  if (!small(e)) return std::nullopt;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (e.coefficients[k].is(0)) continue;
    if (index) return std::nullopt;
    index = k;
  }
  if (!index) return Side{e.constant.get(), 1, 1};
  const std::int64_t c = e.coefficients[*index].get(), least = low(s, *index), count = extent(s, *index);
  if (std::abs(least) >= large || count >= large || count < 1) return std::nullopt;
  const std::int64_t first = c > 0 ? least : least + count - 1;
  place.sign = c > 0 ? 1 : -1, place.shift = first;
  return Side{c * first + e.constant.get(), std::abs(c), count};
}

// Two dimensions that have one index: q of one is q of the other, or what is left of it.
void tie(Elements& all, const Place& a, const Place& b) {
  AtLeast0 row{std::vector<std::int64_t>(all.sides.size(), 0), 0};
  row.coefficients[a.d] = a.sign, row.coefficients[b.d] = -b.sign;
  row.constant = a.shift - b.shift;
  AtLeast0 back = not_so(row);
  ++back.constant;
  all.rows.push_back(std::move(row)), all.rows.push_back(std::move(back));
}

// The rows over output indices, two of one that has an extent. False: they are too large, or ask for a divisor.
bool add_rows(Elements& all, const Statement& s, const std::vector<std::optional<Place>>& places) {
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r) {
    const poly::Range& range = s.domain[r];
    AtLeast0 row{std::vector<std::int64_t>(all.sides.size(), 0), 0};
    bool folds = false;
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      folds = folds || (!range.value.coefficients[k].is(0) && !places[k]);
    if (folds) continue;
    if (!small(range.value) || (range.extent && range.extent->get() >= large)) return false;
    row.constant = range.value.constant.get();
    for (std::size_t k = 0; k < s.indices.size(); ++k) {
      if (range.value.coefficients[k].is(0)) continue;
      const std::int64_t c = range.value.coefficients[k].get();
      row.coefficients[places[k]->d] += c * places[k]->sign;
      row.constant += c * places[k]->shift;
    }
    if (range.extent) {
      AtLeast0 below = not_so(row);
      below.constant += range.extent->get();
      all.rows.push_back(std::move(below));
    }
    all.rows.push_back(std::move(row));
  }
  return true;
}

}  // namespace

double Elements::box() const {
  return std::accumulate(sides.begin(), sides.end(), 1.0,
      [](double all, const Side& side) { return all * static_cast<double>(side.count); });
}

Elements all_elements(const std::vector<std::int64_t>& shape) {
  Elements all;
  for (const std::int64_t extent : shape) all.sides.push_back({0, 1, extent});
  return all;
}

std::optional<Elements> elements_of(const Statement& s) {
  Elements all;
  std::vector<std::optional<Place>> places(s.indices.size());
  std::vector<std::pair<Place, Place>> ties;
  for (std::size_t d = 0; d < s.target.element.size(); ++d) {
    std::optional<std::size_t> index;
    Place place{d};
    const auto side = side_of(s, s.target.element[d], index, place);
    if (!side) return std::nullopt;
    all.sides.push_back(*side);
    if (!index) continue;
    if (places[*index]) ties.emplace_back(*places[*index], place);
    else places[*index] = place;
  }
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (!places[k] && extent(s, k) < 1) return std::nullopt;
  for (const auto& [a, b] : ties) tie(all, a, b);
  if (!add_rows(all, s, places)) return std::nullopt;
  return all;
}

bool apart(const Elements& a, const Elements& b) {
  Elements common = a;
  std::vector<Elements> outside;
  for (std::size_t d = 0; d < a.sides.size(); ++d) {
    if (!meet(common, d, b.sides[d], outside)) return false;
    if (no_elements(common)) return true;
  }
  for (const AtLeast0& row : b.rows) common.rows.push_back(seen_from(row, b, common));
  return !tighten(common);
}

std::optional<std::vector<Elements>> rest(const Elements& from, const Elements& without, std::size_t most) {
  if (apart(from, without)) return std::vector{from};
  std::vector<Elements> parts;
  Elements common = from;
  for (std::size_t d = 0; d < from.sides.size(); ++d)
    if (!meet(common, d, without.sides[d], parts) || parts.size() > most) return std::nullopt;
  for (const AtLeast0& row : without.rows) {
    const AtLeast0 own = seen_from(row, without, common);
    Elements other = common;
    other.rows.push_back(not_so(own));
    parts.push_back(std::move(other));
    common.rows.push_back(own);
  }
  std::erase_if(parts, [](Elements& part) { return !tighten(part); });
  if (parts.size() > most) return std::nullopt;
  return parts;
}

}  // namespace tilec::codegen
