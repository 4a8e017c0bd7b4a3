#include "codegen/spell/scan_by_threads.h"

#include <functional>
#include <utility>

#include "codegen/scalar.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

class ScanByThreads {
 public:
  explicit ScanByThreads(ScanTile& tile) : s_(tile) {}

  Body spell() {
    if (!s_.scan.steady())
      throw lang::InternalError(
          "the plan gives threads parts of a scan whose elements take different numbers of values");
    if (s_.scaled) throw lang::InternalError("the plan gives threads parts of a running product");
    s_.vectors = 1;
    thread_ = s_.names.fresh("l");
    s_.acc = s_.names.fresh("acc");
    shared_ = s_.names.fresh("totals");
    Body inside;
    const ScanParts p = s_.parts(inside);
    Body reached =
        spread({p.j.lo, p.first}, s_.nest.fill ? std::optional<Expr>(constant_of(*s_.nest.fill)) : std::nullopt);
    append(reached, rounds(p));
    append(reached, spread({p.full, p.j.hi}, s_.stored_value(s_.accumulator(0))));
    const Expr some = less(p.k.lo, p.k.hi);
    if (is_const(some))
      append(inside,
          some.as<Constant>()->integer
              ? std::move(reached)
              : spread(p.j, s_.nest.fill ? std::optional<Expr>(constant_of(*s_.nest.fill)) : std::nullopt));
    else
      inside.push_back(stmt(If{some, std::move(reached),
          spread(p.j, s_.nest.fill ? std::optional<Expr>(constant_of(*s_.nest.fill)) : std::nullopt)}));
    return {stmt(Allocate{shared_, s_.fold_type, 2 * s_.leaf.lanes, Memory::Shared}),
        stmt(For{thread_, Kind::Thread, i64(s_.leaf.lanes), {}, s_.registers(std::move(inside))})};
  }

 private:
  // One value for all elements of a range, a thread each.
  Body spread(const Interval& range, const std::optional<Expr>& value) {
    if (!value) return {};
    return serial(s_.names, s_.nest.dims[s_.along].name, {i64(0), ceil_divide(range.hi - range.lo, s_.leaf.lanes)},
        [&](const Expr& turn) {
          const std::string j = s_.names.fresh("j");
          Body body{stmt(Let{j, range.lo + turn * i64(s_.leaf.lanes) + var(thread_)})};
          body.push_back(stmt(If{less(var(j), range.hi), {store_at(var(j), *value)}, {}}));
          return body;
        });
  }

  Stmt store_at(const Expr& j, const Expr& value) {
    s_.points.fix(s_.along, j);
    Stmt store = stmt(Store{s_.storage.name(s_.nest.target.tensor), s_.corner(target_access, s_.nest.target.offset),
        convert(value, s_.target_type)});
    s_.points.release(s_.along);
    return store;
  }

  // How many values of a thread are one access, where memory begins at a multiple of it.
  std::int64_t width_of(std::size_t number, const FlatAccess& access, std::size_t d, const Expr& begin) const {
    if (s_.around.base.contains(number) || !is_const(begin)) return 1;
    std::int64_t width = neighbours_of(s_.storage, access, d, s_.leaf.rows);
    while (const_or(begin, 0) % width) width /= 2;
    return width;
  }

  // Accesses that are wide where memory is aligned.
  struct Wide {
    Alignments bytes = {};
    std::optional<Expr> aligned = {};
  };
  void widen(Body& body, Wide& wide, std::size_t number, const FlatAccess& access, std::size_t d, const Expr& begin) {
    const std::int64_t width = width_of(number, access, d, begin);
    if (width == 1) return;
    wide.bytes[number] = width * lang::bytes(s_.storage.plan.program.tensor(access.tensor).dtype);
    const Expr one = aligned(s_.storage, s_.names, body, access.tensor, width);
    wide.aligned = wide.aligned ? both(*wide.aligned, one) : one;
  }

  // `part` with wide accesses where `whole` says that there is all of them; else one by one.
  static Body widely(
      const Wide& wide, const Expr& whole, const std::function<Body(const Alignments&, bool is_whole)>& part) {
    if (!wide.aligned) return part({}, false);
    Alignments apart = wide.bytes;
    for (auto& [number, bytes] : apart) bytes = 1;
    return {stmt(If{both(*wide.aligned, whole), part(wide.bytes, true), part(apart, false)})};
  }

