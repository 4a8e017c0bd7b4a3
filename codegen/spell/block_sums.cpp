#include "codegen/spell/block_sums.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "codegen/spell/asked.h"
#include "codegen/spell/block_stores.h"
#include "codegen/spell/few_steps.h"
#include "codegen/spell/side_by_side.h"
#include "codegen/spell/sliding_loads.h"
#include "codegen/spell/wide_steps.h"

namespace tilec::codegen {

namespace {

// Whether registers hold what steps of d that stand side by side have in common, beside the accumulators and what a
// step loads: rows of a window read elements again that the step before read, which then stay in registers of their
// own.
bool holds_steps(const BlockPlace& at, std::size_t d) {
  const SpelledLeaf& l = at.leaf;
  std::int64_t held = at.tile.rows * at.tile.vectors, shared = 0;
  for (const FlatAccess& read : l.nest.reads) {
    if (at.in_n(read.offset)) {
      held += at.in_m(read.offset) ? 2 : at.tile.vectors;
      continue;
    }
    if (!at.in_m(read.offset)) continue;
    const std::int64_t row = std::abs(read.offset.coefficients[static_cast<std::size_t>(l.m)]),
                       moved = std::abs(read.offset.coefficients[d]);
    if (row && moved && moved % row == 0) shared += std::max<std::int64_t>(0, at.tile.rows - moved / row);
  }
  return shared == 0 || held + shared < l.storage.registers;
}

bool is_same(const Expr& a, const Expr& b) {
  return is_const(a) && is_const(b) && const_or(a, 0) == const_or(b, 0);
}

// A mask that stays the same while d runs stands outside the loop: nothing hoists it later.
std::optional<Expr> steady_mask(SpelledLeaf& l, Body& body, const BlockPlace& at, std::size_t d) {
  const bool steady = std::ranges::none_of(l.nest.rows, [&](const Row& row) {
    return l.n >= 0 && row.form.coefficients[static_cast<std::size_t>(l.n)] && row.form.coefficients[d];
  });
  const std::optional<Expr> mask = at.tile.guarded && steady ? at.guard() : std::nullopt;
  if (!mask) return std::nullopt;
  const std::string name = l.names.fresh("inside");
  body.push_back(stmt(Let{name, *mask}));
  return Variable{name, DType::Bool};
}

// The fold of a step stands inside the tile's guard.
StepValues values_of(const BlockPlace& at, const Views& views, const KnownValues& known,
    std::optional<std::size_t> unrolled = {}, const Expr& u = Expr(std::int64_t{0})) {
  BlockPlace inside = at;
  inside.in_mask = at.tile.guarded;
  return {std::move(inside), views, known, unrolled, u};
}

// Whether rows of the domain bound d by m, and all else is known.
bool bounds_rows(const SpelledLeaf& l, std::size_t d) {
  return std::ranges::any_of(l.nest.rows, [&](const Row& row) {
    if (!l.moves_along_rows(row.form) || !row.form.coefficients[d]) return false;
    for (std::size_t k = 0; k < l.nest.dims.size(); ++k)
      if (!l.is_of_rows(k) && k != d && row.form.coefficients[k] && !l.points.at(k)) return false;
    return true;
  });
}

class BlockSums {
 public:
  BlockSums(SpelledLeaf& leaf, const BlockRequests& requests, const Accumulators& sums, const KnownValues& common)
      : l_(leaf), requests_(requests), sums_(sums), common_(common) {}

  // The reductions of k from `level` on. `later` gets requests that stand among the stores.
  Body reduce(const BlockPlace& at, std::size_t level, Body& later) {
    if (level == 0 && !few_ && has_few_steps(at))
      return spell_few_steps(
          at, [&](const BlockPlace& of, StepsOfRows rows) { return steps_of(of, std::move(rows), later); });
    if (level < l_.k.size() && at.tile.staggered && at.tile.blocked_m && few_ != l_.k[level] &&
        bounds_rows(l_, l_.k[level]))
      return staggered(at, level, later);
    return reduce_all(at, level, later);
  }

