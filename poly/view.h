// What a tensor shows, where that can be said without storing it.
//
//   T[i, j: M, N] = =(A[j, i]);                 T[p, q] is A[q, p]
//   Z[i: N] = +(0.0 * k), 0 <= k < 3;           Z[p] is 0.0: also where no point is, since that is the fill
//   W[i + 2: 9] = >(1), 0 <= i < 4;             W[p] is 2 <= p < 6 ? 1 : 0
//
// In:  a statement whose value is folded.   Out: nothing where the tensor has to be made.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::poly {

struct Shown {
  std::optional<Access> access;                        // of the tensor shown, over the dimensions of this one
  std::optional<Number> number;                        // or what every element is
  struct Box { std::vector<std::int64_t> low, high; Number outside; };
  std::optional<Box> box;                              // `number` is inside low <= element <= high only
};

std::optional<Shown> view_of(const Program& program, const Statement& s);

// T[i, j: M, N] = =(…) with a row per dimension and no other: every element has one point, whose indices it is.
bool one_index_per_dimension(const Program& program, const Statement& s);

// The view's value at an element given as forms over a statement's indices; nothing where it shows another tensor, or
// where a form is divided.
std::optional<Expr> seen_at(const Shown& view, const std::vector<Affine>& element);

// A row that every point satisfies.
bool always_holds(const Range& row);
// A row without names of sizes.
bool has_numbers(const Range& row);

}  // namespace tilec::poly
