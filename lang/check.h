// Says what is wrong with a program before ranks, types and sizes are known: names, counts, forms.
//
//   O[i: M] = +(A[i] * b);   ⇒   error: `b` is an index that no access bounds …
//
// In:  a parsed File.   Out: true when no error was reported (warnings may be).
// Keeps: the File; ranks, types and shapes are for poly/build.
#pragma once

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

[[nodiscard]] bool check(const File& file, Diagnostics& diagnostics);

}  // namespace tilec::lang
