// Which statements share a launch: those whose targets start with the same dimensions and that read each other at their own row.
//
//   Mx[i] = >(X[i, j]);  E[i, j] = =(exp(X[i, j] - Mx[i]));  S[i] = +(E[i, j]);  Y[i, j] = =(E[i, j] / S[i]);
//     ⇒  one set with rows {i}: a turn reads some rows of X, keeps Mx, E, S in cache, writes those rows of Y
#pragma once
#include <vector>
#include "codegen/fuse.h"
namespace tilec::codegen {
// Indices that become the set's loops get one name in all its statements, in `program`.
std::vector<Fused::Set> shared_rows(poly::Program& program, const Strides& strides, const Target& target);
}  // namespace tilec::codegen
