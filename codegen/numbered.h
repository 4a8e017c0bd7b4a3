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

// Where a thread has all values of an output and a part of m's, n is numbered in two parts: as many values as a line
// holds, and around the dimension before them the others, so that blocks have windows which overlap.
//
//   over n x  m c y  n g, 16 of g, of which 4 fill a line     ⇒   n y g/4 x g%4
//
// All of n's values: it is one.
std::int64_t values_of_line(const poly::Program& program, const Nest& nest, const Compute& leaf);

}  // namespace tilec::codegen
