// One statement backwards: its target and each operand change places, the domain stays.
//
//   O[i: N] = +(A[i] * B[i + j]), j < 3;
//     ⇒  dA[i: N] = +(dO[i] * B[i + j]), 0 <= j < 3;      dB[i + j: M] = +(A[i] * dO[i]), 0 <= i, 0 <= j < 3;
//
// In:  the Program being made, which already holds the statement and the cotangent of its target; which tensors lead to
//      a wanted input (others get nothing).
// Out: the Program with the new statements at its end, and a Partial for every operand that gets a share, in the order
//      of the text: reads by first appearance, the tensor of `default` last.
// Names: new tensors carry the name they would like; `finish` of graph.h makes them unique.
#pragma once

#include <vector>

#include "poly/program.h"

namespace tilec::autodiff {

struct Partial {
  poly::TensorId operand;                              // of which this is a part of the cotangent
  poly::TensorId tensor;                               // that holds it
  poly::DType fold;                                    // the type it is summed in; it is stored so unless it is the
                                                       // only part
};

struct Adjoint {
  std::vector<Partial> partials;
  std::vector<poly::TensorId> helpers;                 // counts of ties, ranks, indicators: named after the partials
};

// The statement must be one that `has_rule` accepts.
Adjoint adjoint(poly::Program& gradient, const poly::Statement& statement, poly::TensorId cotangent,
    const std::vector<bool>& active);

}  // namespace tilec::autodiff
