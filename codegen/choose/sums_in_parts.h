// Long sums are added up in the target part by part, where the caches hold what a part reads.
//
//   C[i, j] = +(A[i, k] * B[k, j]), 1000 x 1000 over 100000     contract C  block 6x4     ⇒   block 6x4  chunk 256
//
// A panel of the operand that lanes read should stay in a cache while the blocks of m go by; and a sum of many f32 is
// more exact as a sum of sums.
#pragma once

#include "codegen/choose/facts.h"

namespace tilec::codegen {

// Gives the leaf, a contraction, a chunk where one pays, and the block that goes best with it.
void sum_in_parts(const Facts& f, Compute& leaf);

}  // namespace tilec::codegen
