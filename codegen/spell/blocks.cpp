#include "codegen/spell/blocks.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "codegen/model/estimates.h"
#include "codegen/ragged.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

// The one block that has all values of what rows go along, each with ranges of its own.
BlockTile all_rows(const SpelledLeaf& l, const Interval& range, BlockTile tile) {
  tile.m0 = range.lo, tile.rows = l.compute.rows;
  tile.blocked_m = tile.staggered = true;
  return tile;
}

class Blocks {
 public:
  Blocks(SpelledLeaf& leaf, bool cleared, const InBlock& block) : l_(leaf), cleared_(cleared), block_(block) {}

  static constexpr int done = -2;

  // Walks dimension `first` (in blocks or one at a time), inside it `second`, inside that the tile. -1: no such
  // dimension.
  Body blocks(int first, int second, const BlockTile& tile) {
    const int d = first != done ? first : second;
    if (d == done) return block_(tile);
    const int next = first != done ? second : done;
    const auto inside = [&, next](const BlockTile& t) { return blocks(next, done, t); };
    if (d < 0) return inside(tile);
    const std::size_t dim = static_cast<std::size_t>(d);
    const Interval range = l_.points.bounds(dim);
    if (d == l_.m && !l_.outside.empty() && !l_.has_part_of_m()) return inside(all_rows(l_, range, tile));
    const std::optional<Interval> inner = cleared_ ? std::nullopt : l_.points.interior(dim, range);
    if (d == l_.m && l_.has_part_of_m()) return blocks_under_masks(range, inner, tile, inside);
    if (!inner) return blocked(dim, range, tile, inside);
    if (d == l_.n && l_.compute.lanes > 1) return guarded(dim, range, *inner, tile, inside);
    if (d == l_.m && masks_border()) return blocks_under_masks(range, *inner, tile, inside);
    if (d == l_.m && staggers()) {
      BlockTile own = tile;
      own.staggered = true;
      return blocked_rows(range, own, inside);
    }
    Body body = one_by_one(dim, {range.lo, inner->lo}, tile, inside);
    append(body, blocked(dim, *inner, tile, inside));
    append(body, one_by_one(dim, {inner->hi, range.hi}, tile, inside));
    return body;
  }

  // Extents that are known are cut evenly (23 by 12: 12 + 11); others into full blocks and single rows.
  Body blocked_rows(const Interval& range, const BlockTile& tile, const InBlock& inside) {
    const Expr count = range.hi - range.lo;
    const std::string& stem = l_.nest.dims[static_cast<std::size_t>(l_.m)].name;
    // Fewer vectors than planned (an edge of n) leave registers for more rows.
    const bool squares = l_.block.turned && l_.compute.rows == l_.compute.lanes;
    const bool edge = !squares && tile.blocked_n && tile.vectors < l_.compute.vectors && l_.compute.rows > 1;
    const std::int64_t most_rows =
        l_.block.turned ? std::min(l_.compute.lanes, model::blocks::edge_rows) : model::blocks::edge_rows;
    const std::int64_t block =
        edge ? std::min<std::int64_t>(l_.compute.rows * l_.compute.vectors / tile.vectors, most_rows) : l_.compute.rows;
    const auto rows_at = [&](const Expr& first, const Expr& turns, std::int64_t rows) {
      return serial(l_.names, stem + "_b", {Expr(std::int64_t{0}), turns}, [&](const Expr& turn) {
        BlockTile t = tile;
        t.m0 = first + turn * Expr(rows);
        t.rows = rows;
        t.blocked_m = true;
        return inside(t);
      });
    };
    const auto rows_of = [&](const Expr& lo, std::int64_t extent) -> Body {
      if (extent <= 0) return {};
      if (squares) {
        Body body = rows_at(lo, Expr(extent / block), block);
        if (extent % block) append(body, rows_at(lo + Expr(extent / block * block), Expr(1), extent % block));
        return body;
      }
      const std::int64_t turns = ceil_divide(extent, block), most = ceil_divide(extent, turns),
                         full = extent - turns * (most - 1);
      Body body = rows_at(lo, Expr(full), most);
      if (most > 1) append(body, rows_at(lo + Expr(full * most), Expr(turns - full), most - 1));
      return body;
    };
    if (is_const(count)) return rows_of(range.lo, const_or(count, 0));
    const std::string lo = l_.names.fresh(stem + "_lo"), full = l_.names.fresh(stem + "_full");
    Body body{stmt(Let{lo, range.lo}), stmt(Let{full, floor_divide(maximum(count, Expr(std::int64_t{0})), block)})};
    Body blocks = rows_at(var(lo), var(full), block);
    Expr rest = var(lo) + var(full) * Expr(block);
    // At the border of a window there are few rows less than inside; one at a time, each reads again what they share.
    const bool halves =
        l_.around.threads || (l_.compute.is<forms::Contract>() && block >= model::blocks::rows_to_halve);
    for (std::int64_t half = block / 2; halves && half > 1; half /= 2) {
      const std::string some = l_.names.fresh(stem + "_some"), next = l_.names.fresh(stem + "_rest");
      blocks.push_back(stmt(Let{some, floor_divide(maximum(range.hi - rest, Expr(std::int64_t{0})), half)}));
      append(blocks, rows_at(rest, var(some), half));
      blocks.push_back(stmt(Let{next, rest + var(some) * Expr(half)}));
      rest = var(next);
    }
    append(blocks, one_by_one(static_cast<std::size_t>(l_.m), {rest, range.hi}, tile, inside));
    // Of all boxes but the last the rows are as many as planned, and these are cut evenly too.
    const std::int64_t most = most_values(range);
    if (most > 0 && most % block != 0)
      blocks = {stmt(If{at_least(range.hi - var(lo), Expr(most)), rows_of(var(lo), most), std::move(blocks)})};
    append(body, std::move(blocks));
    return body;
  }

