// A scan as Loops: every element goes on from the one before.
//
//   scan Y  along j  n i  k k  block 1x4  lanes 16
//     ⇒  for i_v, for l in vector 16: four running sums in registers, down j
//   scan Y  over i  along j  k k  block 1x8  lanes 1
//     ⇒  for i, for j by 8: sums of up to eight, each plus what came before
//   scan Y  over i  along j  k k  block 1x4  lanes 128
//     ⇒  for i in blocks: 128 threads take 4 each, then add up their totals
//
// In:  a nest that is a scan, its leaf, what surrounds it.   Out: as spell_leaf.
#pragma once

#include "codegen/spelling.h"

namespace tilec::codegen {

Body spell_scan(
    const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names);

}  // namespace tilec::codegen
