// Tuples in expressions: a function or an operator on tuples works on their components, one by one. A component may be
// a tuple.
//
//   T = tuple(A, B);  U = relu(T);      ⇒     U is (relu(A), relu(B))
#pragma once

#include "poly/scope.h"

namespace tilec::poly {

// A name of a tuple, or a component of one that is a tuple itself; null for everything else.
const Named* known_tuple(const Scope& scope, const lang::Expr& expr);
// What an expression stands for where it is made as a tuple: by `tuple(A, B)`, or by a function or an operator on
// tuples.
bool makes_tuple(const Scope& scope, const lang::Expr& expr);
std::optional<Named> tuple_made(Scope& scope, const lang::Expr& expr, const std::string& name);

}  // namespace tilec::poly
