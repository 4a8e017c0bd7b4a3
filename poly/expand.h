// Built-in functions that are written in Tile: the statements of a small function, put into the caller's Program.
//
//   expand(scope, "function (X[M, N]) -> (Y) { Y[i: M] = +(X[i, k]); }", {A}, {"B"}, span)
//     ⇒  B[i: P] = +(A[i, k]);      A[P, Q]
//
// In:  text without faults of its own; for each input what it stands for (a tensor also binds the sizes of its
//      brackets, which its caller has compared); a name for each result, all of which the text makes.
// Out: what the results are. Tensors made on the way get names that the caller does not use. Every place is that of the
//      call.
#pragma once

#include <string>
#include <vector>

#include "poly/scope.h"

namespace tilec::poly {

std::optional<std::vector<Named>> expand(Scope& scope, const std::string& text, const std::vector<Named>& inputs,
    const std::vector<std::string>& names, Span span);

}  // namespace tilec::poly
