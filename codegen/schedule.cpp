// Groups: which loops of a statement become turns, which tensors stay in a turn, where a fill must come first.
#include "codegen/schedule.h"
#include "poly/intern.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autodiff/graph.h"
#include "codegen/choose/columns.h"
#include "codegen/choose/leaf.h"
#include "codegen/choose/neighbours.h"
#include "codegen/choose/pass_tile.h"
#include "codegen/choose/short_rows.h"
#include "codegen/choose/side_by_side.h"
#include "codegen/choose/staged.h"
#include "codegen/choose/streams.h"
#include "codegen/choose/tensor_cores.h"
#include "codegen/choose/threads.h"
#include "codegen/choose/traffic.h"
#include "codegen/choose/turned.h"
#include "codegen/choose/turns.h"
#include "codegen/cover.h"
#include "codegen/finishing.h"
#include "codegen/indirect.h"
#include "codegen/model/machine.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/online_leaf.h"
#include "codegen/part.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/share.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "codegen/sort.h"
#include "codegen/tile.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

// Loops of a block when the leaf is a reduction or scan over threads: every output dimension, but for rows that it
// folds together.
std::vector<Loop> block_loops(const Compute& leaf, const Facts& f, const Target& target) {
  std::vector<Loop> loops;
  if (!leaf.is<forms::Reduce>() && !(leaf.is<forms::Scan>() && leaf.lanes > 1)) return loops;
  const auto [rows, count] = rows_of_a_block(leaf, f, target);
  for (const std::string& name : leaf.outer)
    if (name != rows) loops.push_back({name, 1});
    else if (count < f.nest.dims[*f.nest.dim(name)].extent) loops.push_back({name, count});
  return loops;
}

// Rows that fold, where they lie further apart in what is read than all around them: turns of them, as many as the
// second cache holds, so that what the other loops find between two rows is there already.
std::optional<Loop> folded_rows_first(const Nest& nest, const Choice& choice, const Target& target) {
  const Compute& leaf = choice.leaf;
  if (!leaf.is<forms::Reduce>() || leaf.m().empty() || leaf.outer.empty()) return std::nullopt;
  const auto apart = [&](const std::string& name) {
    std::int64_t sum = 0;
    for (const FlatAccess& read : nest.reads) sum += std::abs(read.offset.coefficients[*nest.dim(name)]);
    return sum;
  };
  const std::size_t m = *nest.dim(leaf.m());
  const double rows = static_cast<double>(nest.dims[m].extent), bytes = lang::bytes(nest.value->type());
  if (std::any_of(leaf.outer.begin(), leaf.outer.end(),
          [&](const std::string& name) { return apart(name) >= apart(leaf.m()); }))
    return std::nullopt;
  double row = 0;
  for (const FlatAccess& read : nest.reads) {
    if (!read.offset.coefficients[m]) continue;
    double elements = 1;
    for (std::size_t d = 0; d < nest.dims.size(); ++d)
      if (d != m && read.offset.coefficients[d]) elements *= static_cast<double>(nest.dims[d].extent);
    row += elements * bytes;
  }
  const double most = std::min(
      model::local_part_of_l2 * static_cast<double>(target.l2) / row, rows / (choice.cost / model::worth_a_turn));
  const auto step = static_cast<std::int64_t>(most / static_cast<double>(leaf.rows)) * leaf.rows;
  return Loop{leaf.m(), std::max(step, leaf.rows)};
}

