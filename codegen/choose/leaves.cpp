#include "codegen/choose/leaves.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "codegen/choose/leaf.h"
#include "codegen/choose/turns.h"
#include "codegen/model/estimates.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"

namespace tilec::codegen {

namespace {

bool may_change(const Compute& leaf) {
  return (leaf.is<forms::Map>() || leaf.is<forms::Contract>() || leaf.is<forms::Reduce>()) && !leaf.streams();
}

// Accesses whose lanes are loaded or stored one by one: the model knows what these take in a cache, and too little of
// what they take elsewhere.
std::int64_t lanes_apart(const Nest& nest, const Compute& leaf) {
  const auto step = [&](const FlatAccess& access, const std::string& name) {
    return name.empty() ? 0 : std::abs(access.offset.coefficients[*nest.dim(name)]);
  };
  const auto apart = [&](const FlatAccess& access) {
    return step(access, leaf.n) > model::blocks::shuffled_apart &&
        !(leaf.block() && leaf.block()->turned && step(access, leaf.m()) == 1);
  };
  return std::ranges::count_if(nest.reads, apart) + (apart(nest.target) ? 1 : 0);
}

// The leaf at `at` of a group, if another one takes clearly less; `now`: what it takes today.
void choose_leaf(const poly::Program& program, Group& group, std::size_t at, double now, Why::Leaf& why,
    const Strides& strides, const Target& target) {
  const auto predicted = [&] { return model::predict(program, group, strides, target).leaves[at].milliseconds; };
  const Nest nest = nest_to_choose(program, group, group.body[at], strides);
  double least = model::faster_leaf * now;
  for (Compute& leaf :
      other_leaves(facts(nest, loops_of_turn(group), target), group.body[at].node, model::leaves_asked_about)) {
    if (lanes_apart(nest, leaf) > lanes_apart(nest, group.body[at])) continue;
    std::swap(group.body[at], leaf);
    if (const double with = predicted(); with < least) {
      least = with;
      why.predicted = with, why.by_counts = now;
    } else {
      std::swap(group.body[at], leaf);
    }
  }
}

// Whether the turns of a group of one statement are others now. Folds have theirs since `schedule`: layouts are weighed
// with them.
bool choose_turns_of(Plan& plan, std::size_t g, const Strides& strides, const Target& target) {
  Group& group = plan.groups[g];
  if (group.body.size() > 1 || group.body.front().is<forms::Reduce>()) return false;
  return choose_turns(group, plan.why[g], plan.program, strides,
      nest_to_choose(plan.program, group, group.body.front(), strides), target);
}

}  // namespace

void choose_leaves(Plan& plan, const Strides& strides, const Target& target) {
  if (!model::predicts_time(target)) return;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    Group& group = plan.groups[g];
    if (std::ranges::none_of(group.body, may_change)) continue;
    const model::PlanPrediction::Of today = model::predict(plan.program, group, strides, target);
    for (std::size_t l = 0; l < group.body.size(); ++l)
      if (may_change(group.body[l]) && today.leaves[l].milliseconds >= model::worth_asking)
        choose_leaf(plan.program, group, l, today.leaves[l].milliseconds, plan.why[g].leaves[l], strides, target);
    if (choose_turns_of(plan, g, strides, target)) {
      const double now = model::predict(plan.program, group, strides, target).leaves.front().milliseconds;
      choose_leaf(plan.program, group, 0, now, plan.why[g].leaves.front(), strides, target);
    }
  }
}

void choose_vectors(Plan& plan, const Strides& strides, const Target& target) {
  if (!model::predicts_time(target)) return;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    Group& group = plan.groups[g];
    if (std::ranges::none_of(group.body, may_change)) continue;
    const model::PlanPrediction::Of today = model::predict(plan.program, group, strides, target);
    for (std::size_t l = 0; l < group.body.size(); ++l) {
      const double now = today.leaves[l].milliseconds;
      if (!may_change(group.body[l]) || now < model::worth_asking) continue;
      const Nest nest = nest_to_choose(plan.program, group, group.body[l], strides);
      std::optional<Compute> half = with_half_vectors(facts(nest, loops_of_turn(group), target), group.body[l]);
      if (!half) continue;
      std::swap(group.body[l], *half);
      const double with = model::predict(plan.program, group, strides, target).leaves[l].milliseconds;
      if (with < model::faster_leaf * now)
        plan.why[g].leaves[l].predicted = with, plan.why[g].leaves[l].by_counts = now;
      else std::swap(group.body[l], *half);
    }
  }
}

}  // namespace tilec::codegen
