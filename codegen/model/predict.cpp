#include "codegen/model/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <span>

#include "codegen/model/core.h"
#include "codegen/model/machine.h"
#include "codegen/model/thresholds.h"
#include "codegen/model/traffic.h"
#include "codegen/requests.h"
#include "codegen/rewrite.h"

namespace tilec::codegen::model {

namespace {

// How much of the shorter of two times that can overlap does not.
constexpr double exposed = 0.3;

// The part of a cache that holds what is wanted again: of the last one, cores have a share (Zen 4 of machine.cpp, of 32
// MB: 4 to 10 MB are read again at 90 GB/s, 14 MB at 77, 16 MB at 67, 20 MB and more at 54 to 42).
constexpr double usable = 0.8, usable_of_last = 0.5;

// Of the time a core computes and the times it waits for each level.
double together(std::initializer_list<double> cycles) {
  double most = 0, sum = 0;
  for (const double one : cycles) most = std::max(most, one), sum += one;
  return most + exposed * (sum - most);
}

double milliseconds(double cycles, const Machine& machine) { return cycles / (machine.gigahertz * 1e6); }

// A leaf's loops, and how many cycles they take on one core; none, where the model does not know that core.
struct OnCore {
  Walk loops;
  double cycles;
};

OnCore on_core(const poly::Program& program, const Known& statement, const Group& group, const Compute& leaf,
    const Machine* machine) {
  Walk loops = walk(statement, group, leaf);
  const double cycles = machine == nullptr ? 0 : core_cycles(program, statement, leaf, loops, *machine);
  return {std::move(loops), cycles};
}

Few<Asked, 4> asked_for(const poly::Program& program, const Nest& nest, const Compute& leaf) {
  Few<Asked, 4> asked;
  for (std::size_t r = 0; r < nest.reads.size(); ++r) asked.push_back(Asked::Not);
  if (leaf.ahead.empty()) return asked;
  const bool by_steps = leaf.is<forms::Contract>() && !leaf.k.empty() && !asks_by_block(nest, leaf);
  const auto level = by_steps ? level_that_waits(nest, leaf) : std::nullopt;
  for (std::size_t r = 0; r < asked.size(); ++r) {
    const FlatAccess& read = nest.reads[r];
    const std::int64_t bytes = lang::bytes(program.tensor(read.tensor).dtype);
    if (asks_by_stream(nest, leaf, read, bytes)) {
      asked[r] = Asked::Steps;
      continue;
    }
    if (level ? !asks_for(nest, leaf, read, *nest.dim(leaf.k[*level]), bytes) : !leaves_cache(nest, read, bytes))
      continue;
    const auto by = std::ranges::find_if(
        leaf.ahead, [&](const Ahead& one) { return read.offset.coefficients[*nest.dim(one.index)] != 0; });
    if (by == leaf.ahead.end()) continue;
    const auto step = static_cast<double>(std::abs(read.offset.coefficients[*nest.dim(by->index)]) * bytes);
    const bool inside = std::ranges::find(leaf.k, by->index) != leaf.k.end();
    asked[r] = !by_steps || inside || step > reach ? Asked::Steps : Asked::Early;
  }
  return asked;
}

std::shared_ptr<const Seen> look_at(
    const poly::Program& program, const Known& statement, const Compute& leaf, OnCore core, const Target& target) {
  return std::make_shared<const Seen>(seen(program, statement.nest, std::move(core.loops), core.cycles, leaf,
      asked_for(program, statement.nest, leaf), torn_beyond * static_cast<double>(target.l2)));
}

class Predictor {
 public:
  // `seen`: of each group; what nobody has looked at is found.
  Predictor(const poly::Program& program, std::span<const Group> plan, std::span<const KnownGroup> statements,
      const Target& target, std::span<SeenGroup> seen)
      : program_(program), target_(target), machine_(machine_of(target)) {
    groups_.reserve(plan.size()), touched_.reserve(plan.size()), bytes_.reserve(plan.size());
    for (std::size_t g = 0; g < plan.size(); ++g) {
      const Group& group = plan[g];
      seen[g].resize(group.body.size());
      for (std::size_t l = 0; l < group.body.size(); ++l)
        if (!seen[g][l])
          seen[g][l] = look_at(program, statements[g][l], group.body[l],
              on_core(program, statements[g][l], group, group.body[l], machine_), target);
      const GroupTraffic& traffic = groups_.emplace_back(group.locals, seen[g], group.threads > 0);
      touched_.push_back(traffic.touched(false));
      bytes_.push_back(traffic.bytes());
    }
    measure_distances();
  }

  // On one core.
  std::vector<GroupTime> times() const {
    std::vector<GroupTime> made;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Prediction one = group(g, false);
      made.push_back({one.milliseconds, least(one)});
    }
    return made;
  }

  // Its milliseconds; of its bytes, only those that must move.
  PlanPrediction::Of first_group() const { return group(0, false); }

