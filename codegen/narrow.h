// Integers between launches, in the narrowest type that holds them.
//
//   First[o] = <(X[o, k] == M[o] ? k : 2^63 - 1), k < 4;   dX[o, k] = =(First[o] == k ? dM[o] : 0)
//     ⇒  First, an i64, has values 0 … 3 and the greatest of its type, and is a u8: 255 stands for the greatest
//
// In:  a Program that is rewritten otherwise.   Out: one of the same meaning, whose statements compute what they
//      computed and round it to the type of their target.
// Keeps: inputs, outputs, what is not proven, tensors that share a buffer or that an intrinsic takes or makes.
#pragma once

#include "codegen/fuse.h"

namespace tilec::codegen {

void narrow(Fused& fused);

}  // namespace tilec::codegen
