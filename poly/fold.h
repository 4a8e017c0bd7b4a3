// Constants folded and identities removed in the value of a statement, bit for bit.
//
//   (2.0 + 1.0) * x / 1.0 - 0.0     ⇒    3.0 * x
//   a*b + b*a, x + (-y), n - n           ⇒    2.0 * (a*b), x - y, 0    (n an integer, or a float that is always finite)
//   x + 0.0, x * 0.0, x - x              stay: -0.0 + 0.0 is 0.0, inf * 0.0 and inf - inf are NaN
//   1.0 / 3.0                            stays: no f32 is a third, and text could not say it
//
// In: a typed expression.   Out: one with the same value and type at every point.
#pragma once

#include "poly/program.h"

namespace tilec::poly {

Expr folded(const Expr& value);

// Without the parts that a number rules out: of `2 == inf ? a : b` b is left, so that it alone has a derivative. All
// else stays as it is.
Program decided(Program program);

// With numbers in the place of what is computed of numbers alone, rounded as every target rounds it: 1.0 / 3.0 is the
// f32 nearest to a third.
Expr with_rounded_numbers(const Expr& value);

// The value as a tensor of that type holds it: what is computed in f16 and bf16 is not rounded without a cast.
Expr as_stored(const Expr& value, lang::DType type);

}  // namespace tilec::poly
