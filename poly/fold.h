// Constants folded and identities removed in the value of a statement, bit for bit.
//
//   (2.0 + 1.0) * x / 1.0 - 0.0     ⇒    3.0 * x
//   x + 0.0, x * 0.0                     stay: -0.0 + 0.0 is 0.0, and inf * 0.0 is NaN
//   1.0 / 3.0                            stays: no f32 is a third, and text could not say it
//
// In: a typed expression.   Out: one with the same value and type at every point.
#pragma once

#include "poly/program.h"

namespace tilec::poly {

Expr folded(const Expr& value);

}  // namespace tilec::poly
