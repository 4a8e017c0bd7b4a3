#include "codegen/choose/turns.h"

#include <algorithm>
#include <cmath>

#include "codegen/model/machine.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"

namespace tilec::codegen {

namespace {

class Search {
 public:
  Search(Group& group, Why& why, const Nest& nest, model::OneGroup& predicted, const Target& target)
      : group_(group),
        why_(why),
        nest_(nest),
        target_(target),
        predicted_(predicted),
        chosen_(group.body.front()),
        turns_(turns(group.loops)) {}

  // Whether there are other turns now.
  bool run(const model::Prediction& today) {
    const bool folds = chosen_.is<forms::Reduce>();
    if (!folds && today.milliseconds < model::worth_asking) return false;
    if (today.milliseconds <= model::near_the_least * model::least_milliseconds(today.core, today.bytes.must, target_))
      return false;
    wait_ = model::least_wait(today.bytes.must, target_);
    double points = 1;
    for (const Dim& dim : nest_.dims) points *= static_cast<double>(dim.extent);
    const double least =
        model::least_milliseconds(model::arithmetic(points, nest_.value->type(), target_), today.bytes.must, target_);
    far_ = !folds && today.milliseconds >= model::worth_other_orders &&
        today.milliseconds > model::far_from_orders * least;
    const std::vector<Loop> loops = group_.loops;
    best_ = (folds ? model::clearly_faster : model::faster_by_parts) * today.milliseconds;
    if (!folds) {
      for (const std::vector<Loop>& parts : parts_of_first(loops)) consider(parts);
      best_ = std::min(best_, model::faster_by_turns * today.milliseconds);
    }
    for (const Loop& loop : one_loop()) {
      consider({loop});
      if (!folds) continue;
      const Facts turn = facts(nest_, {loop}, target_);
      for (const Dim& m : nest_.dims)
        if (!m.reduction)
          if (auto rows = fold_rows_of(turn, chosen_.node, chosen_.n, m.name)) consider({loop}, std::move(*rows));
    }
    return group_.loops != loops;
  }

 private:
  std::int64_t extent(const std::string& name) const { return nest_.dims[*nest_.dim(name)].extent; }
  double turns(const std::vector<Loop>& loops) const {
    double count = 1;
    for (const Loop& loop : loops)
      count *= std::ceil(static_cast<double>(extent(loop.index)) / static_cast<double>(loop.step));
    return count;
  }

  // The first loop whose turns have one value each, by as many values as leave few turns: what is left of it is a loop
  // inside each.
  std::vector<std::vector<Loop>> parts_of_first(const std::vector<Loop>& loops) const {
    std::vector<std::vector<Loop>> made;
    const auto first = std::ranges::find(loops, 1, &Loop::step);
    if (first == loops.end()) return made;
    for (const double parts : {model::most_turns, model::enough_turns}) {
      const auto step = static_cast<std::int64_t>(std::ceil(static_cast<double>(extent(first->index)) / parts));
      if (step == 1) continue;
      made.push_back(loops);
      made.back()[static_cast<std::size_t>(first - loops.begin())].step = step;
    }
    return made;
  }

  // One loop over a dimension of the result, by few blocks and by as many as cores want.
  std::vector<Loop> one_loop() const {
    std::vector<Loop> made;
    for (const Dim& dim : nest_.dims) {
      if (dim.reduction) continue;
      const std::int64_t unit = dim.name == chosen_.n ? chosen_.lanes * chosen_.vectors
          : dim.name == chosen_.m()                   ? chosen_.rows
                                                      : 1;
      for (const double parts : {model::turns_of_rows, model::most_turns}) {
        const auto wanted = static_cast<std::int64_t>(std::ceil(static_cast<double>(dim.extent) / parts));
        const Loop loop{dim.name, (wanted + unit - 1) / unit * unit};
        if (turns({loop}) < std::min(model::enough_turns, turns_)) continue;
        if (made.empty() || made.back().index != loop.index || made.back().step != loop.step) made.push_back(loop);
      }
    }
    return made;
  }

  void consider(const std::vector<Loop>& loops) {
    const Facts turn = facts(nest_, loops, target_);
    Choice choice = weigh_leaf(turn, chosen_.node);
    settle_block(turn, choice.leaf);
    const auto rest = [&](Compute& leaf) { ask_ahead(turn, leaf); };
    if (std::optional<Compute> along = along_rows(turn, choice.leaf)) consider(loops, Choice{std::move(*along), 0, {}});
    const Compute least = choice.leaf;
    consider(loops, std::move(choice), rest);
    if (!far_) return;
    for (Compute& leaf : other_leaves(turn, chosen_.node, model::leaves_asked_about))
      if (leaf != least) consider(loops, Choice{std::move(leaf), 0, {}}, rest);
  }
  void consider(
      std::vector<Loop> loops, Choice choice, const model::OneGroup::Rest& rest = [](Compute&) {}) {
    Group group = group_;
    group.loops = std::move(loops);
    group.body = {std::move(choice.leaf)};
    const double cost = predicted_.milliseconds(group, best_, wait_, rest);
    if (cost >= best_) return;
    predicted_.keep();
    best_ = cost;
    group_.loops = std::move(group.loops);
    group_.body = std::move(group.body);
    why_.extents.clear();
    for (const Loop& loop : group_.loops) why_.extents.push_back(extent(loop.index));
    if (!choice.why.lanes.empty()) why_.leaves.front() = std::move(choice.why);
  }

  Group& group_;
  Why& why_;
  const Nest& nest_;
  const Target& target_;
  model::OneGroup& predicted_;
  const Compute chosen_;
  const double turns_;
  double best_ = 0, wait_ = 0;                         // milliseconds; for what must move
  bool far_ = false;                                   // from what would be enough: leaves that cost more by counts are
                                                       // predicted too
};

}  // namespace

bool choose_turns(Group& group, Why& why, const Nest& nest, model::OneGroup& predicted, const model::Prediction& today,
    const Target& target) {
  const Compute& leaf = group.body.front();
  const bool has_turns = leaf.is<forms::Reduce>() || leaf.is<forms::Map>() || leaf.is<forms::Contract>();
  if (model::machine_of(target) == nullptr || group.loops.empty() || !has_turns) return false;
  return Search(group, why, nest, predicted, target).run(today);
}

}  // namespace tilec::codegen
