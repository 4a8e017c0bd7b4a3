// What a block writes once its accumulators are full.
//
//   block 2x1                        ⇒   view o = C[…]; o[0] = acc[0]; o[n] = acc[1]
//   and C holds a part of the sum    ⇒   sum[0] = o[0] + acc[0]; sum[1] = o[n] + acc[1]; o[0] = sum[0]; o[n] = sum[1]
//
// The last vector stands under the tile's mask. An element that no point reaches gets the target's fill, or is left
// alone where a Fill stands before the leaf.
#pragma once

#include "codegen/spell/accumulators.h"
#include "codegen/spell/block_place.h"

namespace tilec::codegen {

// `requests`: for lines of later blocks, among the stores.
Body spell_stores(const BlockPlace& at, const Accumulators& sums, const PartOfSum& part, Body requests);

}  // namespace tilec::codegen
