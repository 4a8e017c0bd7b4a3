// The maximum of a pass that others read before all of it is known.
//
//   M[i] = >(X[i, j]);  Z[i] = +(exp(X[i, j] - M[i]))
//     ⇒  exp(X - M) has the factor exp(-M) once and depends on M in no other way: a sum of it for another maximum is
//        that sum times exp(M - other)
#pragma once

#include "codegen/rewrite/online_members.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Why what members read of each other cannot be known in time; none: it can.
Refusal maximum_fault(const OnlineMembers& members);
// Whether folds that others read can be found without these: they, and what they read, are a pass.
bool knows_folds_first(const OnlineMembers& members);

}  // namespace tilec::codegen
