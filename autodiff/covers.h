// Which elements of its target a statement reaches, as a condition on the element; and a total order of its points.
#pragma once

#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::autodiff {

// Which elements a statement writes, where that can be said without another tensor.
//
//   O[i + N: N + M] = =(B[i]) default A;     B[M]     ⇒   o >= N           (o < N + M holds for every element)
//
// Out: forms over the element o; o is written iff all are >= 0, so every element is when there are none. Nothing when that
// would take solving: a stride, or a row that couples a reduction index with others.
std::optional<std::vector<poly::Affine>> image(const poly::Statement& statement, const std::vector<poly::Size>& shape);

// An integer form that differs at any two points with the same target element, and how many values it takes at most.
//
//   O[x: X] = >(I[2*x + k]), k < 3      ⇒   k, 3        (mixed radix: the digits are rows of the domain in the order written)
//
// Nothing when too few rows are two-sided; no count when the most significant digit is bounded on one side only.
struct Order {
  poly::Affine rank;
  std::optional<poly::Size> count;
};
std::optional<Order> order(const poly::Statement& statement);

}  // namespace tilec::autodiff
