// Folds over an index in one pass, with all that they read of a row and that index: which is then never in memory.
//
//   S[i, j] = +(Q[i, d] * K[j, d]);   M[i] = >(S[i, j]);   E[i, j] = =(exp(S[i, j] - M[i]));
//   Z[i] = +(E[i, j]);                U[i, e] = +(E[i, j] * V[j, e])
//     ⇒  online M Z U  rows i  over j: one launch of S, M, E, Z, U (codegen/online_leaf.h). Indices of rows, and j,
//        are called alike in all of them. What others read, too, is computed there once more, under a name of its own.
//
// One of the folds may be a maximum M that others read, though all of it is known at the end only: what depends on M is
// then a product of one factor exp(x - M) and factors that do not depend on M. A sum of it for another maximum is that
// sum times exp(M - other).
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// On targets with threads.
void pass_online(Rewriting& r);
// Why what passes compute again must not be computed elsewhere, too; none: it may. Passes sum a product in one order,
// which others may not have: who asks whether a value is its maximum wants the same bits. Asked when all passes are
// made.
Refusal computed_apart(const Rewriting& r);
// Whether the statement of this tensor belongs to a pass.
bool in_pass(const Rewriting& r, TensorId target);

}  // namespace tilec::codegen
