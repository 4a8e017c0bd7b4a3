// Calls of functions that make tensors: built-in ones, and functions of the text, which are inlined.
//
//   function f(X) -> (Y) { T = 2*X; Y = T + 1; }      B = f(A);    ⇒    T = 2*A;   B = T + 1;
//
// Hygienic: names inside the callee are its own, and its tensors get names the caller does not use. Ranks and types of
// the callee's inputs are those of the arguments, so one function serves all of them. A function with a `gradient` or
// `tangent` of its own leaves a Rule at its results.
#pragma once

#include "poly/scope.h"

namespace tilec::poly {

bool makes_tensors(const Scope& scope, const lang::Call& call);

// `name` is for what the call makes. Nothing after a report.
std::optional<Named> made_by(Scope& scope, const lang::Call& call, const std::string& name, Span span);

}  // namespace tilec::poly
