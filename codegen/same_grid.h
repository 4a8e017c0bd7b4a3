// Kernels that may run beside each other, whose threads have the same places of the same grid, are one kernel: a thread
// does what they do one after the other, so that it reads once what they share and writes whole sectors with its
// neighbours.
//
//   k0_Y: for turn in block 64 { for l in thread 128 { Y[2*e] = … X[2*e], X[2*e + 1] … } }
//   k1_Y: for turn in block 64 { for l in thread 128 { Y[2*e + 1] = … X[2*e], X[2*e + 1] … } }
//     ⇒  for turn in block 64 { for l in thread 128 { Y[2*e] = …; Y[2*e + 1] = …; } }
#pragma once

#include <optional>
#include <vector>

#include "codegen/lowered.h"

namespace tilec::codegen {

// None where they have nothing in common, or need what the threads of a block have together, or blocks would be few.
std::optional<Body> in_one_thread(const std::vector<Step>& steps);

}  // namespace tilec::codegen
