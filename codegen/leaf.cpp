// One way to spell every leaf: serial loops outside, blocks of n and m, reductions inside, a block of accumulators in
// registers. Which points exist is decided by loop bounds alone. A row of the domain is enforced where its last
// dimension becomes a loop: with x known, the row 0 <= x + k - 1 < 56 turns into max(0, 1 - x) <= k < min(3, 57 - x),
// two instructions at loop entry. A blocked dimension has no single value, so where a row couples it with something
// further in, its range is split:
//
//   x in [0, 1)     one x at a time, k bounded as above              (border)
//   x in [1, 55)    blocks of 9: every k in [0, 3) is valid for all   (interior: least and greatest value of `k - 1`
//                                                                     decide)
//   x in [55, 56)   one x at a time
//
// That is for m. Where n carries the lanes, its border is whole vectors in which the row is a mask: of 56 columns with
// the interior [1, 55), one masked vector, two free ones, one masked. On a GPU, rows of a short window at the border
// stay a block under masks: they read what they share once, as those inside do. Taps of a filter's gradient bound long
// rows of pixels instead: there each row of the block has a range of the reduction of its own. `Leaf::blocks` decides
// which of these a border is.
//
// The bounds of the split are computed at run time when they depend on an outer loop (a causal mask), and fold when
// they do not. So every executed inner point is a valid point, but for masked lanes, and no inner loop has a branch,
// but for that mask.
#include "codegen/leaf.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "codegen/model/estimates.h"
#include "codegen/model/machine.h"
#include "codegen/product.h"
#include "codegen/requests.h"
#include "codegen/scalar.h"
#include "codegen/strip.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

class Leaf {
 public:
  Leaf(const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names)
      : nest_(nest), leaf_(leaf), storage_(storage), around_(around), names_(names), points_(nest) {
    for (const auto& [d, value] : around.fixed) points_.fix(d, value);
    for (const auto& [d, interval] : around.limits) points_.limit(d, interval);
    const auto find = [&](const std::string& name) -> int {
      if (name.empty()) return -1;
      const auto d = nest.dim(name);
      if (!d) throw InternalError("the plan names a dimension `" + name + "` that its statement lacks");
      return static_cast<int>(*d);
    };
    m_ = find(leaf.m());
    if (leaf.block()) block_ = *leaf.block();
    if (const auto* contract = leaf.as<forms::Contract>()) contract_ = *contract;
    n_ = find(leaf.n);
    for (const std::string& name : leaf.outer) outer_.push_back(static_cast<std::size_t>(find(name)));
    for (const std::string& name : leaf.k) k_.push_back(static_cast<std::size_t>(find(name)));
    for (const Ahead& one : leaf.ahead) ahead_.emplace_back(static_cast<std::size_t>(find(one.index)), one.count);
    if (!ahead_.empty())
      asks_ = level_that_waits(nest, leaf).value_or(k_.size()), by_block_ = asks_by_block(nest, leaf),
      taps_around_ = taps_around(nest, leaf);
    for (std::size_t r = 0; r < nest.reads.size(); ++r)
      by_stream_.push_back(asks_by_stream(nest, leaf, nest.reads[r], bytes_of(r)));
    type_ = compute_type(nest.value->type());
    target_type_ = storage.plan.program.tensor(nest.target.tensor).dtype;
    scaled_ = has_scale(nest.aggregation, type_);
    flag_ = !around.reached && !always_reached(nest) && !identity_is_fill(nest);
    later_ = around.later;
  }

  Body spell() {
    if (nest_.empty()) return {};                      // a Fill stands before it
    const std::optional<Expr> condition = points_.fixed_rows();
    Body body = outer(0);
    if (!condition || body.empty()) return body;
    return {stmt(If{*condition, std::move(body), {}})};
  }

 private:
  // ---- loops

  using Inside = std::function<Body(const Expr&)>;

  Body serial(const std::string& stem, const Interval& range, const Inside& inside) {
    return codegen::serial(names_, stem, range, inside);
  }

  Body with(std::size_t d, const Expr& value, const std::function<Body()>& inside) {
    points_.fix(d, value);
    Body body = inside();
    points_.release(d);
    return body;
  }

  Body outer(std::size_t level) {
    if (level == outer_.size()) return contract_.taps ? taps() : contract_.chunk ? chunks() : all_blocks();
    const std::size_t d = outer_[level];
    return serial(nest_.dims[d].name, points_.bounds(d),
        [&](const Expr& v) { return with(d, v, [&] { return outer(level + 1); }); });
  }

  Body all_blocks() {
    if (leaf_.is<forms::Reduce>()) {
      std::vector<bool> open;
      for (std::size_t d = 0; d < nest_.dims.size(); ++d) open.push_back(!points_.at(d));
      if (m_ < 0 || leaf_.rows < 2 || flag_ ||
          !codegen::staggered(nest_, static_cast<std::size_t>(m_), static_cast<std::size_t>(n_), open))
        return blocks(m_, done, {});
      Tile tile;
      tile.staggered = true;
      return blocked_rows(points_.bounds(static_cast<std::size_t>(m_)), tile, [&](const Tile& t) { return block(t); });
    }
    const bool row = m_ < 0 && n_ >= 0 && k_.empty();  // blocks of one row have its values in common
    Body body;
    if (row) body = with_views([&] { return hoisted(std::nullopt); });
    if (hoisted_.empty()) body.clear();
    append(body, blocks(block_.m_inner ? n_ : m_, block_.m_inner ? m_ : n_, {}));
    if (row) hoisted_.clear();
    return body;
  }

  // Operations on values that stay the same while d and all dimensions without a value run, before these loops: nothing
  // hoists them later.
  Body hoisted(std::optional<std::size_t> d) {
    const Tile tile = std::exchange(tile_, Tile{});
    if (d) hoisted_.clear();
    step_ = Step{Expr(std::int64_t{0}), std::nullopt, hoisted_, {}};
    Body body;
    hoist(body, *nest_.value, d);
    hoisted_ = std::move(step_.values);
    tile_ = tile;
    return body;
  }
  void hoist(Body& body, const poly::Expr& e, std::optional<std::size_t> d) {
    if (e.as<poly::Apply>() && steady(e, d)) {
      value(body, e, 0, 0);
      return;
    }
    e.match(
        [&](const poly::Apply& a) {
          for (const poly::Expr& o : a.operands) hoist(body, o, d);
        },
        [&](const poly::Cast& c) { hoist(body, c.operand, d); }, [](const auto&) {});
  }
  bool steady(const poly::Expr& e, std::optional<std::size_t> d) const {
    const auto known = [&](const Form& form) {
      for (std::size_t k = 0; k < form.coefficients.size(); ++k)
        if (form.coefficients[k] && (k == d || !points_.at(k))) return false;
      return true;
    };
    return e.match([&](const poly::Read& r) { return known(nest_.reads[static_cast<std::size_t>(r.read)].offset); },
        [&](const poly::Index& x) { return known(nest_.form(x.value)); },
        [&](const poly::Apply& a) {
          return std::all_of(a.operands.begin(), a.operands.end(), [&](const poly::Expr& o) { return steady(o, d); });
        },
        [&](const poly::Cast& c) { return steady(c.operand, d); }, [](const poly::Number&) { return true; });
  }

  // A long reduction a part at a time, so that what the blocks read of the operands stays in cache: later parts add to
  // the target.
  Body chunks() {
    const std::size_t d = k_.front();
    const std::int64_t extent = nest_.dims[d].extent, turns = (extent + contract_.chunk - 1) / contract_.chunk;
    if (flag_ || type_ != target_type_)
      throw InternalError("the plan folds a reduction in parts that cannot be added up in its target");
    const std::string index = names_.fresh(nest_.dims[d].name + "_c"), first = names_.fresh(nest_.dims[d].name + "_c0");
    const Interval all = points_.limit(d, {var(first), minimum(var(first) + Expr(contract_.chunk), Expr(extent))});
    later_ = less(Expr(std::int64_t{0}), var(index));
    Body inside{stmt(Let{first, var(index) * Expr(contract_.chunk)})};
    append(inside, all_blocks());
    later_.reset();
    points_.limit(d, all);
    return {stmt(For{index, Kind::Serial, Expr(turns), {}, std::move(inside)})};
  }

