// Groups to kernels: turns of parallel loops, locals of a turn, elements spread over threads; tensors to buffers.
#include "codegen/lower.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "codegen/finishing.h"
#include "codegen/indirect.h"
#include "codegen/leaf.h"
#include "codegen/numbered.h"
#include "codegen/online_leaf.h"
#include "codegen/online_cores.h"
#include "codegen/scan_leaf.h"
#include "codegen/sort.h"
#include "codegen/spell/beside.h"
#include "codegen/spell/over_threads.h"
#include "codegen/staged.h"
#include "codegen/tensor_cores.h"
#include "codegen/tile.h"
#include "codegen/turn_buffers.h"
#include "codegen/turned.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

Lowered::Lowered() = default;
Lowered::Lowered(const Lowered&) = default;
Lowered::Lowered(Lowered&&) noexcept = default;
Lowered& Lowered::operator=(const Lowered&) = default;
Lowered& Lowered::operator=(Lowered&&) noexcept = default;
Lowered::~Lowered() = default;

namespace {

using lang::InternalError;

// Values of m that a block has.
std::int64_t rows_of_m(const Nest& nest, const Compute& leaf) {
  std::int64_t rows = leaf.rows;
  if (const auto* own = leaf.as<forms::Contract>())
    for (const std::string& name : own->outside) rows /= nest.dims[*nest.dim(name)].extent;
  return rows;
}

// The Gather, Scatter or Sort that a group is.
const poly::Intrinsic* alone(const Plan& plan, const Group& group) {
  const auto* intrinsic =
      std::get_if<poly::Intrinsic>(&plan.program.nodes[static_cast<std::size_t>(group.body.front().node)]);
  return intrinsic && intrinsic->op != poly::IntrinsicOp::Reshape ? intrinsic : nullptr;
}

Body spell_intrinsic(
    const Nest& nest, const Group& group, const Storage& storage, const poly::Intrinsic& intrinsic, Names& names) {
  if (intrinsic.op == poly::IntrinsicOp::Gather) return spell_gather(nest, group, storage, names);
  if (intrinsic.op == poly::IntrinsicOp::Scatter) return spell_scatter(nest, group, storage, intrinsic, names);
  return spell_sort(nest, group, storage, intrinsic, names);
}

// What is no leaf after the other; none: it is that.
std::optional<Body> one_speller(
    const Plan& plan, const Group& group, const std::vector<Nest>& nests, const Storage& storage, Names& names) {
  if (const poly::Intrinsic* intrinsic = alone(plan, group))
    return spell_intrinsic(nests.front(), group, storage, *intrinsic, names);
  const Compute& first = group.body.front();
  if (first.is<forms::TensorCores>()) return spell_on_tensor_cores(nests, first, storage, names);
  if (first.is<forms::Staged>()) return spell_staged(nests, first, storage, names, group.threads);
  if (const auto* pass = first.as<forms::Online>())
    return (pass->instruction.empty() ? spell_online : spell_online_on_cores)(
        nests, group.body, storage, names, group.threads);
  return std::nullopt;
}

bool makes(const std::vector<Nest>& nests, TensorId id) {
  return std::ranges::find(nests, id, [](const Nest& nest) { return nest.target.tensor; }) != nests.end();
}

Body scan_or_leaf(
    const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names) {
  return leaf.is<forms::Scan>() ? spell_scan(nest, leaf, storage, around, names)
                                : spell_leaf(nest, leaf, storage, around, names);
}

// How many values of a dimension a turn has at most.
std::int64_t left_of(const Group& group, const Nest& nest, std::size_t d) {
  for (const Loop& loop : group.loops)
    if (loop.index == nest.dims[d].name) return std::min(loop.part(), nest.dims[d].extent);
  return nest.dims[d].extent;
}

// Whether some turn, or part of one, has fewer.
bool is_ragged(const Group& group, const Nest& nest, std::size_t d) {
  for (const Loop& loop : group.loops)
    if (loop.index == nest.dims[d].name) return nest.dims[d].extent % loop.step != 0 || loop.step % loop.part() != 0;
  return false;
}

// What a leaf of several has of a sum in each turn of the loop.
std::optional<PartOfTurn> part_of(
    const Plan& plan, const Group& group, const Strides& strides, const Compute& leaf, const Loop& loop) {
  const auto* s = std::get_if<poly::Statement>(&plan.program.nodes[static_cast<std::size_t>(leaf.node)]);
  return s && !leaf.is<forms::Fill>() && group.body.size() > 1
      ? part_of_turn(*s, loop, turn_strides(plan.program, group, strides, s->target.tensor))
      : std::nullopt;
}

// Whether some statement has a part of its sum for each turn of the loop.
bool is_summed(const Plan& plan, const Group& group, const Strides& strides, const Loop& loop) {
  return std::ranges::any_of(
      group.body, [&](const Compute& leaf) { return part_of(plan, group, strides, leaf, loop).has_value(); });
}

// Which dimensions the elements that threads have are numbered by.
std::vector<Digit> digits_of(const Plan& plan, const Group& group, const Nest& nest, const Compute& leaf) {
  std::vector<Digit> digits;
  for (const std::string& name : numbered(nest, leaf)) {
    const std::size_t d = *nest.dim(name);
    const std::int64_t step = name == leaf.m() ? rows_of_m(nest, leaf) : 1, left = left_of(group, nest, d);
    digits.push_back({d, ceil_divide(left, step), step, is_ragged(group, nest, d)});
  }
  if (leaf.n.empty() || digits.size() < 2) return digits;
  Digit& n = digits.back();
  const std::int64_t line = values_of_line(plan.program, nest, leaf);
  if (n.count != nest.dims[n.dim].extent || line >= n.count) return digits;
  if (line == 1) {
    std::rotate(digits.end() - 2, digits.end() - 1, digits.end());
    return digits;
  }
  const Digit lines{n.dim, n.count / line, line, false};
  n.count = line;
  digits.insert(digits.end() - 2, lines);
  return digits;
}

class GroupLowering {
 public:
  GroupLowering(const Plan& plan, const Group& group, const Strides& strides, const std::vector<TensorId>& buffer,
      int registers, std::string kernel)
      : plan_(plan),
        group_(group),
        strides_(strides),
        storage_{plan, buffer, registers, {}},
        kept_(plan, group, strides, storage_, turns_) {
    kernel_.name = std::move(kernel);
    for (const Compute& leaf : group.body) nests_.push_back(leaf_nest(plan.program, group, leaf, strides));
    if (!group.loops.empty() && group.loops.back().walk) walked_ = &group.loops.back();
  }

