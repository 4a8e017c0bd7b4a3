#include "codegen/choose/leaves.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
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
  model::OneGroup& predicted;
  double now, wait;                                    // of its milliseconds, for what must move
  double bar = std::numeric_limits<double>::infinity();  // nobody wants it from here on
  double least = std::min(model::faster_leaf * now, bar);

  Group& in() const { return plan.groups[group]; }
  Compute& today() const { return in().body[leaf]; }
  Nest nest() const { return nest_to_choose(statements[leaf].nest, plan.program, in(), today(), strides); }
  Facts facts_of(const Nest& nest) const { return facts_in(in(), nest, target); }

  void take_if_faster(Compute other, const model::OneGroup::Rest& rest = [](Compute&) {}) {
    std::swap(today(), other);
    const double with = predicted.milliseconds_of_leaf(in(), leaf, least, wait, rest);
    if (with < least) {
      predicted.keep();
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

void choose_other_leaf(Asked& asked) {
  const Nest nest = asked.nest();
  const Facts known = asked.facts_of(nest);
  for (Compute& leaf : other_leaves(known, asked.today().node, model::leaves_asked_about))
    if (!same_but_for_requests(leaf, asked.today()) && lanes_apart(nest, leaf) <= lanes_apart(nest, asked.today()))
      asked.take_if_faster(std::move(leaf), [&](Compute& made) { ask_ahead(known, made); });
  if (std::optional<Compute> along = along_rows(known, asked.today()))
    asked.take_if_faster(std::move(*along));
}

void halve_vectors(Asked& asked) {
  const Nest nest = asked.nest();
  if (std::optional<Compute> half = with_half_vectors(asked.facts_of(nest), asked.today()))
    asked.take_if_faster(std::move(*half));
}

// A group of a plan, whose leaves may be others.
class Leaves {
 public:
  Leaves(Plan& plan, std::size_t g, const model::KnownGroup& statements, const Strides& strides, const Target& target,
      model::SeenGroup& seen)
      : plan_(plan), group_(plan.groups[g]), g_(g), statements_(statements), strides_(strides), target_(target),
        predicted_(plan.program, statements, target, seen) {}

  // Asks about the leaves that may be others and take long enough. False: the group does not come below `wanted`, as if
  // it were alone, with all of the caches.
  bool ask_each(const std::function<void(Asked&)>& ask, double wanted = std::numeric_limits<double>::infinity()) {
    if (std::ranges::none_of(group_.body, may_change)) return true;
    now_ = predicted_.predict(group_);
    const auto asks = [&](std::size_t l) {
      return may_change(group_.body[l]) && now_->leaves[l].milliseconds >= model::worth_asking;
    };
    double least = now_->milliseconds;                 // of those asked already as they are, of the others at least
    const auto least_of = [&](std::size_t l) {
      return asks(l) ? now_->leaves[l].core / model::leaves_save : now_->leaves[l].milliseconds;
    };
    for (std::size_t l = 0; l < group_.body.size(); ++l) least -= now_->leaves[l].milliseconds - least_of(l);
    for (std::size_t l = 0; l < group_.body.size(); ++l) {
      if (!asks(l)) continue;
      if (least >= wanted) return false;
      const double now = now_->leaves[l].milliseconds;
      least -= least_of(l);
      Asked asked{plan_, g_, l, strides_, target_, statements_, predicted_, now,
          group_.body.size() == 1 ? model::least_wait(now_->bytes.must, target_) : 0, wanted - least};
      const double bar = asked.least;
      ask(asked);
      changed_ = changed_ || asked.least < bar;
      least += asked.least < bar ? asked.least : now;
    }
    return least < wanted;
  }

  // Other turns of one statement, and another leaf in them. Folds have theirs since `schedule`: layouts are weighed
  // with them.
  void choose_turns() {
    if (!now_ || group_.body.size() > 1 || group_.body.front().is<forms::Reduce>()) return;
    if (changed_) now_ = predicted_.predict(group_);
    const Nest nest =
        nest_to_choose(statements_.front().nest, plan_.program, group_, group_.body.front(), strides_);
    if (!codegen::choose_turns(group_, plan_.why[g_], nest, predicted_, *now_, target_)) return;
    changed_ = true;
    now_ = predicted_.predict(group_);
    Asked asked{plan_, g_, 0, strides_, target_, statements_, predicted_, now_->leaves.front().milliseconds,
        model::least_wait(now_->bytes.must, target_)};
    choose_other_leaf(asked);
  }

  // False: as of ask_each.
  bool choose(double wanted) {
    if (group_.body.size() > 1) return ask_each(choose_other_leaf, wanted);
    ask_each(choose_other_leaf);
    choose_turns();
    return true;
  }

  bool changed() const { return changed_; }            // whether it is another group now
  double milliseconds() { return now_ && !changed_ ? now_->milliseconds : predicted_.predict(group_).milliseconds; }

 private:
  Plan& plan_;
  Group& group_;
  const std::size_t g_;
  const model::KnownGroup& statements_;
  const Strides& strides_;
  const Target& target_;
  model::OneGroup predicted_;
  std::optional<model::PlanPrediction::Of> now_;       // of its first leaves; none: no leaf may be another one
  bool changed_ = false;
};

}  // namespace

void choose_leaves(Plan& plan, const Strides& strides, const Target& target) {
  if (!model::predicts_time(target)) return;
  const model::KnownPlan statements = model::known(plan, strides, target);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    model::SeenGroup seen;
    Leaves(plan, g, statements[g], strides, target, seen).choose(std::numeric_limits<double>::infinity());
  }
}

std::optional<bool> choose_leaves(Plan& plan, const model::KnownPlan& statements, std::vector<model::SeenGroup>& seen,
    const Strides& strides, const Target& target, std::vector<model::GroupTime> times, double wanted) {
  for (std::size_t g = 0; g < times.size(); ++g)
    if (times[g].milliseconds < model::worth_asking || std::ranges::none_of(plan.groups[g].body, may_change))
      times[g].least = times[g].milliseconds;
  // Those first from which most may come off.
  std::vector<std::size_t> order = in_order(times.size());
  std::ranges::stable_sort(order, {}, [&](std::size_t g) { return times[g].least - times[g].milliseconds; });
  bool others = false;
  for (const std::size_t g : order) {
    const double least = sum(times, &model::GroupTime::least);
    if (least >= wanted) return std::nullopt;
    Leaves leaves(plan, g, statements[g], strides, target, seen[g]);
    if (!leaves.choose(wanted - (least - times[g].least))) return std::nullopt;
    others = others || leaves.changed();
    if (g == order.back()) break;
    // as if it were alone, with all of the caches
    times[g].least = std::max(times[g].least, leaves.milliseconds());
  }
  return others;
}

void choose_vectors(Plan& plan, const Strides& strides, const Target& target) {
  if (!model::predicts_time(target)) return;
  const model::KnownPlan statements = model::known(plan, strides, target);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    model::SeenGroup seen;
    Leaves(plan, g, statements[g], strides, target, seen).ask_each(halve_vectors);
  }
}

}  // namespace tilec::codegen
