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
  Search(Group& group, Why::Leaf& why, const poly::Program& program, const Strides& strides, const Nest& nest, const Target& target)
      : group_(group), why_(why), program_(program), strides_(strides), nest_(nest), target_(target), chosen_(group.body.front()), turns_(turns(group.loops)) {}

  void run() {
    const model::Prediction today = predict(group_);
    if (today.milliseconds <= model::near_the_least * model::least_milliseconds(today.core, today.bytes.must, target_)) return;
    best_ = model::clearly_faster * today.milliseconds;
    for (const Loop& loop : loops()) {
      consider(loop, choose_leaf(facts(nest_, {loop}, target_), chosen_.node));
      if (!chosen_.is<forms::Reduce>()) continue;
      const Facts turn = facts(nest_, {loop}, target_);
      for (const Dim& m : nest_.dims)
        if (!m.reduction)
          if (auto rows = fold_rows_of(turn, chosen_.node, chosen_.n, m.name)) consider(loop, std::move(*rows));
    }
  }

 private:
  model::Prediction predict(const Group& group) const { return model::predict(program_, group, strides_, target_); }

  std::int64_t extent(const std::string& name) const { return nest_.dims[*nest_.dim(name)].extent; }
  double turns(const std::vector<Loop>& loops) const {
    double count = 1;
    for (const Loop& loop : loops) count *= std::ceil(static_cast<double>(extent(loop.index)) / static_cast<double>(loop.step));
    return count;
  }

  // One loop over a dimension of the result, by few blocks and by as many as cores want.
  std::vector<Loop> loops() const {
    std::vector<Loop> made;
    for (const Dim& dim : nest_.dims) {
      if (dim.reduction) continue;
      const std::int64_t unit = dim.name == chosen_.n ? chosen_.lanes * chosen_.vectors : dim.name == chosen_.m() ? chosen_.rows : 1;
      for (const double parts : {model::turns_of_rows, model::most_turns}) {
        const auto wanted = static_cast<std::int64_t>(std::ceil(static_cast<double>(dim.extent) / parts));
        const Loop loop{dim.name, (wanted + unit - 1) / unit * unit};
        if (turns({loop}) < std::min(model::enough_turns, turns_)) continue;
        if (made.empty() || made.back().index != loop.index || made.back().step != loop.step) made.push_back(loop);
      }
    }
    return made;
  }

  void consider(const Loop& loop, Choice choice) {
    Group group = group_;
    group.loops = {loop};
    group.body = {std::move(choice.leaf)};
    const double cost = predict(group).milliseconds;
    if (cost >= best_) return;
    best_ = cost;
    group_.loops = std::move(group.loops);
    group_.body = std::move(group.body);
    if (!choice.why.lanes.empty()) why_ = std::move(choice.why);
  }

  Group& group_;
  Why::Leaf& why_;
  const poly::Program& program_;
  const Strides& strides_;
  const Nest& nest_;
  const Target& target_;
  const Compute chosen_;
  const double turns_;
  double best_ = 0;
};

}  // namespace

void choose_turns(Group& group, Why::Leaf& why, const poly::Program& program, const Strides& strides, const Nest& nest, const Target& target) {
  const Compute& leaf = group.body.front();
  if (model::machine_of(target) == nullptr || group.loops.empty() || !leaf.is<forms::Reduce>()) return;
  Search(group, why, program, strides, nest, target).run();
}

}  // namespace tilec::codegen