  Loops spell(std::vector<TensorId>& views) {
    collect_views(views);
    for (const auto& [buffer, name] : storage_.names) names_.take(name);
    for (const TensorId id : group_.kept)
      storage_.names.insert_or_assign(id, names_.fresh(plan_.program.tensor(id).name + "_here"));
    for (const std::vector<Loop>* loops : {&group_.loops, &group_.tile})
      for (const Loop& loop : *loops) {
        turns_.first.emplace(loop.index, names_.fresh(loop.index + "_0"));
        turns_.turn.emplace(loop.index, names_.fresh(loop.index + "_turn"));
      }
    if (walked_) step_ = names_.fresh(walked_->index + "_step"), turn_start_ = names_.fresh(walked_->index + "_from");
    kernel_.body = spelled();
    return {{kernel_}, {}};
  }

 private:
  Body spelled() {
    if (auto whole = one_speller(plan_, group_, nests_, storage_, names_)) return *std::move(whole);
    if (!group_.tile.empty()) return tiles();
    if (finishes(group_)) return finishing_.emplace(nests_, storage_, names_), spread_over_threads(0);
    Body turn;
    for (std::size_t l = 0, together = 1; l < group_.body.size(); l += together) {
      if (group_.threads && !walked_) together = leaves_beside(group_.body, nests_, storage_, l);
      if ((l > 0 || walked_) && group_.threads) turn.push_back(stmt(Barrier{}));
      append(turn, group_.threads ? spread_over_threads(l, together) : one_leaf(l, surroundings(l)));
    }
    if (walked_) turn = in_parts(std::move(turn));
    Body whole = kept_.allocate();
    append(whole, std::move(turn));
    append(whole, kept_.write_kept(names_));
    if (group_.loops.empty()) return whole;
    return over_turns(std::move(whole), group_.loops, counts_of(group_.loops));
  }

