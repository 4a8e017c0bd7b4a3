// What a plan's parts say of each other, and what must hold of one.
#include "codegen/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include "codegen/finishing.h"
#include "codegen/matrix_instruction.h"
#include "codegen/part.h"
#include "codegen/online_leaf.h"
#include "codegen/rewrite.h"
#include "codegen/tile.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

Compute::Compute() = default;
Compute::Compute(const Compute&) = default;
Compute::Compute(Compute&&) noexcept = default;
Compute& Compute::operator=(const Compute&) = default;
Compute& Compute::operator=(Compute&&) noexcept = default;
Compute::~Compute() = default;
bool Compute::operator==(const Compute&) const = default;

Group::Group() = default;
Group::Group(const Group&) = default;
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(const Group&) = default;
Group& Group::operator=(Group&&) noexcept = default;
Group::~Group() = default;
bool Group::operator==(const Group&) const = default;

Plan::Plan() = default;
Plan::Plan(const Plan&) = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(const Plan&) = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

namespace {

using lang::InternalError;

// Of which reduction of the statement the loop's turns have a part each, and which index counts these.
std::optional<Tie> tie_of(const poly::Statement& s, const Loop& loop) {
  for (const Tie& tie : ties(s))
    if (s.indices[tie.whole] == loop.index && tie.size == loop.step && !is_output_index(s, tie.whole)) return tie;
  return std::nullopt;
}

// The leaf of an Intrinsic has its form and stands alone; a Reshape is a map of its elements.
void verify(const poly::Program& program, const poly::Intrinsic& intrinsic, const Group& group, const Compute& leaf) {
  const std::string& name = program.tensor(intrinsic.targets.front()).name;
  if (leaf.form.index() != form_of(intrinsic.op).index())
    throw InternalError("plan: the leaf of `" + name + "` has another form than what makes it");
  if (intrinsic.op == poly::IntrinsicOp::Reshape) return;
  if (group.body.size() != 1 || !group.loops.empty())
    throw InternalError("plan: `" + name + "` does not stand alone in its group");
  if (leaf.rows < 1 || leaf.vectors < 1 || leaf.lanes < 1)
    throw InternalError("plan: the leaf of `" + name + "` has a block of nothing");
}

}  // namespace

// Each form has a Block, an m alone or neither.
const forms::Block* Compute::block() const {
  return std::visit([](const auto& one) -> const forms::Block* {
    if constexpr (std::is_base_of_v<forms::Block, std::decay_t<decltype(one)>>) return &one;
    else return nullptr;
  }, form);
}

forms::Block* Compute::block() { return const_cast<forms::Block*>(std::as_const(*this).block()); }

const std::string& Compute::m() const {
  static const std::string none;
  if (const auto* staged = as<forms::Staged>()) return staged->m;
  if (const auto* cores = as<forms::TensorCores>()) return cores->m;
  if (const auto* online = as<forms::Online>()) return online->m;
  if (const auto* reduce = as<forms::Reduce>()) return reduce->m;
  return block() ? block()->m : none;
}

std::vector<std::string> Compute::all_of_m() const {
  const auto* staged = as<forms::Staged>();
  const auto* cores = as<forms::TensorCores>();
  const auto* own = as<forms::Contract>();
  std::vector<std::string> all;
  if (staged || cores || own) all = staged ? staged->outside : cores ? cores->outside : own->outside;
  if (!m().empty()) all.push_back(m());
  return all;
}

std::vector<std::string> Compute::all_of_n() const {
  const auto* staged = as<forms::Staged>();
  const auto* cores = as<forms::TensorCores>();
  std::vector<std::string> all = staged ? staged->outside_n : cores ? cores->outside_n : std::vector<std::string>();
  if (!n.empty()) all.push_back(n);
  return all;
}

bool Compute::across() const {
  const auto* staged = as<forms::Staged>();
  const auto* cores = as<forms::TensorCores>();
  return staged ? staged->across : cores && cores->across;
}

std::int64_t forms::TensorCores::threads() const {
  const MatrixInstruction* known = matrix_instruction(instruction);
  return (known ? known->threads() : 0) * warps_m * warps_n;
}

// What a turn multiplies asynchronously is read until the next turn waits for it.
std::int64_t forms::TensorCores::ahead() const {
  const MatrixInstruction* known = matrix_instruction(instruction);
  return buffers - (known && known->from_shared() ? 2 : 1);
}

