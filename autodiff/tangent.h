// One statement forwards: the tangent of its target, over the same points, from the tangents of what it reads.
//
//   O[i: N] = +(A[i, k] * B[k]) default Z;     ⇒     tO[i: N] = +(tA[i, k] * B[k] + A[i, k] * tB[k]) default tZ;
//
// In:  the Program being made, which already holds the statement; the tangent of each tensor, where it is not zero.
// Out: the Program with the new statement at its end, and the tensor it makes; nothing when that would be zero
//      everywhere.
#pragma once

#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::autodiff {

struct Tangent {
  std::optional<poly::TensorId> tensor;
  std::vector<poly::TensorId> helpers;
};

// The statement must be one that `has_rule` accepts.
Tangent tangent(poly::Program& program, const poly::Statement& statement,
    const std::vector<std::optional<poly::TensorId>>& tangents);

}  // namespace tilec::autodiff
