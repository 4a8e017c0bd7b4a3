// For which statements the sums of pairs come first (rewrite/pairs.h), by cost.
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

void choose_pairs(Rewriting& r);

}  // namespace tilec::codegen
