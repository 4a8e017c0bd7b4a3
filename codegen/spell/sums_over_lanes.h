// A block whose lanes run over a reduction: rows of m, each folded by all lanes.
//
//   reduce S  m i  n j  block 1x4  lanes 16
//     ⇒  for l in vector 16: acc in register 4 = 0; for j by 64: acc[0] += p0[l], …; S[i] = fold of acc over l
#pragma once

#include "codegen/spell/block_requests.h"

namespace tilec::codegen {

Body spell_lanes_block(
    SpelledLeaf& leaf, const BlockRequests& requests, const BlockTile& tile, const PartOfSum& part);

}  // namespace tilec::codegen
