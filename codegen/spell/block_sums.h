// A block that folds one step after the other, all of its accumulators in each.
//
//   contract O  m x  n co  k k ci  block 9x2  lanes 16, x in [18, 27), co in [0, 32)
//     ⇒  for l in vector 16: acc in register 18 = 0; for k, for ci: acc[0] += p0[…] * p1[…], …; o[0] = acc[0], …
//
// A map is such a block without a reduction: its one step is the value itself. Where lanes run over a reduction, see
// sums_over_lanes.h.
#pragma once

#include "codegen/spell/block_requests.h"
#include "codegen/spell/step_values.h"

namespace tilec::codegen {

// `common`: values that all blocks of a map's row share.
Body spell_block(SpelledLeaf& leaf, const BlockRequests& requests, const BlockTile& tile, const PartOfSum& part,
    const KnownValues& common);

}  // namespace tilec::codegen