 private:
  Body steps_of(const BlockPlace& at, StepsOfRows present, Body& later) {
    few_ = l_.k.back();
    present_ = std::move(present);
    Body body = reduce(at, 0, later);
    few_.reset();
    present_.clear();
    return body;
  }
  bool has(std::int64_t row, std::int64_t step) const {
    return present_.empty() || present_[static_cast<std::size_t>(row)][static_cast<std::size_t>(step)];
  }

  // Steps that every row of the block has, and before and behind them steps under a mask for each row.
  Body staggered(const BlockPlace& at, std::size_t level, Body& later) {
    const std::size_t d = l_.k[level];
    const std::string& stem = l_.nest.dims[d].name;
    Body body;
    const OwnRanges own = own_ranges(body, at, d);
    const Expr first = named(l_.names, body, stem + "_in", minimum(own.any.hi, own.all.lo)),
               last = named(l_.names, body, stem + "_out", maximum(first, minimum(own.any.hi, own.all.hi)));
    const auto steps = [&](const Interval& range, bool masked) {
      BlockPlace here = at;
      here.tile.border = at.tile.border || masked;
      append(body, l_.within(d, range, [&] { return reduce_all(here, level, later); }));
    };
    if (!is_same(own.any.lo, own.all.lo)) steps({own.any.lo, first}, true);
    steps({first, last}, false);
    if (!is_same(own.any.hi, own.all.hi)) steps({last, own.any.hi}, true);
    return body;
  }

  Body reduce_all(const BlockPlace& at, std::size_t level, Body& later) {
    return asked(at, [&] { return reduce_asked(at, level, later); });
  }
  Body reduce_asked(const BlockPlace& at, std::size_t level, Body& later) {
    if (level >= l_.k.size()) return one_step(at, later);
    const std::size_t d = l_.k[level];
    if (is_told(at, d)) return told_loop(at, d, [&] { return reduce(at, level + 1, later); });
    if (const auto steps = plain_ ? std::nullopt : side_by_side(at, level))
      return spell_side_by_side(at, *steps, sums_, [&] { return plainly(at, level, later); });
    if (auto sliding = sliding_steps(at, level, later)) return *std::move(sliding);
    if (level + 1 == l_.k.size()) return innermost(at, d);
    return l_.loop(d, l_.points.bounds(d), [&] {
      Body body = requests_.outside(at, level);
      append(body, reduce(at, level + 1, later));
      return body;
    });
  }

  // Turns of as many steps as a window is long, where its taps are rows; each step goes through the few steps inside.
  std::optional<Body> sliding_steps(const BlockPlace& at, std::size_t level, Body& later) {
    const std::size_t d = l_.k[level];
    const bool last = level + 1 == l_.k.size(), around = level + 2 == l_.k.size() && few_ == l_.k.back();
    if (l_.outside.empty() || plain_ || l_.flag || !(last ? present_.empty() : around)) return std::nullopt;
    const Inside inside = last ? Inside{} : Inside{l_.k.back(), l_.points.bounds(l_.k.back())};
    auto slides = SlidingLoads::of(
        at, d, inside, [&](std::int64_t row, std::int64_t step) { return has(row, step); });
    if (!slides) return std::nullopt;
    return spell_sliding(
        at, *std::move(slides),
        [&](const Views& views, const LoadedValues& loaded, std::int64_t v) {
          EdgeValues edges;
          StepValues values = values_of(at, views, {}, inside.dim, Expr(v));
          values.use(loaded);
          return step(std::move(values), edges, std::nullopt, v);
        },
        [&] { return plainly(at, level, later); });
  }

  Body plainly(const BlockPlace& at, std::size_t level, Body& later) {
    plain_ = true;
    Body body = reduce_asked(at, level, later);
    plain_ = false;
    return body;
  }

