// Extremes that results do not depend on, though they are computed from them.
//
//   M[i] = >(X[i, j]);   E[i, j] = =(exp(X[i, j] - M[i]));   Z[i] = +(E[i, j]);   Y[i, j] = =(E[i, j] / Z[i])
//     ⇒  for M + s, E and Z are exp(-s) times what they are, and Y is the same: its derivative by M is 0
//
// Softmax subtracts a maximum for the range of exp alone. A derivative that went through it would ask which elements
// are equal to it, and add up what is 0 but for rounding.
#pragma once

#include <vector>

#include "poly/program.h"

namespace tilec::autodiff {

// Per tensor: whether it is a maximum or minimum that none of these outputs depends on.
std::vector<bool> without_effect(const poly::Program& program, const std::vector<poly::TensorId>& of);

}  // namespace tilec::autodiff
