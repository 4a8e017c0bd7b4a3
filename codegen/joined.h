// Steps of a GPU that follow one another and have nothing to do with each other are one launch: each has a range of its
// blocks.
//
//   k0_dI_0: for p in block 392 { … }   k1_dI: for p in block 98 { … }
//     ⇒  k0_to_k1_dI: for p in block 98 { … }  for p in block 392 { … }
//
// Steps that differ by numbers (equal_kernels.h) have one loop over all their blocks, which looks the numbers up:
//
//   k0_O_0(D, O; O_at): view O_from = O + O_at …  called with 0, 8, 16
//     ⇒  k0_to_k2_O(D, O): table O_at_of 0 8 16; for part in block 3 { let O_at = O_at_of[part], view O_from … }
//
// Those that write parts of one buffer are joined, as residue classes of a gradient do, and copies of operands: none
// reads what another writes, nor writes an element of another's. Their blocks have as many threads, and a
// multiprocessor has room for as many. The blocks that have most to do come first, so that the last ones end together.
//
// In: a package whose equal steps share kernels, and the plan that it was lowered from.
// Out: the same package with fewer steps, or the same.
#pragma once

#include "codegen/lowered.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

Lowered join_steps(Lowered package, const Plan& plan);
// What is launched: the plan lowered, its equal steps sharing kernels, and joined.
Lowered launches(const Plan& plan, const Strides& strides, const Target& target);

}  // namespace tilec::codegen
