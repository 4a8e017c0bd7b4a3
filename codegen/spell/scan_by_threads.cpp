#include "codegen/spell/scan_by_threads.h"

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

  // A round is `rows` values to each thread.
  Body rounds(const ScanParts& p) {
    Body body;
    const std::int64_t each = s_.leaf.rows;
    const Expr end = s_.named(body, "end", clamped(p.full + i64(s_.scan.c), p.k)),
               first = s_.named(body, "first", p.first + i64(s_.scan.c));
    append(body,
        serial(s_.names, s_.nest.dims[s_.over].name + "_b", {i64(0), ceil_divide(end - p.k.lo, each * s_.leaf.lanes)},
            [&](const Expr& turn) {
              Body round;
              const Expr k = s_.named(round, "k", p.k.lo + (turn * i64(s_.leaf.lanes) + var(thread_)) * i64(each));
              const std::vector<Expr> sums = own_sums(round, k, end);
              const auto [before, all] = totals(round, sums.back());
              for (std::int64_t u = 0; u < each; ++u) {
                const Expr at = k + i64(u),
                           sum = combine(s_.nest.aggregation, before, sums[static_cast<std::size_t>(u)]);
                round.push_back(stmt(If{both(at_least(at, first), less(at, end)),
                    {store_at(at - i64(s_.scan.c), s_.stored_value(sum))}, {}}));
              }
              round.push_back(stmt(Store{s_.acc, i64(0), combine(s_.nest.aggregation, s_.accumulator(0), all)}));
              round.push_back(stmt(Barrier{}));
              return round;
            }));
    return body;
  }

  std::vector<Expr> own_sums(Body& round, const Expr& k, const Expr& end) {
    const std::string x = s_.names.fresh("x");
    round.push_back(stmt(Allocate{x, s_.fold_type, s_.leaf.rows, Memory::Register}));
    s_.points.fix(s_.over, k);
    std::vector<Expr> sums;
    for (std::int64_t u = 0; u < s_.leaf.rows; ++u) {
      round.push_back(stmt(Store{x, i64(u), identity(s_.nest.aggregation, s_.fold_type)}));
      Body there;
      s_.values.clear();
      if (u == 0) s_.views_of_reads(round);
      const Expr value_here = convert(s_.value(there, *s_.nest.value, 0, u), s_.fold_type);
      there.push_back(stmt(Store{x, i64(u), value_here}));
      round.push_back(stmt(If{less(k + i64(u), end), std::move(there), {}}));
      const Expr one = Load{x, i64(u), s_.fold_type};
      sums.push_back(s_.named(round, "s", u == 0 ? one : combine(s_.nest.aggregation, sums.back(), one)));
    }
    s_.points.release(s_.over);
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
