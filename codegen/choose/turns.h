// Which loops of a statement are turns, and which leaf runs inside them, where that decides how often operands are fetched.
//
//   C[m, n] = +(A[m, k] * B[n, k]), 29302 x 4 over 554, lanes along k   ⇒   turns of m, rows of n: A is read once;
//                                                                           turns of n, rows of m: four times, from memory
//
// The leaf's own estimate counts loads and folds. What a cache has lost between two blocks is known of loops in their order only, so a few
// orders are predicted.
#pragma once

#include "codegen/leaf_choice.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

// `group` has one leaf, of the nest, chosen: others take its place where the model says that they cost clearly less.
void choose_turns(Group& group, Why::Leaf& why, const poly::Program& program, const Strides& strides, const Nest& nest, const Target& target);

}  // namespace tilec::codegen
