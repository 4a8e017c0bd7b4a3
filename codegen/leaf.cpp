// One way to spell every leaf: serial loops outside, blocks of n and m, reductions inside, a block of accumulators in
// registers. Which points exist is decided by loop bounds alone. A row of the domain is enforced where its last
// dimension becomes a loop: with x known, the row 0 <= x + k - 1 < 56 turns into max(0, 1 - x) <= k < min(3, 57 - x),
// two instructions at loop entry. A blocked dimension has no single value, so where a row couples it with something
// further in, its range is split into a border and an interior (spell/blocks.h).
//
// The bounds of the split are computed at run time when they depend on an outer loop (a causal mask), and fold when
// they do not. So every executed inner point is a valid point, but for masked lanes, and no inner loop has a branch,
// but for that mask.
#include "codegen/leaf.h"

#include <utility>
#include <vector>

#include "codegen/model/estimates.h"
#include "codegen/requests.h"
#include "codegen/scalar.h"
#include "codegen/spell/block_sums.h"
#include "codegen/spell/blocks.h"
#include "codegen/spell/sums_over_lanes.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

class Leaf {
 public:
  Leaf(const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names)
      : l_(nest, leaf, storage, around, names), requests_(l_) {}

  Body spell() {
    if (l_.nest.empty()) return {};                    // a Fill stands before it
    const std::optional<Expr> condition = l_.points.fixed_rows();
    Body body = outer(0);
    if (!condition || body.empty()) return body;
    return {stmt(If{*condition, std::move(body), {}})};
  }

 private:
  Body outer(std::size_t level) {
    if (level < l_.outer.size()) {
      const std::size_t d = l_.outer[level];
      return l_.loop(d, l_.points.bounds(d), [&] { return outer(level + 1); });
    }
    return l_.contract.taps ? taps() : l_.contract.chunk ? chunks() : all_blocks({l_.around.later});
  }

  // A long reduction a part at a time, so that what the blocks read of the operands stays in cache: later parts add to
  // the target.
  Body chunks() {
    const std::size_t d = l_.k.front();
    const std::int64_t chunk = l_.contract.chunk, extent = l_.nest.dims[d].extent, turns = ceil_divide(extent, chunk);
    if (l_.flag || l_.type != l_.target_type)
      throw InternalError("the plan folds a reduction in parts that cannot be added up in its target");
    const std::string& stem = l_.nest.dims[d].name;
    const std::string index = l_.names.fresh(stem + "_c"), first = l_.names.fresh(stem + "_c0");
    Body inside{stmt(Let{first, var(index) * Expr(chunk)})};
    append(inside, l_.within(d, {var(first), minimum(var(first) + Expr(chunk), Expr(extent))},
                       [&] { return all_blocks({less(Expr(std::int64_t{0}), var(index))}); }));
    return {stmt(For{index, Kind::Serial, Expr(turns), {}, std::move(inside)})};
  }

  // Values of a reduction that bounds m or n reach different elements: all hold the identity first, then each value
  // adds its part to those it reaches. Few values are spelled out one by one, so that their bounds are numbers; what
  // bounds nothing is one pass.
  Body taps() {
    if (l_.flag || l_.type != l_.target_type)
      throw InternalError("the plan adds up values of a reduction in a target that cannot hold them");
    std::vector<std::int64_t> extents;
    for (const Dim& dim : l_.nest.dims) extents.push_back(dim.extent);
    const std::int64_t count = passes_of_taps(l_.nest, extents, {l_.k.begin(), l_.k.begin() + l_.contract.taps});
    Body body = all_blocks({.later = l_.around.later, .cleared = true});
    append(body, each_tap(0, count <= model::blocks::few_taps));
    return body;
  }
  static PartOfSum of_taps(std::size_t level) { return {.later = Constant{DType::Bool, 1, 0}, .folded_from = level}; }

  Body each_tap(std::size_t level, bool spelled) {
    if (static_cast<std::int64_t>(level) == l_.contract.taps) return all_blocks(of_taps(level));
    const std::size_t d = l_.k[level];
    const Interval range = l_.points.bounds(d);
    // Values of the last one that bound nothing go through the blocks together.
    if (static_cast<std::int64_t>(level) + 1 == l_.contract.taps)
      if (const Interval inner = l_.points.interior(d, range).value_or(range);
          is_const(inner.hi - inner.lo) && const_or(inner.hi - inner.lo, 0) > 1) {
        Body body = taps_of(level, {range.lo, inner.lo}, spelled);
        append(body, l_.within(d, inner, [&] { return all_blocks(of_taps(level)); }));
        append(body, taps_of(level, {inner.hi, range.hi}, spelled));
        return body;
      }
    return taps_of(level, range, spelled);
  }
  Body taps_of(std::size_t level, const Interval& range, bool spelled) {
    const std::size_t d = l_.k[level];
    const auto inside = [&] { return each_tap(level + 1, spelled); };
    if (!spelled || !is_const(range.lo) || !is_const(range.hi) ||
        const_or(range.hi, 0) - const_or(range.lo, 0) > model::blocks::few_taps)
      return l_.loop(d, range, inside);
    Body body;
    for (std::int64_t v = const_or(range.lo, 0); v < const_or(range.hi, 0); ++v) {
      const std::optional<Expr> condition = guard_of_tap(d, v);
      Body one = l_.with(d, Expr(v), inside);
      if (condition && !one.empty()) one = {stmt(If{*condition, std::move(one), {}})};
      append(body, std::move(one));
    }
    return body;
  }
  // What else bounds the value: a loop around.
  std::optional<Expr> guard_of_tap(std::size_t d, std::int64_t v) {
    const Interval range = l_.points.bounds(d);
    if (is_const(range.lo) && is_const(range.hi) && const_or(range.lo, 0) <= v && v < const_or(range.hi, 0))
      return std::nullopt;
    return both(at_least(Expr(v), range.lo), less(Expr(v), range.hi));
  }

  Body all_blocks(const PartOfSum& part) {
    if (l_.compute.is<forms::Reduce>()) return blocks_over_lanes(part);
    const bool row = l_.m < 0 && l_.n >= 0 && l_.k.empty();  // blocks of one row have its values in common
    Body body;
    KnownValues common;
    if (row) {
      const BlockPlace at{l_};
      const Views views = views_of(body, at);
      common = hoisted(body, at, views, std::nullopt);
      if (common.empty()) body.clear();
    }
    append(body, spell_blocks(l_, part.cleared,
                     [&](const BlockTile& tile) { return spell_block(l_, requests_, tile, part, common); }));
    return body;
  }

  Body blocks_over_lanes(const PartOfSum& part) {
    const InBlock block = [&](const BlockTile& tile) { return spell_lanes_block(l_, requests_, tile, part); };
    std::vector<bool> open;
    for (std::size_t d = 0; d < l_.nest.dims.size(); ++d) open.push_back(!l_.points.at(d));
    const bool own = l_.m >= 0 && l_.compute.rows > 1 && !l_.flag &&
        staggered(l_.nest, static_cast<std::size_t>(l_.m), static_cast<std::size_t>(l_.n), open);
    return own ? spell_blocks_of_rows(l_, {.staggered = true}, block) : spell_blocks(l_, part.cleared, block);
  }

  SpelledLeaf l_;
  BlockRequests requests_;
};

}  // namespace

Body spell_leaf(
    const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names) {
  return Leaf(nest, leaf, storage, around, names).spell();
}

}  // namespace tilec::codegen
