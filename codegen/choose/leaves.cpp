#include "codegen/choose/leaves.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "codegen/choose/leaf.h"
#include "codegen/choose/turns.h"
#include "codegen/model/estimates.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite.h"

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

// A leaf of a plan, what it takes today, and what another one must take less than to stand there.
struct Asked {
  Plan& plan;
  std::size_t group, leaf;
  const Strides& strides;
  const Target& target;
  const model::KnownGroup& statements;
  double now, wait;                                    // of its milliseconds, for what must move
  double least = model::faster_leaf * now;

  Group& in() const { return plan.groups[group]; }
  Compute& today() const { return in().body[leaf]; }
  Nest nest() const { return nest_to_choose(statements[leaf].nest, plan.program, in(), today(), strides); }
  Facts facts_of(const Nest& nest) const { return facts(nest, loops_of_turn(in()), target); }

  void take_if_faster(Compute other, const model::OneGroup::Rest& rest = [](Compute&) {}) {
    std::swap(today(), other);
    const double with =
        model::OneGroup(plan.program, statements, target).milliseconds_of_leaf(in(), leaf, least, wait, rest);
    if (with < least) {
      least = with;
      plan.why[group].leaves[leaf].predicted = with;
      plan.why[group].leaves[leaf].by_counts = now;
    } else {
      std::swap(today(), other);
    }
  }
};

bool same_but_for_requests(Compute a, const Compute& b) {
  a.ahead = b.ahead;
  if (a.block() && b.block()) a.block()->claims = b.block()->claims;
  return a == b;
}

void choose_other_leaf(Asked asked) {
  const Nest nest = asked.nest();
  const Facts known = asked.facts_of(nest);
  for (Compute& leaf : other_leaves(known, asked.today().node, model::leaves_asked_about))
    if (!same_but_for_requests(leaf, asked.today()) && lanes_apart(nest, leaf) <= lanes_apart(nest, asked.today()))
      asked.take_if_faster(std::move(leaf), [&](Compute& made) { ask_ahead(known, made); });
  if (std::optional<Compute> along = along_rows(known, asked.today()))
    asked.take_if_faster(std::move(*along));
}

void halve_vectors(Asked asked) {
  const Nest nest = asked.nest();
  if (std::optional<Compute> half = with_half_vectors(asked.facts_of(nest), asked.today()))
    asked.take_if_faster(std::move(*half));
}

// Asks about the leaves of a group that may be others and take long enough. Whether some leaf may be another one.
bool ask_each(Plan& plan, std::size_t g, const model::KnownGroup& statements, const Strides& strides,
    const Target& target, const std::function<void(Asked)>& ask) {
  if (std::ranges::none_of(plan.groups[g].body, may_change)) return false;
  const model::PlanPrediction::Of today =
      model::OneGroup(plan.program, statements, target).predict(plan.groups[g]);
  for (std::size_t l = 0; l < plan.groups[g].body.size(); ++l)
    if (may_change(plan.groups[g].body[l]) && today.leaves[l].milliseconds >= model::worth_asking)
      ask({plan, g, l, strides, target, statements, today.leaves[l].milliseconds,
          today.leaves.size() == 1 ? model::least_wait(today.bytes.must, target) : 0});
  return true;
}

// Whether the turns of a group of one statement are others now. Folds have theirs since `schedule`: layouts are weighed
// with them.
bool choose_turns_of(
    Plan& plan, std::size_t g, const model::KnownGroup& statement, const Strides& strides, const Target& target) {
  Group& group = plan.groups[g];
  if (group.body.size() > 1 || group.body.front().is<forms::Reduce>()) return false;
  return choose_turns(group, plan.why[g], plan.program,
      nest_to_choose(statement.front().nest, plan.program, group, group.body.front(), strides), statement, target);
}

void choose_leaves_of(
    Plan& plan, std::size_t g, const model::KnownGroup& known, const Strides& strides, const Target& target) {
  if (!ask_each(plan, g, known, strides, target, choose_other_leaf) ||
      !choose_turns_of(plan, g, known, strides, target))
    return;
  const model::PlanPrediction::Of now = model::OneGroup(plan.program, known, target).predict(plan.groups[g]);
  choose_other_leaf({plan, g, 0, strides, target, known, now.leaves.front().milliseconds,
      model::least_wait(now.bytes.must, target)});
}

}  // namespace

void choose_leaves(Plan& plan, const Strides& strides, const Target& target) {
  if (!model::predicts_time(target)) return;
  const model::KnownPlan statements = model::known(plan, strides, target);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) choose_leaves_of(plan, g, statements[g], strides, target);
}

bool choose_leaves(Plan& plan, const model::KnownPlan& statements, const Strides& strides, const Target& target,
    std::vector<model::GroupTime> times, double wanted) {
  // Those first from which most may come off.
  std::vector<std::size_t> order = in_order(times.size());
  std::ranges::stable_sort(order, {}, [&](std::size_t g) { return times[g].least - times[g].milliseconds; });
  for (const std::size_t g : order) {
    if (sum(times, &model::GroupTime::least) >= wanted) return false;
    choose_leaves_of(plan, g, statements[g], strides, target);
    if (g == order.back()) break;
    // as if it were alone, with all of the caches
    const double now = model::OneGroup(plan.program, statements[g], target).predict(plan.groups[g]).milliseconds;
    times[g].least = std::max(times[g].least, now);
  }
  return true;
}

void choose_vectors(Plan& plan, const Strides& strides, const Target& target) {
  if (!model::predicts_time(target)) return;
  const model::KnownPlan statements = model::known(plan, strides, target);
  for (std::size_t g = 0; g < plan.groups.size(); ++g)
    ask_each(plan, g, statements[g], strides, target, halve_vectors);
}

}  // namespace tilec::codegen
