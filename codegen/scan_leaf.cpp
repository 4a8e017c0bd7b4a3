// Phases of one scan, after both dimensions are counted so that partial results grow (scan.h):
//
//   Y[j] = +(X[k]), k <= j + 2       X has 10 elements, Y has 12
//     fill    elements that no value reaches            none here; of k < j the first
//     head    values before the first element's last    k in [0, 2)
//     main    one more value for each element           j in [0, 8), k = j + 2
//     tail    elements that the last value reaches      j in [8, 12)
//
// Additions wait for each other four cycles. So main adds up the values of a step among themselves first, which needs
// nothing from the step before, and then adds what came before to each: x0, x0 + x1, x0 + x1 + x2, …, one dependent
// addition a step.
//
// A block of threads does the same with a step of `rows` values to each thread (spell/scan_by_threads.h).
#include "codegen/scan_leaf.h"

#include <functional>
#include <utility>

#include "codegen/scalar.h"
#include "codegen/spell/all_but_one.h"
#include "codegen/spell/decaying_scan.h"
#include "codegen/spell/scan_by_threads.h"
#include "codegen/spell/scan_tile.h"

namespace tilec::codegen {

namespace {

class ScanLeaf {
 public:
  ScanLeaf(const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names)
      : s_(nest, leaf, storage, around, names) {}

  Body spell() {
    if (s_.nest.empty()) return {};                    // a Fill stands before it
    const std::optional<Expr> condition = s_.points.fixed_rows();
    Body body = outer(0);
    if (!condition || body.empty()) return body;
    return {stmt(If{*condition, std::move(body), {}})};
  }

 private:
  Body outer(std::size_t level) {
    if (level == s_.leaf.outer.size())
      return s_.n                                  ? tiles(s_.points.bounds(*s_.n))
          : s_.around.threads && s_.leaf.lanes > 1 ? scan_by_threads(s_)
                                                   : scalar();
    const std::size_t d = *s_.nest.dim(s_.leaf.outer[level]);
    return serial(s_.names, s_.nest.dims[d].name, s_.points.bounds(d), [&](const Expr& value) {
      s_.points.fix(d, value);
      Body body = outer(level + 1);
      s_.points.release(d);
      return body;
    });
  }

  Body scalar() {
    s_.vectors = 1;
    return all();
  }

  Body all() {
    if (s_.scan.all_but_one) return all_but_one(s_);
    if (s_.scan.decays) return decaying_scan(s_);
    name_accumulators();
    return s_.registers(phases());
  }

  // Full tiles of n, then one vector at a time, the last one masked.
  Body tiles(const Interval& range) {
    const std::int64_t width = s_.leaf.lanes * s_.leaf.vectors;
    Body body;
    const Expr lo = s_.named(body, "lo", range.lo), count = s_.named(body, "n", range.hi - lo),
               full = s_.named(body, "full", floor_divide(count, width));
    append(body, serial(s_.names, s_.nest.dims[*s_.n].name + "_v", {i64(0), full}, [&](const Expr& turn) {
      return tile(lo + turn * i64(width), s_.leaf.vectors, std::nullopt);
    }));
    const Expr rest = s_.named(body, "rest", lo + full * i64(width)),
               left = s_.named(body, "left", count - full * i64(width));
    append(body,
        serial(s_.names, s_.nest.dims[*s_.n].name + "_v", {i64(0), ceil_divide(left, s_.leaf.lanes)},
            [&](const Expr& turn) {
              const Expr first = turn * i64(s_.leaf.lanes);
              const bool whole = is_const(left) && const_or(left, 0) % s_.leaf.lanes == 0;
              return tile(rest + first, 1, whole ? std::optional<Expr>() : std::optional<Expr>(left - first));
            }));
    return body;
  }

  Body tile(const Expr& first, std::int64_t vectors, const std::optional<Expr>& valid) {
    s_.vectors = vectors;
    s_.n0 = first;
    s_.lane_name = s_.leaf.lanes > 1 ? s_.names.fresh("l") : "";
    Body before;
    if (valid) {
      s_.mask = Variable{s_.names.fresh("inside"), DType::Bool};
      before.push_back(stmt(Let{s_.mask->as<Variable>()->name, less(s_.lane(), *valid)}));
    }
    append(before, all());
    s_.mask.reset();
    if (s_.lane_name.empty()) return before;
    Stmt loop = stmt(For{s_.lane_name, Kind::Vector, i64(s_.leaf.lanes), {}, std::move(before)});
    s_.lane_name.clear();
    return {std::move(loop)};
  }

  void name_accumulators() {
    s_.acc = s_.names.fresh("acc");
    if (s_.scaled) s_.product = {s_.acc, s_.names.fresh("exponent")};
  }

  Body phases() {
    Body body;
    const ScanParts p = s_.parts(body);
    const Expr some = less(p.k.lo, p.k.hi);
    const bool known = is_const(some), none = known && !some.as<Constant>()->integer;
    if (none) {
      append(body, s_.fill(p.j));
      return body;
    }
    Body inside = s_.fill({p.j.lo, p.first});
    append(inside, fold({p.k.lo, s_.end_at(p.first - i64(1), p)}));
    append(inside, s_.scan.steady() ? steps(p) : strides(p));
    if (known) append(body, std::move(inside));
    else body.push_back(stmt(If{some, std::move(inside), s_.fill(p.j)}));
    return body;
  }

  // Main and tail.
  Body steps(const ScanParts& p) {
    Body body;
    Expr from = p.first;
    if (s_.knows_start(*s_.nest.value)) {              // the first value apart: from there on the start is behind
      const Expr second = s_.named(body, "second", minimum(p.first + i64(1), p.full));
      append(body, chunks({from, second}, 1));
      from = second;
      s_.started = true;
    }
    append(body, chunks({from, p.full}, s_.leaf.rows));
    s_.started = false;
    append(body, tail(p));
    return body;
  }