 private:
  // The border of a dimension that lanes run over: whole vectors from the start that touch it, and the rest behind the
  // last vector that is inside, with a lane's rows as a mask. 56 columns, interior [1, 55): one masked vector, two free
  // ones, one masked.
  Body guarded(
      std::size_t d, const Interval& range, const Interval& inner, const BlockTile& tile, const InBlock& inside) {
    const std::int64_t W = l_.compute.lanes;
    const std::string& stem = l_.nest.dims[d].name;
    Body body;
    const Expr zero(std::int64_t{0}), lo = named(l_.names, body, stem + "_lo", range.lo),
                                      hi = named(l_.names, body, stem + "_end", maximum(range.hi, lo));
    const Expr first = named(l_.names, body, stem + "_in", minimum(hi, lo + ceil_divide(inner.lo - lo, W) * Expr(W)));
    const Expr last =
        named(l_.names, body, stem + "_out", first + floor_divide(maximum(zero, inner.hi - first), W) * Expr(W));
    BlockTile masked = tile;
    masked.guarded = true;
    append(body, blocked_vectors({lo, first}, 1, masked, inside));
    append(body, blocked_vectors({first, last}, l_.compute.vectors, tile, inside));
    append(body, blocked_vectors({last, hi}, 1, masked, inside));
    return body;
  }

  // Whether a border of m may be more than one element at a time.
  bool has_rows() const {
    return l_.compute.is<forms::Contract>() && !l_.flag && !l_.block.turned && l_.compute.rows > 1;
  }

  // On a GPU: whether blocks at the border of m ask each of their rows, where what these read of a short window is
  // common to them.
  bool masks_border() const {
    if (!l_.around.threads || !has_rows()) return false;
    const std::size_t m = static_cast<std::size_t>(l_.m);
    return std::ranges::all_of(l_.nest.rows, [&](const Row& row) {
      std::int64_t window = 0;
      for (std::size_t d = 0; d < l_.nest.dims.size(); ++d)
        if (d != m && !l_.points.at(d)) window += std::abs(row.form.coefficients[d]) * (l_.nest.dims[d].extent - 1);
      return !row.form.coefficients[m] || window <= l_.compute.rows * std::abs(row.form.coefficients[m]);
    });
  }

  // Whether each row of a block has its own range of the reductions that bound it, as the taps of a filter's gradient
  // have, and on a CPU the rows of a triangle. Where the ranges overlap, all rows take one step together and read once
  // what they share.
  bool staggers() const {
    if (!has_rows()) return false;
    if (!l_.around.threads && !has_ragged_blocks(l_.nest, static_cast<std::size_t>(l_.m))) return false;
    return std::ranges::none_of(l_.nest.rows, [&](const Row& row) {
      const auto bounds = [&](int d) {
        return d >= 0 && !l_.points.at(static_cast<std::size_t>(d)) &&
            row.form.coefficients[static_cast<std::size_t>(d)];
      };
      return bounds(l_.m) && bounds(l_.n);
    });
  }

  // All blocks have as many rows; those that touch the border are under masks. Without `inner` nothing but the end is
  // one.
  Body blocks_under_masks(const Interval& range, const std::optional<Interval>& inner, const BlockTile& tile,
      const InBlock& inside) {
    const std::string& stem = l_.nest.dims[static_cast<std::size_t>(l_.m)].name;
    Body body;
    const Expr lo = named(l_.names, body, stem + "_lo", range.lo), hi = named(l_.names, body, stem + "_end", range.hi),
               count = range.hi - range.lo;
    const std::int64_t known = const_or(count, 0), most = l_.values_of_m(l_.compute.rows),
                       others = l_.compute.rows / most, turns = ceil_divide(known, most);
    if (is_const(count) && known <= 0) return {};
    const std::int64_t rows = is_const(count) ? ceil_divide(known, turns) : most;
    append(body,
        serial(l_.names, stem + "_b",
            {Expr(std::int64_t{0}), is_const(count) ? Expr(turns) : ceil_divide(hi - lo, rows)}, [&](const Expr& turn) {
              BlockTile t = tile;
              t.m0 = lo + turn * Expr(rows);
              t.rows = rows * others;
              t.blocked_m = true;
              Body free = inside(t);
              t.border = true;
              if (!is_const(count) || known % rows != 0) t.end = hi;
              if (!inner && !t.end) return free;
              const Interval whole = inner.value_or(range);
              return Body{stmt(If{
                  both(at_least(t.m0, whole.lo), at_least(whole.hi, t.m0 + Expr(rows))), std::move(free), inside(t)})};
            }));
    return body;
  }