// Loops of a group of one statement: outer dimensions until there are enough turns, else blocks of m or n.
std::vector<Loop> parallel_loops(const Nest& nest, const Choice& choice, const Target& target) {
  if (choice.cost < 2 * model::worth_a_turn) return {};
  if (const auto rows = folded_rows_first(nest, choice, target);
      rows && rows->step < nest.dims[*nest.dim(rows->index)].extent)
    return {*rows};
  const bool folded = choice.leaf.is<forms::Reduce>();
  std::vector<Loop> loops;
  double turns = 1;
  for (const std::string& name : choice.leaf.outer) {
    const auto extent = static_cast<double>(nest.dims[*nest.dim(name)].extent);
    if (turns >= model::most_turns || (turns >= model::enough_turns && turns * extent > model::turns_of_rows)) break;
    loops.push_back({name, 1});
    turns *= extent;
  }
  // Blocks of m, or of n where m is too short to share.
  for (const bool rows : {true, false}) {
    const std::string& blocked = rows || folded ? choice.leaf.m() : choice.leaf.n;
    if (turns >= model::enough_turns || blocked.empty()) continue;
    const std::int64_t extent = nest.dims[*nest.dim(blocked)].extent;
    const bool strips = choice.leaf.is<forms::Contract>() && choice.leaf.vectors == 1 && !has_threads(target);
    const std::int64_t unit =
        rows ? choice.leaf.rows : choice.leaf.lanes * (strips ? model::vectors_of_strips : choice.leaf.vectors);
    const auto wanted = static_cast<std::int64_t>(
        std::clamp(choice.cost / model::worth_a_turn / turns, 1.0, folded ? model::most_turns : model::largest_share));
    std::int64_t step =
        std::max((extent + wanted - 1) / wanted, rows && !folded ? std::min(model::least_rows_of_turn, extent) : 1);
    step = (step + unit - 1) / unit * unit;
    if (step >= extent) continue;
    loops.push_back({blocked, step});
    break;
  }
  return loops;
}

// Whether neighbours along the last row lie side by side wherever it is mentioned, and nothing else does that is
// folded: a warp has some each.
bool lie_side_by_side(const Fused& fused, const Fused::Set& set) {
  for (std::size_t n = 0; n < set.nodes.size(); ++n) {
    const auto& s = std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(set.nodes[n])]);
    const auto stride = [&](const poly::Access& access, std::size_t k) {
      return std::abs(stride_along(access, k, fused.strides));
    };
    if (stride(s.target, set.loops[n].back()) != 1 || scan_of(s)) return false;
    for (const poly::Access& read : s.reads) {
      if (stride(read, set.loops[n].back()) > 1) return false;
      if (stride(read, set.loops[n].back()) == 0) continue;
      for (std::size_t k = 0; k < s.indices.size(); ++k)
        if (!is_output_index(s, k) && stride(read, k) == 1) return false;
    }
  }
  return true;
}

// Whether a statement of the set reads what another one makes.
bool reads_itself(const Fused& fused, const Fused::Set& set) {
  const auto node = [&](int n) -> const poly::Node& { return fused.program.nodes[static_cast<std::size_t>(n)]; };
  return std::ranges::any_of(set.nodes, [&](int made) {
    const TensorId id = std::get<poly::Statement>(node(made)).target.tensor;
    return std::ranges::any_of(set.nodes, [&](int reader) { return reads(node(reader), id); });
  });
}

// Whether each thread folds columns of its own, for each statement.
bool has_columns_of_threads(const Fused& fused, const Fused::Set& set) {
  return !set.parts && !set.indices.empty() && lie_side_by_side(fused, set) && !reads_itself(fused, set) &&
      std::ranges::all_of(set.nodes, [&](int node) {
        return reduces(std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(node)]));
      });
}

// Rows of a turn of a block of threads, of which shared memory holds `fit`, where neighbours lie side by side. Rows of
// one element each are a map: every thread has some.
std::int64_t rows_of_a_turn(const Fused& fused, const Fused::Set& set, std::int64_t fit, const Target& target) {
  const double rows = rows_of(fused.program, set);
  const auto statement = [&](int node) -> const poly::Statement& {
    return std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(node)]);
  };
  if (std::ranges::all_of(set.nodes, [&](int node) { return points(statement(node)) <= rows; }))
    return std::clamp<std::int64_t>(fit, 1, threads_of_a_block * elements_of_a_thread(rows, target));
  if (has_columns_of_threads(fused, set)) return std::clamp<std::int64_t>(fit, 1, threads_of_a_block);
  if (std::ranges::all_of(
          set.nodes, [&](int node) { return reduces(statement(node)) || points(statement(node)) <= rows; }))
    return std::clamp<std::int64_t>(fit, 1, model::threads::warp);
  const poly::Statement& last = statement(set.nodes.back());
  const std::int64_t extent = last.domain[set.loops.back().back()].extent->get();
  return std::max<std::int64_t>(1, columns_of_a_turn(fit, extent, rows / static_cast<double>(extent),
                                       lang::bytes(fused.program.tensor(last.target.tensor).dtype), target));
}

