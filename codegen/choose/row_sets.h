// Which statements share rows: sets are grown from the first statement on, by what can run row by row with it.
//
//   Mx[i] = >(X[i, j]);  E[i, j] = =(exp(X[i, j] - Mx[i]));  S[i] = +(E[i, j]);  Y[i, j] = =(E[i, j] / S[i])
//     ⇒  one set with rows {i}
//
// A statement that cannot join is passed over, with what waits for it.
#pragma once

#include <vector>

#include "codegen/rewrite/share.h"

namespace tilec::codegen {

std::vector<Shared> sets_that_share_rows(const Rewriting& r);

}  // namespace tilec::codegen
