// Rows that a gather would copy are read where they lie, and what a scatter would add up is summed for each row.
//
//   A = gather(W, I);  Y[t, o] = +(A[t, i, o] * X[t, i]);
//     ⇒  Y[t, o] = +(v == I[t] ? W[v, i, o] * X[t, i] : 0)
//   dA[t, i, o] = =(X[t, i] * dY[t, o]);  dW = scatter(dA, I, V);
//     ⇒  dW[v, i, o] = +(v == I[t] ? X[t, i] * dY[t, o] : 0)
//
// I clamped. The first condition tells v (codegen/conditions.h), so that there is no loop over it. The second is asked
// for each v and t, and saves dA. Both where the model likes it better: a copy lies as its readers want.
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

void seek_rows(Rewriting& r);

}  // namespace tilec::codegen
