// What the model says of a program as its directives leave it so far: milliseconds, with the leaves that would be
// chosen.
#pragma once

#include <limits>

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// `bar`: what other directives come to. Far above it, leaves are those that counts choose.
double predicted(Rewriting r, double bar = std::numeric_limits<double>::infinity());

}  // namespace tilec::codegen
