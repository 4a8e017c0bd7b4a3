// A total order of a statement's points, and indices for elements and points that take little room.
#pragma once

#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::autodiff {

// An integer form that differs at any two points with the same target element, and how many values it takes at most.
//
//   O[x: X] = >(I[2*x + k]), k < 3
//     ⇒  k, 3        (mixed radix: the digits are rows of the domain in the order written)
//
// Nothing when too few rows are two-sided; no count when the most significant digit is bounded on one side only.
struct Order {
  poly::Affine rank;
  std::optional<poly::Size> count;
};
std::optional<Order> order(const poly::Statement& statement);

// The same of few values, in any order of the points: with a count where `order` has one.
//
//   O[i: N] = *(X[p]), 0 <= i - p < 5     ⇒   i - p, min(5, N)
std::optional<Order> narrow_order(const poly::Program& program, const poly::Statement& statement);

// Forms over the indices that are equal at two points iff these fall on one element. Each is from 0 below its extent.
//
//   O[100*i, i, j: 100*N, N, M], j < 3    ⇒   i, j: N, min(3, M); the element is 100*i, i, j
struct Coordinates {
  std::vector<poly::Affine> forms;
  std::vector<poly::Size> extents;
  std::vector<poly::Affine> element;                   // over the coordinates
};
Coordinates coordinates(const poly::Program& program, const poly::Statement& statement);

}  // namespace tilec::autodiff
