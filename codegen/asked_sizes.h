// What a caller asked for with `--size`, against what the text and the arguments say.
//
//   f(A[M, K]) with A: 3x4 and --size M=7     ⇒   E0550: `M` is 3 in `A` but 7 in `--size`
//   f(A[M, K]) with --size m=3                ⇒   E0551: `m` is no size of this function; did you mean `M`?
//   f<S=2>(X[N]) with --size S=3  ⇒  E0551: `S` is no size of this function; it is a compile-time parameter
#pragma once

#include "codegen/pipeline.h"

namespace tilec::codegen {

// `contraction` is what `request` builds. False: errors are in `diagnostics`.
bool sizes_fit(
    const lang::File& file, const Request& request, const poly::Program& contraction, lang::Diagnostics& diagnostics);

}  // namespace tilec::codegen
