// Leaves for blocks of threads: what is staged, on tensor cores, turned, and all others.
#include "codegen/fits/leaf_to_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/finishing.h"
#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "codegen/staged.h"
#include "codegen/tensor_cores.h"
#include "codegen/turned.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t most_depth = 1024, most_buffers = 16, most_warps = 32;  // far beyond any shared memory

}  // namespace

Misfit instruction_fault(const std::string& name, const Target& target) {
  const MatrixInstruction* i = matrix_instruction(name);
  if (!i) return fmt::format("`{}` is no instruction of tensor cores", name);
  if (has_instruction(target, *i)) return std::nullopt;
  return i->only ? fmt::format("`{}` runs on {} alone", i->name, i->only)
                 : fmt::format("`{}` runs on CUDA from sm_{} on", i->name, i->capability);
}

Misfit staged_fault(const LeafToFit& g) {
  if (!has_threads(g.target)) return std::string("operands are staged for a block of threads, which a CPU has not");
  if (!g.group.loops.empty() || (g.group.body.size() > 1 && !finishes(g.group)))
    return std::string("a staged leaf stands alone, or in front of what finishes it, without loops");
  const auto roles = staging_of(g.nest, g.leaf);
  if (!roles)
    return fmt::format(
        "`{}` is no sum or extreme of values of {} alone and of {} alone, over a reduction that bounds neither",
        g.name(), fmt::join(g.leaf.all_of_m(), ", "), fmt::join(g.leaf.all_of_n(), ", "));
  if (g.group.threads != 128 && g.group.threads != 256)
    return fmt::format("a staged leaf has 128 or 256 threads a block, not {}", g.group.threads);
  if (g.group.threads % g.leaf.lanes) return fmt::format("{} threads are no rows of {}", g.group.threads, g.leaf.lanes);
  const std::int64_t depth = g.leaf.as<forms::Staged>()->depth;
  if (depth > most_staged) return fmt::format("a stage of {} is beyond {}", depth, most_staged);
  const std::int64_t bytes =
      staged_bytes(g.leaf, g.group.threads, depth, *roles, compute_type(g.nest.value->type()));
  return bytes <= g.target.shared_bytes
      ? std::nullopt
      : Misfit(fmt::format("two stages have {} bytes, and a block {}", bytes, g.target.shared_bytes));
}

Misfit turned_by_threads_fault(const LeafToFit& g) {
  if (!g.blocked() || g.contract)
    return std::string("on a GPU only a `map` or a `fill` of an `m` and an `n` is `turned`");
  if (!g.group.loops.empty() || g.group.body.size() != 1)
    return std::string("on a GPU a `turned` leaf stands alone, without loops");
  if (g.leaf.lanes % model::threads::warp != 0)
    return fmt::format("the {} threads of a `turned` block are no multiple of {}", g.leaf.lanes, model::threads::warp);
  const std::int64_t bytes = tile_bytes(g.plan.program, g.nest, g.leaf);
  return bytes <= g.target.shared_bytes
      ? std::nullopt
      : Misfit(fmt::format("the tiles of `{}` take {} bytes of shared memory, and there are {}", g.name(), bytes,
            g.target.shared_bytes));
}

Misfit tensor_cores_fault(const LeafToFit& g) {
  if (Misfit why = instruction_fault(g.cores->instruction, g.target)) return why;
  const MatrixInstruction* i = matrix_instruction(g.cores->instruction);
  if (!g.group.loops.empty() || (g.group.body.size() > 1 && !finishes(g.group)))
    return std::string("a leaf on tensor cores stands alone, or in front of what finishes it, without loops");
  const auto roles = staging_of(g.nest, g.leaf);
  if (!g.blocked() || !multiplies(*i, g.plan.program, g.nest, roles, true))
    return fmt::format(
        "`{}` is no sum of products of two reads that `{}` multiplies, one along `m` and one along `n`", g.name(),
        i->name);
  if (!multiplies(*i, g.plan.program, g.nest, roles, g.target.math != Math::F32))
    return fmt::format("`{}` rounds f32 to tf32, which a target with `math=tf32` allows", i->name);
  if (g.cores->depth > most_depth || g.cores->buffers > most_buffers ||
      std::max(g.cores->warps_m, g.cores->warps_n) > most_warps)
    return fmt::format("a block has {} of the reduction in {} buffers and {} warps a side at most", most_depth,
        most_buffers, most_warps);
  if (g.leaf.lanes != i->threads() || g.cores->threads() != g.group.threads)
    return fmt::format("{}x{} times {} lanes are not the {} threads of a block", g.cores->warps_m, g.cores->warps_n,
        i->threads(), g.group.threads);
  if (i->from_shared()) {
    if (g.leaf.vectors % 8 || g.leaf.vectors > 32 || g.leaf.rows * g.leaf.vectors > most_products)
      return fmt::format("four warps have 64, 128, 192 or 256 columns, and {} products of 8 at most", most_products);
    if (g.cores->depth * lang::bytes(i->operand) % 128 || g.cores->buffers < 3)
      return std::string(
          "a turn has whole lines of 128 bytes of the reduction, and there are three buffers at least");
  }
  if (g.leaf.vectors % 2 || g.leaf.rows * g.leaf.vectors > most_products)
    return fmt::format("a warp has {} products of two instructions side by side at most, and no odd number along `n`",
        most_products / 2);
  if (g.cores->depth % i->k)
    return fmt::format(
        "{} of the reduction are no multiple of the {} that `{}` multiplies", g.cores->depth, i->k, i->name);
  if (g.cores->buffers < 2 || shared_bytes_of(g.leaf) > g.target.shared_bytes)
    return fmt::format("{} buffers take {} bytes of shared memory: two at least, and {} bytes at most",
        g.cores->buffers, shared_bytes_of(g.leaf), g.target.shared_bytes);
  return std::nullopt;
}

Misfit thread_fault(const LeafToFit& g) {
  if (g.leaf.is<forms::Staged>() || g.cores) return std::nullopt;
  if (g.leaf.is<forms::Scan>()) {
    for (const Loop& loop : g.group.loops)
      if (loop.part() != 1)
        return fmt::format("a block of threads scans one `{}` at a time, not {}", loop.index, loop.part());
    Compute other = g.chosen;
    other.rows = g.leaf.rows;
    return g.leaf == other ? std::nullopt : Misfit("the scan of a block of threads has one form, but for its rows");
  }
  if (g.leaf.lanes != g.group.threads) return fmt::format("the lanes are the {} threads of a block", g.group.threads);
  const bool map = g.leaf.block() && !g.leaf.block()->turned && g.leaf.k.empty();
  const std::int64_t vectors = g.leaf.is<forms::Reduce>() || map ? 4 : 1;
  const bool all = g.contract && !g.contract->outside.empty();  // as many as they are: rows_fault
  if (g.leaf.vectors > vectors || (g.leaf.rows > 8 && !all)) return fmt::format("a thread has a block of 8x{} at most", vectors);
  return std::nullopt;
}

}  // namespace tilec::codegen
