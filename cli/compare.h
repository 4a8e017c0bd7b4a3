// Two independent opinions on a result: the interpreter, and (of a gradient) finite differences.
#pragma once

#include <vector>

#include "cli/session.h"
#include "runtime/specialise.h"

namespace tilec::cli {

// Integers must agree exactly, floats within 8·eps(T)·Σ|terms|. Prints a line per output; program_error when one is off.
int compare_with_interpreter(const runtime::Specialisation& made, const std::vector<runtime::Tensor>& inputs, const std::vector<runtime::Tensor>& outputs);

// The gradient against (L(x + h·v) - L(x - h·v)) / 2h with L(x) = Σ dO·O(x) computed in f64, along random directions v of each
// input. Cotangents that are not given are random. Prints a line per input; program_error when one is off.
int compare_with_differences(const runtime::Callable& callable, const std::vector<runtime::Argument>& arguments, Session& session);

}  // namespace tilec::cli
