// What Intrinsics need of memory, said in the Program: dense tensors where they count elements, and buffers as further
// targets.
//
//   Y = reshape(X, M*N), X given as columns    ⇒   X_1[c0, c1: M, N] = =(X[c0, c1]);  Y = reshape(X_1, M*N)
//   O = scatter(E, I, 0) in f16                ⇒   (O, O_sums) = scatter(E, I, 0), with O_sums in f32
//   I = argsort(X, 0), one row of 2^20         ⇒   (I, I_keys, I_keys_1, I_positions) = argsort(X, 0)
//
// In: a reduced Program and the strides of all its tensors.
// Out: the same, longer. `poly::verify` no longer holds of it.
#pragma once

#include "codegen/nest.h"
#include "codegen/target.h"

namespace tilec::codegen {

void give_scratch(poly::Program& program, Strides& strides, const Target& target);

}  // namespace tilec::codegen