  PlanPrediction predict() const {
    PlanPrediction made;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      made.groups.push_back(group(g, true));
      const Prediction& one = made.groups.back();
      made.sum.milliseconds += one.milliseconds;
      made.sum.core += one.core;
      made.sum.bytes.memory += one.bytes.memory, made.sum.bytes.last += one.bytes.last,
          made.sum.bytes.second += one.bytes.second;
    }
    made.sum.bytes.must = must_of_plan();
    return made;
  }

 private:
  double bytes_of(TensorId id, double count) const {
    return count * static_cast<double>(lang::bytes(program_.tensor(id).dtype));
  }

  PlanPrediction::Of group(std::size_t g, bool with_bytes) const {
    PlanPrediction::Of made;
    const GroupTraffic& traffic = groups_[g];
    const double caches[] = {usable * static_cast<double>(target_.l1), usable * static_cast<double>(target_.l2),
        usable_of_last * static_cast<double>(target_.l3)};
    std::array<Few<Moved, 4>, 3> cold, warm;
    for (std::size_t c = 0; c < warm.size(); ++c) {
      if (with_bytes) cold[c] = traffic.through(caches[c], {}, c == 0);
      warm[c] = traffic.through(caches[c], left_in(caches[c], g), c == 0);
    }
    const Few<double, 4> pages = machine_ != nullptr ? traffic.page_cycles(*machine_) : Few<double, 4>(),
                         sets = traffic.set_cycles();
    for (std::size_t l = 0; l < traffic.leaves.size(); ++l) {
      Prediction leaf;
      if (with_bytes) leaf.bytes = {cold[2][l].lines * line, cold[1][l].lines * line, cold[0][l].lines * line, 0};
      if (machine_ != nullptr) {
        const double core = traffic.leaves[l]->core;
        leaf.core = milliseconds(core, *machine_);
        const double memory = wait(machine_->memory, warm[2][l]) + warm[2][l].torn * machine_->memory.start;
        leaf.milliseconds = milliseconds(together({core, wait(machine_->l2, warm[0][l]), wait(machine_->l3, warm[1][l]),
                                             memory, pages[l] + sets[l]}),
            *machine_);
      }
      made.milliseconds += leaf.milliseconds, made.core += leaf.core;
      made.bytes.memory += leaf.bytes.memory, made.bytes.last += leaf.bytes.last,
          made.bytes.second += leaf.bytes.second;
      made.leaves.push_back(leaf);
    }
    for (const auto& [id, footprint] : touched_[g])
      if (std::ranges::find(traffic.locals, id) == traffic.locals.end())
        made.bytes.must += bytes_of(id, footprint.elements);
    if (machine_ != nullptr) made.milliseconds += milliseconds(machine_->launch + machine_->turn * turns(g), *machine_);
    return made;
  }

  double wait(const Level& level, const Moved& moved) const {
    return (moved.lines - (1 - machine_->back) * moved.back) * level.line +
        (moved.runs + machine_->asked * moved.asked) * level.start + moved.first * level.ahead -
        moved.streamed * level.streamed;
  }

  double least(const Prediction& one) const {
    return machine_ == nullptr ? 0 : together({one.core / leaves_save, least_wait(one.bytes.must, target_)});
  }

  double turns(std::size_t g) const {
    const Walk& walk = groups_[g].leaves.front()->walk;
    return walk.shared == 0 ? 0 : walk.entered(walk.shared);
  }

  // What is touched from one use of a tensor to its next, the group of that one included; calls follow one another.
  void measure_distances() {
    OfTensors<double> last;                            // what was touched until the last use had ended
    double so_far = 0;
    since_.resize(groups_.size());
    for (const bool again : {false, true})
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        so_far += bytes_[g];
        for (const auto& [id, footprint] : touched_[g]) {
          if (again) since_[g][id] = so_far - last[id];
          last[id] = so_far;
        }
      }
  }

  // The part of a tensor that a cache of `bytes` still holds when group g begins: none once twice as much was touched
  // since.
  OfTensors<double> left_in(double bytes, std::size_t g) const {
    OfTensors<double> here;
    for (const auto& [id, since] : since_[g]) here[id] = std::clamp(2 - since / bytes, 0.0, 1.0);
    return here;
  }

  double must_of_plan() const {
    OfTensors<double> most;
    for (const auto& touched : touched_)
      for (const auto& [id, footprint] : touched) most[id] = std::max(most[id], footprint.elements);
    std::set<TensorId> outside(program_.inputs.begin(), program_.inputs.end());
    outside.insert(program_.outputs.begin(), program_.outputs.end());
    double sum = 0;
    for (const TensorId id : outside)
      if (const double* elements = most.find(id)) sum += bytes_of(id, *elements);
    return sum;
  }

  const poly::Program& program_;
  const Target& target_;
  const Machine* machine_;
  std::vector<GroupTraffic> groups_;
  std::vector<OfTensors<Footprint>> touched_;
  std::vector<OfTensors<double>> since_;
  std::vector<double> bytes_;
};

}  // namespace

