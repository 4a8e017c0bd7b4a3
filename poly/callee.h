// The function that a name means, and what its text tells before it is built.
//
//   function half(N) -> (H) { H = N/2; }   ⇒   its input is used as a size, and it gives one
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "poly/scope.h"

namespace tilec::poly {

// The function a name means here, a compile-time parameter included; nothing for scalar functions like `exp`.
std::optional<lang::Definition> function_meant(const Scope& scope, const lang::Name& name);
// Of a name in front of `(` that is neither a function here nor built in: is it a compile-time parameter? Reports that
// it is no function.
bool is_called_number(Scope& scope, const lang::Name& name);
// `F(X)` with a parameter F that stands for the built-in `relu` is `relu(X)`; every other call is itself.
lang::Call meant(const Scope& scope, const lang::Call& call);
bool is_scalar_function(std::string_view name);        // built in, of elements
bool is_comparison(const lang::Expr& expr);

// Of sizes, as far as the text tells: it computes a size by nothing else.
bool gives_size(const Scope& scope, const lang::Definition& callee, const lang::Call& call);
// What the callee, a function of the text, uses each input of a call for.
std::vector<InputUse> size_inputs(const Scope& scope, const lang::Call& call);
// Operations on whole tensors that are operations on their elements, small enough to stand for a call.
bool is_one_expression(const Scope& scope, const lang::Definition& callee);

}  // namespace tilec::poly
