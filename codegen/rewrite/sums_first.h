// Small sums before all else, on a GPU.
//
//   Mx[i] = >(X[i, j]);  Total[] = +(K[i] >= 0);  dX[i, j] = =(f(X[i, j], Mx[i]) / Total[])
//     ⇒  Total first: Mx and dX then share rows (rows.h), and X is read once
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// What is summed of little that inputs hold, as the number of labels that count, where it stands between statements
// that read the same large tensor. Whatever the plan says, for plans name no order.
void put_small_sums_first(Rewriting& r);

}  // namespace tilec::codegen
