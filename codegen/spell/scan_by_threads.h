// A scan by a block of threads.
//
//   scan Y  over i  along j  k k  block 1x4  lanes 128
//     ⇒  for i in blocks, in rounds of 512 values: 128 threads take 4 each, then add up their totals by doubling
//        (Hillis, Steele 1986) in shared memory: total of 1, 2, 4, … threads up to this one
#pragma once

#include "codegen/spell/scan_tile.h"

namespace tilec::codegen {

Body scan_by_threads(ScanTile& tile);

}  // namespace tilec::codegen
