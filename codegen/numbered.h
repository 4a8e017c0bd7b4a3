// The order in which the elements of a leaf, in blocks of m, are numbered for threads, outermost first.
//
//   over x g  m y  n c, of Y[y, x, g, c]     ⇒   y x g c, where c is less than a warp: what lies side by side has
//                                                neighbours in it;   x g y c, where it is one
#pragma once

#include <string>
#include <vector>

#include "codegen/nest.h"
#include "codegen/plan.h"

namespace tilec::codegen {

std::vector<std::string> numbered(const Nest& nest, const Compute& leaf);

}  // namespace tilec::codegen
