// The statements of a function, each of which becomes nodes of the Program and a name of the scope: a tensor, a size
// (`P = K/2;`), a scalar without a type (`Eps = 1e-5;`) or a tuple.
//
// In: a scope in which everything before is declared.
// Out: the scope with the statement's names; faults set scope.failed.
#pragma once

#include <optional>

#include "poly/scope.h"

namespace tilec::poly {

void add_statement(Scope& scope, const lang::Function& function, const lang::Statement& statement);

// The type of a target, written where it is assigned or in the list of results; false after a report of two that
// differ.
bool written_type(Scope& scope, const lang::Function& function, const lang::Target& target, std::optional<DType>& type);

}  // namespace tilec::poly
