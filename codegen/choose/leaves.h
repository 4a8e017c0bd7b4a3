// The leaf of each statement, where the model knows a faster one than that which costs least by counts.
//
//   contract dB_s  over k0  n b0  k m0  block 1x1   predicted 7.3 ms
//     ⇒  contract dB_s  m k0  n b0  k m0  block 6x2  taps 1   predicted 2.0
//
// A count weighs hundreds of blocks and knows little of the caches. The model is asked about the few best.
#pragma once

#include <optional>
#include <vector>

#include "codegen/model/known.h"
#include "codegen/model/predict.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

void choose_leaves(Plan& plan, const Strides& strides, const Target& target);
// The same of a plan whose groups take so long: whether some leaves are others now. None: it does not come below
// `wanted` milliseconds, whatever the leaves are that were not asked about. `seen`: of the leaves as they are.
std::optional<bool> choose_leaves(Plan& plan, const model::KnownPlan& statements, std::vector<model::SeenGroup>& seen,
    const Strides& strides, const Target& target, std::vector<model::GroupTime> times, double wanted);
// Vectors half as long, where masks leave fewer of their lanes empty. Of what is chosen already: layouts that were
// weighed with such vectors were others, and as often slower.
void choose_vectors(Plan& plan, const Strides& strides, const Target& target);

}  // namespace tilec::codegen
