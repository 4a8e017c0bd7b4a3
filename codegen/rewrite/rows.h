// Which statements share a launch: those whose targets start with the same dimensions and that read each other at their
// own row.
//
//   Mx[i] = >(X[i, j]);  E[i, j] = =(exp(X[i, j] - Mx[i]));  S[i] = +(E[i, j]);  Y[i, j] = =(E[i, j] / S[i]);
//     ⇒  one set with rows {i}: a turn reads some rows of X, keeps Mx, E, S in cache, writes those rows of Y
//
// Rows are first dimensions, or any others, or what sums run over (share.h), whichever moves fewer bytes
// (choose/traffic.h).
#pragma once
#include <vector>
#include "codegen/fuse.h"
#include "codegen/rewrite/rewriting.h"
namespace tilec::codegen {
// Indices that become the set's loops get one name in all its statements, in the program.
void share_rows(Rewriting& r);
// Whether statements would.
bool may_share_rows(const Rewriting& r);

// What the directives leave: rows where they lie best, and statements in sets, those that directives share, every other
// one alone.
Fused in_sets(Rewriting r);

}  // namespace tilec::codegen
