// An index of a contraction that ranges over two size names.
//
//   C[i, j: M, N] = +(A[i, k] * B[k, j]);   with A[M, K], B[N, K]
//     ⇒  warning: index `k` ranges over `K` of `A` and over `N` of `B`      hint: `B[j, k]` reads every element
#pragma once

#include "lang/dimension/shape.h"

namespace tilec::lang::dimensions {

void contraction(Tensors& here, const Contraction& c);

}  // namespace tilec::lang::dimensions