// How many columns a row has, where what folds there goes down a column; 0: a warp or a block folds together.
double columns_of_a_row(const Fused& fused, const Fused::Set& set) {
  const double rows = rows_of(fused.program, set);
  double most = 0;
  for (const int node : set.nodes) {
    const auto& s = std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(node)]);
    const double columns = elements(fused.program, s.target.tensor) / rows;
    if (scan_of(s) || columns < model::threads::warp) return 0;
    most = std::max(most, columns);
  }
  return most;
}

// How many such rows give each thread of a block an element, where one has fewer.
std::int64_t rows_of_short_columns(const Fused& fused, const Fused::Set& set, const Target& target) {
  const double rows = rows_of(fused.program, set), most = columns_of_a_row(fused, set);
  if (most == 0) return 1;
  const double blocks = model::blocks_of_a_multiprocessor * target.multiprocessors,
               whole = std::min(static_cast<double>(threads_of_a_block) / most, rows / blocks);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(whole));
}

// Loops of a fused group. A turn has enough rows to be worth its start, a part of it as many as the first-level cache
// holds; contractions want blocks of rows, columns strips of them that the second-level cache holds.
std::vector<Loop> row_loops(
    const Fused& fused, const Fused::Set& set, const std::vector<TensorId>& locals, const Target& target) {
  std::vector<Loop> loops;
  for (const std::string& index : set.indices) loops.push_back({index, 1});
  if (loops.empty()) return loops;                     // one block has all of it
  const double rows = rows_of(fused.program, set);
  double row_bytes = 1;
  for (const TensorId id : locals)
    row_bytes += bytes_of(fused.program, id) / rows;
  if (has_threads(target)) {
    if (set.parts) loops.back().step = set.parts;
    if (set.parts > 1) loops.back().walk = 1;
    if (has_short_rows(fused, set, target)) loops.back().step = model::threads::short_rows_of_a_block;
    else if (!set.parts) {
      const auto fit = static_cast<std::int64_t>(shared_for_rows(target) / row_bytes);
      loops.back().step = lie_side_by_side(fused, set)
          ? rows_of_a_turn(fused, set, fit, target)
          : std::clamp<std::int64_t>(fit, 1, rows_of_short_columns(fused, set, target));
    }
    return loops;
  }
  const auto& first = std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(set.nodes.front())]);
  const std::int64_t extent = first.domain[set.loops.front().back()].extent->get();
  double row_elements = 1, work = 0;
  std::vector<Member> members;
  for (std::size_t n = 0; n < set.nodes.size(); ++n) {
    const auto& s = std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(set.nodes[n])]);
    row_elements = std::max(row_elements, points(s) / rows);
    work += cycles(s);
    members.push_back({&s, set.loops[n]});
  }
  Loop& last = loops.back();
  const auto at_most = [&](double step) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(step), 1, std::max<std::int64_t>(1, extent));
  };
  // All rows where another core would be no help.
  const double wanted = work < 2 * model::worth_a_turn ? static_cast<double>(extent)
      : set.blocks                                     ? model::blocked_rows_of_turn
                   : std::max(model::least_shared_rows, model::turn_elements / row_elements),
               fit = std::max(1.0, static_cast<double>(target.l2) * model::local_part_of_l2 / row_bytes);
  const RowBytes touched = bytes_of_a_row(fused.program, members);
  // Beside what all rows have in common, which is read again for each part of a turn: so rows may be as much as that.
  const double room = std::max(model::held_in_l1 * static_cast<double>(target.l1) - touched.common,
      std::min(touched.common, model::held_in_l2 / 2 * static_cast<double>(target.l2)));
  const auto in_l1 = [&](std::int64_t count) { return static_cast<double>(count) * touched.each <= room; };
  if (set.strips && !set.parts) {
    last.step = strip_of(touched, extent, target);
    return loops;
  }
  last.step = set.parts ? set.parts : at_most(std::min(fit, wanted));
  if (set.blocks) return loops;
  std::int64_t walk = 1;
  while (2 * walk < last.step && in_l1(2 * walk)) walk *= 2;
  if (in_l1(last.step) || walk >= last.step) return loops;
  if (!set.parts) last.step -= last.step % walk;
  if (walk < last.step) last.walk = walk;
  return loops;
}