  void collect_views(std::vector<TensorId>& views) {
    const auto add = [&](TensorId id, Direction direction) {
      const TensorId buffer = storage_.buffer[static_cast<std::size_t>(id)];
      const auto known = std::find(views.begin(), views.end(), buffer);
      if (known != views.end()) {
        Direction& was = kernel_.views[static_cast<std::size_t>(known - views.begin())].direction;
        if (was != direction) was = Direction::InOut;
        return;
      }
      if (kept_.local(id)) {
        storage_.names.emplace(buffer, plan_.program.tensor(buffer).name);
        return;
      }
      views.push_back(buffer);
      storage_.names.emplace(buffer, plan_.program.tensor(buffer).name);
      kernel_.views.push_back({plan_.program.tensor(buffer).name, plan_.program.tensor(id).dtype, direction, 0});
    };
    const poly::Intrinsic* intrinsic = alone(plan_, group_);
    for (std::size_t l = 0; l < nests_.size(); ++l) {
      for (const FlatAccess& read : nests_[l].reads)
        if (!group_.body[l].is<forms::Finish>() || !makes(nests_, read.tensor)) add(read.tensor, Direction::In);
      const auto* contract = group_.body[l].as<forms::Contract>();
      const bool adds = (contract && (contract->chunk || contract->taps)) || !group_.tile.empty() ||
          (walked_ && part_of(plan_, group_, strides_, group_.body[l], *walked_));
      add(nests_[l].target.tensor,
          (adds && !is_kept(group_, nests_[l].target.tensor)) || intrinsic ? Direction::InOut : Direction::Out);
    }
    if (intrinsic) for (const TensorId id : intrinsic->targets) add(id, Direction::InOut);
  }

  std::int64_t extent(const std::string& index) const {
    for (const Nest& nest : nests_) if (const auto d = nest.dim(index)) return nest.dims[*d].extent;
    throw InternalError("a group loops over `" + index + "`, which none of its statements has");
  }

  std::vector<std::int64_t> counts_of(const std::vector<Loop>& loops) const {
    std::vector<std::int64_t> counts;
    for (const Loop& loop : loops) counts.push_back(ceil_divide(extent(loop.index), loop.step));
    return counts;
  }

  // p → the first value of each loop's index in this turn.
  Body over_turns(Body turn, const std::vector<Loop>& loops, const std::vector<std::int64_t>& counts) {
    std::int64_t turns = 1;
    for (const std::int64_t count : counts) turns = (poly::Exact(turns) * count).get();
    Body body;
    const std::string index_of_turn = names_.fresh("p");
    Expr rest = var(index_of_turn);
    std::int64_t inner = turns;
    for (std::size_t l = 0; l < loops.size(); ++l) {
      inner = counts[l] ? inner / counts[l] : 0;
      Expr index = quotient(rest, inner);
      const Loop& loop = loops[l];
      if (group_.tile.empty() && is_summed(plan_, group_, strides_, loop))
        body.push_back(stmt(Let{turns_.turn.at(loop.index), index}));
      if (!loop.walk) body.push_back(stmt(Let{first(loop.index), index * Expr(loop.step)}));
      else body.push_back(stmt(Let{turn_start_, index * Expr(loop.step)}));
      rest = remainder(rest, inner);
    }
    append(body, std::move(turn));
    if (turns == 0) return {};
    return {stmt(For{index_of_turn, group_.threads ? Kind::Block : Kind::Parallel, Expr(turns), {}, std::move(body)})};
  }

