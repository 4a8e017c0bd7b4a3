// Statements that finish a sum where its threads have it: bias, activation, residual, a narrower type.
//
//   S[i, j] = +(A[i, k] * B[k, j]);   O[i, j] = =(bf16(S[i, j] + b[j]))
//     ⇒  finish S O: one launch, in which S is in registers; where nobody else reads S, it is in no memory
//
//   online Mx Z U  rows i  over j;   O[i, e] = =(U[i, e] / Z[i])
//     ⇒  finish U O: the launch of the pass writes O alone
//
// The sum is one that a block of threads has a tile of (staged.h, tensor_cores.h), or what a pass folds (online.h).
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Whether the statement of this tensor is such a contraction, or finishes a sum.
bool finished(const Rewriting& r, TensorId target);
// Why these statements are not computed so, one launch; none: they may.
Refusal finish_fault(const Rewriting& r, const directives::Finish& directive);

}  // namespace tilec::codegen
