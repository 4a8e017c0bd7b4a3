// Which loops of a statement are turns, and which leaf runs inside them, where that decides how often operands are
// fetched.
//
//   C[m, n] = +(A[m, k] * B[n, k]), 29302 x 4 over 554, lanes along k   ⇒   turns of m, rows of n: A is read once;
//                                                                           turns of n, rows of m: four times, from
//                                                                           memory
//
//   dA[b, m] = +(dC[b, n] * B[b, m, n]), 4000 x 60 over 40
//     ⇒  turns of 125 values of b, not of one: what is left of b is a loop around
//                                                                the blocks, whose next turns they ask memory for
//
// The leaf's own estimate counts loads and folds. What a cache has lost between two blocks is known of loops in their
// order only, so a few orders are predicted; far from what would be enough, each with the leaves that cost little more
// by counts (33 of 1,800 rows, 1.02 times as fast, 0.6 to 2.0).
#pragma once

#include "codegen/choose/leaf.h"
#include "codegen/model/predict.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

// `group` has one leaf, of the nest, chosen: others take its place where the model says that they cost less. Whether
// its turns are others now. `today`: as it is.
bool choose_turns(Group& group, Why& why, const Nest& nest, model::OneGroup& predicted, const model::Prediction& today,
    const Target& target);

}  // namespace tilec::codegen
