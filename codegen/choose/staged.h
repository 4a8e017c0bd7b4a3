// The tile of a contraction of two factors for a block of threads (codegen/staged.h).
//
//   C[i, j] = +(A[i, k] * B[k, j]), 4096 x 4096 over 4096     ⇒   block 8x8  lanes 16  stage 8, 256 threads
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/choose/facts.h"

namespace tilec::codegen {

// Which contractions have a tile: large ones, also small ones, or large ones whose stages go through all of several
// reductions as one.
enum class Staged { Large, AlsoSmall, Across };

// Cycles of the busiest multiprocessor for one value of the reduction, where the sum of a staged contraction has so
// many parts; none: it is not staged.
std::optional<double> staged_cycles(const Facts& f, double parts, const Target& target);
// None where the nest is no such contraction. `threads`: of a block.
std::optional<Compute> staged_leaf(
    const Facts& f, int node, const Target& target, std::int64_t& threads, Staged which = Staged::Large);

}  // namespace tilec::codegen
