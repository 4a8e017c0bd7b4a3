// Size names as types: an index that ranges over `N` of one tensor and `K` of another in one contraction is most often
// a slip.
//
//   C[i, j: M, N] = +(A[i, k] * B[k, j]);   with A[M, K], B[N, K]
//     ⇒  warning: index `k` ranges over `K` of `A` and over `N` of `B`      hint: `B[j, k]` reads every element
//
// Names that a `dim` item declares must not meet others at all, neither at an index nor in an elementwise operation,
// and not in what is called either: there a size name stands for the one it is called with. Calls of the same
// dimensions are looked at once. Only plain names are compared: `N + 1` or `3` says nothing. All of this is about text;
// nothing is left at run time.
#pragma once

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

void check_dimensions(const File& file, Diagnostics& diagnostics);

}  // namespace tilec::lang
