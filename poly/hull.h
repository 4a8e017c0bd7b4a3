// Rows as plain numbers, and the hull of each index: interval arithmetic first, then a search for points that attain
// the bounds, then isl (capped). Sound always; exact whenever one of the three can prove it.
//
//   0 <= x < 112,  0 <= k < 3,  0 <= 2*x + k - 1 < 224,  0 <= k - 1   ⇒   0 <= x < 112,  1 <= k < 3
//
// In: rows over n indices.
// Out: lower and upper bound per index.
// Keeps: nothing waits. Numbers are 128 bits inside; what leaves 64 throws Overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "poly/program.h"
#include "poly/solve.h"

namespace tilec::poly {

using Point = std::vector<std::int64_t>;

struct Box {
  bool empty = false;                                  // no integer point at all
  std::vector<Interval> index;
};

Row row_of(const Range& range);                        // bound Programs only
Range range_of(const Row& row);
std::vector<Row> rows_of(const Statement& statement);  // of the domain
bool holds(const Row& row, const Point& point);

// Interval arithmetic to a fixed point; `box` may start unbounded. Empty only when proven so. Returns the rows looked
// at.
std::int64_t tighten(const std::vector<Row>& rows, Box& box);
// `patience`: isl's operations for bounds that are there but perhaps loose. 0: isl is not asked. A missing bound gets
// all it takes.
Box hull(const std::vector<Row>& rows, std::size_t indices, unsigned long patience = 3'000);
// A point of the domain inside `box`, which tighten() has seen; nullopt when the budget ended first, or there is none
// (`proven` says which). The budget counts rows looked at.
std::optional<Point> find_point(const std::vector<Row>& rows, const Box& box, std::int64_t& budget, bool& proven);
// Does every point of the (bounded) box satisfy the row?
bool implied(const Row& row, const Box& box);

// Does the row hold wherever the others and the box do? Interval arithmetic on its negation: yes is a proof, no is not.
bool follows(const Row& row, const std::vector<Row>& rows, const Box& box);

// The domain as bounds.h promises it: one hull row per index, then the rows that do not follow. Needs a bounded hull.
std::vector<Range> bounded_domain(const std::vector<Range>& domain, const Box& hull);

}  // namespace tilec::poly
