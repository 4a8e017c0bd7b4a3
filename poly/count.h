// Exact numbers of domain points, and the points themselves where there are few.
//
//   0 <= q < 112, 0 <= z < 2, 0 <= q + 1 - z < 112    ⇒    223
//
// Indices that no row couples multiply, so a box costs nothing; coupled ones are enumerated but for the innermost
// index, which is an interval. In: bounded domains. Keeps: work is capped; nullopt when the cap was reached.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "poly/hull.h"
#include "poly/program.h"

namespace tilec::poly {

constexpr std::int64_t count_cap = 200'000;            // values fixed one by one, well under 50 ms

std::optional<std::int64_t> points(const Statement& statement, std::int64_t cap = count_cap);
std::optional<std::int64_t> count_points(const std::vector<Row>& rows, const Box& hull, std::int64_t cap = count_cap);
// Scalar operations: of a value at one point (a function `weight` of them, fma two, casts none), and of a node in all,
// a fold being one a point, a comparison of a sort `weight`. `exact` is false where points were too many to count and
// the hull is taken.
struct Operations { std::int64_t count; bool exact; };
std::int64_t scalar_operations(const Expr& value, std::int64_t weight = 1);
Operations operations(const Program& program, const Node& node, std::int64_t weight = 1);
std::int64_t bytes(const Tensor& tensor);

// Every point in lexicographic order. False when `visit` said stop or the cap was reached, or that on rows looked at
// (12,000 a millisecond).
bool for_each_point(const std::vector<Row>& rows, const Box& hull, std::int64_t cap,
    const std::function<bool(const Point&)>& visit, std::int64_t looks = INT64_MAX);

}  // namespace tilec::poly
