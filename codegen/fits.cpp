#include "codegen/fits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <set>

#include "codegen/choose/leaf.h"
#include "codegen/choose/threads.h"
#include "codegen/model/thresholds.h"
#include "codegen/online.h"
#include "codegen/online_cores.h"
#include "codegen/product.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/share.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "codegen/staged.h"
#include "codegen/tensor_cores.h"
#include "codegen/tile.h"
#include "codegen/turned.h"

namespace tilec::codegen {

namespace {

// beyond any register file
constexpr std::int64_t most_rows = 32, most_vectors = 16, most_accumulators = 128, most_lanes = 64;
constexpr std::int64_t most_staged = 64;               // all of a stage is unrolled
constexpr std::int64_t most_products = 32;             // of a warp on tensor cores: 128 of the 255 registers of a
                                                       // thread
constexpr std::int64_t most_of_a_pass = 64;            // elements of a thread, of a product or a sum
constexpr std::int64_t most_depth = 1024, most_buffers = 16, most_warps = 32;  // far beyond any shared memory
constexpr std::int64_t most_threads_of_a_block = 1024;
constexpr std::int64_t most_ahead = 1024;              // offsets stay small numbers

// ---- the head

// A buffer of a turn holds consecutive elements: some rows of the last loop, and one of each loop around it.
Misfit locals_fault(const Plan& plan, const Group& group, const Group& chosen, const std::vector<std::string>& rows) {
  for (std::size_t k = 0; k < group.locals.size(); ++k) {
    const std::string& name = plan.program.tensor(group.locals[k]).name;
    if (std::find(chosen.locals.begin(), chosen.locals.end(), group.locals[k]) == chosen.locals.end())
      return fmt::format("`{}` is needed outside this launch, so it is no local", name);
    if (std::count(group.locals.begin(), group.locals.end(), group.locals[k]) > 1)
      return fmt::format("local `{}` is given twice", name);
  }
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

const Fused::Set* set_of(const Group& chosen, const std::vector<Fused::Set>& sets) {
  const auto same = [](int node, const Compute& leaf) { return node == leaf.node; };
  const auto at = std::find_if(sets.begin(), sets.end(), [&](const Fused::Set& set) {
    return std::equal(set.nodes.begin(), set.nodes.end(), chosen.body.begin(), chosen.body.end(), same);
  });
  return at == sets.end() ? nullptr : &*at;
}

// ---- leaves

class LeafFit {
 public:
  LeafFit(const Plan& plan, const Group& group, const Compute& leaf, const Compute& chosen, const Strides& strides,
      const Target& target)
      : plan_(plan),
        group_(group),
        leaf_(leaf),
        chosen_(chosen),
        strides_(strides),
        target_(target),
        nest_(leaf_nest(plan.program, group, leaf, strides)) {}

  Misfit fault() const {
    if (const auto* intrinsic =
            std::get_if<poly::Intrinsic>(&plan_.program.nodes[static_cast<std::size_t>(leaf_.node)]);
        intrinsic && intrinsic->op != poly::IntrinsicOp::Reshape)
      return leaf_ == chosen_ ? std::nullopt : Misfit("the leaf of a gather, scatter or sort has one form only");
    if (leaf_.is<forms::Online>() || chosen_.is<forms::Online>()) return pass();
    for (const auto& check :
        {&LeafFit::loops, &LeafFit::walks, &LeafFit::roles, &LeafFit::form, &LeafFit::sizes, &LeafFit::parts})
      if (Misfit why = (this->*check)()) return why;
    return has_threads(target_) ? threads() : std::nullopt;
  }

 private:
  const Dim* dim(const std::string& name) const {
    const auto d = nest_.dim(name);
    return d ? &nest_.dims[*d] : nullptr;
  }
  bool reduces(const std::string& name) const { return dim(name) && dim(name)->reduction; }
  bool folds() const {
    return std::any_of(nest_.dims.begin(), nest_.dims.end(), [](const Dim& d) { return d.reduction; });
  }
  bool in_rows(const std::string& name) const {
    const std::size_t d = *nest_.dim(name);
    return std::any_of(
        nest_.rows.begin(), nest_.rows.end(), [&](const Row& row) { return row.form.coefficients[d] != 0; });
  }

  // Whether its target can hold a part of the fold, to which others are added.
  bool adds() const {
    return nest_.aggregation == Aggregation::Sum &&
        plan_.program.tensor(nest_.target.tensor).dtype == compute_type(nest_.value->type()) &&
        (identity_is_fill(nest_) || always_reached(nest_));
  }

  Misfit loops() const {
    for (const Loop& loop : group_.loops) {
      if (!dim(loop.index) && group_.body.size() > 1) continue;  // of extent 1
      if (!dim(loop.index)) return fmt::format("`{}` is no dimension of `{}`; it has {}", loop.index, name(), dims());
      const auto& s = std::get<poly::Statement>(plan_.program.nodes[static_cast<std::size_t>(leaf_.node)]);
      if (!leaf_.is<forms::Fill>() && group_.body.size() > 1 && part_of_turn(s, loop, strides_)) {
        if (loop.walk && !leaf_.is<forms::Contract>() && !leaf_.is<forms::Reduce>())
          return fmt::format("parts of a turn of `{}` are added up by a `contract` or a `reduce`", loop.index);
        const bool cut = loop.walk || (!leaf_.k.empty() && leaf_.k.front() == loop.index);
        if (cut && contract_ && (contract_->chunk || contract_->taps))
          return fmt::format("parts of a turn of `{}` cannot be added up in `{}`", loop.index, name());
        if (loop.walk && !adds())
          return fmt::format("parts of a turn of `{}` cannot be added up in `{}`", loop.index, name());
        continue;
      }
      if (reduces(loop.index))
        return fmt::format("`{}` is reduced, so turns over it would write the same elements", loop.index);
    }
    return std::nullopt;
  }

  Misfit walks() const {
    std::set<std::string> walked;
    for (const Loop& loop : group_.loops) if (loop.part() == 1) walked.insert(loop.index);
    for (const Loop& loop : origins(group_)) walked.insert(loop.index);
    const auto walk = [&](const std::string& index) -> Misfit {
      if (index.empty()) return std::nullopt;
      if (!dim(index)) return fmt::format("`{}` is no dimension of `{}`; it has {}", index, name(), dims());
      return walked.insert(index).second ? std::nullopt : Misfit(fmt::format("`{}` is walked twice", index));
    };
    std::vector<std::string> all = leaf_.outer;
    all.insert(all.end(), leaf_.k.begin(), leaf_.k.end());
    if (const auto* scan = leaf_.as<forms::Scan>()) all.push_back(scan->along);
    for (const std::string& index : leaf_.all_of_m()) all.push_back(index);
    for (const std::string& index : leaf_.all_of_n()) all.push_back(index);
    for (const std::string& index : all) if (Misfit why = walk(index)) return why;
    for (const Dim& d : nest_.dims)
      if (!walked.count(d.name)) return fmt::format("nothing walks `{}` of `{}`", d.name, name());
    return std::nullopt;
  }

  // Which indices may stand where.
  Misfit roles() const {
    for (const std::string& index : leaf_.outer)
      if (reduces(index)) return fmt::format("`{}` is reduced and stands behind `over`", index);
    for (const std::string& index : leaf_.k)
      if (!reduces(index)) return fmt::format("`{}` is not reduced and stands behind `k`", index);
    if (!leaf_.m().empty() && reduces(leaf_.m()))
      return fmt::format("`{}` is reduced and stands behind `m`", leaf_.m());
    if (!leaf_.n.empty() && reduces(leaf_.n) != leaf_.is<forms::Reduce>())
      return reduces(leaf_.n) ? fmt::format("lanes over `{}`, which is reduced, are those of `reduce`", leaf_.n)
                              : fmt::format("`reduce` has its lanes over what is reduced, not over `{}`", leaf_.n);
    return std::nullopt;
  }

  Misfit form() const {
    if (leaf_.is<forms::Fill>()) return std::nullopt;  // place_of has compared it
    if (leaf_.is<forms::Map>())
      return folds() ? Misfit(fmt::format("`{}` folds, so its leaf is no `map`", name())) : std::nullopt;
    if (contract_ || leaf_.is<forms::Staged>() || cores_)
      return folds() ? std::nullopt : Misfit(fmt::format("`{}` folds nothing, so its leaf is a `map`", name()));
    if (leaf_.is<forms::Reduce>()) return reduce();
    if (const auto* of = leaf_.as<forms::Scan>()) return scan(of->along);
    return fmt::format("`{}` has another form", name());
  }

  Misfit reduce() const {
    if (leaf_.n.empty()) return std::string("`reduce` has no index `n` for its lanes");
    if (leaf_.m().empty() || !has_threads(target_) || leaf_.rows == nest_.dims[*nest_.dim(leaf_.m())].extent)
      return std::nullopt;
    return fmt::format("a block of threads folds all {} of `{}` together, or one",
        nest_.dims[*nest_.dim(leaf_.m())].extent, leaf_.m());
  }

  Misfit scan(const std::string& along) const {
    const auto scan = scan_of(nest_);
    if (!scan) return fmt::format("`{}` is no scan", name());
    if (along != nest_.dims[scan->along].name || leaf_.k != std::vector{nest_.dims[scan->over].name})
      return fmt::format(
          "`{}` is a scan along `{}` of `k {}`", name(), nest_.dims[scan->along].name, nest_.dims[scan->over].name);
    for (const Loop& loop : group_.loops)
      if (loop.index == along) return fmt::format("turns over `{}` would begin the scan again", loop.index);
    if (!leaf_.n.empty() && in_rows(leaf_.n))
      return fmt::format("which points there are depends on `{}`, so its lanes cannot scan together", leaf_.n);
    const bool one = !scan->steady() || has_scale(nest_.aggregation, compute_type(nest_.value->type()));
    if (one && leaf_.rows != 1) return fmt::format("`{}` takes one step at a time: its block has one row", name());
    return std::nullopt;
  }

  Misfit sizes() const {
    if (leaf_.lanes > 1 && !has_threads(target_) &&
        (!std::has_single_bit(static_cast<std::uint64_t>(leaf_.lanes)) || leaf_.lanes > most_lanes))
      return fmt::format("{} lanes are no power of two up to {}", leaf_.lanes, most_lanes);
    if (leaf_.rows > most_rows || leaf_.vectors > (cores_ ? most_products : most_vectors) ||
        leaf_.rows * leaf_.vectors > most_accumulators)
      return fmt::format("a block of {}x{} is beyond {}x{} or {} accumulators", leaf_.rows, leaf_.vectors, most_rows,
          most_vectors, most_accumulators);
    if (leaf_.n.empty() && !has_threads(target_) && (leaf_.lanes > 1 || leaf_.vectors > 1))
      return std::string("without an index `n` there is one lane and one vector");
    if (leaf_.m().empty() && leaf_.rows > 1 && !leaf_.is<forms::Scan>())
      return std::string("without an index `m` a block has one row");
    if (blocked() && !leaf_.is<forms::Reduce>() && share_a_row(leaf_.m(), leaf_.n))
      return fmt::format(
          "which points there are depends on `{}` and `{}` together, so they make no block", leaf_.m(), leaf_.n);
    return std::nullopt;
  }

  // Chunks, streamed stores, staging, the order of blocks.
  Misfit parts() const {
    if (contract_)
      for (const auto& check : {&LeafFit::taps, &LeafFit::chunk})
        if (Misfit why = (this->*check)()) return why;
    if (Misfit why = ahead()) return why;
    const forms::Block* block = leaf_.block();
    if (block && block->turned)
      if (Misfit why = has_threads(target_) ? turned_by_threads() : turned()) return why;
    if (block && !block->m_inner && (has_threads(target_) || !blocked()))
      return std::string("`rows outside` are those of a block of `m` and `n` on a CPU");
    if (block && block->claims && (has_threads(target_) || leaf_.is<forms::Fill>()))
      return std::string("only the result of a `map` or a `contract` on a CPU is `claimed`");
    if (block && block->claims && leaf_.streams())
      return std::string("a result that is `streamed` goes past the cache, so it is not `claimed`");
    const TensorId id = nest_.target.tensor;
    const auto reads_it = [&](const poly::Node& n) { return reads(n, id); };
    const auto& nodes = plan_.program.nodes;
    const bool again = contract_ && (contract_->chunk || contract_->taps);
    if (leaf_.streams() &&
        (again || has_threads(target_) || !is_output(plan_.program, id) ||
            std::any_of(nodes.begin(), nodes.end(), reads_it)))
      return fmt::format(
          "only a result that a `map` or a `contract` writes once and nobody here reads is streamed, and `{}` is none",
          name());
    if (cores_) return on_tensor_cores();
    return leaf_.is<forms::Staged>() ? staged() : std::nullopt;
  }

  // All leaves of a pass have one tile.
  Misfit pass() const {
    const auto *own = leaf_.as<forms::Online>(), *first = group_.body.front().as<forms::Online>();
    if (!chosen_.is<forms::Online>())
      return fmt::format("`{}` belongs to no pass: that is said by the directive `online`", name());
    if (!own || !first || leaf_.outer != chosen_.outer || leaf_.n != chosen_.n || leaf_.k != chosen_.k ||
        own->m != chosen_.m())
      return fmt::format("`{}` belongs to a pass, which says its form and indices", name());
    const std::int64_t most = first->instruction.empty() ? most_staged : 2 * most_staged;
    if (!leaf_.ahead.empty() || own->depth != first->depth || own->instruction != first->instruction ||
        own->depth < 1 || own->depth > most)
      return fmt::format("the leaves of a pass have one stage, of {} at most, and one instruction", most);
    if (group_.threads % leaf_.lanes || group_.threads % group_.body.front().lanes)
      return fmt::format("{} threads are no rows of {}", group_.threads, leaf_.lanes);
    const std::int64_t rows = online_rows(leaf_, group_.threads),
                       threads = group_.threads / std::max<std::int64_t>(1, rows);
    if (rows != online_rows(group_.body.front(), group_.threads) || group_.threads % rows || own->depth % threads)
      return fmt::format("a block of {} rows and {} columns is no tile of {} threads, or not that of the other leaves",
          rows, own->depth, group_.threads);
    const auto part = std::get<OnlinePart>(online_part(nest_, own->m, group_.body.front().n));
    if (!own->instruction.empty()) return pass_on_cores(own->instruction, part);
    const std::int64_t columns = leaf_.lanes * leaf_.vectors;
    if (leaf_.rows * leaf_.vectors > most_of_a_pass)
      return fmt::format("a thread has {} elements of a pass at most", most_of_a_pass);
    if (part.role == OnlinePart::Product && columns != own->depth)
      return fmt::format("{} threads have {} columns each, and a stage {}", leaf_.lanes, leaf_.vectors, own->depth);
    if (part.role == OnlinePart::Sum &&
        (columns < nest_.dims[part.column].extent || columns > 2 * nest_.dims[part.column].extent + 128))
      return fmt::format("{} columns are not the {} of `{}`", columns, nest_.dims[part.column].extent, leaf_.n);
    if (part.role != OnlinePart::Product && part.role != OnlinePart::Sum && (leaf_.rows != 1 || leaf_.vectors != 1))
      return fmt::format("a thread has one row of `{}` or a part of one", name());
    return shared_of_pass(nests_of_pass());
  }
  std::vector<Nest> nests_of_pass() const {
    std::vector<Nest> nests;
    for (const Compute& one : group_.body) nests.push_back(leaf_nest(plan_.program, group_, one, strides_));
    return nests;
  }
  Misfit shared_of_pass(const std::vector<Nest>& nests) const {
    const std::int64_t bytes = online_bytes(nests, group_.body, group_.threads);
    return bytes <= target_.shared_bytes
        ? std::nullopt
        : Misfit(
              fmt::format("a block has {} bytes of shared memory, and the pass takes {}", target_.shared_bytes, bytes));
  }

  Misfit pass_on_cores(const std::string& instruction, const OnlinePart& part) const {
    const MatrixInstruction* i = matrix_instruction(instruction);
    if (!i) return fmt::format("`{}` is no instruction of tensor cores", instruction);
    if (!has_instruction(target_, *i))
      return i->only ? fmt::format("`{}` runs on {} alone", i->name, i->only)
                     : fmt::format("`{}` runs on CUDA from sm_{} on", i->name, i->capability);
    const std::vector<Nest> nests = nests_of_pass();
    std::vector<OnlinePart> parts;
    for (std::size_t l = 0; l < nests.size(); ++l)
      parts.push_back(std::get<OnlinePart>(online_part(nests[l], group_.body[l].m(), group_.body.front().n)));
    if (const std::string why = refuses_cores(*i, plan_.program, nests, parts); !why.empty()) return why;
    const bool multiplied = part.role == OnlinePart::Product || part.role == OnlinePart::Sum;
    const std::int64_t stage = leaf_.as<forms::Online>()->depth,
                       columns = part.role == OnlinePart::Product
        ? stage
        : (nest_.dims[part.column].extent + i->k - 1) / i->k * i->k;
    if (group_.threads % i->threads() || stage % i->k)
      return fmt::format("{} threads and a stage of {} are no multiples of the {} and {} of `{}`", group_.threads,
          stage, i->threads(), i->k, i->name);
    if (multiplied && (leaf_.lanes != i->threads() || leaf_.vectors * i->n != columns))
      return fmt::format("a warp has the {} columns of `{}`, {} of each result", columns, leaf_.n, i->n);
    if (!multiplied && (leaf_.lanes != 4 || leaf_.vectors != 1))
      return fmt::format("four threads have a row of `{}`", name());
    if (multiplied && leaf_.rows * leaf_.vectors * i->registers_of_c() > most_of_a_pass)
      return fmt::format("a thread has {} elements of a pass at most", most_of_a_pass);
    return shared_of_pass(nests);
  }

  Misfit staged() const {
    if (!has_threads(target_)) return std::string("operands are staged for a block of threads, which a CPU has not");
    if (!group_.loops.empty() || group_.body.size() > 1)
      return std::string("a staged leaf stands alone, without loops");
    if (!staging_of(nest_, leaf_.all_of_m(), leaf_.all_of_n(), leaf_.k))
      return fmt::format(
          "`{}` is no sum of products of two factors, one of {} alone and one of {} alone, over a reduction that bounds neither",
          name(), fmt::join(leaf_.all_of_m(), ", "), fmt::join(leaf_.all_of_n(), ", "));
    if (group_.threads != 128 && group_.threads != 256)
      return fmt::format("a staged leaf has 128 or 256 threads a block, not {}", group_.threads);
    if (group_.threads % leaf_.lanes) return fmt::format("{} threads are no rows of {}", group_.threads, leaf_.lanes);
    const std::int64_t depth = leaf_.as<forms::Staged>()->depth;
    if (depth > most_staged) return fmt::format("a stage of {} is beyond {}", depth, most_staged);
    const std::int64_t bytes =
        staged_bytes(leaf_, group_.threads, depth, lang::bytes(compute_type(nest_.value->type())));
    return bytes <= target_.shared_bytes
        ? std::nullopt
        : Misfit(fmt::format("two stages have {} bytes, and a block {}", bytes, target_.shared_bytes));
  }

  Misfit turned() const {
    return blocked() && leaf_.rows <= leaf_.lanes
        ? std::nullopt
        : Misfit("a `turned` block has an `m` and an `n`, and no more rows than lanes");
  }

  Misfit turned_by_threads() const {
    if (!blocked() || contract_)
      return std::string("on a GPU only a `map` or a `fill` of an `m` and an `n` is `turned`");
    if (!group_.loops.empty() || group_.body.size() != 1)
      return std::string("on a GPU a `turned` leaf stands alone, without loops");
    if (leaf_.lanes % model::threads::warp != 0)
      return fmt::format("the {} threads of a `turned` block are no multiple of {}", leaf_.lanes, model::threads::warp);
    const std::int64_t bytes = tile_bytes(plan_.program, nest_, leaf_);
    return bytes <= target_.shared_bytes
        ? std::nullopt
        : Misfit(fmt::format("the tiles of `{}` take {} bytes of shared memory, and there are {}", name(), bytes,
              target_.shared_bytes));
  }

  Misfit on_tensor_cores() const {
    const MatrixInstruction* i = matrix_instruction(cores_->instruction);
    if (!i) return fmt::format("`{}` is no instruction of tensor cores", cores_->instruction);
    if (!has_instruction(target_, *i))
      return i->only ? fmt::format("`{}` runs on {} alone", i->name, i->only)
                     : fmt::format("`{}` runs on CUDA from sm_{} on", i->name, i->capability);
    if (!group_.loops.empty() || group_.body.size() != 1)
      return std::string("a leaf on tensor cores stands alone, without loops");
    if (!blocked() || !multiplies(*i, plan_.program, nest_, leaf_.all_of_m(), leaf_.all_of_n(), leaf_.k, true))
      return fmt::format(
          "`{}` is no sum of products of two reads that `{}` multiplies, one along `m` and one along `n`", name(),
          i->name);
    if (!multiplies(*i, plan_.program, nest_, leaf_.all_of_m(), leaf_.all_of_n(), leaf_.k, target_.tf32))
      return fmt::format("`{}` rounds f32 to tf32, which a target with `math=tf32` allows", i->name);
    if (cores_->depth > most_depth || cores_->buffers > most_buffers ||
        std::max(cores_->warps_m, cores_->warps_n) > most_warps)
      return fmt::format("a block has {} of the reduction in {} buffers and {} warps a side at most", most_depth,
          most_buffers, most_warps);
    if (leaf_.lanes != i->threads() || cores_->threads() != group_.threads)
      return fmt::format("{}x{} times {} lanes are not the {} threads of a block", cores_->warps_m, cores_->warps_n,
          i->threads(), group_.threads);
    if (i->from_shared()) {
      if (leaf_.vectors % 8 || leaf_.vectors > 32 || leaf_.rows * leaf_.vectors > most_products)
        return fmt::format("four warps have 64, 128, 192 or 256 columns, and {} products of 8 at most", most_products);
      if (cores_->depth * lang::bytes(i->operand) % 128 || cores_->buffers < 3)
        return std::string(
            "a turn has whole lines of 128 bytes of the reduction, and there are three buffers at least");
    }
    if (leaf_.vectors % 2 || leaf_.rows * leaf_.vectors > most_products)
      return fmt::format("a warp has {} products of two instructions side by side at most, and no odd number along `n`",
          most_products / 2);
    if (cores_->depth % i->k)
      return fmt::format(
          "{} of the reduction are no multiple of the {} that `{}` multiplies", cores_->depth, i->k, i->name);
    if (cores_->buffers < 2 || shared_bytes_of(leaf_) > target_.shared_bytes)
      return fmt::format("{} buffers take {} bytes of shared memory: two at least, and {} bytes at most",
          cores_->buffers, shared_bytes_of(leaf_), target_.shared_bytes);
    return std::nullopt;
  }

  Misfit taps() const {
    if (contract_->taps == 0) return std::nullopt;
    if (has_threads(target_) || !adds() || outputs_share_rows(nest_))
      return fmt::format("parts of the sum of `{}` cannot be added up in its memory, so it has no `taps`", name());
    if (static_cast<std::size_t>(contract_->taps) > leaf_.k.size())
      return fmt::format("`k` has {} indices, not {} that could be taps", leaf_.k.size(), contract_->taps);
    if (!group_.tile.empty()) return std::string("a box has no `taps`");
    return contract_->chunk == 0 ? std::nullopt : Misfit("a leaf has `taps` or a `chunk`");
  }

  Misfit chunk() const {
    if (contract_->chunk == 0) return std::nullopt;
    if (!group_.tile.empty())
      return std::string("a box has no `chunk`: `tile` says how much is folded before the next one");
    if (has_threads(target_) || !adds())
      return fmt::format("parts of the sum of `{}` cannot be added up in its memory, so it has no `chunk`", name());
    const bool shorter = !leaf_.k.empty() && contract_->chunk < dim(leaf_.k.front())->extent;
    return shorter ? std::nullopt
                   : Misfit(fmt::format("a chunk of {} is not shorter than the first of `k`", contract_->chunk));
  }

  Misfit ahead() const {
    if (leaf_.ahead.empty()) return std::nullopt;
    if (has_threads(target_)) return std::string("`ahead` belongs to a `map`, a `contract` or a `reduce` on a CPU");
    for (const Ahead& one : leaf_.ahead) {
      const bool moves = one.index == leaf_.m() || std::ranges::find(leaf_.k, one.index) != leaf_.k.end() ||
          std::ranges::find(leaf_.outer, one.index) != leaf_.outer.end() || one.index == leaf_.n;
      if (one.index.empty() || !moves)
        return fmt::format("`ahead` names `{}`, which is no index of the loops and blocks of the leaf", one.index);
      if (one.count > most_ahead) return fmt::format("{} is too far ahead: {} at most", one.count, most_ahead);
    }
    return std::nullopt;
  }

  // Elements are numbered over the threads of a block, or the block folds or scans together.
  Misfit threads() const {
    if (leaf_.is<forms::Staged>() || cores_) return std::nullopt;
    if (leaf_.is<forms::Scan>())
      for (const Loop& loop : group_.loops)
        if (loop.part() != 1)
          return fmt::format("a block of threads scans one `{}` at a time, not {}", loop.index, loop.part());
    if (leaf_.is<forms::Scan>())
      return leaf_ == chosen_ ? std::nullopt : Misfit("the scan of a block of threads has one form only");
    if (leaf_.lanes != group_.threads) return fmt::format("the lanes are the {} threads of a block", group_.threads);
    const bool map = leaf_.block() && !leaf_.block()->turned && leaf_.k.empty();
    const std::int64_t vectors = leaf_.is<forms::Reduce>() || map ? 4 : 1;
    if (leaf_.vectors > vectors || leaf_.rows > 8) return fmt::format("a thread has a block of 8x{} at most", vectors);
    return std::nullopt;
  }

  bool blocked() const { return !leaf_.m().empty() && !leaf_.n.empty(); }
  bool share_a_row(const std::string& a, const std::string& b) const {
    const std::size_t x = *nest_.dim(a), y = *nest_.dim(b);
    return std::any_of(nest_.rows.begin(), nest_.rows.end(),
        [&](const Row& row) { return row.form.coefficients[x] && row.form.coefficients[y]; });
  }
  const std::string& name() const { return plan_.program.tensor(nest_.target.tensor).name; }
  std::string dims() const {
    std::vector<std::string> names;
    for (const Dim& d : nest_.dims) names.push_back(d.name);
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  }

  const Plan& plan_;
  const Group& group_;
  const Compute& leaf_;
  const Compute& chosen_;
  const forms::Contract* contract_ = leaf_.as<forms::Contract>();
  const forms::TensorCores* cores_ = leaf_.as<forms::TensorCores>();
  const Strides& strides_;
  const Target& target_;
  const Nest nest_;
};

}  // namespace

Misfit loops_fault(const Plan& plan, const Group& group, const Group& chosen, const std::vector<Fused::Set>& sets,
    const Strides& strides, const Target& target) {
  if (group.name != chosen.name) return fmt::format("the launch of these leaves is called `{}`", chosen.name);
  // Contractions in tiles say how many threads theirs have.
  const bool tiles = chosen.body.size() == 1 &&
      (chosen.body.front().is<forms::TensorCores>() || chosen.body.front().is<forms::Staged>());
  const bool pass = chosen.body.front().is<forms::Online>();
  const bool other_threads =
      (tiles || pass) && group.threads > 0 && group.threads <= most_threads_of_a_block && group.threads % 32 == 0;
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
  if (chosen.body.size() == 1)
    return group.locals.empty() && group.kept.empty() ? std::nullopt
                                                      : Misfit("a launch of one statement has no locals");
  const Fused::Set* set = set_of(chosen, sets);
  const std::vector<std::string> rows = set ? set->indices : std::vector<std::string>();
  for (const Loop& loop : group.loops)
    if (std::find(rows.begin(), rows.end(), loop.index) == rows.end())
      return fmt::format("these statements share {}, not `{}`", fmt::join(rows, ", "), loop.index);
  if (group.threads && group.loops.empty()) return "blocks of threads that share rows have a loop over them";
  if (Misfit why = locals_fault(plan, group, chosen, rows)) return why;
  return kept_fault(plan, group, chosen, strides, target);
}

Misfit leaf_fault(const Plan& plan, const Group& group, const Compute& leaf, const Compute& chosen,
    const Strides& strides, const Target& target) {
  return LeafFit(plan, group, leaf, chosen, strides, target).fault();
}

Compute chosen_leaf(
    const Plan& plan, const Group& group, const Compute& chosen, const Strides& strides, const Target& target) {
  const auto* intrinsic = std::get_if<poly::Intrinsic>(&plan.program.nodes[static_cast<std::size_t>(chosen.node)]);
  if (intrinsic && intrinsic->op != poly::IntrinsicOp::Reshape) return chosen;
  if (chosen.is<forms::Online>()) return chosen;
  const Nest nest = nest_to_choose(plan.program, group, chosen, strides);
  const Facts turn = facts(nest, loops_of_turn(group), target);
  Compute leaf = choose_leaf(turn, chosen.node).leaf;
  if (has_threads(target)) for_threads(leaf, turn, group.threads, target);
  if (chosen.is<forms::Fill>()) leaf.form = forms::Fill{*leaf.block()};
  const auto* contract = leaf.as<forms::Contract>();
  if (chosen.streams() && !(contract && (contract->chunk || contract->taps)) && leaf.set_streams())
    widen_for_streams(leaf, turn);
  return leaf;
}

}  // namespace tilec::codegen
