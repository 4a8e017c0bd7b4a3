// Checks the invariants of a Program. A breach is our bug: it throws InternalError, naming the statement and the rule.
#pragma once

#include "poly/program.h"

namespace tilec::poly {

enum class Stage { Symbolic, Bound, Bounded };         // Bound: every Size is an integer; Bounded: domains start with a
                                                       // hull row per index
void verify(const Program& program, Stage stage);

}  // namespace tilec::poly
