// Chooses: the form of each leaf, its block, the order of its loops, what runs in parallel.
//
// One rule set for every statement: lanes go where most accesses have unit stride (an output dimension: Contract or
// Map, else a reduction: Reduce); the block is the one that needs least time by counts of loads, multiply-adds and
// edges.
#pragma once

#include <vector>

#include "codegen/fuse.h"
#include "codegen/nest.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

Plan schedule(const Fused& fused, const Target& target);
// Takes the program, leaves the strides. `nests`: of each group those of its leaves, or none where it has made none.
Plan schedule(Fused&& fused, const Target& target, std::vector<std::vector<Nest>>& nests);

}  // namespace tilec::codegen
