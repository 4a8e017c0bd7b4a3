// Compile-time parameters of a function that is called: what stands in `< >` gets its meaning.
//
//   function f<g=exp, n=2>(X) …     f<relu, K/2>(A)   ⇒   `g` is the built-in `relu`, `n` the size K/2
#pragma once

#include "poly/scope.h"

namespace tilec::poly {

// `values` are those of a call, in order, looked up in `caller`.
bool bind_parameters(Scope& scope, const lang::Function& function, const std::vector<lang::Argument>& values,
    Scope& caller, Span span);

// The number that stands in `< >`: `20`, `N`, `K - 2`. Nothing of a name that is none, without a report, and of an
// expression with one, which is reported.
std::optional<Named> number_given(Scope& scope, const lang::Argument& value);

}  // namespace tilec::poly
