// Derivatives of one's own: `gradient f(…)` and `tangent f(…)` of the text become a Rule at the results of a call of f.
//
//   gradient clip(X, Y, DY) -> (DX) { DX = max(-1.0, min(1.0, DY)); }     Y = clip(X);
//     ⇒  Rule{ operands {X}, targets {Y}, gradient: a Program with inputs X, Y, DY and output DX }
//
// In: the call's arguments and results.
// Out: the Rule in the scope's Program; a result that is an argument, or has a rule already, becomes a copy, so that a
//      tensor has one rule.
// Errors: other numbers of inputs or results, other shapes.
#pragma once

#include <vector>

#include "poly/scope.h"

namespace tilec::poly {

struct Derivatives {
  lang::Definition gradient, tangent;                  // without function: none
  bool any() const { return gradient.function || tangent.function; }
};

Derivatives derivatives_of(const lang::Definition& function);  // beside it, in its file

Named placeless(Named named);                          // of calls that are alike the places differ
bool same_call(const Derivation& a, const Derivation& b);

// Once all is built: the derivatives that its rules name.
void list_derivatives(Scope& scope);

// Scalars that are computed at run time become tensors, which a rule can name.
bool store_arguments(Scope& scope, std::vector<Named>& arguments);
bool attach_rule(Scope& scope, const Derivatives& derivatives, const lang::Call& call,
    const std::vector<Named>& arguments, std::vector<Named>& results, Span span);

}  // namespace tilec::poly
