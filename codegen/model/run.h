// How many lines of a tensor a leaf asks for one behind the other, in the order in which its loops turn: a core fetches
// them ahead.
//
//   dA[m, k] = +(dC[n, m] * B[n, k]), blocks of 32 m, then n, then m
//     ⇒  of dC runs of 2 lines, each a row of n from the one before
//   the same by turns n, then m                                          ⇒   of dC one run
#pragma once

#include <cstdint>

#include "codegen/model/machine.h"
#include "codegen/model/walk.h"
#include "codegen/nest.h"

namespace tilec::codegen::model {

// In lines, 1 at least. `reach`: bytes of a step that goes on with a run.
double run_of(const FlatAccess& access, const Walk& walk, std::int64_t element_bytes, double reach = model::reach);

}  // namespace tilec::codegen::model
