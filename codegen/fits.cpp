#include "codegen/fits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "codegen/choose/leaf.h"
#include "codegen/choose/neighbours.h"
#include "codegen/choose/threads.h"
#include "codegen/finishing.h"
#include "codegen/fits/leaf_to_fit.h"
#include "codegen/rewrite/share.h"
#include "codegen/tile.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t most_threads_of_a_block = 1024;

// What nobody else needs, and once.
Misfit needed_fault(const Plan& plan, const Group& group, const Group& chosen) {
  for (std::size_t k = 0; k < group.locals.size(); ++k) {
    const std::string& name = plan.program.tensor(group.locals[k]).name;
    if (std::find(chosen.locals.begin(), chosen.locals.end(), group.locals[k]) == chosen.locals.end())
      return fmt::format("`{}` is needed outside this launch, so it is no local", name);
    if (std::count(group.locals.begin(), group.locals.end(), group.locals[k]) > 1)
      return fmt::format("local `{}` is given twice", name);
  }
  return std::nullopt;
}

// A buffer of a turn holds consecutive elements: some rows of the last loop, and one of each loop around it.
Misfit locals_fault(const Plan& plan, const Group& group, const Group& chosen, const std::vector<std::string>& rows) {
  if (Misfit why = needed_fault(plan, group, chosen)) return why;
  if (group.locals.empty()) return std::nullopt;
  if (group.loops.empty()) return "locals belong to the turns of a loop, and there is none";
  for (std::size_t l = 0; l < group.loops.size(); ++l) {
    if (group.loops[l].index != rows[l])
      return fmt::format("with locals the loops are the first of {}, in this order", fmt::join(rows, ", "));
    if (l + 1 < group.loops.size() && group.loops[l].step != 1) return "with locals all loops but the last one go by 1";
  }
  return std::nullopt;
}

// What is added up part by part of a turn, and whether shared memory holds it beside the locals.
Misfit kept_fault(const Plan& plan, Group group, const Group& chosen, const Strides& strides, const Target& target) {
  group.body = chosen.body;                            // which leaves there are; what they say is read afterwards
  std::int64_t bytes = 0;
  std::set<TensorId> seen;
  for (const TensorId id : group.kept) {
    const poly::Tensor& tensor = plan.program.tensor(id);
    if (!group.threads || group.loops.empty() || !group.loops.back().walk)
      return std::string("what is kept is added up row by row of a turn, by blocks of threads");
    const auto made =
        std::ranges::find_if(group.body, [&](const Compute& leaf) { return target_of(plan.program, leaf.node) == id; });
    const auto* s = made == group.body.end()
        ? nullptr
        : std::get_if<poly::Statement>(&plan.program.nodes[static_cast<std::size_t>(made->node)]);
    if (!s || !part_of_turn(*s, group.loops.back(), strides))
      return fmt::format("`{}` is no sum in parts of these turns, so it is not kept", tensor.name);
    if (!seen.insert(id).second) return fmt::format("`{}` is kept twice", tensor.name);
    bytes += poly::product(turn_shape(plan.program, group, id)) * lang::bytes(tensor.dtype);
  }
  for (const TensorId id : group.locals)
    bytes += poly::product(turn_shape(plan.program, group, id)) * lang::bytes(plan.program.tensor(id).dtype);
  if (!group.threads || static_cast<double>(bytes) <= shared_for_rows(target)) return std::nullopt;
  return fmt::format("what stays in a turn takes {} bytes of shared memory", bytes);
}

Misfit finished_fault(const Plan& plan, const Group& group, const Group& chosen) {
  if (!group.loops.empty() || !group.kept.empty())
    return "statements that finish a sum go over its elements, and have no loops around them";
  return needed_fault(plan, group, chosen);
}

const Fused::Set* set_of(const Group& chosen, const std::vector<Fused::Set>& sets) {
  const auto same = [](int node, const Compute& leaf) { return node == leaf.node; };
  const auto at = std::find_if(sets.begin(), sets.end(), [&](const Fused::Set& set) {
    return std::equal(set.nodes.begin(), set.nodes.end(), chosen.body.begin(), chosen.body.end(), same);
  });
  return at == sets.end() ? nullptr : &*at;
}

}  // namespace

