// Steps that do the same to other buffers call one kernel, so that a function applied twenty times is compiled once.
//
//   k3_T: T[i] = W[i, j] * X[j] …     k7_T_1: T_1[i] = W[i, j] * Y[j] …     ⇒     both steps call k3_T
//
// In: a package.
// Out: the same package; a step's kernel and loops are those of the first step that differs from it in names only.
#pragma once

#include "codegen/lowered.h"

namespace tilec::codegen {

Lowered share_kernels(Lowered package);

}  // namespace tilec::codegen
