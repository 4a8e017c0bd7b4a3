// What the model says of a program as its directives leave it so far: milliseconds, with the leaves that would be chosen.
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

double predicted(Rewriting r);

}  // namespace tilec::codegen
