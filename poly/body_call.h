// A function of scalars that is called in a contraction's body: its statements take the place of the call. In an
// elementwise statement a function that is one expression becomes part of it too, so that what stands under a `?:`
// there is still computed where it holds only.
//
//   function f(x) -> (y) { t = 2*x; y = t + 1; }     Y[i: N] = =(f(A[i]));   ⇒   Y[i: N] = =(2*A[i] + 1);
#pragma once

#include "poly/scalar.h"
#include "poly/scope.h"

namespace tilec::poly {

std::optional<Scalar> inlined_in_body(Body& body, const lang::Definition& callee, const lang::Call& call, Span span);
std::optional<Shape> shape_of_one_expression(
    Body& body, const lang::Definition& callee, const lang::Call& call, const std::string& name, Span span);

}  // namespace tilec::poly
