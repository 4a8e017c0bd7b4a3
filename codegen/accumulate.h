// Adds to what outputs hold instead of writing them, as a caller may ask of each.
//
//   f(A) -> (O)  at position 0   ⇒   f(A, O_before) -> (O_after),   O_after[i: N] = =(O_before[i] + O[i]);
//
// The sum is taken in the type that sums of O are taken in, and rounded once. Inputs are added at the end, in the order
// of `positions`; who runs the program fills them with what the outputs hold.
#pragma once

#include <cstddef>
#include <vector>

#include "poly/program.h"

namespace tilec::codegen {

poly::Program accumulated(const poly::Program& program, const std::vector<std::size_t>& positions);

}  // namespace tilec::codegen
