// Walks the loops of kernels without their numbers and counts what runs innermost.
//
//   for i in serial 5 { for k in serial 3 { acc[0] = fma(a, b, acc[0]) } }    ⇒    15
//
// A fold step is a store to a register whose value reads that register: one multiply-add of one point of a reduction.
// It counts as often as the loops around it turn, and in a vector loop once per lane. Lanes past the edge compute with
// the others but store nothing: they are counted apart, as idle. So `steps` is the number of points of the statement if
// and only if no point is computed twice and none in vain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/lowered.h"

namespace tilec::codegen {

struct Steps { std::int64_t steps = 0, idle = 0; };

// Throws std::runtime_error where a bound or condition needs a number from memory that is no table's, or a Serial loop
// would not run.
Steps fold_steps(const Loops& loops);
Steps fold_steps(const Lowered& package);

// Conditions that stand in a loop without loops inside, printed. Masks (conditions on lanes) are no branches and not
// listed.
std::vector<std::string> innermost_branches(const Loops& loops);

}  // namespace tilec::codegen