  Body one_step(const BlockPlace& at, Body& later) {
    Body body;
    const Views views = views_of(body, at);
    if (l_.answers.empty()) append(later, requests_.by_block(at, views));  // outside of the question
    EdgeValues edges;
    append(body, step(values_of(at, views, common_), edges));
    return body;
  }

  // The innermost reduction: one view per read, moved along.
  Body innermost(const BlockPlace& at, std::size_t d) {
    const Interval range = l_.points.bounds(d);
    const Expr count = range.hi - range.lo;
    const std::int64_t known = const_or(count, 0);
    if (is_const(count) && known <= 0) return {};
    const bool few = few_ == d ||
        (known * at.tile.rows * at.tile.vectors <= model::blocks::unrolled_block && holds_steps(at, d));
    const std::int64_t most = few_ == d ? model::threads::most_side_by_side : model::blocks::unrolled_steps;
    if (!is_const(count) || known > most || !few || is_asked_by(at, d))
      return looped_steps(at, d, range);
    if (at.tile.border || !present_.empty())
      return l_.with(d, range.lo, [&] { return border_steps(at, d, range.lo, known); });
    return unrolled_steps(at, d, range);
  }

  // Few steps side by side.
  Body unrolled_steps(const BlockPlace& at, std::size_t d, const Interval& range) {
    const std::string u = l_.names.fresh(l_.nest.dims[d].name);
    return l_.with(d, range.lo, [&] {
      Body body;
      const Views views = views_of(body, at);
      Body one = l_.with(d, range.lo + var(u), [&] {
        EdgeValues edges;
        return step(values_of(at, views, {}, d, var(u)), edges);
      });
      append(one, requests_.by_step(at, views, d, var(u), var(u)));
      body.push_back(stmt(For{u, Kind::Unroll, range.hi - range.lo, {}, std::move(one)}));
      return body;
    });
  }

  // Few steps of a window one by one: what a row reads in one, another row has read in the step before.
  Body border_steps(const BlockPlace& at, std::size_t d, const Expr& first, std::int64_t count) {
    Body body;
    const Views views = views_of(body, at);
    EdgeValues edges;
    for (std::int64_t u = 0; u < count; ++u) {
      if (at.tile.guarded) edges.clear();              // what is under the guard of a step ends with it
      append(body, l_.with(d, first + Expr(u), [&] {
        return step(values_of(at, views, {}, d, Expr(u)), edges, std::nullopt, u);
      }));
    }
    return body;
  }

  // Several steps at once where they read neighbours, then those that are left.
  Body looped_steps(const BlockPlace& at, std::size_t d, const Interval& range) {
    const std::int64_t count = const_or(range.hi - range.lo, 0);
    const auto wide = wide_steps(at, d, range.lo, count);
    if (!wide) return moving_steps(at, d, range);
    Body body;
    const Expr may = may_be_wide(body, at, *wide), end = range.lo + Expr(count / wide->steps * wide->steps);
    Body widely = steps_at_once(at, d, {range.lo, end}, *wide);
    if (count % wide->steps) append(widely, moving_steps(at, d, {end, range.hi}));
    body.push_back(stmt(If{may, std::move(widely), moving_steps(at, d, range)}));
    return body;
  }

  Body steps_at_once(const BlockPlace& at, std::size_t d, const Interval& range, const WideSteps& wide) {
    const std::string index = l_.names.fresh(l_.nest.dims[d].name + "_w");
    return l_.with(d, range.lo, [&] {
      Body same;
      const Views views = views_of(same, at);
      const KnownValues before = hoisted(same, at, views, d);
      Body inner;
      const std::vector<KnownValues> known = read_widely(inner, at, views, before, wide);
      for (std::int64_t u = 0; u < wide.steps; ++u)
        append(inner, l_.with(d, range.lo + var(index) * Expr(wide.steps) + Expr(u), [&] {
          EdgeValues edges;
          return step(values_of(at, views, known[static_cast<std::size_t>(u)], d, Expr(u)), edges);
        }));
      const Expr turns((const_or(range.hi, 0) - const_or(range.lo, 0)) / wide.steps);
      same.push_back(stmt(For{index, Kind::Serial, turns, advance(at, views, d, wide.steps), std::move(inner)}));
      return same;
    });
  }

