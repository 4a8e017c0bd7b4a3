// Reads a program: text ⇒ tree.
//
//   "function f(A[N]) -> (B) { B = relu(A); }"   ⇒   File{ Function f: one input, one result, one Assignment }
//
// In:  any bytes.   Out: the tree of the text, or nothing when there was an error.
// Keeps: spans and comments. Resumes after the next `;` or before the next `}`, so one run shows several errors.
#pragma once

#include <optional>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

// `number`: the position of `source` in the list of sources of this compilation; spans carry it.
std::optional<File> parse(const Source& source, Diagnostics& diagnostics, std::uint32_t number = 0);

}  // namespace tilec::lang
