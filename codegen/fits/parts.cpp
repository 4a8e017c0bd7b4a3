// Chunks, taps, what is asked for ahead, turned blocks, streamed and claimed results.
#include "codegen/fits/leaf_to_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/choose/facts.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t most_ahead = 1024;              // offsets stay small numbers

Misfit taps_fault(const LeafToFit& g) {
  if (g.contract->taps == 0) return std::nullopt;
  if (has_threads(g.target) || !g.adds() || outputs_share_rows(g.nest))
    return fmt::format("parts of the sum of `{}` cannot be added up in its memory, so it has no `taps`", g.name());
  if (static_cast<std::size_t>(g.contract->taps) > g.leaf.k.size())
    return fmt::format("`k` has {} indices, not {} that could be taps", g.leaf.k.size(), g.contract->taps);
  if (!g.group.tile.empty()) return std::string("a box has no `taps`");
  return g.contract->chunk == 0 ? std::nullopt : Misfit("a leaf has `taps` or a `chunk`");
}

Misfit chunk_fault(const LeafToFit& g) {
  if (g.contract->chunk == 0) return std::nullopt;
  if (!g.group.tile.empty())
    return std::string("a box has no `chunk`: `tile` says how much is folded before the next one");
  if (has_threads(g.target) || !g.adds())
    return fmt::format("parts of the sum of `{}` cannot be added up in its memory, so it has no `chunk`", g.name());
  const bool shorter = !g.leaf.k.empty() && g.contract->chunk < g.dim(g.leaf.k.front())->extent;
  return shorter ? std::nullopt
                 : Misfit(fmt::format("a chunk of {} is not shorter than the first of `k`", g.contract->chunk));
}

Misfit ahead_fault(const LeafToFit& g) {
  if (g.leaf.ahead.empty()) return std::nullopt;
  if (has_threads(g.target)) return std::string("`ahead` belongs to a `map`, a `contract` or a `reduce` on a CPU");
  for (const Ahead& one : g.leaf.ahead) {
    const bool moves = one.index == g.leaf.m() || std::ranges::find(g.leaf.k, one.index) != g.leaf.k.end() ||
        std::ranges::find(g.leaf.outer, one.index) != g.leaf.outer.end() || one.index == g.leaf.n;
    if (one.index.empty() || !moves)
      return fmt::format("`ahead` names `{}`, which is no index of the loops and blocks of the leaf", one.index);
    if (one.count > most_ahead) return fmt::format("{} is too far ahead: {} at most", one.count, most_ahead);
  }
  return std::nullopt;
}

Misfit turned_fault(const LeafToFit& g) {
  return g.blocked() && g.leaf.rows <= g.leaf.lanes
      ? std::nullopt
      : Misfit("a `turned` block has an `m` and an `n`, and no more rows than lanes");
}

}  // namespace

Misfit part_fault(const LeafToFit& g) {
  if (g.contract)
    for (const auto& check : {taps_fault, chunk_fault})
      if (Misfit why = check(g)) return why;
  if (Misfit why = ahead_fault(g)) return why;
  const forms::Block* block = g.leaf.block();
  if (block && block->turned)
    if (Misfit why = has_threads(g.target) ? turned_by_threads_fault(g) : turned_fault(g)) return why;
  if (block && !block->m_inner && (has_threads(g.target) || !g.blocked()))
    return std::string("`rows outside` are those of a block of `m` and `n` on a CPU");
  if (block && block->claims && (has_threads(g.target) || g.leaf.is<forms::Fill>()))
    return std::string("only the result of a `map` or a `contract` on a CPU is `claimed`");
  if (block && block->claims && g.leaf.streams())
    return std::string("a result that is `streamed` goes past the cache, so it is not `claimed`");
  const TensorId id = g.nest.target.tensor;
  const auto reads_it = [&](const poly::Node& n) { return reads(n, id); };
  const auto& nodes = g.plan.program.nodes;
  const bool again = g.contract && (g.contract->chunk || g.contract->taps);
  if (g.leaf.streams() &&
      (again || has_threads(g.target) || !is_output(g.plan.program, id) ||
          std::any_of(nodes.begin(), nodes.end(), reads_it)))
    return fmt::format(
        "only a result that a `map` or a `contract` writes once and nobody here reads is streamed, and `{}` is none",
        g.name());
  if (g.cores) return tensor_cores_fault(g);
  return g.leaf.is<forms::Staged>() ? staged_fault(g) : std::nullopt;
}

}  // namespace tilec::codegen
