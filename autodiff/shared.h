// Parts that a value has several times get a statement of their own, where the value is long.
//
//   dA[i: N] = =(dB[i] * (1.0 - t * t) * …)      t = tanh(tanh(… A[i] …)), spelled a hundred times
//     ⇒  V[i: N] = =(tanh(…));   dA[i: N] = =(dB[i] * (1.0 - V[i] * V[i]) * …);
//
// A derivative of a derivative multiplies what a value spells; as statements it only adds to them. Long parts are cut
// as well. Where depends on the part alone, so that equal parts of several values are cut alike and shared: n
// cotangents, each a product of n factors, take a number of statements that grows with n. Short values stay as they
// are, and so do those of points that are no elements of a tensor (the inside of a sum): their parts would need a
// tensor larger than any.
#pragma once

#include "autodiff/companion.h"

namespace tilec::autodiff {

void name_shared(const Companion& companion, poly::Statement& statement);

}  // namespace tilec::autodiff