// A box of a tiled contraction is copied out where its elements are.
bool filled(const Fused::Set& set, int node, const Cover& cover, const poly::Statement& s) {
  const bool finishing = std::find(set.nodes.end() - static_cast<std::ptrdiff_t>(set.finishing), set.nodes.end(),
                             node) != set.nodes.end();
  return (set.over.empty() || finishing) && (set.tile.empty() || node == set.nodes.back()) && cover.needs_fill(s);
}

// Which tensors one turn can keep: their buffer is made and read in one set, is no output, and no fill goes first.
std::vector<bool> locals(const Fused& fused, const Cover& cover) {
  const poly::Program& program = fused.program;
  const std::vector<TensorId> buffer = buffers(program);
  constexpr int nowhere = -1, outside = -2;
  std::vector<int> home(program.tensors.size(), nowhere);  // of a buffer: the set that it is seen in
  const auto see = [&](TensorId id, int set) {
    int& at = home[static_cast<std::size_t>(buffer[static_cast<std::size_t>(id)])];
    at = at == nowhere || at == set ? set : outside;
  };
  for (const TensorId id : program.outputs) see(id, outside);
  for (std::size_t set = 0; set < fused.sets.size(); ++set)
    for (const int n : fused.sets[set].nodes) {
      const poly::Node& node = program.nodes[static_cast<std::size_t>(n)];
      for (const TensorId id : autodiff::targets(node)) see(id, static_cast<int>(set));
      for (const TensorId id : autodiff::operands(node)) see(id, static_cast<int>(set));
      if (const auto* s = std::get_if<poly::Statement>(&node); s && filled(fused.sets[set], n, cover, *s))
        see(s->target.tensor, outside);
    }
  std::vector<bool> local(program.tensors.size());
  for (std::size_t id = 0; id < local.size(); ++id) local[id] = home[static_cast<std::size_t>(buffer[id])] >= 0;
  return local;
}

void add_leaf(Group& group, Why& why, Choice choice) {
  group.body.push_back(std::move(choice.leaf));
  why.leaves.push_back(std::move(choice.why));
}

// Bytes of a row of all that a launch does not make, and several of its statements read: they should find it in the
// second cache.
double bytes_read_again(const poly::Program& program, const Fused::Set& set, double rows) {
  std::map<TensorId, int> readers;
  std::set<TensorId> made;
  for (const int node : set.nodes) {
    const auto& s = std::get<poly::Statement>(program.nodes[static_cast<std::size_t>(node)]);
    made.insert(s.target.tensor);
    std::set<TensorId> read;
    for (const poly::Access& access : s.reads) read.insert(access.tensor);
    for (const TensorId id : read) ++readers[id];
  }
  double bytes = 0;
  for (const auto& [id, count] : readers)
    if (count > 1 && !made.contains(id))
      bytes += bytes_of(program, id) / rows;
  return bytes;
}