  // Values of a reduction that bounds m or n reach different elements: all hold the identity first, then each value
  // adds its part to those it reaches. Few values are spelled out one by one, so that their bounds are numbers; what
  // bounds nothing is one pass.
  Body taps() {
    if (flag_ || type_ != target_type_)
      throw InternalError("the plan adds up values of a reduction in a target that cannot hold them");
    std::vector<std::int64_t> extents;
    for (const Dim& dim : nest_.dims) extents.push_back(dim.extent);
    const std::int64_t count = passes_of_taps(nest_, extents, {k_.begin(), k_.begin() + contract_.taps});
    cleared_ = true;
    Body body = all_blocks();
    cleared_ = false;
    later_ = Constant{DType::Bool, 1, 0};
    append(body, each_tap(0, count <= model::blocks::few_taps));
    folded_from_ = 0;
    later_.reset();
    return body;
  }
  Body each_tap(std::size_t level, bool spelled) {
    folded_from_ = level;
    if (static_cast<std::int64_t>(level) == contract_.taps) return all_blocks();
    const std::size_t d = k_[level];
    const Interval range = points_.bounds(d);
    // Values of the last one that bound nothing go through the blocks together.
    if (static_cast<std::int64_t>(level) + 1 == contract_.taps)
      if (const Interval inner = points_.interior(d, range).value_or(range);
          is_const(inner.hi - inner.lo) && const_or(inner.hi - inner.lo, 0) > 1) {
        Body body = taps_of(level, {range.lo, inner.lo}, spelled);
        folded_from_ = level;
        const Interval before = points_.limit(d, inner);
        append(body, all_blocks());
        points_.limit(d, before);
        append(body, taps_of(level, {inner.hi, range.hi}, spelled));
        return body;
      }
    return taps_of(level, range, spelled);
  }
  Body taps_of(std::size_t level, const Interval& range, bool spelled) {
    const std::size_t d = k_[level];
    const auto inside = [&](const Expr& v) { return with(d, v, [&] { return each_tap(level + 1, spelled); }); };
    if (!spelled || !is_const(range.lo) || !is_const(range.hi) ||
        const_or(range.hi, 0) - const_or(range.lo, 0) > model::blocks::few_taps)
      return serial(nest_.dims[d].name, range, inside);
    Body body;
    for (std::int64_t v = const_or(range.lo, 0); v < const_or(range.hi, 0); ++v) {
      const std::optional<Expr> condition = guard_of_tap(d, v);
      Body one = inside(Expr(v));
      if (condition && !one.empty()) one = {stmt(If{*condition, std::move(one), {}})};
      append(body, std::move(one));
    }
    return body;
  }
  // What else bounds the value: a loop around.
  std::optional<Expr> guard_of_tap(std::size_t d, std::int64_t v) {
    const Interval range = points_.bounds(d);
    if (is_const(range.lo) && is_const(range.hi) && const_or(range.lo, 0) <= v && v < const_or(range.hi, 0))
      return std::nullopt;
    return both(at_least(Expr(v), range.lo), less(Expr(v), range.hi));
  }

  // ---- blocks of m and n

  // Where a block stands: its first row and element, how many rows and vectors, and how many elements of the last
  // vector count.
  struct Tile {
    Expr m0 = Expr(std::int64_t{0}), n0 = Expr(std::int64_t{0});
    std::int64_t rows = 1, vectors = 1;
    std::optional<Expr> valid;                         // elements from n0 on, when some lanes of the last vector are
                                                       // none
    bool blocked_m = false, blocked_n = false;
    bool guarded = false;                              // rows that couple n with a reduction are masks of the fold
    bool staggered = false;                            // each row of m has a range of n, or of a reduction, of its own
    bool border = false;                               // rows of the domain that couple m with a reduction are asked of
                                                       // each row
    std::optional<Expr> end;                           // of m, where the last block may have rows beyond it
  };

  // Walks dimension `first` (in blocks or one at a time), inside it `second`, inside that the tile. -1: no such
  // dimension.
  Body blocks(int first, int second, const Tile& tile) {
    const int d = first != done ? first : second;
    if (d == done) return block(tile);
    const int next = first != done ? second : done;
    const auto inside = [&, next](const Tile& t) { return blocks(next, done, t); };
    if (d < 0) return inside(tile);
    const std::size_t dim = static_cast<std::size_t>(d);
    const Interval range = points_.bounds(dim);
    const std::optional<Interval> inner = cleared_ ? std::nullopt : points_.interior(dim, range);
    if (!inner) return blocked(dim, range, tile, inside);
    if (d == n_ && leaf_.lanes > 1) return guarded(dim, range, *inner, tile, inside);
    if (d == m_ && masks_border()) return blocks_under_masks(range, *inner, tile, inside);
    if (d == m_ && staggers()) {
      Tile own = tile;
      own.staggered = true;
      return blocked_rows(range, own, inside);
    }
    Body body = one_by_one(dim, {range.lo, inner->lo}, tile, inside);
    append(body, blocked(dim, *inner, tile, inside));
    append(body, one_by_one(dim, {inner->hi, range.hi}, tile, inside));
    return body;
  }
  static constexpr int done = -2;
  using InTile = std::function<Body(const Tile&)>;

  // The border of a dimension that lanes run over: whole vectors from the start that touch it, and the rest behind the
  // last vector that is inside, with a lane's rows as a mask. 56 columns, interior [1, 55): one masked vector, two free
  // ones, one masked.
  Body guarded(std::size_t d, const Interval& range, const Interval& inner, const Tile& tile, const InTile& inside) {
    const std::int64_t W = leaf_.lanes;
    Body body;
    const auto named = [&](const std::string& suffix, const Expr& e) {
      if (is_const(e)) return e;
      const std::string name = names_.fresh(nest_.dims[d].name + suffix);
      body.push_back(stmt(Let{name, e}));
      return var(name);
    };
    const Expr zero(std::int64_t{0}), lo = named("_lo", range.lo), hi = named("_end", maximum(range.hi, lo));
    const Expr first = named("_in", minimum(hi, lo + ceil_divide(inner.lo - lo, W) * Expr(W)));
    const Expr last = named("_out", first + floor_divide(maximum(zero, inner.hi - first), W) * Expr(W));
    Tile masked = tile;
    masked.guarded = true;
    append(body, blocked_vectors({lo, first}, 1, masked, inside));
    append(body, blocked_vectors({first, last}, leaf_.vectors, tile, inside));
    append(body, blocked_vectors({last, hi}, 1, masked, inside));
    return body;
  }

  // The rows that a guarded tile must still ask about, for its one vector.
  std::optional<Expr> guard() const {
    std::optional<Expr> all;
    if (tile_.valid) all = mask(0);
    const std::size_t n = static_cast<std::size_t>(n_);
    for (const Row& row : nest_.rows) {
      const std::int64_t c = row.form.coefficients[n];
      if (!c || others_none(row, n)) continue;
      const Expr value = points_.known_part(row.form) + (tile_.n0 + lane()) * Expr(c);
      Expr holds = at_least(value, Expr(std::int64_t{0}));
      if (row.extent) holds = both(holds, less(value, Expr(*row.extent)));
      all = all ? both(*all, holds) : holds;
    }
    return all;
  }
  static bool others_none(const Row& row, std::size_t d) {
    for (std::size_t k = 0; k < row.form.coefficients.size(); ++k) if (k != d && row.form.coefficients[k]) return false;
    return true;
  }

  // On a GPU: whether blocks at the border of m ask each of their rows, where what these read of a short window is
  // common to them.
  bool masks_border() const {
    if (!around_.threads || !leaf_.is<forms::Contract>() || flag_ || block_.turned || leaf_.rows < 2) return false;
    const std::size_t m = static_cast<std::size_t>(m_);
    return std::ranges::all_of(nest_.rows, [&](const Row& row) {
      std::int64_t window = 0;
      for (std::size_t d = 0; d < nest_.dims.size(); ++d)
        if (d != m && !points_.at(d)) window += std::abs(row.form.coefficients[d]) * (nest_.dims[d].extent - 1);
      return !row.form.coefficients[m] || window <= leaf_.rows * std::abs(row.form.coefficients[m]);
    });
  }

  // On a GPU: whether each row of a block has a range of its own of the reductions that bound it, as the taps of a
  // filter's gradient have: they read what they share once, where all of them go on.
  bool staggers() const {
    if (!around_.threads || !leaf_.is<forms::Contract>() || flag_ || block_.turned || leaf_.rows < 2) return false;
    return std::ranges::none_of(nest_.rows, [&](const Row& row) {
      const auto bounds = [&](int d) {
        return d >= 0 && !points_.at(static_cast<std::size_t>(d)) && row.form.coefficients[static_cast<std::size_t>(d)];
      };
      return bounds(m_) && bounds(n_);
    });
  }

  // All blocks have as many rows; those that touch the border are under masks.
  Body blocks_under_masks(const Interval& range, const Interval& inner, const Tile& tile, const InTile& inside) {
    const std::string& stem = nest_.dims[static_cast<std::size_t>(m_)].name;
    Body body;
    const auto named = [&](const std::string& suffix, const Expr& e) {
      if (is_const(e)) return e;
      const std::string name = names_.fresh(stem + suffix);
      body.push_back(stmt(Let{name, e}));
      return var(name);
    };
    const Expr lo = named("_lo", range.lo), hi = named("_end", range.hi), count = range.hi - range.lo;
    const std::int64_t known = const_or(count, 0), turns = (known + leaf_.rows - 1) / leaf_.rows;
    if (is_const(count) && known <= 0) return {};
    const std::int64_t rows = is_const(count) ? (known + turns - 1) / turns : leaf_.rows;
    append(body,
        serial(stem + "_b", {Expr(std::int64_t{0}), is_const(count) ? Expr(turns) : ceil_divide(hi - lo, rows)},
            [&](const Expr& turn) {
              Tile t = tile;
              t.m0 = lo + turn * Expr(rows);
              t.rows = rows;
              t.blocked_m = true;
              Body free = inside(t);
              t.border = true;
              if (!is_const(count) || known % rows != 0) t.end = hi;
              return Body{stmt(If{
                  both(at_least(t.m0, inner.lo), at_least(inner.hi, t.m0 + Expr(rows))), std::move(free), inside(t)})};
            }));
    return body;
  }