  // A round is `rows` values to each thread.
  Body rounds(const ScanParts& p) {
    Body body;
    const std::int64_t each = s_.leaf.rows;
    const Expr end = s_.named(body, "end", clamped(p.full + i64(s_.scan.c), p.k)),
               first = s_.named(body, "first", p.first + i64(s_.scan.c));
    Wide reads, target;
    for (std::size_t r = 0; r < s_.nest.reads.size(); ++r)
      widen(body, reads, r, s_.nest.reads[r], s_.over, p.k.lo);
    widen(body, target, target_access, s_.nest.target, s_.along, p.k.lo - i64(s_.scan.c));
    append(body,
        serial(s_.names, s_.nest.dims[s_.over].name + "_b", {i64(0), ceil_divide(end - p.k.lo, each * s_.leaf.lanes)},
            [&](const Expr& turn) {
              Body round;
              const Expr k = s_.named(round, "k", p.k.lo + (turn * i64(s_.leaf.lanes) + var(thread_)) * i64(each));
              const std::vector<Expr> sums = own_sums(round, reads, k, end);
              const auto [before, all] = totals(round, sums.back());
              const Expr whole = both(at_least(k, first), at_least(end, k + i64(each)));
              append(round, widely(target, whole, [&, &before = before](const Alignments& bytes, bool is_whole) {
                return stores(k, is_whole ? std::nullopt : std::optional(Interval{first, end}), before, sums, bytes);
              }));
              round.push_back(stmt(Store{s_.acc, i64(0), combine(s_.nest.aggregation, s_.accumulator(0), all)}));
              round.push_back(stmt(Barrier{}));
              return round;
            }));
    return body;
  }

  // `range`: of the values that there are, where these are not all.
  Body stores(const Expr& k, const std::optional<Interval>& range, const Expr& before, const std::vector<Expr>& sums,
      const Alignments& bytes) {
    Body body;
    s_.points.fix(s_.along, k - i64(s_.scan.c));
    s_.view_of_target(body, bytes);
    s_.points.release(s_.along);
    for (std::int64_t u = 0; u < s_.leaf.rows; ++u) {
      const Expr sum = combine(s_.nest.aggregation, before, sums[static_cast<std::size_t>(u)]), at = k + i64(u);
      Body store;
      s_.put(store, 0, u, s_.stored_value(sum));
      if (range) store = {stmt(If{both(at_least(at, range->lo), less(at, range->hi)), std::move(store), {}})};
      append(body, std::move(store));
    }
    return body;
  }

  std::vector<Expr> own_sums(Body& round, const Wide& wide, const Expr& k, const Expr& end) {
    const std::string x = s_.names.fresh("x");
    round.push_back(stmt(Allocate{x, s_.fold_type, s_.leaf.rows, Memory::Register}));
    s_.points.fix(s_.over, k);
    append(round, widely(wide, at_least(end, k + i64(s_.leaf.rows)), [&](const Alignments& bytes, bool is_whole) {
      Body body;
      s_.views_of_reads(body, bytes);
      for (std::int64_t u = 0; u < s_.leaf.rows; ++u) {
        Body there;
        s_.values.clear();
        const Expr value_here = convert(s_.value(there, *s_.nest.value, 0, u), s_.fold_type);
        there.push_back(stmt(Store{x, i64(u), value_here}));
        if (!is_whole)
          there = {stmt(Store{x, i64(u), identity(s_.nest.aggregation, s_.fold_type)}),
              stmt(If{less(k + i64(u), end), std::move(there), {}})};
        append(body, std::move(there));
      }
      return body;
    }));
    s_.points.release(s_.over);
    std::vector<Expr> sums;
    for (std::int64_t u = 0; u < s_.leaf.rows; ++u) {
      const Expr one = Load{x, i64(u), s_.fold_type};
      sums.push_back(s_.named(round, "s", u == 0 ? one : combine(s_.nest.aggregation, sums.back(), one)));
    }
    return sums;
  }

  // What all threads before this one, and rounds before this one, make; and what all threads of this round make.
  std::pair<Expr, Expr> totals(Body& round, const Expr& own) {
    const std::int64_t T = s_.leaf.lanes;
    const Expr thread = var(thread_);
    round.push_back(stmt(Store{shared_, thread, own}));
    round.push_back(stmt(Barrier{}));
    std::int64_t from = 0;
    const auto at = [&](const Expr& t) { return Expr(Load{shared_, i64(from) + t, s_.fold_type}); };
    const auto select = [&](std::int64_t distance, const Expr& there, const Expr& otherwise) {
      const std::string r = s_.names.fresh("r");
      round.push_back(stmt(Allocate{r, s_.fold_type, 1, Memory::Register}));
      round.push_back(stmt(Store{r, i64(0), otherwise}));
      round.push_back(stmt(If{at_least(thread, i64(distance)), {stmt(Store{r, i64(0), there})}, {}}));
      return Expr(Load{r, i64(0), s_.fold_type});
    };
    for (std::int64_t distance = 1; distance < T; distance *= 2) {
      const Expr sum =
          select(distance, combine(s_.nest.aggregation, at(thread - i64(distance)), at(thread)), at(thread));
      from = T - from;
      round.push_back(stmt(Store{shared_, i64(from) + thread, sum}));
      round.push_back(stmt(Barrier{}));
    }
    const Expr before = s_.named(round, "before",
        combine(s_.nest.aggregation, s_.accumulator(0),
            select(1, at(thread - i64(1)), identity(s_.nest.aggregation, s_.fold_type))));
    return {before, s_.named(round, "all", at(i64(T - 1)))};
  }

  ScanTile& s_;
  std::string thread_, shared_;
};

}  // namespace

Body scan_by_threads(ScanTile& tile) { return ScanByThreads(tile).spell(); }

}  // namespace tilec::codegen
