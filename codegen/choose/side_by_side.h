// Contractions of many small products side by side, as convolutions of groups are: a tile of shared memory has one
// group, of which the sides are short. So a thread has all outputs of a group, for some places of its window
// (spell/side_by_side.h), and its neighbours have the groups beside it.
//
//   Y[n, y, x, 4 g + c] = +(I[n, y + j, x + i, 4 g + k] * K[j, i, k, 4 g + c])
//     ⇒  over n x  m c y  n g  k i j k  block 32x1: 12 accesses of 16 bytes for 384 multiply-adds
#pragma once

#include <optional>

#include "codegen/choose/facts.h"

namespace tilec::codegen {

// `cycles`: of the busiest multiprocessor, for all of it.
struct SideBySideLeaf { Compute leaf; double cycles; };
// Of how many places of the window, and along which, costs least. None: no output is short that but one read moves
// along.
std::optional<SideBySideLeaf> leaf_side_by_side(
    const poly::Program& program, const Facts& f, int node, const Target& target);

// The same, where it takes less than any other leaf.
std::optional<SideBySideLeaf> cheapest_side_by_side(
    const poly::Program& program, const Facts& f, int node, const Target& target);

}  // namespace tilec::codegen
