// Sizes and index expressions of the text.
//
//   N/2 + 1   ⇒   the Size (N/2) + 1        2*i + N - 1, with the index i   ⇒   the Affine 2·i + (N - 1)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "poly/scope.h"

namespace tilec::poly {

std::optional<Size> size_of(Scope& scope, const lang::Expr& expr);
std::optional<Affine> affine_of(Scope& scope, const std::vector<std::string>& indices, const lang::Expr& expr);
// The same for an element of an access, with a warning when no point can make it an integer
// (docs/language.md#index-expressions).
std::optional<Affine> element_of(Scope& scope, const std::vector<std::string>& indices, const lang::Expr& expr);
bool mentions_index(const Scope& scope, const lang::Expr& expr);
bool is_size_expression(const Scope& scope, const lang::Expr& expr);     // of size names and integers only
bool is_assertion(const lang::Expr& expr);             // assert_…(condition)
bool is_size_function(const lang::Call& call);         // broadcast(N, M), match(N, M)

}  // namespace tilec::poly