  Body one_by_one(std::size_t d, const Interval& range, const BlockTile& tile, const InBlock& inside) {
    return l_.loop(d, range, [&] { return inside(tile); });
  }

  Body blocked(std::size_t d, const Interval& range, const BlockTile& tile, const InBlock& inside) {
    return static_cast<int>(d) == l_.m ? blocked_rows(range, tile, inside)
                                     : blocked_vectors(range, l_.compute.vectors, tile, inside);
  }

  // At most so many values, where a bound of its end is a number from a bound of its begin; else 0.
  static std::int64_t most_values(const Interval& range) {
    std::int64_t most = 0;
    for (const Expr& hi : parts_of(range.hi, Op::Min))
      for (const Expr& lo : parts_of(range.lo, Op::Max)) {
        const Expr between = hi - lo;
        if (is_const(between) && (most == 0 || const_or(between, 0) < most))
          most = std::max<std::int64_t>(0, const_or(between, 0));
      }
    return most;
  }

  static std::vector<Expr> parts_of(const Expr& e, Op op) {
    const auto* operation = e.as<Operation>();
    return operation && operation->op == op ? operation->operands : std::vector<Expr>{e};
  }

  Body blocked_vectors(const Interval& range, std::int64_t most_vectors, const BlockTile& tile, const InBlock& inside) {
    const Expr count = range.hi - range.lo;
    const std::string& stem = l_.nest.dims[static_cast<std::size_t>(l_.n)].name;
    const std::int64_t W = l_.compute.lanes;
    const auto vectors_at = [&](const Expr& first, const Expr& turns, std::int64_t vectors,
                                const std::optional<Expr>& end) {
      return serial(l_.names, stem + "_v", {Expr(std::int64_t{0}), turns}, [&](const Expr& turn) {
        BlockTile t = tile;
        t.n0 = first + turn * Expr(vectors * W);
        t.vectors = vectors;
        if (end) t.valid = *end - t.n0;
        t.blocked_n = true;
        return inside(t);
      });
    };
    if (is_const(count)) {
      const std::int64_t extent = const_or(count, 0);
      if (extent <= 0) return {};
      const std::int64_t all = ceil_divide(extent, W), turns = ceil_divide(all, most_vectors),
                         most = ceil_divide(all, turns), full = all - turns * (most - 1);
      const bool ragged = extent % W != 0;
      const std::int64_t smaller = most > 1 ? turns - full : 0;
      Body body = vectors_at(range.lo, Expr(full - (ragged && smaller == 0)), most, std::nullopt);
      if (ragged && smaller == 0)
        append(body, vectors_at(range.lo + Expr((full - 1) * most * W), Expr(std::int64_t{1}), most, range.hi));
      if (smaller > 0)
        append(body, vectors_at(range.lo + Expr(full * most * W), Expr(smaller - ragged), most - 1, std::nullopt));
      if (smaller > 0 && ragged)
        append(body,
            vectors_at(range.lo + Expr((full * most + (smaller - 1) * (most - 1)) * W), Expr(std::int64_t{1}), most - 1,
                range.hi));
      return body;
    }
    const std::string lo = l_.names.fresh(stem + "_lo"), end = l_.names.fresh(stem + "_end"),
                      full = l_.names.fresh(stem + "_full");
    const Expr zero(std::int64_t{0});
    Body body{stmt(Let{lo, range.lo}), stmt(Let{end, range.hi}),
        stmt(Let{full, floor_divide(maximum(var(end) - var(lo), zero), most_vectors * W)})};
    append(body, vectors_at(var(lo), var(full), most_vectors, std::nullopt));
    const Expr rest = var(lo) + var(full) * Expr(most_vectors * W);
    append(body, vectors_at(rest, maximum(zero, ceil_divide(var(end) - rest, W)), 1, var(end)));
    return body;
  }

  SpelledLeaf& l_;
  bool cleared_;
  const InBlock& block_;
};

}  // namespace

Body spell_blocks(SpelledLeaf& l, bool cleared, const InBlock& block) {
  Blocks blocks(l, cleared, block);
  if (l.compute.is<forms::Reduce>()) return blocks.blocks(l.m, Blocks::done, {});
  return blocks.blocks(l.block.m_inner ? l.n : l.m, l.block.m_inner ? l.m : l.n, {});
}

Body spell_blocks_of_rows(SpelledLeaf& l, const BlockTile& tile, const InBlock& block) {
  return Blocks(l, false, block).blocked_rows(l.points.bounds(static_cast<std::size_t>(l.m)), tile, block);
}

}  // namespace tilec::codegen
