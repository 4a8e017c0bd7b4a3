// Whether f32 operands of a contraction are rounded to TF32, and turned to lie along the reduction, by copies of their
// own.
//
//   C[i, j] = +(A[i, k] * B[k, j]), 4096 of each, sm_90a, math=tf32
//     ⇒  copies A_t[i, k] and B_t[j, k], bits 11: `wgmma`, which multiplies what lies so in shared memory, takes 0.43
//        ms for the 0.81 of `mma.sync`, and the copies 0.09
#pragma once

#include <optional>

#include "codegen/choose/layout.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// None where the contraction takes less without, or is none of f32 on tensor cores.
std::optional<Layouts> rounded_copies(const Rewriting& r, const poly::Statement& s);

}  // namespace tilec::codegen
