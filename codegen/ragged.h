// Blocks of rows each of which has a range of the reduction of its own, as those of a triangle have.
//
//   O[i, c] = +(L[i, k] * X[k, c]), k <= i, rows 6 to 11 of i
//     ⇒  k in [0, 7)    is of all of them: the block's steps are as those of a whole product
//     k in [7, 12)      is asked of each row
//
// Where most rows have all values in common, as inside the border of a window, blocks of these need no question and the
// others go one at a time (spell/blocks.h).
#pragma once

#include <cstddef>

#include "codegen/nest.h"

namespace tilec::codegen {

// Whether blocks of rows of m are such, on a CPU.
bool has_ragged_blocks(const Nest& nest, std::size_t m);
// Of how many steps of all reductions the rows of such a block are asked, each by itself.
double asked_steps(const Nest& nest, std::size_t m, double rows);

}  // namespace tilec::codegen
