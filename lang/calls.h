// Calls between the functions of a file and its imports: who is meant, how much is given and taken, no recursion; and that a
// `gradient` or `tangent` stands beside its function.
//
//   function f(X) -> (Y) { Y = g(X, 2); }   function g(X) -> (Y) { Y = f(X); }
//     ⇒  error: `g` takes 1 input but is given 2;   error: a function cannot call itself: f → g → f
//
// What a compile-time parameter stands for is only known where it is called: poly/build.
#pragma once

#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

void check_calls(const File& file, Diagnostics& diagnostics);

// That this file can call, for suggestions.
std::vector<std::string> function_names(const File& file);

}  // namespace tilec::lang
