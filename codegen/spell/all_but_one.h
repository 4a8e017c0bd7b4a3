// A scan in which each element is the product of all values but its own.
//
//   Y[j] = *(select(k == j, A[j], X[k]))
//     ⇒  the product of all X, zeros and infinities counted apart; then for each j that without X[j] and with A[j]
//        (product.h)
#pragma once

#include "codegen/spell/scan_tile.h"

namespace tilec::codegen {

Body all_but_one(ScanTile& tile);

}  // namespace tilec::codegen