Misfit loops_fault(const Plan& plan, const Group& group, const Group& chosen, const std::vector<Fused::Set>& sets,
    const Strides& strides, const Target& target) {
  if (group.name != chosen.name) return fmt::format("the launch of these leaves is called `{}`", chosen.name);
  // Contractions in tiles say how many threads theirs have, and so do statements that share rows and folds, of which
  // blocks may have an element each: a plan of short rows holds for longer ones, one of many for few.
  const bool finished = finishes(chosen);
  const bool tiles = (chosen.body.size() == 1 || finished) &&
      (chosen.body.front().is<forms::TensorCores>() || chosen.body.front().is<forms::Staged>());
  const bool pass = chosen.body.front().is<forms::Online>();
  const bool rows = chosen.threads && chosen.body.size() > 1 && chosen.tile.empty() && !finished && !pass;
  const bool folds = chosen.threads && chosen.body.size() == 1 &&
      (chosen.body.front().is<forms::Reduce>() || chosen.body.front().is<forms::Contract>());
  const std::int64_t most = rows || folds ? target.max_threads : most_threads_of_a_block;
  const bool other_threads =
      (tiles || pass || rows || folds) && group.threads > 0 && group.threads <= most && group.threads % 32 == 0;
  if (group.threads != chosen.threads && !other_threads)
    return chosen.threads ? fmt::format("its blocks have {} threads", chosen.threads)
                          : "this target has no blocks of threads";
  for (const Loop& loop : group.loops) {
    if (!loop.walk) continue;
    if (chosen.body.size() == 1 || &loop != &group.loops.back())
      return fmt::format("only the last loop of several statements has parts of a turn, and `{}` is none", loop.index);
    if (loop.walk >= loop.step)
      return fmt::format("a part of {} is not shorter than a turn of {} of `{}`", loop.walk, loop.step, loop.index);
  }
  std::set<std::string> seen;
  for (const Loop& loop : group.loops)
    if (!seen.insert(loop.index).second) return fmt::format("`{}` is looped over twice", loop.index);
  if (group.tile != chosen.tile || (!chosen.tile.empty() && (!group.loops.empty() || group.locals != chosen.locals)))
    return std::string("boxes and what they keep are said by the directive `tile`");
  if (pass)
    return group.loops.empty() && group.locals == chosen.locals
        ? std::nullopt
        : Misfit("a pass has no loops around it, and keeps what it computes on its way");
  if (finished) return finished_fault(plan, group, chosen);
  if (chosen.body.size() == 1)
    return group.locals.empty() && group.kept.empty() ? std::nullopt
                                                      : Misfit("a launch of one statement has no locals");
  const Fused::Set* set = set_of(chosen, sets);
  const std::vector<std::string> shared = set ? set->indices : std::vector<std::string>();
  for (const Loop& loop : group.loops)
    if (std::ranges::find(shared, loop.index) == shared.end())
      return fmt::format("these statements share {}, not `{}`", fmt::join(shared, ", "), loop.index);
  if (group.threads && group.loops.empty()) return "blocks of threads that share rows have a loop over them";
  if (Misfit why = locals_fault(plan, group, chosen, shared)) return why;
  return kept_fault(plan, group, chosen, strides, target);
}

Misfit leaf_fault(const Plan& plan, const Group& group, const Compute& leaf, const Compute& chosen,
    const Strides& strides, const Target& target) {
  const auto* intrinsic = std::get_if<poly::Intrinsic>(&plan.program.nodes[static_cast<std::size_t>(leaf.node)]);
  if (intrinsic && intrinsic->op != poly::IntrinsicOp::Reshape)
    return leaf == chosen ? std::nullopt : Misfit("the leaf of a gather, scatter or sort has one form only");
  const LeafToFit given{plan, group, leaf, chosen, strides, target};
  if (leaf.is<forms::Finish>() || chosen.is<forms::Finish>())
    return leaf == chosen ? std::nullopt : Misfit("a leaf that finishes sums has one form only");
  if (leaf.is<forms::Online>() || chosen.is<forms::Online>()) return pass_fault(given);
  const auto* own = leaf.as<forms::Contract>();
  if (finishes(group) && !leaf.is<forms::Staged>() && !leaf.is<forms::TensorCores>() &&
      !(own && !own->chunk && !own->taps && group.loops.empty()))
    return "only sums of which a block of threads has a tile, with `stage` or `mma`, or each thread elements of its own are finished";
  for (const auto& fault : {surrounding_fault, walk_fault, rows_fault, role_fault, form_fault, size_fault, part_fault})
    if (Misfit why = fault(given)) return why;
  return has_threads(target) ? thread_fault(given) : std::nullopt;
}

Compute chosen_leaf(
    const Plan& plan, const Group& group, const Compute& chosen, const Strides& strides, const Target& target) {
  const auto* intrinsic = std::get_if<poly::Intrinsic>(&plan.program.nodes[static_cast<std::size_t>(chosen.node)]);
  if (intrinsic && intrinsic->op != poly::IntrinsicOp::Reshape) return chosen;
  if (chosen.is<forms::Online>() || finishes(group)) return chosen;
  const Nest nest = nest_to_choose(plan.program, group, chosen, strides);
  const Facts turn = facts_in(group, nest, target);
  Compute leaf = choose_leaf(turn, chosen.node).leaf;
  if (has_threads(target)) for_threads(leaf, turn, group.threads, target);
  if (group.loops.empty()) join_neighbours(leaf, turn, plan.program, target);
  if (chosen.is<forms::Fill>()) leaf.form = forms::Fill{*leaf.block()};
  const auto* contract = leaf.as<forms::Contract>();
  if (chosen.streams() && !(contract && (contract->chunk || contract->taps)) && leaf.set_streams())
    widen_for_streams(leaf, turn);
  return leaf;
}

}  // namespace tilec::codegen