  Body one_by_one(std::size_t d, const Interval& range, const Tile& tile, const InTile& inside) {
    return serial(nest_.dims[d].name, range, [&](const Expr& v) { return with(d, v, [&] { return inside(tile); }); });
  }

  Body blocked(std::size_t d, const Interval& range, const Tile& tile, const InTile& inside) {
    return static_cast<int>(d) == m_ ? blocked_rows(range, tile, inside)
                                     : blocked_vectors(range, leaf_.vectors, tile, inside);
  }

  // Extents that are known are cut evenly (23 by 12: 12 + 11); others into full blocks and single rows.
  Body blocked_rows(const Interval& range, const Tile& tile, const InTile& inside) {
    const Expr count = range.hi - range.lo;
    const std::string& stem = nest_.dims[static_cast<std::size_t>(m_)].name;
    // Fewer vectors than planned (an edge of n) leave registers for more rows.
    const bool squares = block_.turned && leaf_.rows == leaf_.lanes;
    const bool edge = !squares && tile.blocked_n && tile.vectors < leaf_.vectors && leaf_.rows > 1;
    const std::int64_t most_rows =
        block_.turned ? std::min(leaf_.lanes, model::blocks::edge_rows) : model::blocks::edge_rows;
    const std::int64_t block =
        edge ? std::min<std::int64_t>(leaf_.rows * leaf_.vectors / tile.vectors, most_rows) : leaf_.rows;
    const auto rows_at = [&](const Expr& first, const Expr& turns, std::int64_t rows) {
      return serial(stem + "_b", {Expr(std::int64_t{0}), turns}, [&](const Expr& turn) {
        Tile t = tile;
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
      const std::int64_t turns = (extent + block - 1) / block, most = (extent + turns - 1) / turns,
                         full = extent - turns * (most - 1);
      Body body = rows_at(lo, Expr(full), most);
      if (most > 1) append(body, rows_at(lo + Expr(full * most), Expr(turns - full), most - 1));
      return body;
    };
    if (is_const(count)) return rows_of(range.lo, const_or(count, 0));
    const std::string lo = names_.fresh(stem + "_lo"), full = names_.fresh(stem + "_full");
    Body body{stmt(Let{lo, range.lo}), stmt(Let{full, floor_divide(maximum(count, Expr(std::int64_t{0})), block)})};
    Body blocks = rows_at(var(lo), var(full), block);
    Expr rest = var(lo) + var(full) * Expr(block);
    // At the border of a window there are few rows less than inside; one at a time, each reads again what they share.
    const bool halves = around_.threads || (leaf_.is<forms::Contract>() && block >= model::blocks::rows_to_halve);
    for (std::int64_t half = block / 2; halves && half > 1; half /= 2) {
      const std::string some = names_.fresh(stem + "_some"), next = names_.fresh(stem + "_rest");
      blocks.push_back(stmt(Let{some, floor_divide(maximum(range.hi - rest, Expr(std::int64_t{0})), half)}));
      append(blocks, rows_at(rest, var(some), half));
      blocks.push_back(stmt(Let{next, rest + var(some) * Expr(half)}));
      rest = var(next);
    }
    append(blocks, one_by_one(static_cast<std::size_t>(m_), {rest, range.hi}, tile, inside));
    // Of all boxes but the last the rows are as many as planned, and these are cut evenly too.
    const std::int64_t most = most_values(range);
    if (most > 0 && most % block != 0)
      blocks = {stmt(If{at_least(range.hi - var(lo), Expr(most)), rows_of(var(lo), most), std::move(blocks)})};
    append(body, std::move(blocks));
    return body;
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

  Body blocked_vectors(const Interval& range, std::int64_t most_vectors, const Tile& tile, const InTile& inside) {
    const Expr count = range.hi - range.lo;
    const std::string& stem = nest_.dims[static_cast<std::size_t>(n_)].name;
    const std::int64_t W = leaf_.lanes;
    const auto vectors_at = [&](const Expr& first, const Expr& turns, std::int64_t vectors,
                                const std::optional<Expr>& end) {
      return serial(stem + "_v", {Expr(std::int64_t{0}), turns}, [&](const Expr& turn) {
        Tile t = tile;
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
      const std::int64_t all = (extent + W - 1) / W, turns = (all + most_vectors - 1) / most_vectors,
                         most = (all + turns - 1) / turns, full = all - turns * (most - 1);
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
    const std::string lo = names_.fresh(stem + "_lo"), end = names_.fresh(stem + "_end"),
                      full = names_.fresh(stem + "_full");
    const Expr zero(std::int64_t{0});
    Body body{stmt(Let{lo, range.lo}), stmt(Let{end, range.hi}),
        stmt(Let{full, floor_divide(maximum(var(end) - var(lo), zero), most_vectors * W)})};
    append(body, vectors_at(var(lo), var(full), most_vectors, std::nullopt));
    const Expr rest = var(lo) + var(full) * Expr(most_vectors * W);
    append(body, vectors_at(rest, maximum(zero, ceil_divide(var(end) - rest, W)), 1, var(end)));
    return body;
  }

  // Asks for the lines that the block will write, which takes memory about as long as a sum does.
  Body claimed() {
    if (!block_.claims) return {};
    const std::string view = names_.fresh("w");
    Body body{stmt(View{view, storage_.name(nest_.target.tensor), corner(target_access, nest_.target.offset)})};
    const std::int64_t further = further_on(nest_.target.offset);
    Body lines;
    for (const std::int64_t offset : lines_of_step(nest_.target.offset, m_, tile_.blocked_m ? tile_.rows : 1, n_,
             tile_.blocked_n ? tile_.vectors * leaf_.lanes : 1, lang::bytes(target_type_)))
      lines.push_back(stmt(Prefetch{view, Expr(offset + further), true}));
    if (further) append(later_requests_, std::move(lines));  // of a later block: among the stores
    else append(body, std::move(lines));
    return body;
  }

  // ---- one block

  Expr lane() const { return lane_.empty() ? Expr(std::int64_t{0}) : var(lane_); }

  Body block(const Tile& tile) {
    tile_ = tile;
    return leaf_.is<forms::Reduce>() ? dot() : accumulate();
  }

  Body accumulate() {
    const bool lanes = tile_.blocked_n && leaf_.lanes > 1;
    lane_ = lanes ? names_.fresh("l") : "";
    const std::int64_t count = tile_.rows * tile_.vectors;
    Body body;
    begin(body, count);
    if (flag_) {
      hit_ = names_.fresh("hit");
      body.push_back(stmt(Allocate{hit_, DType::I64, 1, Memory::Register}));
      body.push_back(stmt(Store{hit_, Expr(std::int64_t{0}), Expr(std::int64_t{0})}));
    }
    if (!cleared_) {
      append(body, claimed());
      append(body, asked_before_block());
      append(body, reduce(folded_from_));
    }
    append(body, write());
    if (!lanes) return body;
    return {stmt(For{lane_, lane_kind(), Expr(leaf_.lanes), {}, std::move(body)})};
  }

  // The accumulators of a block.
  void begin(Body& body, std::int64_t count) {
    acc_ = names_.fresh("acc");
    body.push_back(stmt(Allocate{acc_, type_, count, Memory::Register}));
    if (!scaled_) {
      for (std::int64_t a = 0; a < count; ++a)
        body.push_back(stmt(Store{acc_, Expr(a), identity(nest_.aggregation, type_)}));
      return;
    }
    product_ = {acc_, names_.fresh("exponent")};
    body.push_back(stmt(Allocate{product_.exponent, DType::I32, count, Memory::Register}));
    for (std::int64_t a = 0; a < count; ++a) begin_product(body, product_, a, type_);
  }

  Expr folded(Body& body, std::int64_t slot) {
    return scaled_ ? product_of(body, names_, product_, slot, type_) : Expr(Load{acc_, Expr(slot), type_});
  }

  Kind lane_kind() const { return around_.threads ? Kind::Thread : Kind::Vector; }

  Body reduce(std::size_t level) {
    if (level < k_.size() && tile_.staggered && tile_.blocked_m && bounds_rows(k_[level])) return staggered(level);
    return reduce_all(level);
  }

  // Whether rows of the domain bound d by m, and all else is known.
  bool bounds_rows(std::size_t d) const {
    const auto m = static_cast<std::size_t>(m_);
    return std::ranges::any_of(nest_.rows, [&](const Row& row) {
      if (!row.form.coefficients[m] || !row.form.coefficients[d]) return false;
      for (std::size_t k = 0; k < nest_.dims.size(); ++k)
        if (k != m && k != d && row.form.coefficients[k] && !points_.at(k)) return false;
      return true;
    });
  }

  // Steps that every row of the block has, and before and behind them steps under a mask for each row.
  Body staggered(std::size_t level) {
    const std::size_t d = k_[level];
    Body body;
    const auto [rows, any, all] = own_ranges(body, d);
    const Expr first = named(body, d, "_in", minimum(any.hi, all.lo)),
               last = named(body, d, "_out", maximum(first, minimum(any.hi, all.hi)));
    const Interval before = points_.limit(d, any);
    const bool border = tile_.border;
    for (const auto& [range, masked] : std::initializer_list<std::pair<Interval, bool>>{
             {{any.lo, first}, true}, {{first, last}, false}, {{last, any.hi}, true}}) {
      points_.limit(d, range);
      tile_.border = border || masked;
      append(body, reduce_all(level));
    }
    tile_.border = border;
    points_.limit(d, before);
    return body;
  }

  Body reduce_all(std::size_t level) {
    if (level >= k_.size()) return innermost(std::nullopt);
    if (level + 1 == k_.size()) return innermost(k_[level]);
    const std::size_t d = k_[level];
    return serial(nest_.dims[d].name, points_.bounds(d), [&](const Expr& v) { return with(d, v, [&] {
      Body body = asked_outside(level);
      append(body, reduce(level + 1));
      return body; }); });
  }

  // Element offset of an access at the tile's corner, with every fixed dimension in place.
  Expr corner(std::size_t access, const Form& offset) const {
    Expr sum = points_.known_part(offset);
    if (tile_.blocked_m) sum = sum + tile_.m0 * Expr(offset.coefficients[static_cast<std::size_t>(m_)]);
    if (tile_.blocked_n) sum = sum + tile_.n0 * Expr(offset.coefficients[static_cast<std::size_t>(n_)]);
    const auto base = around_.base.find(access);
    return base == around_.base.end() ? sum : sum - base->second;
  }

  bool in_m(const Form& f) const { return tile_.blocked_m && f.coefficients[static_cast<std::size_t>(m_)] != 0; }
  bool in_n(const Form& f) const { return tile_.blocked_n && f.coefficients[static_cast<std::size_t>(n_)] != 0; }

  Expr inside_tile(const Form& f, std::int64_t i, std::int64_t v) const {
    Expr sum(std::int64_t{0});
    if (in_m(f)) sum = sum + Expr(i * f.coefficients[static_cast<std::size_t>(m_)]);
    if (in_n(f)) sum = sum + (Expr(v * leaf_.lanes) + lane()) * Expr(f.coefficients[static_cast<std::size_t>(n_)]);
    return sum;
  }

  // Whether registers hold what steps of d that stand side by side have in common, beside the accumulators and what a
  // step loads: rows of a window read elements again that the step before read, which then stay in registers of their
  // own.
  bool holds_steps(std::size_t d) const {
    std::int64_t held = tile_.rows * tile_.vectors, shared = 0;
    for (const FlatAccess& read : nest_.reads) {
      if (in_n(read.offset)) {
        held += in_m(read.offset) ? 2 : tile_.vectors;
        continue;
      }
      if (!in_m(read.offset)) continue;
      const std::int64_t row = std::abs(read.offset.coefficients[static_cast<std::size_t>(m_)]),
                         moved = std::abs(read.offset.coefficients[d]);
      if (moved && moved % row == 0) shared += std::max<std::int64_t>(0, tile_.rows - moved / row);
    }
    return shared == 0 || held + shared < storage_.registers;
  }

  // The innermost reduction: one view per read, moved along.
  Body innermost(std::optional<std::size_t> d) {
    if (!d) return with_views([&] {
      append(later_requests_, asked_by_block());
      return step(Expr(std::int64_t{0}), std::nullopt); });
    const Interval range = points_.bounds(*d);
    const Expr count = range.hi - range.lo;
    const std::int64_t known = is_const(count) ? const_or(count, 0) : -1;
    if (known == 0 || (is_const(count) && known < 0)) return {};
    if (known > 0 && known <= model::blocks::unrolled_steps &&
        known * tile_.rows * tile_.vectors <= model::blocks::unrolled_block && holds_steps(*d)) {
      if (tile_.border) return with(*d, range.lo, [&] { return with_views([&] { return border_steps(*d, known); }); });
      const std::string u = names_.fresh(nest_.dims[*d].name);
      return with(*d, range.lo, [&] { return with_views([&] {
        Body one = step(var(u), d);
        append(one, asked_by_step(*d, var(u), var(u)));
        return Body{stmt(For{u, Kind::Unroll, count, {}, std::move(one)})}; }); });
    }
    const std::string lo = names_.fresh(nest_.dims[*d].name + "_lo"), turns = names_.fresh(nest_.dims[*d].name + "_n");
    Body body;
    Interval r = range;
    Expr n = count;
    if (known < 0) {
      body.push_back(stmt(Let{lo, range.lo}));
      body.push_back(stmt(Let{turns, range.hi - var(lo)}));
      r.lo = var(lo);
      n = var(turns);
    }
    // A mask that stays the same while d runs stands outside the loop: nothing hoists it later.
    const bool steady = std::none_of(nest_.rows.begin(), nest_.rows.end(), [&](const Row& row) {
      return n_ >= 0 && row.form.coefficients[static_cast<std::size_t>(n_)] && row.form.coefficients[*d];
    });
    if (const auto mask = tile_.guarded && steady ? guard() : std::nullopt) {
      const std::string name = names_.fresh("inside");
      body.push_back(stmt(Let{name, *mask}));
      steady_guard_ = Variable{name, DType::Bool};
    }
    Body loop = with(*d, r.lo, [&] { return with_views([&] {
      Body same = hoisted(d);
      const std::string index = names_.fresh(nest_.dims[*d].name);
      Body inner = step(Expr(std::int64_t{0}), std::nullopt, d, index, r.lo);
      hoisted_.clear();
      append(inner, asked_by_step(*d, Expr(std::int64_t{0}), var(index)));
      same.push_back(stmt(For{index, Kind::Serial, n, advance(*d), std::move(inner)}));
      return same; }); });
    steady_guard_.reset();
    if (known < 0) body.push_back(stmt(If{less(Expr(std::int64_t{0}), n), std::move(loop), {}}));
    else append(body, std::move(loop));
    return body;
  }

  // Steps of a window one by one: what a row reads in one, another row has read in the step before.
  Body border_steps(std::size_t d, std::int64_t count) {
    Body body;
    edges_.clear();
    for (std::int64_t u = 0; u < count; ++u) append(body, step(Expr(u), d));
    return body;
  }

  // ---- operands that a core does not fetch ahead by itself

  // Asks for what is read later of operand r, whose view stands at this block and step, less `moved`; of the reductions
  // from `level` on all values.
  Body asked(std::size_t r, const std::string& view, const Expr& moved, std::size_t level) const {
    const Form& f = nest_.reads[r].offset;
    const std::int64_t further = further_on(f, !by_block_ || by_stream_[r]);
    if (!further) return {};
    std::vector<std::pair<std::size_t, std::int64_t>> inner;
    for (std::size_t l = level; l < k_.size(); ++l) inner.emplace_back(k_[l], nest_.dims[k_[l]].extent);
    Body body;
    if (!reads_little(f, inner)) return body;
    const bool stream = is_stream(nest_, leaf_, nest_.reads[r], bytes_of(r));
    const auto by_step = std::ranges::find(k_, goes_by(f, !by_block_ || by_stream_[r])->first);
    const std::int64_t all = tile_.blocked_m ? tile_.rows : 1;
    const RowsOfStep rows = by_step == k_.end() || by_block_ ? RowsOfStep{0, all} : new_rows(f, m_, all, *by_step);
    for (const std::int64_t offset : lines_of_step(
             f, m_, rows.count, n_, tile_.blocked_n ? tile_.vectors * leaf_.lanes : 1, bytes_of(r), inner, rows.first))
      body.push_back(stmt(Prefetch{view, Expr(offset + further) + moved, false, stream}));
    return body;
  }
  // The steps of the innermost reduction ask in turn for what is read later. None: whoever asks does so for all lines
  // at once, or for none where they are many.
  std::optional<InTurn> in_turn(std::size_t r) const {
    const auto* by = goes_by(nest_.reads[r].offset, false);
    if (by == nullptr) return std::nullopt;
    const std::optional<InTurn> made =
        codegen::in_turn(nest_, leaf_, nest_.reads[r], by->first, tile_.rows, tile_.vectors * leaf_.lanes, bytes_of(r));
    const auto blocked = [&] { return static_cast<int>(made->along) == m_ ? tile_.blocked_m : tile_.blocked_n; };
    return made && blocked() &&
            (!by_block_ ||
                static_cast<double>(made->lines) * static_cast<double>(by->second) <= model::ahead::most_lines_between)
        ? made
        : std::nullopt;
  }
  Body asked_in_turn(std::size_t r, const Expr& moved, const Expr& index) const {
    const std::optional<InTurn> found = in_turn(r);
    if (!found) return {};
    const Form& f = nest_.reads[r].offset;
    const std::int64_t steps = found->steps, rows = found->count;
    std::int64_t each = 1;                             // rows of a step
    while (each * steps < rows) each *= 2;
    const Expr turn = index - floor_divide(index, steps) * Expr(steps);
    Body body;
    for (std::int64_t j = 0; j < each; ++j) {
      const Expr row = floor_divide((turn * Expr(each) + Expr(j)) * Expr(rows), steps * each);
      body.push_back(
          stmt(Prefetch{views_[r], row * Expr(f.coefficients[found->along]) + Expr(further_on(f, false)) + moved}));
    }
    return body;
  }
  // By step `index` of the innermost reduction d, of which the views have not moved `u`.
  Body asked_by_step(std::size_t d, const Expr& u, const Expr& index) const {
    Body body;
    if (ahead_.empty()) return body;
    const auto asks = [&](std::size_t r) {
      return by_stream_[r] || (asks_ + 1 == k_.size() && asks_for(nest_, leaf_, nest_.reads[r], d, bytes_of(r)));
    };
    for (std::size_t r = 0; r < nest_.reads.size(); ++r) {
      if (!first_of_view(r)) continue;
      const Expr moved = u * Expr(nest_.reads[r].offset.coefficients[d]);
      append(body, asks(r) ? asked(r, views_[r], moved, k_.size()) : asked_in_turn(r, moved, index));
    }
    return body;
  }
  // The same from the block's corner, where no view stands.
  Body asked_from_corner(std::size_t r, std::size_t level) {
    const std::string view = names_.fresh("x");
    Body asking = asked(r, view, Expr(std::int64_t{0}), level);
    if (asking.empty()) return asking;
    Body body{stmt(View{view, storage_.name(nest_.reads[r].tensor), corner(r, nest_.reads[r].offset)})};
    append(body, std::move(asking));
    return body;
  }
  // By a step of a reduction with others inside it.
  Body asked_outside(std::size_t level) {
    Body body;
    if (ahead_.empty() || asks_ != level) return body;
    for (std::size_t r = 0; r < nest_.reads.size(); ++r)
      if (!by_stream_[r] && asks_for(nest_, leaf_, nest_.reads[r], k_[level], bytes_of(r)) && !in_turn(r))
        append(body, asked_from_corner(r, level + 1));
    return body;
  }
  // By a block without a reduction, or a step of one whose lanes run over the sum.
  Body asked_by_block() const {
    Body body;
    if (ahead_.empty()) return body;
    for (std::size_t r = 0; r < nest_.reads.size(); ++r)
      if (first_of_view(r) && leaves_cache(nest_, nest_.reads[r], bytes_of(r)))
        append(body, asked(r, views_[r], Expr(std::int64_t{0}), k_.size()));
    return body;
  }
  // By a contraction none of whose steps ask: what the block reads in all.
  Body asked_before_block() {
    Body body;
    if (!by_block_) return body;
    for (std::size_t r = 0; r < nest_.reads.size(); ++r) {
      if (by_stream_[r] || !leaves_cache(nest_, nest_.reads[r], bytes_of(r)) || in_turn(r)) continue;
      Body asking = asked_from_corner(r, folded_from_);
      if (asking.size() <= model::ahead::most_of_block + 1) append(body, std::move(asking));  // and its view
    }
    return body;
  }
  // What the access goes ahead by, the innermost steps counted or not.
  const std::pair<std::size_t, std::int64_t>* goes_by(const Form& f, bool steps) const {
    for (const auto& one : ahead_)
      if (f.coefficients[one.first] && (steps || one.first != k_.back() || taps_around_ == k_.size())) return &one;
    return nullptr;
  }
  // How far the elements that are asked for lie behind those that are read.
  std::int64_t further_on(const Form& f, bool steps = true) const {
    const auto* by = goes_by(f, steps);
    if (!by) return 0;
    const auto& [d, count] = *by;
    const bool is_m = tile_.blocked_m && static_cast<int>(d) == m_, is_n = tile_.blocked_n && static_cast<int>(d) == n_;
    return f.coefficients[d] * count * (is_m ? tile_.rows : is_n ? tile_.vectors * leaf_.lanes : 1);
  }
  std::int64_t bytes_of(std::size_t r) const {
    return lang::bytes(storage_.plan.program.tensor(nest_.reads[r].tensor).dtype);
  }
  bool first_of_view(std::size_t r) const {
    return std::find(views_.begin(), views_.end(), views_[r]) == views_.begin() + static_cast<std::ptrdiff_t>(r);
  }

  const std::string& held_by(std::size_t r) const {
    const auto view = around_.views.find(r);
    return view == around_.views.end() ? storage_.name(nest_.reads[r].tensor) : view->second;
  }

  Body with_views(const std::function<Body()>& inside) {
    Body body;
    views_.clear();
    for (std::size_t r = 0; r < nest_.reads.size(); ++r) {
      std::size_t same = 0;
      while (same < r &&
          !(nest_.reads[same].tensor == nest_.reads[r].tensor && nest_.reads[same].offset == nest_.reads[r].offset &&
              held_by(same) == held_by(r)))
        ++same;
      if (same < r) {
        views_.push_back(views_[same]);
        continue;
      }
      const std::string name = names_.fresh(fmt::format("p{}", r));
      body.push_back(stmt(View{name, held_by(r), corner(r, nest_.reads[r].offset)}));
      views_.push_back(name);
    }
    append(body, inside());
    return body;
  }

  std::vector<Advance> advance(std::size_t d) const {
    std::vector<Advance> moves;
    for (std::size_t r = 0; r < nest_.reads.size(); ++r) {
      const std::int64_t s = nest_.reads[r].offset.coefficients[d];
      if (s && first_of_view(r)) moves.push_back({views_[r], Expr(s)});
    }
    return moves;
  }

  // One step of the fold for all accumulators. `unroll`: the dimension that `u` steps along without moving the views;
  // `moved`: the dimension whose value is lo + index.
  Body step(const Expr& u, std::optional<std::size_t> unroll, std::optional<std::size_t> moved = {},
      const std::string& index = "", const Expr& lo = Expr(std::int64_t{0})) {
    step_ = Step{u, unroll, hoisted_, {}};
    std::optional<Expr> saved;
    const std::size_t walked = moved ? *moved : unroll ? *unroll : 0;
    if (moved || unroll) {
      saved = points_.at(walked);
      points_.fix(walked, moved ? lo + var(index) : *saved + u);
    }
    Body body;
    whole_mask_ = tile_.guarded;
    if (tile_.border) find_inside(body, unroll.has_value());
    for (std::int64_t i = 0; i < tile_.rows; ++i)
      for (std::int64_t v = 0; v < tile_.vectors; ++v) fold(body, i, v);
    whole_mask_ = false;
    if (flag_) body.push_back(stmt(Store{hit_, Expr(std::int64_t{0}), Expr(std::int64_t{1})}));
    if (const auto condition = steady_guard_ ? steady_guard_ : tile_.guarded ? guard() : std::nullopt)
      body = {stmt(If{*condition, std::move(body), {}})};
    if (saved) points_.fix(walked, *saved);
    return body;
  }

  struct Depends { bool m = false, n = false; };
  struct Step {
    Expr u;
    std::optional<std::size_t> unroll;
    std::map<std::tuple<const void*, std::int64_t, std::int64_t>, Expr> values;
    std::map<const void*, Depends> depends;
    std::map<std::pair<std::string, std::int64_t>, std::string> squares = {};  // by view and vector
  };

  // Which rows of a block at the border have a point in this step.
  void find_inside(Body& body, bool goes_on) {
    if (!goes_on || tile_.guarded) edges_.clear();
    inside_.clear();
    const auto m = static_cast<std::size_t>(m_);
    for (std::int64_t i = 0; i < tile_.rows; ++i) {
      std::optional<Expr> all;
      const auto too = [&](const Expr& e) { all = all ? both(*all, e) : e; };
      if (tile_.end) too(less(tile_.m0 + Expr(i), *tile_.end));
      for (const Row& row : nest_.rows) {
        if (!row.form.coefficients[m]) continue;
        Expr value = points_.known_part(row.form) + (tile_.m0 + Expr(i)) * Expr(row.form.coefficients[m]);
        if (in_n(row.form))
          value = value + (tile_.n0 + lane()) * Expr(row.form.coefficients[static_cast<std::size_t>(n_)]);
        too(points_.holds(row, value));
      }
      inside_.push_back(edge(body, *all, [&] {
        const std::string name = names_.fresh("inside");
        return std::pair(Body{stmt(Let{name, *all})}, Expr(Variable{name, DType::Bool}));
      }));
    }
  }
  // What blocks at the border have computed already.
  Expr edge(Body& body, const Expr& key, const std::function<std::pair<Body, Expr>()>& make) {
    if (const auto known = std::ranges::find(edges_, key, &std::pair<Expr, Expr>::first); known != edges_.end())
      return known->second;
    auto [made, value] = make();
    append(body, std::move(made));
    edges_.emplace_back(key, value);
    return value;
  }
  // Of a block at the border, where some row has this element.
  Expr load_inside(Body& body, const Form& f, const Load& plain, std::int64_t i, std::int64_t v) {
    Expr there = in_m(f) ? inside_[static_cast<std::size_t>(i)] : inside_.front();
    if (!in_m(f))
      for (const Expr& row : inside_)
        if (!(row == there)) there = Operation{Op::Or, {there, row}, DType::Bool};
    if (in_n(f) && masked(v)) there = both(there, mask(v));
    const DType held = compute_type(plain.type);
    return edge(
        body, Operation{Op::Select, {there, plain, plain}, held}, [&] { return load_under(there, plain, held); });
  }
  std::pair<Body, Expr> load_under(const Expr& there, const Load& plain, DType held) {
    const std::string name = names_.fresh("edge");
    return {Body{stmt(Allocate{name, held, 1, Memory::Register}),
                stmt(Store{name, Expr(std::int64_t{0}), Constant{held, 0, 0.0}}),
                stmt(If{there, {stmt(Store{name, Expr(std::int64_t{0}), convert(plain, held)})}, {}})},
        Load{name, Expr(std::int64_t{0}), held}};
  }

  // Rows of lanes that fold keep their accumulators, however many of them a step has.
  std::int64_t slot_of(std::int64_t i, std::int64_t v) const {
    return i * (leaf_.is<forms::Reduce>() ? leaf_.vectors : tile_.vectors) + v;
  }

  void fold(Body& body, std::int64_t i, std::int64_t v) {
    const Expr slot(slot_of(i, v));
    const Expr acc = Load{acc_, slot, type_};
    const auto* product = nest_.value->as<poly::Apply>();
    if (nest_.aggregation == Aggregation::Sum && product && product->op == Op::Mul && lang::is_float(type_)) {
      const Expr a = value(body, product->operands[0], i, v), b = value(body, product->operands[1], i, v);
      return put(
          body, i, {stmt(Store{acc_, slot, Operation{Op::Fma, {convert(a, type_), convert(b, type_), acc}, type_}})});
    }
    const Expr x = convert(value(body, *nest_.value, i, v), type_);
    if (!scaled_) return put(body, i, {stmt(Store{acc_, slot, combine(nest_.aggregation, acc, x)})});
    Body multiplied;
    multiply(multiplied, names_, product_, slot_of(i, v), x);
    put(body, i, std::move(multiplied));
  }
  void put(Body& body, std::int64_t i, Body sums) {
    if (tile_.border) body.push_back(stmt(If{inside_[static_cast<std::size_t>(i)], std::move(sums), {}}));
    else append(body, std::move(sums));
  }

  // ---- values

  Depends depends(const poly::Expr& e) {
    const void* node = e.match([](const auto& n) { return static_cast<const void*>(&n); });
    if (const auto found = step_.depends.find(node); found != step_.depends.end()) return found->second;
    Depends d;
    e.match(
        [&](const poly::Read& r) {
          const Form& f = nest_.reads[static_cast<std::size_t>(r.read)].offset;
          d = {in_m(f), in_n(f)};
        },
        [&](const poly::Index& x) {
          const Form& f = nest_.form(x.value);
          d = {in_m(f), in_n(f)};
        },
        [&](const poly::Apply& a) {
          for (const poly::Expr& o : a.operands) {
            const Depends q = depends(o);
            d.m = d.m || q.m;
            d.n = d.n || q.n;
          }
        },
        [&](const poly::Cast& c) { d = depends(c.operand); }, [](const poly::Number&) {});
    step_.depends.emplace(node, d);
    return d;
  }

  // The value of `e` for row i and vector v; whatever does not depend on one of them is computed once.
  Expr value(Body& body, const poly::Expr& e, std::int64_t i, std::int64_t v) {
    if (const auto* number = e.as<poly::Number>()) return constant_of(*number);
    const Depends d = depends(e);
    const void* node = e.match([](const auto& n) { return static_cast<const void*>(&n); });
    const auto key = std::make_tuple(node, d.m ? i : -1, d.n ? v : -1);
    if (const auto found = step_.values.find(key); found != step_.values.end()) return found->second;
    Expr result = fresh_value(body, e, i, v);
    if (!result.as<Constant>() && !result.as<Variable>()) {
      const std::string name = names_.fresh("t");
      const DType type = result.type();
      body.push_back(stmt(Let{name, std::move(result)}));
      result = Variable{name, type};
    }
    step_.values.emplace(key, result);
    return result;
  }

  Expr fresh_value(Body& body, const poly::Expr& e, std::int64_t i, std::int64_t v) {
    return e.match([&](const poly::Number& n) { return constant_of(n); },
        [&](const poly::Read& r) {
          return convert(load(body, static_cast<std::size_t>(r.read), i, v), compute_type(r.type));
        },
        [&](const poly::Index& x) { return convert(index_value(nest_.form(x.value), i, v), compute_type(x.type)); },
        [&](const poly::Cast& c) { return cast(value(body, c.operand, i, v), c.operand, c.type); },
        [&](const poly::Apply& a) {
          std::vector<Expr> operands;
          for (const poly::Expr& o : a.operands) operands.push_back(value(body, o, i, v));
          return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
        });
  }

  Expr index_value(const Form& f, std::int64_t i, std::int64_t v) const {
    Expr sum = points_.known_part(f);
    if (tile_.blocked_m) sum = sum + (tile_.m0 + Expr(i)) * Expr(f.coefficients[static_cast<std::size_t>(m_)]);
    if (tile_.blocked_n)
      sum = sum + (tile_.n0 + Expr(v * leaf_.lanes) + lane()) * Expr(f.coefficients[static_cast<std::size_t>(n_)]);
    return sum;
  }

  bool masked(std::int64_t v) const { return !whole_mask_ && tile_.valid && v == tile_.vectors - 1 && !lane_.empty(); }
  Expr mask(std::int64_t v) const { return less(Expr(v * leaf_.lanes) + lane(), *tile_.valid); }

  Expr load(Body& body, std::size_t r, std::int64_t i, std::int64_t v) {
    const Form& f = nest_.reads[r].offset;
    const DType type = storage_.plan.program.tensor(nest_.reads[r].tensor).dtype;
    if (!tile_.guarded && turns(f)) return Load{square(body, r, v), Expr(i), compute_type(type)};
    Expr offset = inside_tile(f, i, v);
    if (step_.unroll) offset = offset + step_.u * Expr(f.coefficients[*step_.unroll]);
    const Load plain{views_[r], offset, type};
    if (tile_.border) return load_inside(body, f, plain, i, v);
    if (!in_n(f) || !masked(v)) return plain;
    auto [loads, value] = load_under(mask(v), plain, compute_type(type));
    append(body, std::move(loads));
    return value;
  }

  // ---- squares: rows of m whose elements lie side by side are read and written along m, transposed in between

  bool turns(const Form& f) const {
    return block_.turned && tile_.blocked_m && tile_.blocked_n && !lane_.empty() &&
        f.coefficients[static_cast<std::size_t>(m_)] == 1 && std::abs(f.coefficients[static_cast<std::size_t>(n_)]) > 1;
  }

  // Vector v of all rows of read r: register i, once transposed or taken apart, is row i.
  std::string square(Body& body, std::size_t r, std::int64_t v) {
    const Form& f = nest_.reads[r].offset;
    const DType type = storage_.plan.program.tensor(nest_.reads[r].tensor).dtype, held = compute_type(type);
    const auto [known, fresh] = step_.squares.try_emplace({views_[r], v}, names_.fresh("square"));
    if (!fresh) return known->second;
    const bool whole = strip(f);
    const std::int64_t vectors = whole ? tile_.rows : leaf_.lanes;
    body.push_back(stmt(Allocate{known->second, held, vectors, Memory::Register}));
    for (std::int64_t l = 0; l < vectors; ++l) {
      Expr offset = whole ? along_strip(v, l) : along_m(f, v, l);
      if (step_.unroll) offset = offset + step_.u * Expr(f.coefficients[*step_.unroll]);
      const Store store{known->second, Expr(l), convert(Load{views_[r], offset, type}, held)};
      body.push_back(whole ? of_strip(stmt(store), v, l) : of_square(stmt(store), v, l));
    }
    body.push_back(whole ? stmt(Interleave{known->second, true}) : stmt(Transpose{known->second}));
    return known->second;
  }

  Expr along_m(const Form& f, std::int64_t v, std::int64_t l) const {
    return lane() + Expr((v * leaf_.lanes + l) * f.coefficients[static_cast<std::size_t>(n_)]);
  }

  bool strip(const Form& f) const {
    return is_strip(f.coefficients[static_cast<std::size_t>(m_)], f.coefficients[static_cast<std::size_t>(n_)],
        tile_.rows, leaf_.lanes);
  }
  Expr along_strip(std::int64_t v, std::int64_t j) const { return lane() + Expr((v * tile_.rows + j) * leaf_.lanes); }
  // Elements of a strip's vector that the tile has.
  Stmt of_strip(Stmt s, std::int64_t v, std::int64_t j) const {
    return masked(v) ? stmt(If{less(along_strip(v, j), *tile_.valid * Expr(tile_.rows)), {std::move(s)}, {}}) : s;
  }

  // Elements of a square's row that the tile has, if it has the row.
  Stmt of_square(Stmt s, std::int64_t v, std::int64_t l) const {
    if (tile_.rows < leaf_.lanes) s = stmt(If{less(lane(), Expr(tile_.rows)), {std::move(s)}, {}});
    if (masked(v)) s = stmt(If{less(Expr(v * leaf_.lanes + l), *tile_.valid), {std::move(s)}, {}});
    return s;
  }

  // Reads before it writes under `add`, as `stores` does.
  Body turned_stores(const std::string& view, bool add) {
    Body body;
    const Form& f = nest_.target.offset;
    for (std::int64_t v = 0; v < tile_.vectors; ++v) {
      const std::string square = names_.fresh("square");
      const DType held = compute_type(target_type_);
      const bool whole = strip(f);
      const std::int64_t vectors = whole ? tile_.rows : leaf_.lanes;
      body.push_back(stmt(Allocate{square, held, vectors, Memory::Register}));
      for (std::int64_t i = 0; i < tile_.rows; ++i) body.push_back(stmt(Store{square, Expr(i), result(body, i, v)}));
      body.push_back(whole ? stmt(Interleave{square}) : stmt(Transpose{square}));
      const auto for_vectors = [&](const auto& store) {
        for (std::int64_t l = 0; l < vectors; ++l) {
          const Stmt s = stmt(store(whole ? along_strip(v, l) : along_m(f, v, l), Expr(l)));
          body.push_back(whole ? of_strip(s, v, l) : of_square(s, v, l));
        }
      };
      if (add)
        for_vectors([&](const Expr& offset, const Expr& l) {
          return Store{square, l, combine(nest_.aggregation, Load{view, offset, target_type_}, Load{square, l, held})};
        });
      for_vectors([&](const Expr& offset, const Expr& l) {
        return Store{view, offset, stored(Load{square, l, held}), leaf_.streams() ? Hint::Streaming : Hint::Plain};
      });
    }
    return body;
  }

  // ---- results

  Expr stored(const Expr& x) const { return convert(x, target_type_); }

  Expr fill_value() const { return constant_of(*nest_.fill); }

  Body write() {
    Body body;
    const std::string name = names_.fresh("o");
    body.push_back(stmt(View{name, storage_.name(nest_.target.tensor), corner(target_access, nest_.target.offset)}));
    if (later_ && later_->as<Constant>()) {
      append(body, among_stores(stores(name, true), name, std::exchange(later_requests_, {})));
      return body;
    }
    if (later_) {
      append(body, std::exchange(later_requests_, {}));
      body.push_back(stmt(If{*later_, stores(name, true), stores(name, false)}));
      return body;
    }
    append(body, among_stores(stores(name, false), name, std::exchange(later_requests_, {})));
    if (!flag_ || nest_.fill) return body;
    return {stmt(If{hit(), std::move(body), {}})};
  }

  // What row i of vector v holds; under `add` it is added to what the target holds.
  Expr result(Body& body, std::int64_t i, std::int64_t v) {
    const Expr folds = convert(folded(body, i * tile_.vectors + v), compute_type(target_type_));
    return flag_ && nest_.fill ? Expr(Operation{Op::Select, {hit(), folds, fill_value()}, compute_type(target_type_)})
                               : folds;
  }

  // Under `add` all that the target holds is read before any of it is written: a vector under a mask covers elements of
  // the next row, whose load would wait for the store.
  Body stores(const std::string& view, bool add) {
    const bool under_mask = flag_ && !nest_.fill;      // which tells lanes apart where no element is to be told
    if (turns(nest_.target.offset) && !under_mask) return turned_stores(view, add);
    Body sums, body;
    const std::string sum = add ? names_.fresh("sum") : "";
    const DType held = compute_type(target_type_);
    if (add) sums.push_back(stmt(Allocate{sum, held, tile_.rows * tile_.vectors, Memory::Register}));
    for (std::int64_t i = 0; i < tile_.rows; ++i)
      for (std::int64_t v = 0; v < tile_.vectors; ++v) {
        const Expr offset = inside_tile(nest_.target.offset, i, v);
        const auto in_tile = [&](Stmt s) {
          if (masked(v)) s = stmt(If{mask(v), {std::move(s)}, {}});
          return tile_.end ? stmt(If{less(tile_.m0 + Expr(i), *tile_.end), {std::move(s)}, {}}) : s;
        };
        Expr x = result(add ? sums : body, i, v);
        if (add) {
          const Expr slot(i * tile_.vectors + v);
          // parts are added up only where no flag is
          sums.push_back(
              in_tile(stmt(Store{sum, slot, combine(nest_.aggregation, Load{view, offset, target_type_}, x)})));
          x = Load{sum, slot, held};
        }
        body.push_back(in_tile(stmt(Store{view, offset, stored(x), leaf_.streams() ? Hint::Streaming : Hint::Plain})));
      }
    append(sums, std::move(body));
    return sums;
  }

  Expr hit() const { return less(Expr(std::int64_t{0}), Load{hit_, Expr(std::int64_t{0}), DType::I64}); }

  // ---- lanes over a reduction

  Body dot() {
    lane_ = names_.fresh("l");
    Body body;
    begin(body, tile_.rows * leaf_.vectors);
    if (flag_) {
      hit_ = names_.fresh("hit");
      body.push_back(stmt(Allocate{hit_, DType::I64, 1, Memory::Register}));
      body.push_back(stmt(Store{hit_, Expr(std::int64_t{0}), Expr(std::int64_t{0})}));
    }
    append(body, dot_levels(0, static_cast<std::size_t>(n_)));
    const bool in_vectors = tile_.rows > 1 && leaf_.lanes > 1 && !scaled_ && !around_.threads;
    Body stores;
    for (std::int64_t row = 0; row < tile_.rows; row += in_vectors ? leaf_.lanes : 1)
      append(stores, in_vectors ? rows_of_lanes(body, row) : row_of_lanes(body, row));
    append(body, std::move(stores));
    return {stmt(For{lane_, lane_kind(), Expr(leaf_.lanes), {}, std::move(body)})};
  }

  // One row, folded and stored. One thread writes; lanes of a vector are one writer anyway.
  Body row_of_lanes(Body& body, std::int64_t row) {
    const Expr sum = scaled_ ? product_of_lanes(body, row) : sum_of_lanes(body, row);
    return stored_fold(
        sum, Expr(row), around_.threads ? std::optional(less(var(lane_), Expr(std::int64_t{1}))) : std::nullopt);
  }

  // As many rows as lanes from `first` on, folded together and stored side by side.
  Body rows_of_lanes(Body& body, std::int64_t first) {
    const std::int64_t rows = std::min(leaf_.lanes, tile_.rows - first);
    const std::string sums = names_.fresh("sums");
    body.push_back(stmt(Allocate{sums, type_, rows, Memory::Register}));
    for (std::int64_t row = 0; row < rows; ++row)
      body.push_back(stmt(Store{sums, Expr(row), sum_of_vectors(first + row)}));
    body.push_back(stmt(FoldRows{sums, fold_of_lanes(), rows}));
    return stored_fold(Load{sums, Expr(std::int64_t{0}), type_}, Expr(first) + var(lane_),
        rows < leaf_.lanes ? std::optional(less(var(lane_), Expr(rows))) : std::nullopt);
  }

  Body stored_fold(const Expr& fold, const Expr& row, const std::optional<Expr>& condition) {
    Expr result = convert(fold, compute_type(target_type_));
    if (flag_ && nest_.fill) result = Operation{Op::Select, {hit(), result, fill_value()}, compute_type(target_type_)};
    const std::string& target = storage_.name(nest_.target.tensor);
    Expr place = corner(target_access, nest_.target.offset);
    if (tile_.blocked_m) place = place + row * Expr(nest_.target.offset.coefficients[static_cast<std::size_t>(m_)]);
    const auto under = [&](const std::optional<Expr>& test, Body then) {
      return test ? Body{stmt(If{*test, std::move(then), {}})} : then;
    };
    Body store = under(condition, {stmt(Store{target, place, stored(result)})});
    if (later_) {
      Body added = under(condition,
          {stmt(Store{target, place, stored(combine(nest_.aggregation, Load{target, place, target_type_}, result))})});
      store = {stmt(If{*later_, std::move(added), std::move(store)})};
    }
    return under(flag_ && !nest_.fill ? std::optional(hit()) : std::nullopt, std::move(store));
  }

  // Of an assignment one accumulator, and one lane of it, holds the value and all others 0.
  Aggregation fold_of_lanes() const {
    return nest_.aggregation == Aggregation::Assign ? Aggregation::Sum : nest_.aggregation;
  }

  Expr sum_of_vectors(std::int64_t row) const {
    Expr total = Load{acc_, Expr(slot_of(row, 0)), type_};
    for (std::int64_t a = 1; a < leaf_.vectors; ++a)
      total = combine(fold_of_lanes(), total, Load{acc_, Expr(slot_of(row, a)), type_});
    return total;
  }

  Expr sum_of_lanes(Body& body, std::int64_t row) {
    Expr total = sum_of_vectors(row);
    if (leaf_.lanes == 1) return total;
    const std::string sum = names_.fresh("sum");
    body.push_back(stmt(Fold{sum, fold_of_lanes(), total, lane_}));
    return Variable{sum, type_};
  }

  Expr product_of_lanes(Body& body, std::int64_t row) {
    for (std::int64_t a = 1; a < leaf_.vectors; ++a)
      multiply_by_slot(body, names_, product_, slot_of(row, 0), slot_of(row, a), type_);
    return leaf_.lanes > 1 ? product_over_lanes(body, names_, product_, slot_of(row, 0), type_, lane_)
                           : folded(body, slot_of(row, 0));
  }

  Body dot_levels(std::size_t level, std::size_t lane_dim) {
    if (level < k_.size()) {
      const std::size_t d = k_[level];
      return serial(nest_.dims[d].name, points_.bounds(d),
          [&](const Expr& v) { return with(d, v, [&] { return dot_levels(level + 1, lane_dim); }); });
    }
    return tile_.staggered && tile_.blocked_m ? dot_staggered(lane_dim) : dot_range(lane_dim, points_.bounds(lane_dim));
  }

  // Of d, what each row of the block has of it, what any has, and what all have.
  struct OwnRanges {
    std::vector<Interval> rows;
    Interval any, all;
  };
  OwnRanges own_ranges(Body& body, std::size_t d) {
    std::vector<Interval> rows;
    for (std::int64_t i = 0; i < tile_.rows; ++i) {
      points_.fix(static_cast<std::size_t>(m_), tile_.m0 + Expr(i));
      const Interval range = points_.bounds(d);
      points_.release(static_cast<std::size_t>(m_));
      rows.push_back({named(body, d, "_lo", range.lo), named(body, d, "_end", range.hi)});
    }
    Interval any = rows.front(), all = any;
    for (const Interval& row : rows) {
      any = {minimum(any.lo, row.lo), maximum(any.hi, row.hi)};
      all = {maximum(all.lo, row.lo), minimum(all.hi, row.hi)};
    }
    any.hi = maximum(any.lo, any.hi);
    return {std::move(rows), any, all};
  }
  Expr named(Body& body, std::size_t d, const std::string& suffix, const Expr& e) {
    if (is_const(e)) return e;
    const std::string name = names_.fresh(nest_.dims[d].name + suffix);
    body.push_back(stmt(Let{name, e}));
    return var(name);
  }

  // Vectors that every row has whole, and between these and either end vectors under a mask for each row.
  Body dot_staggered(std::size_t d) {
    const std::string& stem = nest_.dims[d].name;
    const std::int64_t W = leaf_.lanes;
    const Expr zero(std::int64_t{0});
    Body body;
    const auto [rows, any, all] = own_ranges(body, d);
    const Expr first = named(body, d, "_in", minimum(any.hi, any.lo + ceil_divide(all.lo - any.lo, W) * Expr(W)));
    const Expr whole = named(body, d, "_whole", floor_divide(maximum(zero, minimum(all.hi, any.hi) - first), W));
    tile_.blocked_n = true;
    append(body, dot_loop(d, stem, any.lo, ceil_divide(first - any.lo, W), 1, std::nullopt, rows));
    const Expr turns = named(body, d, "_turns", floor_divide(whole, leaf_.vectors));
    append(body, dot_loop(d, stem, first, turns, leaf_.vectors, std::nullopt));
    if (leaf_.vectors > 1)
      append(body,
          dot_loop(
              d, stem, first + turns * Expr(leaf_.vectors * W), whole - turns * Expr(leaf_.vectors), 1, std::nullopt));
    const Expr last = named(body, d, "_out", first + whole * Expr(W));
    append(body, dot_loop(d, stem, last, ceil_divide(any.hi - last, W), 1, std::nullopt, rows));
    tile_.blocked_n = false;
    return body;
  }

  // [lo, hi) in steps of all accumulators, then of one vector, then the masked rest.
  Body dot_range(std::size_t d, const Interval& range) {
    const std::string& stem = nest_.dims[d].name;
    const std::int64_t W = leaf_.lanes, U = leaf_.vectors;
    const Expr zero(std::int64_t{0});
    Body body;
    Interval r = range;
    if (!is_const(r.hi - r.lo)) {
      const std::string lo = names_.fresh(stem + "_lo"), end = names_.fresh(stem + "_end");
      body.push_back(stmt(Let{lo, range.lo}));
      body.push_back(stmt(Let{end, maximum(range.hi, var(lo))}));
      r = {var(lo), var(end)};
    }
    const Expr count = r.hi - r.lo;
    if (is_const(count) && const_or(count, 0) <= 0) return {};
    tile_.blocked_n = true;
    Expr done_so_far = zero;
    for (const std::int64_t vectors : U > 1 ? std::vector<std::int64_t>{U, 1} : std::vector<std::int64_t>{1}) {
      const Expr turns = floor_divide(count - done_so_far, vectors * W);
      append(body, dot_loop(d, stem, r.lo + done_so_far, turns, vectors, std::nullopt));
      done_so_far = done_so_far + turns * Expr(vectors * W);
    }
    const Expr rest = count - done_so_far;
    if (W > 1 && !(is_const(rest) && const_or(rest, 0) == 0))
      append(body, dot_loop(d, stem, r.lo + done_so_far, minimum(rest, Expr(std::int64_t{1})), 1, rest));
    tile_.blocked_n = false;
    return body;
  }

  // `ranges`: those of the rows, each of which asks for itself and loads for itself.
  Body dot_loop(std::size_t d, const std::string& stem, const Expr& first, const Expr& turns, std::int64_t vectors,
      const std::optional<Expr>& valid, const std::vector<Interval>& ranges = {}) {
    if (is_const(turns) && const_or(turns, 0) <= 0) return {};
    tile_.n0 = first;
    tile_.vectors = vectors;
    tile_.valid = valid;
    const std::string index = names_.fresh(stem + "_v");
    const auto loop = [&](const Expr& n) {
      return with_views([&] {
        Body same = ranges.empty() ? hoisted(d) : Body{};
        tile_.n0 = first + var(index) * Expr(vectors * leaf_.lanes);
        step_ = Step{Expr(std::int64_t{0}), std::nullopt, hoisted_, {}};
        hoisted_.clear();
        Body inner;
        whole_mask_ = valid.has_value();
        for (std::int64_t v = 0; v < vectors; ++v)
          for (std::int64_t i = 0; i < tile_.rows; ++i) {
            if (ranges.empty()) {
              fold(inner, i, v);
              continue;
            }
            step_.values.clear();
            Body row;
            fold(row, i, v);
            const Interval& range = ranges[static_cast<std::size_t>(i)];
            const Expr x = tile_.n0 + lane();
            inner.push_back(stmt(If{both(at_least(x, range.lo), less(x, range.hi)), std::move(row), {}}));
          }
        whole_mask_ = false;
        if (valid) inner = {stmt(If{mask(0), std::move(inner), {}})};
        if (flag_) inner.push_back(stmt(Store{hit_, Expr(std::int64_t{0}), Expr(std::int64_t{1})}));
        inner = among_stores(std::move(inner), acc_, asked_by_block());
        std::vector<Advance> moves = advance(d);
        for (Advance& move : moves) move.step = move.step * Expr(vectors * leaf_.lanes);
        same.push_back(stmt(For{index, Kind::Serial, n, std::move(moves), std::move(inner)}));
        return same;
      });
    };
    if (is_const(turns)) return loop(turns);
    const std::string n = names_.fresh(stem + "_n");
    return {stmt(Let{n, turns}), stmt(If{less(Expr(std::int64_t{0}), var(n)), loop(var(n)), {}})};
  }

  const Nest& nest_;
  const Compute& leaf_;
  forms::Block block_;                                 // those of its form; of others, that they have none of it
  forms::Contract contract_;
  std::vector<std::pair<std::size_t, std::int64_t>> ahead_;  // dimensions, and how many of their values, blocks or
                                                             // steps
  std::size_t asks_ = 0;                               // the one of k_ whose steps ask
  Body later_requests_;                                // of a block, for lines of later ones
  bool by_block_ = false;                              // blocks ask instead
  std::vector<bool> by_stream_;                        // per read, whether steps of the innermost reduction ask for it
                                                       // all the same
  const Storage& storage_;
  const Surroundings& around_;
  Names& names_;
  Ranges points_;
  int m_ = -1, n_ = -1;
  std::vector<std::size_t> outer_, k_;
  DType type_, target_type_;
  bool scaled_ = false;                                // the fold is a product of floats: `product_`
  Scaled product_;
  bool flag_ = false;                                  // `hit_` remembers whether one was met
  Tile tile_;
  std::optional<Expr> steady_guard_;                   // a guarded tile's mask, when it was computed outside the
                                                       // innermost loop
  std::optional<Expr> later_;                          // this is not the first part of a reduction folded in parts
  bool cleared_ = false;                               // blocks hold the identity: values of `taps` will add to it
  std::size_t taps_around_ = 0;                        // of k_, the first ones whose values are loops around the blocks
  std::size_t folded_from_ = 0;                        // position in k_ of the first reduction inside the blocks
  std::map<std::tuple<const void*, std::int64_t, std::int64_t>, Expr> hoisted_;  // of a step, computed before its loop
  std::vector<Expr> inside_;                           // of each row of a tile at the border, whether it has a point in
                                                       // this step
  std::vector<std::pair<Expr, Expr>> edges_;           // what its steps have in common, and what holds it
  bool whole_mask_ = false;                            // the fold stands inside one mask already
  Step step_{Expr(std::int64_t{0}), std::nullopt, {}, {}};
  std::string lane_, acc_, hit_;
  std::vector<std::string> views_;
};

}  // namespace

std::string Names::fresh(const std::string& stem) {
  for (int& n = count_[stem];; ) {
    std::string name = n == 0 ? stem : fmt::format("{}_{}", stem, n);
    ++n;
    if (taken_.insert(name).second) return name;
  }
}

Body serial(
    Names& names, const std::string& stem, const Interval& range, const std::function<Body(const Expr&)>& inside) {
  const auto counted = [&](const Expr& count, const Expr& lo) {
    const std::string index = names.fresh(stem);
    return stmt(For{index, Kind::Serial, count, {}, inside(lo + var(index))});
  };
  const Expr count = range.hi - range.lo;
  if (is_const(count)) {
    const std::int64_t c = const_or(count, 0);
    if (c <= 0) return {};
    return c == 1 ? inside(range.lo) : Body{counted(count, range.lo)};
  }
  const std::string lo = names.fresh(stem + "_lo"), turns = names.fresh(stem + "_n");
  Body body{stmt(Let{lo, range.lo}), stmt(Let{turns, range.hi - var(lo)})};
  Stmt loop = counted(var(turns), var(lo));
  body.push_back(stmt(If{less(Expr(std::int64_t{0}), var(turns)), {std::move(loop)}, {}}));
  return body;
}

Body spell_leaf(
    const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names) {
  return Leaf(nest, leaf, storage, around, names).spell();
}

}  // namespace tilec::codegen
