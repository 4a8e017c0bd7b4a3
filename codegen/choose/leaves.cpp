#include "codegen/choose/leaves.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "codegen/leaf_choice.h"
#include "codegen/model/estimates.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"

namespace tilec::codegen {

namespace {

bool may_change(const Compute& leaf) { return (leaf.is<forms::Map>() || leaf.is<forms::Contract>() || leaf.is<forms::Reduce>()) && !leaf.streams(); }

// Accesses whose lanes are loaded or stored one by one. The model knows what these take in a cache, and too little of what they take elsewhere.
std::int64_t lanes_apart(const Nest& nest, const Compute& leaf) {
  const auto step = [&](const FlatAccess& access, const std::string& name) { return name.empty() ? 0 : std::abs(access.offset.coefficients[*nest.dim(name)]); };
  const auto apart = [&](const FlatAccess& access) {
    return step(access, leaf.n) > model::blocks::shuffled_apart && !(leaf.block() && leaf.block()->turned && step(access, leaf.m()) == 1);
  };
  return std::ranges::count_if(nest.reads, apart) + (apart(nest.target) ? 1 : 0);
}

}  // namespace

void choose_leaves(Plan& plan, const Strides& strides, const Target& target) {
  if (!model::predicts_time(target)) return;
  for (Group& group : plan.groups) {
    const model::PlanPrediction::Of now = model::predict(plan.program, group, strides, target);
    double sum = now.milliseconds;
    for (std::size_t l = 0; l < group.body.size(); ++l) {
      if (now.leaves[l].milliseconds < model::worth_asking || !may_change(group.body[l])) continue;
      const Nest nest = nest_to_choose(plan.program, group, group.body[l], strides);
      double least = sum - (1 - model::faster_leaf) * now.leaves[l].milliseconds;
      for (Compute& leaf : other_leaves(facts(nest, loops_of_turn(group), target), group.body[l].node, model::leaves_asked_about)) {
        if (lanes_apart(nest, leaf) > lanes_apart(nest, group.body[l])) continue;
        std::swap(group.body[l], leaf);
        const double with = model::predict(plan.program, group, strides, target).milliseconds;
        if (with < least) least = sum = with;
        else std::swap(group.body[l], leaf);
      }
    }
  }
}

}  // namespace tilec::codegen
