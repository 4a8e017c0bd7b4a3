#include "codegen/fits/leaf_to_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <set>

#include "codegen/product.h"
#include "codegen/ranges.h"
#include "codegen/rewrite/share.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "codegen/tile.h"

namespace tilec::codegen {

namespace {

// beyond any register file
constexpr std::int64_t most_rows = 32, most_vectors = 16, most_accumulators = 128, most_lanes = 64;
constexpr std::int64_t most_rows_of_all = 64;          // of several indices: accumulators of a thread

Misfit reduce_fault(const LeafToFit& g) {
  if (g.leaf.n.empty()) return std::string("`reduce` has no index `n` for its lanes");
  if (g.leaf.m().empty() || !has_threads(g.target)) return std::nullopt;
  const std::int64_t all = g.nest.dims[*g.nest.dim(g.leaf.m())].extent;
  const auto loop = std::ranges::find(g.group.loops, g.leaf.m(), &Loop::index);
  if (g.leaf.rows == (loop == g.group.loops.end() ? all : loop->step)) return std::nullopt;
  return fmt::format("a block of threads folds all {} of `{}` together that it has, or one", all, g.leaf.m());
}

Misfit scan_fault(const LeafToFit& g, const std::string& along) {
  const auto scan = scan_of(g.nest);
  if (!scan) return fmt::format("`{}` is no scan", g.name());
  if (along != g.nest.dims[scan->along].name || g.leaf.k != std::vector{g.nest.dims[scan->over].name})
    return fmt::format(
        "`{}` is a scan along `{}` of `k {}`", g.name(), g.nest.dims[scan->along].name, g.nest.dims[scan->over].name);
  for (const Loop& loop : g.group.loops)
    if (loop.index == along) return fmt::format("turns over `{}` would begin the scan again", loop.index);
  if (!g.leaf.n.empty() && in_rows(g.nest, *g.nest.dim(g.leaf.n)))
    return fmt::format("which points there are depends on `{}`, so its lanes cannot scan together", g.leaf.n);
  const bool one = !scan->steady() || has_scale(g.nest.aggregation, compute_type(g.nest.value->type()));
  if (one && g.leaf.rows != 1) return fmt::format("`{}` takes one step at a time: its block has one row", g.name());
  return std::nullopt;
}

}  // namespace

const Dim* LeafToFit::dim(const std::string& name) const {
  const auto d = nest.dim(name);
  return d ? &nest.dims[*d] : nullptr;
}

bool LeafToFit::folds() const { return std::ranges::any_of(nest.dims, &Dim::reduction); }

bool LeafToFit::adds() const {
  return nest.aggregation == Aggregation::Sum &&
      plan.program.tensor(nest.target.tensor).dtype == compute_type(nest.value->type()) &&
      (identity_is_fill(nest) || always_reached(nest));
}

std::string LeafToFit::dims() const {
  std::vector<std::string> names;
  for (const Dim& d : nest.dims) names.push_back(d.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

Misfit surrounding_fault(const LeafToFit& g) {
  for (const Loop& loop : g.group.loops) {
    if (!g.dim(loop.index) && g.group.body.size() > 1) continue;  // of extent 1
    if (!g.dim(loop.index))
      return fmt::format("`{}` is no dimension of `{}`; it has {}", loop.index, g.name(), g.dims());
    const auto& s = std::get<poly::Statement>(g.plan.program.nodes[static_cast<std::size_t>(g.leaf.node)]);
    if (!g.leaf.is<forms::Fill>() && g.group.body.size() > 1 && part_of_turn(s, loop, g.strides)) {
      if (loop.walk && !g.leaf.is<forms::Contract>() && !g.leaf.is<forms::Reduce>())
        return fmt::format("parts of a turn of `{}` are added up by a `contract` or a `reduce`", loop.index);
      const bool cut = loop.walk || (!g.leaf.k.empty() && g.leaf.k.front() == loop.index);
      if (cut && g.contract && (g.contract->chunk || g.contract->taps))
        return fmt::format("parts of a turn of `{}` cannot be added up in `{}`", loop.index, g.name());
      if (loop.walk && !g.adds())
        return fmt::format("parts of a turn of `{}` cannot be added up in `{}`", loop.index, g.name());
      continue;
    }
    if (g.reduces(loop.index))
      return fmt::format("`{}` is reduced, so turns over it would write the same elements", loop.index);
  }
  return std::nullopt;
}

Misfit walk_fault(const LeafToFit& g) {
  std::set<std::string> walked;
  for (const Loop& loop : g.group.loops) if (loop.part() == 1) walked.insert(loop.index);
  for (const Loop& loop : origins(g.group)) walked.insert(loop.index);
  const auto walk = [&](const std::string& index) -> Misfit {
    if (index.empty()) return std::nullopt;
    if (!g.dim(index)) return fmt::format("`{}` is no dimension of `{}`; it has {}", index, g.name(), g.dims());
    return walked.insert(index).second ? std::nullopt : Misfit(fmt::format("`{}` is walked twice", index));
  };
  std::vector<std::string> all = g.leaf.outer;
  all.insert(all.end(), g.leaf.k.begin(), g.leaf.k.end());
  if (const auto* scan = g.leaf.as<forms::Scan>()) all.push_back(scan->along);
  for (const std::string& index : g.leaf.all_of_m()) all.push_back(index);
  for (const std::string& index : g.leaf.all_of_n()) all.push_back(index);
  for (const std::string& index : all) if (Misfit why = walk(index)) return why;
  for (const Dim& d : g.nest.dims)
    if (!walked.count(d.name)) return fmt::format("nothing walks `{}` of `{}`", d.name, g.name());
  return std::nullopt;
}

// Where a thread has all values of some outputs and a part of m's: rows ask for their points by m alone.
Misfit part_of_m_fault(const LeafToFit& g) {
  for (const std::string& index : g.contract->outside)
    for (const Row& row : g.nest.rows)
      if (row.form.coefficients[*g.nest.dim(index)])
        return fmt::format("which points there are depends on `{}`, so a thread has all of `{}` too", index,
            g.leaf.m());
  if (bounds_elements(g.nest) || !identity_is_fill(g.nest))
    return fmt::format("not all elements of `{}` have points, so `m` is one index", g.name());
  return std::nullopt;
}

// Of rows that go along several output dimensions: a thread has all of them, whatever reductions bound them.
Misfit rows_fault(const LeafToFit& g) {
  if (!g.contract || g.contract->outside.empty()) return std::nullopt;
  if (!has_threads(g.target)) return std::string("`m` is one index, unless the leaf is staged");
  std::int64_t rows = 1;
  for (const std::string& index : g.leaf.all_of_m()) {
    if (g.reduces(index)) return fmt::format("`{}` is reduced and stands behind `m`", index);
    if (std::ranges::any_of(g.group.loops, [&](const Loop& loop) { return loop.index == index; }))
      return fmt::format("a thread has all of `{}`, so there are no turns over it", index);
    if (!g.leaf.n.empty() && share_row(g.nest, *g.nest.dim(index), *g.nest.dim(g.leaf.n)))
      return fmt::format("which points there are depends on `{}` and `{}` together, so they make no block", index,
          g.leaf.n);
    rows *= g.dim(index)->extent;
  }
  const std::int64_t of_m = g.dim(g.leaf.m())->extent;
  if (of_m > 0 && g.leaf.rows < rows && g.leaf.rows % (rows / of_m) == 0) return part_of_m_fault(g);
  if (g.leaf.rows != rows)
    return fmt::format("{} have {} values, and a thread has all of them, not {}",
        fmt::join(g.leaf.all_of_m(), ", "), rows, g.leaf.rows);
  if (bounds_elements(g.nest) || !(identity_is_fill(g.nest) || always_reached(g.nest)))
    return fmt::format("not all elements of `{}` have points, so `m` is one index", g.name());
  return std::nullopt;
}

Misfit role_fault(const LeafToFit& g) {
  for (const std::string& index : g.leaf.outer)
    if (g.reduces(index)) return fmt::format("`{}` is reduced and stands behind `over`", index);
  for (const std::string& index : g.leaf.k)
    if (!g.reduces(index)) return fmt::format("`{}` is not reduced and stands behind `k`", index);
  if (!g.leaf.m().empty() && g.reduces(g.leaf.m()))
    return fmt::format("`{}` is reduced and stands behind `m`", g.leaf.m());
  if (!g.leaf.n.empty() && g.reduces(g.leaf.n) != g.leaf.is<forms::Reduce>())
    return g.reduces(g.leaf.n) ? fmt::format("lanes over `{}`, which is reduced, are those of `reduce`", g.leaf.n)
                               : fmt::format("`reduce` has its lanes over what is reduced, not over `{}`", g.leaf.n);
  return std::nullopt;
}

Misfit form_fault(const LeafToFit& g) {
  if (g.leaf.is<forms::Fill>()) return std::nullopt;  // place_of has compared it
  if (!g.leaf.is<forms::Scan>() && has_gate(*g.nest.value))
    return fmt::format("`{}` goes on from element to element, so its leaf is a `scan`", g.name());
  if (g.leaf.is<forms::Map>())
    return g.folds() ? Misfit(fmt::format("`{}` folds, so its leaf is no `map`", g.name())) : std::nullopt;
  if (g.contract || g.leaf.is<forms::Staged>() || g.cores)
    return g.folds() ? std::nullopt : Misfit(fmt::format("`{}` folds nothing, so its leaf is a `map`", g.name()));
  if (g.leaf.is<forms::Reduce>()) return reduce_fault(g);
  if (const auto* of = g.leaf.as<forms::Scan>()) return scan_fault(g, of->along);
  return fmt::format("`{}` has another form", g.name());
}

Misfit size_fault(const LeafToFit& g) {
  if (g.leaf.lanes > 1 && !has_threads(g.target) &&
      (!std::has_single_bit(static_cast<std::uint64_t>(g.leaf.lanes)) || g.leaf.lanes > most_lanes))
    return fmt::format("{} lanes are no power of two up to {}", g.leaf.lanes, most_lanes);
  const std::int64_t most = g.contract && !g.contract->outside.empty() ? most_rows_of_all : most_rows;
  if (g.leaf.rows > most || g.leaf.vectors > (g.cores ? most_products : most_vectors) ||
      g.leaf.rows * g.leaf.vectors > most_accumulators)
    return fmt::format("a block of {}x{} is beyond {}x{} or {} accumulators", g.leaf.rows, g.leaf.vectors, most,
        most_vectors, most_accumulators);
  if (g.leaf.n.empty() && !has_threads(g.target) && (g.leaf.lanes > 1 || g.leaf.vectors > 1))
    return std::string("without an index `n` there is one lane and one vector");
  if (g.leaf.m().empty() && g.leaf.rows > 1 && !g.leaf.is<forms::Scan>())
    return std::string("without an index `m` a block has one row");
  if (g.blocked() && !g.leaf.is<forms::Reduce>() && share_row(g.nest, *g.nest.dim(g.leaf.m()), *g.nest.dim(g.leaf.n)))
    return fmt::format(
        "which points there are depends on `{}` and `{}` together, so they make no block", g.leaf.m(), g.leaf.n);
  return std::nullopt;
}

}  // namespace tilec::codegen
