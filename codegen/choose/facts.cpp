#include "codegen/choose/facts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "codegen/choose/threads.h"
#include "codegen/model/estimates.h"
#include "codegen/model/machine.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/product.h"
#include "codegen/ranges.h"
#include "codegen/scalar.h"
#include "codegen/tile.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;

namespace blocks = model::blocks;

// Of an interned value, whose equal parts are computed once.
int operations(const poly::Expr& value) {
  int count = 0;
  for (const poly::Expr& part : poly::parts(value))
    if (const auto* apply = part.as<poly::Apply>()) count += model::rough_operations_of(apply->op);
  return count;
}

}  // namespace

bool may_add(const poly::Program& program, const Group& group, int node, const Nest& nest, const Strides& strides) {
  const auto* s = std::get_if<poly::Statement>(&program.nodes[static_cast<std::size_t>(node)]);
  for (const Loop& loop : group.loops)
    if (s && loop.walk && group.body.size() > 1 && part_of_turn(*s, loop, strides)) return false;
  return program.tensor(nest.target.tensor).dtype == compute_type(nest.value->type());
}

Nest nest_to_choose(const poly::Program& program, const Group& group, const Compute& leaf, const Strides& strides) {
  return nest_to_choose(leaf_nest(program, group, leaf, strides), program, group, leaf, strides);
}

Nest nest_to_choose(
    Nest nest, const poly::Program& program, const Group& group, const Compute& leaf, const Strides& strides) {
  nest.adds = !leaf.is<forms::Fill>() && group.tile.empty() && may_add(program, group, leaf.node, nest, strides);
  return nest;
}

std::vector<Loop> loops_of_turn(const Group& group) { return group.tile.empty() ? group.loops : origins(group); }

Facts facts(const Nest& nest, const std::vector<Loop>& loops, const Target& target) {
  Facts f{nest, {}, {}, 1, target.vector_registers, 0, target.l1, target.l2, false,
      has_threads(target) ? blocks::fold_of_threads : blocks::fold_of_lanes, !has_threads(target)};
  for (const Dim& dim : nest.dims) {
    f.extent.push_back(dim.extent);
    f.fixed.push_back(false);
    for (const Loop& loop : loops)
      if (loop.index == dim.name)
        f.extent.back() = std::min(loop.part(), dim.extent), f.fixed.back() = loop.part() == 1;
  }
  const DType type = nest.value->type();
  f.width = has_threads(target) ? model::threads::warp : target.vector_bytes / std::max(4, lang::bytes(type));
  f.ops = operations(*nest.value);
  double rows = 1, longest = 1;
  for (const Dim& dim : nest.dims) {
    if (!dim.reduction) rows *= static_cast<double>(dim.extent);
    else longest = std::max(longest, static_cast<double>(dim.extent));
  }
  if (target.family == Target::Family::Cuda && threads_of_short_rows(rows, longest, target) == model::threads::warp)
    f.fold = blocks::fold_of_warp;
  double elements = 1;
  for (const Dim& dim : nest.dims)
    if (!dim.reduction && nest.target.offset.coefficients[static_cast<std::size_t>(&dim - nest.dims.data())])
      elements *= static_cast<double>(dim.extent);
  f.stored = lang::bytes(type);
  if (const model::Machine* machine = model::machine_of(target)) {
    f.unhidden = machine->unhidden, f.exposed = machine->exposed;
    f.near = blocks::of_line * machine->l2.line * machine->arithmetic /
        (model::pipes * static_cast<double>(target.vector_bytes));
  }
  f.from_memory = has_threads(target)
      ? 0
      : std::clamp(elements * static_cast<double>(f.stored) / (blocks::part_of_l3 * static_cast<double>(target.l3)) - 1,
            0.0, 1.0);
  f.adds = !has_threads(target) && nest.aggregation == Aggregation::Sum && nest.adds &&
      (identity_is_fill(nest) || always_reached(nest));
  const bool folds = std::any_of(nest.dims.begin(), nest.dims.end(), [](const Dim& d) { return d.reduction; });
  const auto* product = nest.value->as<poly::Apply>();
  const bool fused =
      nest.aggregation == Aggregation::Sum && product && product->op == lang::Op::Mul && lang::is_float(type);
  if (identity_is_fill(nest) || always_reached(nest)) f.conditions = conditions(nest);
  if (folds && !fused) f.ops += has_scale(nest.aggregation, compute_type(type)) ? model::factor_operations : 1;
  return f;
}

Facts facts_in(const Group& group, const Nest& nest, const Target& target) {
  Facts f = facts(nest, loops_of_turn(group), target);
  if (has_threads(target)) f.shared = group.locals;
  return f;
}

std::vector<bool> reductions(const Nest& nest) {
  std::vector<bool> inner;
  for (const Dim& dim : nest.dims) inner.push_back(dim.reduction);
  return inner;
}

double points(const Facts& f) {
  double count = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d) if (!f.fixed[d]) count *= static_cast<double>(f.extent[d]);
  return count;
}

double interior(const Facts& f, std::size_t d) {
  return f.nest.rows.empty() ? 1 : interior_part(f.nest, f.extent, d, reductions(f.nest));
}

double left(const Facts& f, std::size_t n, std::optional<std::size_t> m, double rows, double vectors) {
  return f.conditions.empty() ? 1 : left_by(f.conditions, f.nest, n, m, rows, rows * vectors * f.ops);
}

std::int64_t lanes_for(const Facts& f, std::int64_t extent) {
  std::int64_t lanes = 1;
  while (lanes < f.width && lanes < extent) lanes *= 2;
  return lanes;
}

double access_cost(std::int64_t stride_of_lane, std::int64_t lanes) {
  const std::int64_t apart = std::abs(stride_of_lane);
  // neighbouring vectors, shuffled
  if (apart > 1 && apart <= blocks::shuffled_apart) return static_cast<double>(apart);
  return stride_of_lane == 1 || stride_of_lane == 0 ? blocks::load : blocks::gathered_lane * static_cast<double>(lanes);
}

std::vector<std::string> names(const Nest& nest, const std::vector<std::size_t>& dims) {
  std::vector<std::string> list;
  for (const std::size_t d : dims) list.push_back(nest.dims[d].name);
  return list;
}

bool outputs_share_rows(const Nest& nest) {
  for (std::size_t a = 0; a < nest.dims.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (!nest.dims[a].reduction && !nest.dims[b].reduction && share_row(nest, a, b)) return true;
  return false;
}

}  // namespace tilec::codegen
