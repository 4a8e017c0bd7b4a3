// A scan whose partial sums shrink on the way (codegen/decay.h).
//
//   Y[t] = +(exp(A[t] - A[s]) * X[s]), s <= t     ⇒   one sum for each lane: times exp(A[t] - A[t - 1]), plus X[t]
//
// A scan with an element at which something holds that a decay cannot say is computed once more, each element by its
// definition.
#pragma once

#include "codegen/spell/scan_tile.h"

namespace tilec::codegen {

Body decaying_scan(ScanTile& tile);

}  // namespace tilec::codegen
