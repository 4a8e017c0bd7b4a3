// A map on a GPU that reads along one dimension what it writes along another: through a tile in shared memory.
//
//   B[j, i] = =(A[i, j])     map B  m j  n i  block 8x1  lanes 128  turned
//     ⇒  a block of 32 x 32 elements: its warps read rows of A, side by side along m, into the tile; then each warp
//        takes a column of the tile and writes a part of a row of B, side by side along n
//
// Without the tile either side touches a sector for each lane. Rows of the tile lie an odd number of banks apart, so
// neither a row nor a column has two lanes on one bank (NVIDIA, "An Efficient Matrix Transpose in CUDA C/C++", 2013).
// What lies side by side along n, or does not depend on m, is read where it is used.
//
//   C[m, j, i] = =(A[i, j, m])   map C  over j  m m  n i  …  turned     13 values of i
//     ⇒  the 32 columns of a tile are values of i for some of j, which follow each other in C, too
#pragma once

#include <vector>

#include "codegen/spelling.h"

namespace tilec::codegen {

// Whether lanes over n would touch a sector each of such an access, and lanes over m lie side by side.
bool lies_across(const FlatAccess& access, std::size_t m, std::size_t n, std::int64_t element_bytes);

// Bytes of shared memory that the tiles of a `turned` map take.
std::int64_t tile_bytes(const poly::Program& program, const Nest& nest, const Compute& leaf);

// The kernel's body: one Block loop over tiles.
Body spell_turned(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names);

}  // namespace tilec::codegen
