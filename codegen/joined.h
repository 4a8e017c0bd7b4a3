// Steps of a GPU that follow one another and have nothing to do with each other are one launch: each has a range of its
// blocks.
//
//   k0_dI_0: for p in block 392 { … }   k1_dI: for p in block 98 { … }
//     ⇒  k0_to_k1_dI: for p in block 98 { … }  for p in block 392 { … }
//
// Those that write parts of one buffer are joined, as residue classes of a gradient do: none reads what another writes,
// nor writes an element of another's. The blocks that have most to do come first, so that the last ones end together.
//
// In: a package, and the plan that it was lowered from.
// Out: the same package with fewer steps, or the same.
#pragma once

#include "codegen/lowered.h"
#include "codegen/plan.h"

namespace tilec::codegen {

Lowered join_steps(Lowered package, const Plan& plan);

}  // namespace tilec::codegen