// Threads of the blocks that have a turn each of statements that share rows.
std::int64_t threads_of_set(const Fused& fused, const Fused::Set& set, const Group& group, const Target& target) {
  if (has_short_rows(fused, set, target)) return model::threads::short_rows_of_a_block;
  const Loop last = group.loops.empty() ? Loop{{}, 1} : group.loops.back();
  if (has_columns_of_threads(fused, set)) return ceil_divide(last.step, model::threads::warp) * model::threads::warp;
  const double rows = rows_of(fused.program, set) / static_cast<double>(last.part()),
               turns = std::ceil(rows * static_cast<double>(last.part()) / static_cast<double>(last.step));
  double bytes = 0, longest = 1;
  for (const TensorId id : group.locals)
    bytes += bytes_of(fused.program, id) / rows;
  for (const int node : set.nodes)
    longest = std::max(
        longest, points(std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(node)])) / rows);
  // A thread of the largest blocks has 64 registers. What stands in a value more than once is computed once.
  std::size_t operations = 0;
  for (const int node : set.nodes)
    operations +=
        poly::parts(std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(node)]).value).size();
  Target blocks = target;
  if (operations > model::threads::operations_of_large_blocks)
    blocks.max_threads = std::min(blocks.max_threads, model::threads::block_of_many_operations / (set.parts ? 2 : 1));
  if (const std::int64_t few = threads_of_short_rows(turns, longest, target); few && !set.parts && last.step == 1)
    return few;
  // What is read again and again should still be in the second cache: so few rows are under way where they are long.
  const double again = std::max(longest * lang::bytes(lang::DType::F32), bytes_read_again(fused.program, set, rows));
  const std::int64_t threads = threads_of_rows(turns, longest, std::max(bytes, again), blocks);
  // More than columns would have nothing to do.
  const auto columns =
      static_cast<std::int64_t>(columns_of_a_row(fused, set) * static_cast<double>(set.parts ? 1 : last.step));
  const std::int64_t warps = ceil_divide(columns, model::threads::warp);
  return columns ? std::min(threads, std::max(threads_of_a_block, warps * model::threads::warp)) : threads;
}

// Sums over the rows of a turn that shared memory holds beside the others, of as many blocks as one multiprocessor
// gets.
std::vector<TensorId> kept_of(const Fused& fused, const Fused::Set& set, const Group& group, const Target& target) {
  if (group.loops.empty() || !group.loops.back().walk) return {};
  const double turns = std::ceil(rows_of(fused.program, set) / static_cast<double>(group.loops.back().step));
  const double blocks = std::clamp(std::ceil(turns / target.multiprocessors), 1.0,
      model::threads::wanted_of_a_multiprocessor / static_cast<double>(group.threads));
  const double room =
      std::min(shared_for_rows(target), static_cast<double>(target.shared_bytes) / blocks - model::beside_folds);
  Group all = group;                                   // as if it kept every sum
  for (const Compute& leaf : group.body) all.kept.push_back(target_of(fused.program, leaf.node));
  const auto bytes = [&](TensorId id) {
    const std::int64_t each = lang::bytes(fused.program.tensor(id).dtype);
    return static_cast<double>(poly::product(turn_shape(fused.program, all, id)) * each);
  };
  double taken = 0;
  for (const TensorId id : group.locals) taken += bytes(id);
  std::vector<TensorId> kept;
  for (const Compute& leaf : group.body) {
    const auto& s = std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(leaf.node)]);
    const TensorId id = s.target.tensor;
    if (!part_of_turn(s, group.loops.back(), fused.strides) || taken + bytes(id) > room) continue;
    taken += bytes(id);
    kept.push_back(id);
  }
  return kept;
}

// Of blocks that fold an element each.
std::int64_t threads_of_fold(const Nest& nest, const Compute& leaf, const Target& target) {
  double elements = 1;
  for (const Dim& dim : nest.dims) if (!dim.reduction) elements *= static_cast<double>(dim.extent);
  const std::int64_t extent = nest.dims[*nest.dim(leaf.n)].extent;
  if (const std::int64_t few = threads_of_short_rows(elements, static_cast<double>(extent), target)) return few;
  if (2 * extent <= threads_of_a_block) return threads_of_a_block / 2;
  return threads_of_rows(elements, static_cast<double>(extent), 0, target);
}