  Body tail(const ScanParts& p) {
    return s_.each_element(
        {p.full, p.j.hi}, [&](Body& body, std::int64_t v) { return s_.stored_value(s_.folded(body, v)); });
  }

  Body chunks(const Interval& j, std::int64_t unroll) {
    Body body;
    const Expr count = j.hi - j.lo, turns = s_.named(body, "turns", floor_divide(count, unroll)),
               done = turns * i64(unroll);
    append(body, moving(j.lo, j.lo + i64(s_.scan.c), turns, unroll, unroll));
    if (unroll > 1)
      append(body, moving(j.lo + done, j.lo + done + i64(s_.scan.c), s_.named(body, "rest", count - done), 1, 1));
    return body;
  }

  // Elements that take any number of values more than the one before.
  Body strides(const ScanParts& p) {
    Body body = serial(s_.names, s_.nest.dims[s_.along].name, {p.first, p.full}, [&](const Expr& j) {
      Body turn;
      const Expr from = s_.named(turn, "from", s_.end_at(j - i64(1), p));
      append(turn, fold({from, s_.end_at(j, p)}));
      s_.points.fix(s_.along, j);
      s_.view_of_target(turn);
      s_.points.release(s_.along);
      for (std::int64_t v = 0; v < s_.vectors; ++v) s_.put(turn, v, 0, s_.stored_value(s_.folded(turn, v)));
      return turn;
    });
    const Expr left = less(p.full, p.j.hi);            // the last step may have skipped values
    if (is_const(left) && !left.as<Constant>()->integer) return body;
    Body after = fold({s_.end_at(p.full - i64(1), p), p.k.hi});
    append(after, tail(p));
    if (is_const(left)) append(body, std::move(after));
    else body.push_back(stmt(If{left, std::move(after), {}}));
    return body;
  }

  // Values that no element stops at.
  Body fold(const Interval& k) {
    Body body;
    const Expr turns = s_.named(body, "turns", k.hi - k.lo);
    if (is_const(turns) && const_or(turns, 0) <= 0) return {};
    s_.points.fix(s_.over, k.lo);
    s_.views_of_reads(body);
    append(body, s_.loop(s_.nest.dims[s_.over].name, turns, s_.advance(1, true, false), [&](const Expr& index) {
      s_.points.fix(s_.over, k.lo + index);
      Body turn;
      for (std::int64_t v = 0; v < s_.vectors; ++v) step(turn, v, 1, false);
      return turn;
    }));
    s_.points.release(s_.over);
    return body;
  }

  // `turns` steps of `unroll` elements from j, whose last value is k.
  Body moving(const Expr& j, const Expr& k, const Expr& turns, std::int64_t unroll, std::int64_t stride) {
    if (is_const(turns) && const_or(turns, 0) <= 0) return {};
    Body body;
    s_.points.fix(s_.along, j);
    s_.view_of_target(body);
    s_.points.release(s_.along);
    s_.points.fix(s_.over, k);
    s_.views_of_reads(body);
    append(body, s_.loop(s_.nest.dims[s_.along].name, turns, s_.advance(stride, true, true), [&](const Expr& index) {
      s_.points.fix(s_.over, k + index * i64(stride));
      Body turn;
      for (std::int64_t v = 0; v < s_.vectors; ++v) step(turn, v, unroll, true);
      return turn;
    }));
    s_.points.release(s_.over);
    return body;
  }

  // `count` values folded, each into an element of its own if `stores`.
  void step(Body& body, std::int64_t v, std::int64_t count, bool stores) {
    Body inside;
    if (s_.scaled) {
      const std::optional<Expr> all = s_.mask;
      if (s_.masked(v)) s_.mask.reset();
      for (std::int64_t u = 0; u < count; ++u) {
        s_.values.clear();
        multiply(inside, s_.names, s_.product, v, convert(s_.value(inside, *s_.nest.value, v, u), s_.fold_type));
        if (stores) s_.put(inside, v, u, s_.stored_value(s_.folded(inside, v)));
      }
      s_.mask = all;
      return s_.masked(v) ? body.push_back(stmt(If{*s_.mask, std::move(inside), {}})) : append(body, std::move(inside));
    }
    std::vector<Expr> sums;
    for (std::int64_t u = 0; u < count; ++u) {
      s_.values.clear();
      const Expr x = convert(s_.value(inside, *s_.nest.value, v, u), s_.fold_type);
      sums.push_back(s_.named(inside, "s", u == 0 ? x : combine(s_.nest.aggregation, sums.back(), x)));
    }
    const Expr before = count > 1 ? s_.named(inside, "before", s_.accumulator(v)) : s_.accumulator(v);
    const std::optional<Expr> all = s_.mask;
    if (s_.masked(v)) s_.mask.reset();                 // the whole step stands inside the mask
    for (std::int64_t u = 0; u < count; ++u) {
      const Expr sum = combine(s_.nest.aggregation, before, sums[static_cast<std::size_t>(u)]);
      if (u + 1 < count) {
        s_.put(inside, v, u, s_.stored_value(sum));
        continue;
      }
      inside.push_back(stmt(Store{s_.acc, i64(v), sum}));
      if (stores) s_.put(inside, v, u, s_.stored_value(s_.accumulator(v)));
    }
    s_.mask = all;
    if (s_.masked(v)) body.push_back(stmt(If{*s_.mask, std::move(inside), {}}));
    else append(body, std::move(inside));
  }

  ScanTile s_;
};

}  // namespace

Body spell_scan(
    const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names) {
  return ScanLeaf(nest, leaf, storage, around, names).spell();
}

}  // namespace tilec::codegen
