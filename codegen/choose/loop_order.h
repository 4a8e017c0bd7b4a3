// In which order the loops of a leaf stand: its reductions, and what stands around its blocks.
//
//   C[b, i, j] = +(A[b, k, l, i] * B[k, l, j])     ⇒   for b, the blocks of i and j, then k, then l, along which both
//                                                      operands have the smaller strides
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "codegen/choose/facts.h"

namespace tilec::codegen {

// Reductions: large strides outside, in what comes from afar where something does; innermost one that is long enough to
// be worth a loop.
std::vector<std::size_t> reduction_order(const Facts& f, std::optional<std::size_t> lane);
// Dimensions that stand neither in the block nor in the fold, those far apart in the target outside.
std::vector<std::size_t> outer_dims(
    const Facts& f, const Compute& leaf, std::optional<std::size_t> lane, std::optional<std::size_t> m);

}  // namespace tilec::codegen