bool predicts_time(const Target& target) { return machine_of(target) != nullptr; }

PlanPrediction predict(const Plan& plan, const Strides& strides, const Target& target) {
  std::vector<SeenGroup> seen(plan.groups.size());
  return Predictor(plan.program, plan.groups, known(plan, strides, target), target, seen).predict();
}

double milliseconds_of(const Plan& plan, const Strides& strides, const Target& target) {
  std::vector<SeenGroup> seen;
  return sum(times_of(plan, known(plan, strides, target), target, seen), &GroupTime::milliseconds);
}

double sum(const std::vector<GroupTime>& times, double GroupTime::* of) {
  double all = 0;
  for (const GroupTime& one : times) all += one.*of;
  return all;
}

std::vector<GroupTime> times_of(
    const Plan& plan, const KnownPlan& statements, const Target& target, std::vector<SeenGroup>& seen) {
  seen.resize(plan.groups.size());
  return Predictor(plan.program, plan.groups, statements, target, seen).times();
}

double arithmetic(double multiply_adds, lang::DType type, const Target& target) {
  const Machine& machine = *machine_of(target);
  return milliseconds(multiply_adds * std::max(4, lang::bytes(type)) / machine.arithmetic, machine);
}

double least_milliseconds(double arithmetic, double bytes, const Target& target) {
  const Machine& machine = *machine_of(target);
  const double beside = exposed * (machine.l2.line + machine.l3.line);
  const double of_line = bytes > usable_of_last * static_cast<double>(target.l3)
      ? machine.memory.line - machine.memory.streamed + beside
      : machine.l3.line;
  return std::max(arithmetic, milliseconds(bytes / line * of_line, machine));
}

double least_wait(double bytes, const Target& target) {
  // twice of which the second cache keeps a part of (left_in)
  return bytes > 2 * usable * static_cast<double>(target.l2) ? least_milliseconds(0, bytes, target) : 0;
}

PlanPrediction::Of OneGroup::predict(const Group& group) { return with(group, seen_); }

double OneGroup::milliseconds(Group& group, double bar, double wait, const Rest& rest) {
  const Machine& machine = *machine_of(target_);
  std::vector<OnCore> leaves;
  double core = 0;
  for (std::size_t l = 0; l < group.body.size(); ++l) {
    leaves.push_back(on_core(program_, statements_[l], group, group.body[l], &machine));
    core += model::milliseconds(leaves.back().cycles, machine);
    if (const double least = together({core, wait}); least >= bar) return least;
  }
  last_.clear();
  for (std::size_t l = 0; l < group.body.size(); ++l) {
    rest(group.body[l]);
    last_.push_back(look_at(program_, statements_[l], group.body[l], std::move(leaves[l]), target_));
  }
  return with(group, last_).milliseconds;
}

double OneGroup::milliseconds_of_leaf(Group& group, std::size_t leaf, double bar, double wait, const Rest& rest) {
  const Machine& machine = *machine_of(target_);
  OnCore one = on_core(program_, statements_[leaf], group, group.body[leaf], &machine);
  if (const double least = together({model::milliseconds(one.cycles, machine), wait}); least >= bar) return least;
  rest(group.body[leaf]);
  last_ = seen_;
  last_[leaf] = look_at(program_, statements_[leaf], group.body[leaf], std::move(one), target_);
  return with(group, last_).leaves[leaf].milliseconds;
}

PlanPrediction::Of OneGroup::with(const Group& group, SeenGroup& seen) const {
  return Predictor(program_, {&group, 1}, {&statements_, 1}, target_, {&seen, 1}).first_group();
}

}  // namespace tilec::codegen::model

namespace tilec::codegen::model {

namespace {

std::string row(const std::string& what, const Prediction& one, bool timed) {
  const std::string time =
      timed ? fmt::format("{:12.6f} {:12.6f}", one.milliseconds, one.core) : fmt::format("{:>12} {:>12}", "-", "-");
  const Bytes& bytes = one.bytes;
  return fmt::format("{:<24} {} {:>14.0f} {:>14.0f} {:>14.0f} {:>14.0f}\n", what, time, bytes.must, bytes.memory,
      bytes.last, bytes.second);
}

}  // namespace

std::string print(const Plan& plan, const PlanPrediction& prediction, const Target& target) {
  const bool timed = predicts_time(target);
  std::string text = fmt::format("{:<24} {:>12} {:>12} {:>14} {:>14} {:>14} {:>14}\n", "", "ms", "core alone",
      "bytes needed", "memory", "last cache", "second cache");
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    text += row("group " + group.name, prediction.groups[g], timed);
    if (group.body.size() < 2) continue;
    for (std::size_t l = 0; l < group.body.size(); ++l)
      text += row("  " + plan.program.tensor(target_of(plan.program, group.body[l].node)).name,
          prediction.groups[g].leaves[l], timed);
  }
  return text + row("sum", prediction.sum, timed);
}

}  // namespace tilec::codegen::model
