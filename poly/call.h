// Calls of functions that make tensors: built-in ones, and functions of the text, which are inlined.
//
//   function f(X) -> (Y) { T = 2*X; Y = T + 1; }      B = f(A);    ⇒    T = 2*A;   B = T + 1;
//
// Hygienic: names inside the callee are its own, and its tensors get names the caller does not use. Ranks and types of
//           the
// callee's inputs are those of the arguments, so one function serves all of them. A function with a `gradient` or
// `tangent` of its own leaves a Rule at its results.
#pragma once

#include "poly/scalar.h"
#include "poly/scope.h"

namespace tilec::poly {

// The function a name means here, a compile-time parameter included; nothing for scalar functions like `exp`.
std::optional<lang::Definition> function_meant(const Scope& scope, const lang::Name& name);
// Of a name in front of `(` that is neither a function here nor built in: is it a compile-time parameter? Reports that
// it is no function.
bool is_called_number(Scope& scope, const lang::Name& name);
// `F(X)` with a parameter F that stands for the built-in `relu` is `relu(X)`; every other call is itself.
lang::Call meant(const Scope& scope, const lang::Call& call);
bool makes_tensors(const Scope& scope, const lang::Call& call);

// `name` is for what the call makes. Nothing after a report.
std::optional<Named> made_by(Scope& scope, const lang::Call& call, const std::string& name, Span span);

// A function of scalars, called in a contraction's body. In an elementwise statement a function that is one expression
// becomes part of it too, so that what stands under a `?:` there is still computed where it holds only.
std::optional<Scalar> inlined_in_body(Body& body, const lang::Definition& callee, const lang::Call& call, Span span);
bool is_one_expression(const Scope& scope, const lang::Definition& callee);
std::optional<Shape> shape_of_one_expression(
    Body& body, const lang::Definition& callee, const lang::Call& call, const std::string& name, Span span);

// Of sizes, as far as the text tells: it computes a size by nothing else.
bool gives_size(const Scope& scope, const lang::Definition& callee, const lang::Call& call);

// What the callee, a function of the text, uses each input of a call for.
std::vector<InputUse> size_inputs(const Scope& scope, const lang::Call& call);

// Binds the compile-time parameters of a function; `values` are those of a call, in order, looked up in `caller`.
bool bind_parameters(Scope& scope, const lang::Function& function, const std::vector<lang::Argument>& values,
    const Scope& caller, Span span);

}  // namespace tilec::poly
