// Calls between the functions of a file and its imports: who is meant, how much is given and taken, no recursion; and
// that a `gradient` or `tangent` stands beside its function.
//
//   function f(X) -> (Y) { Y = g(X, 2); }   function g(X) -> (Y) { Y = f(X); }
//     ⇒  error: `g` takes 1 input but is given 2;   error: a function cannot call itself: f → g → f
//
// What a compile-time parameter stands for is only known where it is called: poly/build.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

// The values of a call's `< >` in the order of the function's parameters; null: the default. Reports what finds no
// place, and what is missing.
std::optional<std::vector<const Argument*>> in_order(
    const Function& function, const std::vector<Argument>& given, Span call, Diagnostics& diagnostics);
// The parameter that the k-th of them is for; null: none.
const Parameter* parameter_of(const Function& function, const std::vector<Argument>& given, std::size_t k);
// The arguments of a call in the order of the function's inputs; null: the default. Reports what finds no place, and
// what is missing.
std::optional<std::vector<const Expr*>> in_order(
    const Function& function, const Call& call, Span span, Diagnostics& diagnostics);
// A value that is written where the function is called, or where a parameter gets its default: is it one of the names
// that the parameter may be, a number where that has a number?
bool fits(const Function& function, const Parameter& parameter, const Argument& value, Diagnostics& diagnostics);

void check_calls(const File& file, Diagnostics& diagnostics);

// That this file can call, for suggestions.
std::vector<std::string> function_names(const File& file);

// Of a call with an argument too many: `top_k<3>(A)` for `top_k(A, 3)`, where `< >` is empty and the last argument
// could stand in it.
std::optional<std::string> with_parameter(const Call& call);

}  // namespace tilec::lang
