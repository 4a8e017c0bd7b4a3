// Names that stay for one version. Those that parameters of a function had: who gives a value by one is told the name
// of today. And functions that go: who calls one is told what to write.
//
//   [[formerly("S=stride, D=dilation")]] function conv<stride=1, dilation=1>(X[N]) -> (Y) { … }
//     conv<S=2>(X), `--define S=2`  ⇒  `stride` is 2, and W0220 says so
//   [[deprecated]] function softmax1(X[N]) -> (Y) { Y = softmax(X); }
//     softmax1(A)  ⇒  W0221: write `softmax(X)`
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

// What to write for a function that goes: the string of its `[[deprecated("…")]]`, without one the call that is its
// body. None: it stays.
std::optional<std::string> instead_of(const Function& function);
void check_deprecated(const Function& function, Diagnostics& diagnostics);
// Says so where a function that goes is called or compiled.
void warn_of_deprecated(const Function& function, Span span, Diagnostics& diagnostics);

}  // namespace tilec::lang
