// Statements that finish a sum where its threads have it: bias, activation, residual, a narrower type.
//
//   S[i, j] = +(A[i, k] * B[k, j]);   O[i, j] = =(bf16(S[i, j] + b[j]))
//     ⇒  finish S O: one launch, in which S is in registers; where nobody else reads S, it is in no memory
//
// The sum is one that a block of threads has a tile of (staged.h, tensor_cores.h).
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Whether the statement of this tensor is such a sum, or finishes one.
bool finished(const Rewriting& r, TensorId target);
// Why these statements are not computed so, one launch; none: they may.
Refusal finish_fault(const Rewriting& r, const directives::Finish& directive);

}  // namespace tilec::codegen
