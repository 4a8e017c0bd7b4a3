// Names that parameters of a function had in an earlier version: who gives a value by one is told the name of today.
//
//   [[formerly("S=stride, D=dilation")]] function conv<stride=1, dilation=1>(X[N]) -> (Y) { … }
//     conv<S=2>(X), `--define S=2`  ⇒  `stride` is 2, and W0220 says so
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

struct Former { std::string former, now; Span span; };
// What the attributes of a function say, and of what is no such pair why not.
std::vector<Former> former_names(const Function& function, Diagnostics& diagnostics);

// The parameter with a name, or that once had it; null: none.
const Parameter* parameter_called(const Function& function, std::string_view spelled);
// Where it is called differently today: says so of a value that is given here.
void warn_of_former(
    const Function& function, const Parameter& parameter, std::string_view given, Span span, Diagnostics& diagnostics);

}  // namespace tilec::lang
