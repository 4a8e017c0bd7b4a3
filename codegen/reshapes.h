// Reshapes that only say otherwise where elements lie.
//
//   R = reshape(X, N, C/9, 3, 3, H, W)        reads of R[n, c, a, b, y, x] are reads of X[n, 9 c + 3 a + b, y, x]
//   Y = reshape(S, N, 3*H, 3*W)               what writes S[n, y, a, x, b] writes Y[n, 3 y + a, 3 x + b]
//
// Of both shapes one cuts dimensions of the other. The tensor of the finer one is gone, and the copy with it.
//
// In:  a Program that is rewritten otherwise.   Out: one of the same meaning.
// Keeps: inputs, outputs, statements and their sets; a Reshape to or from a tensor whose elements no statement alone
//      reads and writes, and one of shapes of which neither cuts the other.
#pragma once

#include "codegen/fuse.h"

namespace tilec::codegen {

void drop_reshapes(Fused& fused);

}  // namespace tilec::codegen
