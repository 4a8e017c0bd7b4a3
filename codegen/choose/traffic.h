// Cache lines that a leaf moves, by level, in cycles.
//
//   for n1, for blocks of m0, for k0: B[k0, n1, n0]     one line of B for each n1 and k0, of which one element is used:
//                                                       if all of them fit in the second cache, the next n0 finds them there
//
// A loop nest touches of each tensor a footprint: how many lines its loops reach. The outermost loop whose footprint, of all tensors
// together, fits in a cache is where that cache is filled; it is filled again for every turn of the loops around it that moves.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/nest.h"
#include "codegen/target.h"

namespace tilec::codegen {

// How far one turn moves each access: the target first, then the reads.
struct Turn { std::int64_t extent; std::vector<std::int64_t> strides; };

// What lies where: bytes of an element of each access, and the caches.
struct Caches {
  std::vector<std::int64_t> bytes;
  std::int64_t l1, l2, l3;
};

// `loops`: outermost first.
double traffic(const std::vector<Turn>& loops, const Caches& caches);

}  // namespace tilec::codegen
