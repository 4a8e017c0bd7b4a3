// An expression in a role: an elementwise value, a contraction's body, an index expression, a constraint or a size. The
// role decides what a name may be and whether an access may stand there.
//
//   Y = A[i] + b;       an elementwise value reads whole tensors: write `Y[i: N] = =(A[i] + …)`
//   Y[i: N] = +(A);     a body reads elements: write `A[…]`
#pragma once

#include "lang/check/names.h"

namespace tilec::lang::checking {

void expression(Names& here, const Expr& e, Role role);
// The names of an index expression; then that indices are only added, and scaled by sizes.
void affine(Names& here, const Expr& e, Role role);

}  // namespace tilec::lang::checking