  // Boxes of the outputs are turns; in each, boxes of what is reduced follow one another, and add up in the target.
  Body tiles() {
    const int sum = tiled_node(plan_.program, group_);
    const auto& s = std::get<poly::Statement>(plan_.program.nodes[static_cast<std::size_t>(sum)]);
    std::vector<Loop> outputs, sums;
    std::vector<std::int64_t> of_outputs, of_sums;
    for (const Loop& loop : group_.tile) {
      const auto k =
          static_cast<std::size_t>(std::find(s.indices.begin(), s.indices.end(), loop.index) - s.indices.begin());
      const std::int64_t count = ceil_divide(s.domain[k].extent->get(), loop.step);
      const bool output = std::any_of(s.target.element.begin(), s.target.element.end(),
          [&](const poly::Affine& e) { return !e.coefficients[k].is(0); });
      (output ? outputs : sums).push_back({loop.index, 1}), (output ? of_outputs : of_sums).push_back(count);
    }
    std::optional<Expr> later;
    for (const Loop& loop : sums) later = later ? *later + var(first(loop.index)) : var(first(loop.index));
    if (later) later = less(Expr(std::int64_t{0}), *later);
    Body before, after;                                // the boxes of what is reduced
    bool behind = false;
    for (std::size_t l = 0; l < group_.body.size(); ++l) {
      Surroundings around;
      for (const Loop& loop : group_.tile)
        around.fixed.emplace(*nests_[l].dim(origin(loop.index)), var(first(loop.index)));
      if (group_.body[l].node == sum) around.later = later, around.reached = true;
      append(behind ? after : before, one_leaf(l, around));
      behind = behind || group_.body[l].node == sum;
    }
    for (std::size_t l = sums.size(); l-- > 0;) {
      const std::string index = names_.fresh(sums[l].index + "_b");
      Body one{stmt(Let{first(sums[l].index), var(index)})};
      append(one, std::move(before));
      before = {stmt(For{index, Kind::Serial, Expr(of_sums[l]), {}, std::move(one)})};
    }
    Body turn;
    for (const TensorId id : group_.locals)
      turn.push_back(stmt(Allocate{plan_.program.tensor(id).name, plan_.program.tensor(id).dtype,
          tile_elements(plan_.program, group_, id), Memory::Local}));
    append(turn, std::move(before));
    append(turn, std::move(after));
    return outputs.empty() ? turn : over_turns(std::move(turn), outputs, of_outputs);
  }

  const std::string& first(const std::string& index) const { return turns_.first.at(index); }
  // The turn of the last loop, some of its values after the other.
  Body in_parts(Body leaves) {
    const Loop& loop = *walked_;
    const std::int64_t all = extent(loop.index), whole = ceil_divide(std::min(loop.step, all), loop.walk);
    const Expr count =
        all % loop.step ? ceil_divide(minimum(Expr(loop.step), Expr(all) - var(turn_start_)), loop.walk) : Expr(whole);
    Body body{stmt(Let{first(loop.index), var(turn_start_) + var(step_) * Expr(loop.walk)})};
    append(body, std::move(leaves));
    return {stmt(For{step_, Kind::Serial, count, {}, std::move(body)})};
  }


  Surroundings surroundings(std::size_t l) const {
    const Nest& nest = nests_[l];
    Surroundings around;
    around.threads = group_.threads;
    if (finishing_) around.finishing = &*finishing_;
    for (const Loop& loop : group_.loops) {
      const auto d = nest.dim(loop.index);
      if (!d) continue;
      const Expr begin = var(first(loop.index));
      if (loop.part() == 1) around.fixed.emplace(*d, begin);
      else
        around.limits.emplace(*d,
            loop.walk ? part_of_walk(begin, loop, nest.dims[*d].extent)
                      : values_from(begin, loop.step, nest.dims[*d].extent));
      const auto sum = part_of(plan_, group_, strides_, group_.body[l], loop);
      if (!sum) continue;
      Expr& base = around.base.try_emplace(target_access, Expr(std::int64_t{0})).first->second;
      base = base - var(turns_.turn.at(loop.index)) * Expr(sum->stride);
      if (loop.walk) around.later = less(Expr(std::int64_t{0}), var(step_));
    }
    for (std::size_t r = 0; r < nest.reads.size(); ++r)
      if (kept_.local(nest.reads[r].tensor)) around.base.emplace(r, kept_.base(nest.reads[r].tensor));
    if (finishing_) return around;                     // what is local is in registers
    if (kept_.local(nest.target.tensor) || is_kept(group_, nest.target.tensor))
      around.base.insert_or_assign(target_access, kept_.base(nest.target.tensor));
    return around;
  }

