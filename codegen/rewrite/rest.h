// What a chain of `default` leaves to its number has statements of its own, so that no fill writes all elements first.
//
//   P[y + 1: 10] = =(X[y]), 0 <= y < 8 default 0.0
//     ⇒  rest P: P_rest[0] = =(0.0);  P_rest_1[9] = =(0.0) default P_rest;  P[y + 1: 10] = =(X[y]) default P_rest_1
//
// On a GPU they and the links of the chain are one launch where they follow each other (joined.h).
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Chosen on a GPU where their boxes have no more elements than the tensor, which the fill would write.
void write_rests(Rewriting& r);

}  // namespace tilec::codegen
