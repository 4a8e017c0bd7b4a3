// Steps that do the same to other buffers, from other elements of them on, or with other whole numbers to compare with,
// call one kernel: a function applied a thousand times is compiled once.
//
//   k3_T: T[i] = W[i, j] * X[j + 64] …     k7_U: U[i] = W[i, j] * Y[j + 192] …
//     ⇒  k3_T(W, X, T; X_at): view X_from = X + X_at, T[i] = W[i, j] * X_from[j + 64] …
//        the steps call it on (W, X, T; 0) and (W, Y, U; 128)
//
// Addresses stay what they were in each step, so what a kernel says of them (a View's alignment) stays true. What its
// parameters promise (ViewParameter::alignment) does, too: only offsets that agree modulo it are one kernel's.
//
// In: a package.
// Out: the same package; steps that differ as above have the kernel of the first of them, and numbers of their own.
#pragma once

#include "codegen/lowered.h"

namespace tilec::codegen {

Lowered share_kernels(Lowered package);

}  // namespace tilec::codegen
