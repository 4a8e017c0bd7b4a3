// What a program may cost the compiler. One beyond a limit is refused (E0132) with the limit and what raises it, and
// not compiled for hours.
//
//   function f(X) -> (Y) { Y = iterate<g, 10000>(X); }      g has 100 calls
//     ⇒  error: … more than 200000 calls; hint: set TILEC_LIMIT_CALLS=…
//
// Each is high enough for what people write and low enough to be reached in seconds; the environment variable of that
// name raises it.
#pragma once

#include <cstdint>
#include <string_view>

#include "lang/diagnostic.h"

namespace tilec::lang {

enum class Limit {
  Calls,                                               // calls of functions that a program makes, those of its calls
                                                       // included
  Nesting,                                             // calls inside calls, which the stack bounds too
  Statements,                                          // of one program, a gradient included
  Components,                                          // of one tuple, those of its tuples included
  Indices,                                             // of one statement, and dimensions of one tensor
  Nodes,                                               // operations and operands of one value
  Operations,                                          // and of all values of a program together
  Terms,                                               // of one size, multiplied out
  Compiled,                                            // operations and operands of all statements that kernels are
                                                       // made of
};
std::int64_t most(Limit limit);
bool within(Limit limit, std::int64_t count, Span span, Diagnostics& diagnostics);  // reports when it is not

}  // namespace tilec::lang