bool Compute::set_streams() {
  if (block()) block()->claims = false;
  if (auto* map = as<forms::Map>()) return map->stream = true;
  auto* contract = as<forms::Contract>();
  return contract && (contract->stream = true);
}
bool Compute::set_m(const std::string& m) {
  auto* staged = as<forms::Staged>();
  auto* cores = as<forms::TensorCores>();
  auto* online = as<forms::Online>();
  auto* reduce = as<forms::Reduce>();
  if (!staged && !cores && !online && !reduce && !block()) return false;
  (staged ? staged->m : cores ? cores->m : online ? online->m : reduce ? reduce->m : block()->m) = m;
  return true;
}

const char* word_of(const LeafForm& form) {
  return std::visit([](const auto& one) { return one.word; }, form);
}

TensorId target_of(const poly::Program& program, int node) {
  const poly::Node& n = program.nodes.at(static_cast<std::size_t>(node));
  if (const auto* s = std::get_if<poly::Statement>(&n)) return s->target.tensor;
  return std::get<poly::Intrinsic>(n).targets.front();
}

bool is_kept(const Group& group, TensorId id) {
  return std::find(group.kept.begin(), group.kept.end(), id) != group.kept.end();
}

Nest leaf_nest(const poly::Program& program, const Group& group, const Compute& leaf, const Strides& strides) {
  const poly::Node& node = program.nodes[static_cast<std::size_t>(leaf.node)];
  if (const auto* intrinsic = std::get_if<poly::Intrinsic>(&node))
    return intrinsic->op == poly::IntrinsicOp::Reshape
        ? reshape_nest(program, intrinsic->targets[0], intrinsic->operands[0])
        : intrinsic_nest(program, *intrinsic, strides);
  const auto& s = std::get<poly::Statement>(node);
  if (leaf.is<forms::Fill>()) return fill_nest(program, s, strides);
  if (!group.tile.empty()) return tile_nest(program, group, leaf.node, strides);
  const auto number = static_cast<std::size_t>(
      std::ranges::find(group.body, leaf.node, &Compute::node) - group.body.begin());
  if (finishes(group) && !group.body.front().is<forms::Online>()) {
    Nest nest = finishing_nests(program, finishing_of(group.body), group.body.front().node, strides)[number];
    nest.locals = group.locals;
    return nest;
  }
  if (leaf.is<forms::Finish>()) {
    Nest nest = finishing_nests(program, group.body, strides)[number - sums_of(group.body).nodes.size()].second;
    nest.locals = group.locals;
    return nest;
  }
  if (leaf.is<forms::Online>()) {
    Nest nest = online_nest(s, strides);
    nest.locals = group.locals;
    return nest;
  }
  std::set<std::string> keep;
  if (group.body.size() > 1) for (const Loop& loop : group.loops) keep.insert(loop.index);
  Nest nest = nest_of(s, [&](TensorId id) { return turn_strides(program, group, strides, id); }, keep);
  for (const Loop& loop : group.loops)
    if (const auto part = group.body.size() > 1 ? part_of_turn(s, loop, strides) : std::nullopt)
      leave_to_turn(nest, part->index, loop.index, loop.step);
  nest.locals = group.locals;
  return nest;
}

std::vector<std::int64_t> turn_shape(const poly::Program& program, const Group& group, TensorId id) {
  std::vector<std::int64_t> shape = extents(program.tensor(id));
  const auto made = std::find_if(
      group.body.begin(), group.body.end(), [&](const Compute& leaf) { return target_of(program, leaf.node) == id; });
  if (made == group.body.end()) throw InternalError("a group has a local that it does not make");
  const auto& s = std::get<poly::Statement>(program.nodes[static_cast<std::size_t>(made->node)]);
  for (const Loop& loop : group.loops)
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto k = s.target.element[d].single_index();
      if (!k || s.indices[*k] != loop.index) continue;
      shape[d] = std::min(shape[d], loop.part());
      break;                                           // E[i, i]: the second one has all its values
    }
  if (!is_kept(group, id)) return shape;
  for (const Loop& loop : group.loops)
    if (const auto tie = tie_of(s, loop))
      for (std::size_t d = 0; d < shape.size(); ++d) if (s.target.element[d].single_index() == tie->part) shape[d] = 1;
  return shape;
}

std::vector<std::int64_t> turn_strides(
    const poly::Program& program, const Group& group, const Strides& strides, TensorId id) {
  const bool local = std::find(group.locals.begin(), group.locals.end(), id) != group.locals.end();
  return local || is_kept(group, id) ? row_major(turn_shape(program, group, id))
                                     : strides[static_cast<std::size_t>(id)];
}

std::optional<PartOfTurn> part_of_turn(const poly::Statement& s, const Loop& loop, const Strides& strides) {
  return part_of_turn(s, loop, strides[static_cast<std::size_t>(s.target.tensor)]);
}

