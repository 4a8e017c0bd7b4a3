// Statements that accompany another: over its points, with other values and other targets.
//
//   O[i: N] = >(A[i + j]), j < 3      ⇒      Cnt[i: N] = +(A[i + j] == O[i] ? 1 : 0), 0 <= j < 3
//
// Every derivative is made of these, because the points are what a derivative keeps.
#pragma once

#include <string>
#include <vector>

#include "poly/program.h"
#include "poly/tidy.h"

namespace tilec::autodiff {

struct Companion {
  poly::Program& program;                              // being made; it holds the forward statement, and gets the new
                                                       // ones
  const poly::Statement& forward;
  std::vector<poly::TensorId>& helpers;                // what is made on the way: counts of ties, ranks, factors

  // A tensor made on the way, of the target's shape or another. Its name is a wish: `finish` of graph.h makes it
  // unique.
  poly::TensorId helper(std::string name, poly::DType type) const;
  poly::TensorId helper(std::string name, poly::DType type, const std::vector<poly::Size>& shape) const;
  // A sum with the points, reads and value of the forward statement; its target and fill are to be set by `add`.
  poly::Statement start() const;
  // A read of a tensor where the forward statement writes.
  poly::Expr at_target(poly::Statement& statement, poly::TensorId id) const;
  // The statement, with zeros where no point is; an Assign where each element has one point.
  void add(poly::Statement statement, poly::TensorId target, const std::vector<poly::Affine>& element) const;
};

poly::TensorId new_tensor(
    poly::Program& program, std::string name, poly::DType type, const std::vector<poly::Size>& shape, lang::Span span);

// O[i, j: shape] = =(value): a statement over every element of a shape, with indices whose names are not taken.
poly::Statement over_shape(const poly::Program& program, const std::vector<poly::Size>& shape);

// Every element has at most one point, because every index is a dimension of it.
bool one_point_each(const poly::Statement& statement);

}  // namespace tilec::autodiff
