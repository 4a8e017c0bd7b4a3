// Cycles of a leaf on one core that finds all data in its first-level cache.
//
// Of a block of r rows and v vectors, a step of the reduction takes the most of: r v multiply-adds; a load for each
// vector or splat; the latency of an addition. Then its results are folded and stored.
#pragma once

#include "codegen/model/machine.h"
#include "codegen/model/walk.h"
#include "codegen/nest.h"
#include "codegen/plan.h"

namespace tilec::codegen::model {

double core_cycles(const poly::Program& program, const Known& statement, const Compute& leaf, const Walk& walk,
    const Machine& machine);

}  // namespace tilec::codegen::model