std::optional<PartOfTurn> part_of_turn(
    const poly::Statement& s, const Loop& loop, const std::vector<std::int64_t>& of_target) {
  const auto tie = tie_of(s, loop);
  for (std::size_t d = 0; tie && d < s.target.element.size(); ++d)
    if (s.target.element[d].single_index() == tie->part) return PartOfTurn{s.indices[tie->part], of_target[d]};
  return std::nullopt;
}

LeafForm form_of(poly::IntrinsicOp op) {
  switch (op) {
    case poly::IntrinsicOp::Reshape: return forms::Map{};
    case poly::IntrinsicOp::Gather: return forms::Gather{};
    case poly::IntrinsicOp::Scatter: return forms::Scatter{};
    case poly::IntrinsicOp::Sort: return forms::Sort{};
  }
  return forms::Map{};
}

void verify(const Plan& plan, const Strides& strides) {
  std::map<int, int> leaves;
  for (const Group& group : plan.groups) {
    for (const Compute& leaf : group.body) {
      const auto* s = std::get_if<poly::Statement>(&plan.program.nodes.at(static_cast<std::size_t>(leaf.node)));
      if (!s)
        verify(plan.program, std::get<poly::Intrinsic>(plan.program.nodes[static_cast<std::size_t>(leaf.node)]), group,
            leaf);
      if (leaf.is<forms::Fill>() || !s) {
        leaves[leaf.node] += !leaf.is<forms::Fill>();
        continue;
      }
      ++leaves[leaf.node];
      if (leaf.is<forms::Finish>()) continue;          // goes over the elements that the first leaf has
      const Nest nest = leaf_nest(plan.program, group, leaf, strides);
      std::set<std::string> walked;
      for (const Loop& loop : group.loops) if (loop.part() == 1) walked.insert(loop.index);
      for (const Loop& loop : origins(group)) walked.insert(loop.index);
      const auto walk = [&](const std::string& name) {
        if (name.empty()) return;
        if (!nest.dim(name) || !walked.insert(name).second)
          throw InternalError("plan: `" + name + "` is no dimension of its leaf, or is walked twice");
      };
      for (const auto& name : leaf.outer) walk(name);
      for (const auto& name : leaf.k) walk(name);
      if (const auto* scan = leaf.as<forms::Scan>()) walk(scan->along);
      for (const auto& name : leaf.all_of_m()) walk(name);
      for (const auto& name : leaf.all_of_n()) walk(name);
      for (const Loop& loop : group.loops) {
        const auto d = nest.dim(loop.index);
        if (d && nest.dims[*d].reduction && !(group.body.size() > 1 && part_of_turn(*s, loop, strides)))
          throw InternalError("plan: turns over `" + loop.index + "`, which is reduced, write the same elements");
      }
      for (const Dim& dim : nest.dims)
        if (!walked.count(dim.name)) throw InternalError("plan: no loop walks `" + dim.name + "`");
    }
  }
  for (std::size_t n = 0; n < plan.program.nodes.size(); ++n)
    if (leaves[static_cast<int>(n)] != 1) throw InternalError("plan: a statement has not exactly one leaf");
}

std::vector<TensorId> buffers(const poly::Program& program) {
  std::vector<int> uses(program.tensors.size(), 0);
  for (const TensorId id : program.inputs) uses[static_cast<std::size_t>(id)] += 2;
  for (const TensorId id : program.outputs) uses[static_cast<std::size_t>(id)] += 2;
  for (const poly::Node& node : program.nodes) {
    if (const auto* s = std::get_if<poly::Statement>(&node)) {
      for (const poly::Access& read : s->reads) ++uses[static_cast<std::size_t>(read.tensor)];
      if (const auto* fill = std::get_if<TensorId>(&s->fill)) ++uses[static_cast<std::size_t>(*fill)];
    } else {
      for (const TensorId id : std::get<poly::Intrinsic>(node).operands) ++uses[static_cast<std::size_t>(id)];
    }
  }
  std::vector<TensorId> buffer(program.tensors.size());
  for (std::size_t t = 0; t < buffer.size(); ++t) buffer[t] = static_cast<TensorId>(t);
  for (std::size_t n = program.nodes.size(); n-- > 0;) {
    const auto* s = std::get_if<poly::Statement>(&program.nodes[n]);
    if (!s || !std::holds_alternative<TensorId>(s->fill)) continue;
    const TensorId from = std::get<TensorId>(s->fill);
    if (uses[static_cast<std::size_t>(from)] == 1)
      buffer[static_cast<std::size_t>(from)] = buffer[static_cast<std::size_t>(s->target.tensor)];
  }
  return buffer;
}

}  // namespace tilec::codegen
