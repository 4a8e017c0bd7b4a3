// Visits the integer points of a bound domain, in lexicographic order of the indices.
//
//   0 <= i < 4, 0 <= i - j < 2, 0 <= j/2   ⇒   (0, 0) · (1, 0) · (2, 2) · (3, 2)
//
// In: rows whose Sizes are integers; they need not start with a hull.
// Out: visit(point, low, high) for each run of points
//      that differ in the last index only, which takes the values low … high (without indices: once, low = high = 0).
// An index that nothing bounds throws InternalError, unless the domain is empty: bounds reports it to the user first.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "poly/affine.h"

namespace tilec::poly {

// Of a point all indices but the last are set.
using Visit = std::function<void(std::span<std::int64_t> point, std::int64_t low, std::int64_t high)>;
void for_each_run(const std::vector<Range>& domain, std::size_t indices, const Visit& visit);

// How many points, and runs of them, the smallest box of intervals has that holds the domain, of those that its
// divisors leave, about.
struct Extent { double points = 0, runs = 0; };
Extent points_at_most(const std::vector<Range>& domain, std::size_t indices);

}  // namespace tilec::poly