// A group of one statement: its leaf, and loops that suit it.
void place(Group& group, Why& why, const poly::Program& program, const Nest& nest, int node, const Target& target) {
  if (has_threads(target) && !scan_of(nest)) {
    if (auto own = cheapest_side_by_side(program, facts(nest, {}, target), node, target)) {
      group.threads = own->leaf.lanes;
      add_leaf(group, why, {std::move(own->leaf), 0, {}, 0});
      return;
    }
    if (const auto leaf = leaf_on_tensor_cores(program, facts(nest, {}, target), node, target)) {
      group.threads = leaf->as<forms::TensorCores>()->threads();
      add_leaf(group, why, {*leaf, 0, {}, 0});
      return;
    }
    if (const auto staged = staged_leaf(facts(nest, {}, target), node, target, group.threads)) {
      add_leaf(group, why, {*staged, 0, {}, 0});
      return;
    }
  }
  if (has_threads(target))
    if (const auto turned = turned_leaf(facts(nest, {}, target), node, program, target)) {
      group.threads = threads_of_a_block;
      add_leaf(group, why, {*turned, 0, {}, 0});
      return;
    }
  const Facts all = facts(nest, {}, target);
  Choice whole = weigh_leaf(all, node);
  settle_block(all, whole.leaf);
  if (has_threads(target) && whole.leaf.is<forms::Scan>()) for_threads(whole.leaf, all, group.threads, target);
  if (has_threads(target) && whole.leaf.is<forms::Reduce>()) group.threads = threads_of_fold(nest, whole.leaf, target);
  group.loops = has_threads(target) ? block_loops(whole.leaf, all, target) : parallel_loops(nest, whole, target);
  for (const Loop& loop : group.loops) why.extents.push_back(nest.dims[*nest.dim(loop.index)].extent);
  // Without loops, a turn has all of it.
  if (group.loops.empty() && !has_threads(target)) {
    ask_ahead(all, whole.leaf);
    return add_leaf(group, why, std::move(whole));
  }
  const Facts turn = facts(nest, group.loops, target);
  add_leaf(group, why, choose_leaf(turn, node));
  if (!has_threads(target)) return;
  for_threads(group.body.back(), turn, group.threads, target);
  if (group.loops.empty()) join_neighbours(group.body.back(), turn, program, target);
}

Group fill_group(const Fused& fused, Why& why, int node, const Target& target) {
  const auto& s = std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(node)]);
  const Nest nest = fill_nest(fused.program, s, fused.strides);
  Group group;
  group.name = fused.program.tensor(s.target.tensor).name;
  group.threads = has_threads(target) ? threads_of_a_block : 0;
  place(group, why, fused.program, nest, node, target);
  Compute& leaf = group.body.front();
  leaf.ahead.clear();                                  // a plan says neither of a fill
  leaf.block()->claims = false;
  leaf.form = forms::Fill{*leaf.block()};
  return group;
}

// The group of a Gather, Scatter or Sort.
Group place(Group group, const Fused& fused, const poly::Intrinsic& intrinsic, int node, const Target& target) {
  const Nest nest = intrinsic_nest(fused.program, intrinsic, fused.strides);
  const auto leaf = intrinsic.op == poly::IntrinsicOp::Sort ? sort_leaf
      : intrinsic.op == poly::IntrinsicOp::Scatter          ? scatter_leaf
                                                            : gather_leaf;
  group.body = {leaf(fused.program, nest, node, target)};
  if (has_threads(target)) group.threads = group.body.front().lanes;
  return group;
}

// A contraction and its copies, a box of its indices a turn.
Group tiled(Group group, Why& why, const Fused& fused, const Fused::Set& set, const std::vector<bool>& local,
    const Target& target, std::vector<Nest>& nests) {
  for (const auto& [index, step] : set.tile) group.tile.push_back({index, step});
  for (const int node : set.nodes) {
    const TensorId id = target_of(fused.program, node);
    if (local[static_cast<std::size_t>(id)]) group.locals.push_back(id);
    group.body.push_back({});
    group.body.back().node = node;
  }
  for (Compute& leaf : group.body) {
    nests.push_back(tile_nest(fused.program, group, leaf.node, fused.strides));
    Choice choice = choose_leaf(facts(nests.back(), origins(group), target), leaf.node);
    leaf = std::move(choice.leaf);
    why.leaves.push_back(std::move(choice.why));
  }
  return group;
}