  // A loop whose views move along.
  Body moving_steps(const BlockPlace& at, std::size_t d, const Interval& range) {
    const std::string& stem = l_.nest.dims[d].name;
    const std::string lo = l_.names.fresh(stem + "_lo"), turns = l_.names.fresh(stem + "_n");
    Body body;
    Expr first = range.lo, count = range.hi - range.lo;
    const bool known = is_const(count);
    if (!known) {
      body.push_back(stmt(Let{lo, range.lo}));
      body.push_back(stmt(Let{turns, range.hi - var(lo)}));
      first = var(lo);
      count = var(turns);
    }
    const std::optional<Expr> mask = steady_mask(l_, body, at, d);
    Body loop = l_.with(d, first, [&] {
      Body same;
      const Views views = views_of(same, at);
      const KnownValues before = hoisted(same, at, views, d);
      const std::string index = l_.names.fresh(stem);
      Body inner = l_.with(d, first + var(index), [&] {
        return asked(
            at,
            [&] {
              EdgeValues edges;
              return step(values_of(at, views, before), edges, mask);
            },
            KnownStep{views, before});
      });
      append(inner, requests_.by_step(at, views, d, Expr(std::int64_t{0}), var(index)));
      same.push_back(stmt(For{index, Kind::Serial, count, advance(at, views, d), std::move(inner)}));
      return same;
    });
    if (!known) body.push_back(stmt(If{less(Expr(std::int64_t{0}), count), std::move(loop), {}}));
    else append(body, std::move(loop));
    return body;
  }

  // One step of the fold for all accumulators. `mask`: the tile's guard where it was computed before.
  // `u`: which of few steps side by side.
  Body step(StepValues values, EdgeValues& edges, std::optional<Expr> mask = {}, std::int64_t u = 0) {
    const BlockPlace& at = values.at();
    Body body;
    if (at.tile.border) values.ask_rows(body, edges);
    for (std::int64_t i = 0; i < at.tile.rows; ++i) {
      if (!has(i, u)) continue;
      Body of_border;
      for (std::int64_t v = 0; v < at.tile.vectors; ++v)
        values.fold(body, at.tile.border ? of_border : body, sums_, i, v);
      if (at.tile.border) append(body, values.of_row(i, std::move(of_border)));
    }
    if (l_.flag) body.push_back(sums_.met());
    if (!mask && at.tile.guarded) mask = at.guard();
    return mask ? Body{stmt(If{*mask, std::move(body), {}})} : body;
  }

  SpelledLeaf& l_;
  std::optional<std::size_t> few_ = std::nullopt;      // a reduction of few steps, of which it is known which ones
                                                       // rows have, or they are asked
  StepsOfRows present_ = {};                           // those; empty: all
  bool plain_ = false;                                 // steps load what they read
  const BlockRequests& requests_;
  const Accumulators& sums_;
  const KnownValues& common_;
};

}  // namespace

Body spell_block(SpelledLeaf& l, const BlockRequests& requests, const BlockTile& tile, const PartOfSum& part,
    const KnownValues& common) {
  const bool lanes = tile.blocked_n && l.compute.lanes > 1;
  const BlockPlace at{l, tile, lanes ? l.names.fresh("l") : ""};
  Body body, later;
  const Accumulators sums = begin_sums(body, l, tile.rows, tile.vectors);
  if (!part.cleared) {
    append(body, requests.claimed(at, later));
    append(body, requests.before_block(at, part.folded_from));
    append(body, BlockSums(l, requests, sums, common).reduce(at, part.folded_from, later));
  }
  append(body, spell_stores(at, sums, part, std::move(later)));
  if (!lanes) return body;
  return {stmt(For{at.lane_name, l.lane_kind(), Expr(l.compute.lanes), {}, std::move(body)})};
}

}  // namespace tilec::codegen
