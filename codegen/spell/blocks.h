// The blocks of a leaf: which boxes of m and n they are, and what becomes of a border.
//
//   O[x, co] = +(I[x + k - 1, ci] * K[k, ci, co]), 56 x, 3 k, blocks of 9 rows
//     x in [0, 1)     one x at a time                                  (border)
//     x in [1, 55)    blocks of 9: every k in [0, 3) is valid for all  (interior)
//     x in [55, 56)   one x at a time
//
// That is for m. Where n carries the lanes, its border is whole vectors in which the row is a mask: of 56 columns with
// the interior [1, 55), one masked vector, two free ones, one masked. On a GPU, rows of a short window at the border
// stay a block under masks: they read what they share once, as those inside do. Taps of a filter's gradient bound long
// rows of pixels instead: there each row of the block has a range of the reduction of its own.
#pragma once

#include <functional>

#include "codegen/spell/block_place.h"

namespace tilec::codegen {

using InBlock = std::function<Body(const BlockTile&)>;

// All blocks of the dimensions m and n that have no value yet. `cleared`: no reduction stands inside, so there is no
// border.
Body spell_blocks(SpelledLeaf& leaf, bool cleared, const InBlock& block);
// All rows of m in blocks that are otherwise as `tile` says, without a border.
Body spell_blocks_of_rows(SpelledLeaf& leaf, const BlockTile& tile, const InBlock& block);

}  // namespace tilec::codegen