Compute finishing_leaf(int node) {
  Compute leaf;
  leaf.node = node;
  leaf.form = forms::Finish{};
  return leaf;
}

// Statements of one pass, and what finishes their sums.
Group passed(
    Group group, const Fused& fused, const Fused::Set& set, const std::vector<bool>& local, const Target& target) {
  std::vector<Nest> nests;
  const std::vector<int> nodes(set.nodes.begin(), set.nodes.end() - static_cast<std::ptrdiff_t>(set.finishing));
  for (const int node : set.nodes) {
    const auto& s = std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(node)]);
    if (local[static_cast<std::size_t>(s.target.tensor)]) group.locals.push_back(s.target.tensor);
  }
  for (const int node : nodes)
    nests.push_back(
        online_nest(std::get<poly::Statement>(fused.program.nodes[static_cast<std::size_t>(node)]), fused.strides));
  auto tile = choose_tile_of_pass(fused.program, nests, nodes, set.indices, set.over, set.twice, target);
  if (!tile) throw lang::InternalError("a pass was made that has no tile");
  group.body = std::move(tile->leaves);
  for (std::size_t n = nodes.size(); n < set.nodes.size(); ++n) group.body.push_back(finishing_leaf(set.nodes[n]));
  group.threads = tile->threads;
  return group;
}

// A contraction, and what finishes its sums.
Group finished(Group group, Why& why, const Fused& fused, const Fused::Set& set, const std::vector<bool>& local,
    const Target& target) {
  const std::vector<int> finishing(set.nodes.begin() + 1, set.nodes.end());
  const Nest nest = finishing_nests(fused.program, finishing, set.nodes.front(), fused.strides).front();
  const Facts all = facts(nest, {}, target);
  std::optional<Compute> leaf;
  if (auto own = cheapest_side_by_side(fused.program, all, set.nodes.front(), target)) leaf = std::move(own->leaf);
  else leaf = leaf_on_tensor_cores(fused.program, all, set.nodes.front(), target);
  if (leaf && leaf->is<forms::Contract>()) group.threads = leaf->lanes;
  else if (leaf) group.threads = leaf->as<forms::TensorCores>()->threads();
  else leaf = staged_leaf(all, set.nodes.front(), target, group.threads, Staged::AlsoSmall);
  if (!leaf) {
    leaf = leaf_of_own_elements(all, set.nodes.front(), target);
    group.threads = threads_of_a_block;
  }
  if (!leaf) throw lang::InternalError("sums are finished of which no block of threads has a tile");
  add_leaf(group, why, {*leaf, 0, {}, 0});
  for (const int node : set.nodes) {
    const TensorId id = target_of(fused.program, node);
    if (local[static_cast<std::size_t>(id)]) group.locals.push_back(id);
    if (node == set.nodes.front()) continue;
    group.body.push_back(finishing_leaf(node));
    why.leaves.emplace_back();
  }
  return group;
}

void choose_turns_of_fold(Group& group, Why& why, const poly::Program& program, const Nest& nest,
    const Strides& strides, const Target& target) {
  if (!group.body.front().is<forms::Reduce>() || group.loops.empty() || !model::predicts_time(target)) return;
  const model::KnownGroup known = model::known(program, group, strides, target);
  model::SeenGroup seen;
  model::OneGroup predicted(program, known, target, seen);
  choose_turns(group, why, nest, predicted, predicted.predict(group), target);
}