  // Parts of a turn that is no multiple of them do not start at their multiples.
  Interval part_of_walk(const Expr& begin, const Loop& loop, std::int64_t extent) const {
    if (loop.step % loop.walk == 0) return values_from(begin, loop.walk, extent);
    const Expr end = minimum(begin + Expr(loop.walk), var(turn_start_) + Expr(loop.step));
    return {begin, extent % loop.step ? minimum(end, Expr(extent)) : end};
  }

  Body one_leaf(std::size_t l, const Surroundings& around) {
    return scan_or_leaf(nests_[l], group_.body[l], storage_, around, names_);
  }

  // SIMT: a reduction over threads is one leaf a block, other leaves are spread over threads, so many together.
  Body spread_over_threads(std::size_t l, std::size_t together = 1) {
    const Compute& leaf = group_.body[l];
    const Nest& nest = nests_[l];
    if (leaf.block() && leaf.block()->turned) return spell_turned(nest, leaf, storage_, names_);
    if (leaf.is<forms::Reduce>() || (leaf.is<forms::Scan>() && leaf.lanes > 1)) return one_leaf(l, surroundings(l));
    const std::vector<Digit> digits = digits_of(plan_, group_, nest, leaf);
    const Kind turns = group_.loops.empty() && (group_.body.size() == 1 || finishing_) ? Kind::Block : Kind::Serial;
    return spell_over_threads(nest, leaf, digits, storage_, surroundings(l), turns, names_,
        [&](const Compute& one, const Surroundings& around) {
          return all_beside(together, [&](std::size_t k) {
            Compute own = one;
            own.node = group_.body[l + k].node;
            Surroundings there = k == 0 ? around : surroundings(l + k);
            there.fixed = around.fixed, there.limits = around.limits;
            return scan_or_leaf(nests_[l + k], own, storage_, there, names_);
          });
        });
  }

  const Plan& plan_;
  const Group& group_;
  const Strides& strides_;
  Storage storage_;
  Function kernel_;
  Names names_;
  TurnNames turns_;
  TurnBuffers kept_;
  std::optional<Finishing> finishing_;
  const Loop* walked_ = nullptr;                       // the loop whose turns are walked a part at a time
  std::string step_, turn_start_;                      // which part that is; where the turn starts
  std::vector<Nest> nests_;
};

}  // namespace

std::string kernel_name(const Plan& plan, std::size_t group) {
  std::string name = plan.groups[group].name;
  for (const Compute& leaf : plan.groups[group].body) {
    const auto* s = std::get_if<poly::Statement>(&plan.program.nodes[static_cast<std::size_t>(leaf.node)]);
    if (s && !s->kernel_name.empty()) name = s->kernel_name;
  }
  return fmt::format("k{}_{}", group, name);
}

std::int64_t Buffer::count() const { return reach_of(shape, strides); }

Lowered lower(const Plan& plan, const Strides& strides, const Target& target) {
  const poly::Program& program = plan.program;
  const std::vector<TensorId> shared = buffers(program);
  Lowered package;
  package.name = program.name;
  package.target = target.name;
  std::map<TensorId, int> position;
  const auto add = [&](TensorId id, Buffer::Role role) {
    const poly::Tensor& tensor = program.tensor(id);
    package.buffers.push_back(
        {tensor.name, tensor.dtype, extents(tensor), strides[static_cast<std::size_t>(id)], role});
    position.emplace(id, static_cast<int>(package.buffers.size()) - 1);
  };
  for (const TensorId id : program.inputs) add(id, Buffer::Role::Input);
  for (const TensorId id : program.outputs) add(id, Buffer::Role::Output);
  package.inputs = static_cast<int>(program.inputs.size());
  package.outputs = static_cast<int>(program.outputs.size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    Step step;
    std::vector<TensorId> views;
    step.groups = {g};
    step.kernel = kernel_name(plan, g);
    step.loops =
        GroupLowering(plan, plan.groups[g], strides, shared, target.vector_registers, step.kernel).spell(views);
    for (const TensorId id : views) {
      if (!position.count(id)) add(id, Buffer::Role::Scratch);
      step.buffers.push_back(position.at(id));
    }
    if (!step.loops.functions.back().body.empty()) package.steps.push_back(std::move(step));
  }
  return package;
}

}  // namespace tilec::codegen
