// Sets of statements no two of which write one element, whatever the sizes.
//
//   dX_1[0, n: T, N] = …;  dX_2[1, n: T, N] = …;  dG_1[n, m: N, 2*M] = …, m < M;  dG_2[n, m + M: N, 2*M] = …, m < M
//     ⇒  {dX_1, dX_2}, {dG_1, dG_2}
//
// Told apart by ranges of a dimension, or by residues of one. Each statement goes to the first set that it is apart
// from, so there are as many sets as statements reach one element where these are ranges of one dimension.
#pragma once

#include <vector>

#include "poly/program.h"

namespace tilec::autodiff {

// Positions among `statements`; all have one target shape.
std::vector<std::vector<std::size_t>> apart(
    const poly::Program& program, const std::vector<const poly::Statement*>& statements);

}  // namespace tilec::autodiff