// `nests`: of its leaves (leaf_nest), where they are what these were chosen by.
Group group_of(const Fused& fused, Why& why, const Fused::Set& set, const std::vector<bool>& local,
    const Target& target, std::vector<Nest>& nests) {
  const auto& program = fused.program;
  Group group;
  group.threads = has_threads(target) ? threads_of_a_block : 0;
  group.name = std::visit(
      [&](const auto& node) {
        if constexpr (std::is_same_v<std::decay_t<decltype(node)>, poly::Statement>)
          return program.tensor(node.target.tensor).name;
        else
          return program.tensor(node.targets.front()).name;
      },
      program.nodes[static_cast<std::size_t>(set.nodes.back())]);
  if (!set.over.empty()) return passed(std::move(group), fused, set, local, target);
  if (set.finishing) return finished(std::move(group), why, fused, set, local, target);
  if (!set.tile.empty()) return tiled(std::move(group), why, fused, set, local, target, nests);
  if (set.nodes.size() > 1) {
    for (const int node : set.nodes) {
      const TensorId id = std::get<poly::Statement>(program.nodes[static_cast<std::size_t>(node)]).target.tensor;
      if (local[static_cast<std::size_t>(id)]) group.locals.push_back(id);
    }
    group.loops = row_loops(fused, set, group.locals, target);
    if (has_threads(target)) group.threads = threads_of_set(fused, set, group, target);
    for (const int node : set.nodes) group.body.emplace_back().node = node;
    if (has_threads(target)) group.kept = kept_of(fused, set, group, target);
  }
  for (std::size_t l = 0; l < set.nodes.size(); ++l) {
    const int node = set.nodes[l];
    const auto* s = std::get_if<poly::Statement>(&program.nodes[static_cast<std::size_t>(node)]);
    const auto* intrinsic = std::get_if<poly::Intrinsic>(&program.nodes[static_cast<std::size_t>(node)]);
    if (intrinsic && intrinsic->op != poly::IntrinsicOp::Reshape)
      return place(std::move(group), fused, *intrinsic, node, target);
    if (set.nodes.size() == 1) {
      Nest nest = s ? nest_of(*s, fused.strides) : reshape_nest(program, intrinsic->targets[0], intrinsic->operands[0]);
      nest.adds = program.tensor(nest.target.tensor).dtype == compute_type(nest.value->type());
      place(group, why, program, nest, node, target);
      choose_turns_of_fold(group, why, program, nest, fused.strides, target);
      stream(group.body.back(), program, nest, group, target);
      nest.adds = false;
      nests.push_back(std::move(nest));
      continue;
    }
    Nest nest = leaf_nest(program, group, group.body[l], fused.strides);
    nest.adds = may_add(program, group, node, nest, fused.strides);
    if (why.leaves.empty())
      for (const Loop& loop : group.loops)
        why.extents.push_back(nest.dim(loop.index) ? nest.dims[*nest.dim(loop.index)].extent : 1);
    const Facts turn = facts_in(group, nest, target);
    Choice choice = choose_leaf(turn, node);
    group.body[l] = std::move(choice.leaf);
    why.leaves.push_back(std::move(choice.why));
    if (has_threads(target)) for_threads(group.body[l], turn, group.threads, target);
    stream(group.body[l], program, nest, group, target);
    nest.adds = false;
    nests.push_back(std::move(nest));
  }
  return group;
}

// All of the plan but its program. `nests`: of each group.
Plan groups_of(const Fused& fused, const Target& target, std::vector<std::vector<Nest>>& nests) {
  Plan plan;
  plan.target = target.name;
  plan.directives = fused.directives;
  const Cover cover(fused);
  const std::vector<bool> local = locals(fused, cover);
  for (const Fused::Set& set : fused.sets) {
    for (const int node : set.nodes) {
      const auto* s = std::get_if<poly::Statement>(&fused.program.nodes[static_cast<std::size_t>(node)]);
      if (s && filled(set, node, cover, *s))
        nests.emplace_back(), plan.groups.push_back(fill_group(fused, plan.why.emplace_back(), node, target));
    }
    plan.groups.push_back(group_of(fused, plan.why.emplace_back(), set, local, target, nests.emplace_back()));
  }
  return plan;
}

}  // namespace

Plan schedule(const Fused& fused, const Target& target) {
  std::vector<std::vector<Nest>> nests;
  Plan plan = groups_of(fused, target, nests);
  plan.program = fused.program;
  return plan;
}

Plan schedule(Fused&& fused, const Target& target, std::vector<std::vector<Nest>>& nests) {
  Plan plan = groups_of(fused, target, nests);
  plan.program = std::move(fused.program);
  return plan;
}

}  // namespace tilec::codegen
