// Tuples in expressions: a function or an operator on tuples works on their components, one by one.
//
//   T = tuple(A, B);  U = relu(T);      ⇒     U is (relu(A), relu(B))
#pragma once

#include "poly/scope.h"

namespace tilec::poly {

// How many components `expr` has when all that it works on are tuples of that many; else nothing.
std::optional<std::size_t> tuple_width(const Scope& scope, const lang::Expr& expr);
// The same expression of component k; the scope gets names for components that no text can write.
lang::Expr of_component(Scope& scope, const lang::Expr& expr, std::size_t k);

}  // namespace tilec::poly
