// Compile-time parameters of a function that is called: what stands in `< >` gets its meaning.
//
//   function f<g=exp, n=2>(X) …     f<relu, K/2>(A)   ⇒   `g` is the built-in `relu`, `n` the size K/2
#pragma once

#include "poly/scope.h"

namespace tilec::poly {

// `values` are those of a call, in order, looked up in `caller`.
bool bind_parameters(Scope& scope, const lang::Function& function, const std::vector<lang::Argument>& values,
    const Scope& caller, Span span);

}  // namespace tilec::poly
