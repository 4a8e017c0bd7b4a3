#include "codegen/spell/sums_over_lanes.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/product.h"
#include "codegen/requests.h"
#include "codegen/scalar.h"
#include "codegen/spell/asked.h"
#include "codegen/spell/step_values.h"

namespace tilec::codegen {

namespace {

// Turns that one accumulator takes. The roundings of a longer sum add up: of 0.1, ten million times, they were 2e-5 of
// it.
constexpr std::int64_t turns_of_part = 64;

class SumsOverLanes {
 public:
  SumsOverLanes(const BlockPlace& at, const BlockRequests& requests, const Accumulators& sums)
      : at_(at), l_(at.leaf), requests_(requests), sums_(sums), d_(static_cast<std::size_t>(l_.n)) {}

  Body reduce(std::size_t level) {
    return asked(at_, [&] { return reduce_asked(level); });
  }

  Body stores(Body& body, const std::optional<Expr>& later) {
    const bool in_vectors = at_.tile.rows > 1 && l_.compute.lanes > 1 && !l_.scaled && !l_.around.threads;
    Body stores;
    for (std::int64_t row = 0; row < at_.tile.rows; row += in_vectors ? l_.compute.lanes : 1)
      append(stores, in_vectors ? stored_rows(body, row, later) : stored_row(body, row, later));
    return stores;
  }

 private:
  Body reduce_asked(std::size_t level) {
    if (level == l_.k.size())
      return at_.tile.staggered && at_.tile.blocked_m ? staggered() : whole(l_.points.bounds(d_));
    const std::size_t d = l_.k[level];
    const auto inside = [&] { return reduce(level + 1); };
    return is_told(at_, d) ? told_loop(at_, d, inside) : l_.loop(d, l_.points.bounds(d), inside);
  }

  // Vectors that every row has whole, and between these and either end vectors under a mask for each row.
  Body staggered() {
    const std::string& stem = l_.nest.dims[d_].name;
    const std::int64_t W = l_.compute.lanes, U = l_.compute.vectors;
    const Expr zero(std::int64_t{0});
    Body body;
    const auto [rows, any, all] = own_ranges(body, at_, d_);
    const auto as = [&](const char* suffix, const Expr& e) { return named(l_.names, body, stem + suffix, e); };
    const Expr first = as("_in", minimum(any.hi, any.lo + ceil_divide(all.lo - any.lo, W) * Expr(W)));
    const Expr whole = as("_whole", floor_divide(maximum(zero, minimum(all.hi, any.hi) - first), W));
    append(body, steps(any.lo, ceil_divide(first - any.lo, W), 1, std::nullopt, rows));
    const Expr turns = as("_turns", floor_divide(whole, U));
    append(body, steps(first, turns, U, std::nullopt));
    if (U > 1) append(body, steps(first + turns * Expr(U * W), whole - turns * Expr(U), 1, std::nullopt));
    const Expr last = as("_out", first + whole * Expr(W));
    append(body, steps(last, ceil_divide(any.hi - last, W), 1, std::nullopt, rows));
    return body;
  }

  // [lo, hi) in steps of all accumulators, then of one vector, then the masked rest.
  Body whole(const Interval& range) {
    const std::string& stem = l_.nest.dims[d_].name;
    const std::int64_t W = l_.compute.lanes, U = l_.compute.vectors;
    Body body;
    Interval r = range;
    if (!is_const(r.hi - r.lo)) {
      const std::string lo = l_.names.fresh(stem + "_lo"), end = l_.names.fresh(stem + "_end");
      body.push_back(stmt(Let{lo, range.lo}));
      body.push_back(stmt(Let{end, maximum(range.hi, var(lo))}));
      r = {var(lo), var(end)};
    }
    const Expr count = r.hi - r.lo;
    if (is_const(count) && const_or(count, 0) <= 0) return {};
    Expr done_so_far(std::int64_t{0});
    for (const std::int64_t vectors : U > 1 ? std::vector<std::int64_t>{U, 1} : std::vector<std::int64_t>{1}) {
      const Expr turns = floor_divide(count - done_so_far, vectors * W);
      append(body, in_parts(r.lo + done_so_far, turns, vectors));
      done_so_far = done_so_far + turns * Expr(vectors * W);
    }
    const Expr rest = count - done_so_far;
    if (W > 1 && !(is_const(rest) && const_or(rest, 0) == 0))
      append(body, steps(r.lo + done_so_far, minimum(rest, Expr(std::int64_t{1})), 1, rest));
    return body;
  }

  // Many turns a part at a time, each in accumulators of its own.
  Body in_parts(const Expr& first, const Expr& turns, std::int64_t vectors) {
    const bool rounds = l_.type == lang::DType::F32 && l_.nest.aggregation == Aggregation::Sum;
    const std::int64_t most =
        vectors < l_.compute.vectors ? l_.compute.vectors : l_.nest.dims[d_].extent / (vectors * l_.compute.lanes);
    if (!rounds || l_.flag || l_.around.threads || const_or(turns, most) < 2 * turns_of_part)
      return steps(first, turns, vectors, std::nullopt);
    const std::string index = l_.names.fresh(l_.nest.dims[d_].name + "_p");
    const Expr parts = floor_divide(turns, turns_of_part), width(turns_of_part * vectors * l_.compute.lanes);
    Body part;
    const Accumulators own = begin_sums(part, l_, at_.tile.rows, l_.compute.vectors);
    append(part, SumsOverLanes(at_, requests_, own)
                     .steps(first + var(index) * width, Expr(turns_of_part), vectors, std::nullopt));
    for (std::int64_t row = 0; row < at_.tile.rows; ++row)
      for (std::int64_t v = 0; v < vectors; ++v)
        append(part, sums_.add(sums_.slot(row, v), Load{own.name, Expr(own.slot(row, v)), l_.type}));
    const auto all_parts = [&](const Expr& n) { return Body{stmt(For{index, Kind::Serial, n, {}, std::move(part)})}; };
    Body body = repeated(parts, all_parts);
    append(body, steps(first + parts * width, turns - parts * Expr(turns_of_part), vectors, std::nullopt));
    return body;
  }

  // So many turns of so many vectors from `first` on. `ranges`: those of the rows, each of which asks for itself and
  // loads for itself.
  Body steps(const Expr& first, const Expr& turns, std::int64_t vectors, const std::optional<Expr>& valid,
      const std::vector<Interval>& ranges = {}) {
    if (is_const(turns) && const_or(turns, 0) <= 0) return {};
    const std::string& stem = l_.nest.dims[d_].name;
    const std::string index = l_.names.fresh(stem + "_v");
    BlockPlace at = at_;
    at.tile.blocked_n = true;
    at.tile.n0 = first;
    at.tile.vectors = vectors;
    at.tile.valid = valid;
    const auto loop = [&](const Expr& n) {
      Body same;
      const Views views = views_of(same, at);
      const KnownValues before = ranges.empty() ? hoisted(same, at, views, d_) : KnownValues{};
      BlockPlace here = at;
      here.tile.n0 = first + var(index) * Expr(vectors * l_.compute.lanes);
      Body inner = step(here, views, before, ranges);
      if (l_.flag) inner.push_back(sums_.met());
      inner = among_stores(std::move(inner), sums_.name, requests_.by_block(here, views));
      same.push_back(
          stmt(For{index, Kind::Serial, n, advance(at, views, d_, vectors * l_.compute.lanes), std::move(inner)}));
      return same;
    };
    return repeated(turns, loop);
  }

  // A loop of so many turns, of which there may be none.
  Body repeated(const Expr& turns, const std::function<Body(const Expr&)>& loop) {
    if (is_const(turns)) return loop(turns);
    const std::string n = l_.names.fresh(l_.nest.dims[d_].name + "_n");
    return {stmt(Let{n, turns}), stmt(If{less(Expr(std::int64_t{0}), var(n)), loop(var(n)), {}})};
  }

  Body step(
      const BlockPlace& here, const Views& views, const KnownValues& before, const std::vector<Interval>& ranges) {
    BlockPlace inside = here;
    inside.in_mask = here.tile.valid.has_value();
    StepValues values(inside, views, before);
    Body body;
    for (std::int64_t v = 0; v < here.tile.vectors; ++v)
      for (std::int64_t i = 0; i < here.tile.rows; ++i) {
        if (ranges.empty()) {
          values.fold(body, body, sums_, i, v);
          continue;
        }
        Body row;
        StepValues(inside, views).fold(row, row, sums_, i, v);
        const Interval& range = ranges[static_cast<std::size_t>(i)];
        const Expr x = here.tile.n0 + here.lane();
        body.push_back(stmt(If{both(at_least(x, range.lo), less(x, range.hi)), std::move(row), {}}));
      }
    return here.tile.valid ? Body{stmt(If{here.mask(0), std::move(body), {}})} : body;
  }

  // One row, folded and stored. One thread writes; lanes of a vector are one writer anyway.
  Body stored_row(Body& body, std::int64_t row, const std::optional<Expr>& later) {
    const Expr sum = l_.scaled ? product_of_lanes(body, row) : sum_of_lanes(body, row);
    return stored(sum, Expr(row),
        l_.around.threads ? std::optional(less(at_.lane(), Expr(std::int64_t{1}))) : std::nullopt, later);
  }

  // As many rows as lanes from `first` on, folded together and stored side by side.
  Body stored_rows(Body& body, std::int64_t first, const std::optional<Expr>& later) {
    const std::int64_t rows = std::min(l_.compute.lanes, at_.tile.rows - first);
    const std::string sums = l_.names.fresh("sums");
    body.push_back(stmt(Allocate{sums, l_.type, rows, Memory::Register}));
    for (std::int64_t row = 0; row < rows; ++row)
      body.push_back(stmt(Store{sums, Expr(row), sum_of_vectors(first + row)}));
    body.push_back(stmt(FoldRows{sums, fold_of_lanes(), rows}));
    return stored(Load{sums, Expr(std::int64_t{0}), l_.type}, Expr(first) + at_.lane(),
        rows < l_.compute.lanes ? std::optional(less(at_.lane(), Expr(rows))) : std::nullopt, later);
  }

  Body stored(const Expr& fold, const Expr& row, const std::optional<Expr>& condition,
      const std::optional<Expr>& later) {
    const Form& offset = l_.nest.target.offset;
    const Expr result = sums_.or_fill(convert(fold, compute_type(l_.target_type)));
    const std::string& target = l_.storage.name(l_.nest.target.tensor);
    Expr place = at_.corner(target_access, offset);
    if (at_.tile.blocked_m) place = place + row * Expr(offset.coefficients[static_cast<std::size_t>(l_.m)]);
    const auto under = [&](const std::optional<Expr>& test, Body then) {
      return test ? Body{stmt(If{*test, std::move(then), {}})} : then;
    };
    const auto store = [&](const Expr& value) {
      return under(condition, {stmt(Store{target, place, convert(value, l_.target_type)})});
    };
    Body body = store(result);
    if (later) {
      Body added = store(combine(l_.nest.aggregation, Load{target, place, l_.target_type}, result));
      body = {stmt(If{*later, std::move(added), std::move(body)})};
    }
    return under(l_.flag && !l_.nest.fill ? std::optional(sums_.has_met()) : std::nullopt, std::move(body));
  }

  // Of an assignment one accumulator, and one lane of it, holds the value and all others 0.
  Aggregation fold_of_lanes() const {
    return l_.nest.aggregation == Aggregation::Assign ? Aggregation::Sum : l_.nest.aggregation;
  }

  Expr sum_of_vectors(std::int64_t row) const {
    Expr total = Load{sums_.name, Expr(sums_.slot(row, 0)), l_.type};
    for (std::int64_t a = 1; a < l_.compute.vectors; ++a)
      total = combine(fold_of_lanes(), total, Load{sums_.name, Expr(sums_.slot(row, a)), l_.type});
    return total;
  }

  Expr sum_of_lanes(Body& body, std::int64_t row) {
    Expr total = sum_of_vectors(row);
    if (l_.compute.lanes == 1) return total;
    const std::string sum = l_.names.fresh("sum");
    body.push_back(stmt(Fold{sum, fold_of_lanes(), total, at_.lane_name}));
    return Variable{sum, l_.type};
  }

  Expr product_of_lanes(Body& body, std::int64_t row) {
    const std::int64_t slot = sums_.slot(row, 0);
    for (std::int64_t a = 1; a < l_.compute.vectors; ++a)
      multiply_by_slot(body, l_.names, sums_.product, slot, sums_.slot(row, a), l_.type);
    return l_.compute.lanes > 1 ? product_over_lanes(body, l_.names, sums_.product, slot, l_.type, at_.lane_name)
                                : sums_.folded(body, slot);
  }

  const BlockPlace& at_;
  SpelledLeaf& l_;
  const BlockRequests& requests_;
  const Accumulators& sums_;
  std::size_t d_;                                      // the dimension that lanes run over
};

}  // namespace

Body spell_lanes_block(
    SpelledLeaf& l, const BlockRequests& requests, const BlockTile& tile, const PartOfSum& part) {
  const BlockPlace at{l, tile, l.names.fresh("l")};
  Body body;
  const Accumulators sums = begin_sums(body, l, tile.rows, l.compute.vectors);
  SumsOverLanes block(at, requests, sums);
  append(body, block.reduce(0));
  Body stores = block.stores(body, part.later);
  append(body, std::move(stores));
  return {stmt(For{at.lane_name, l.lane_kind(), Expr(l.compute.lanes), {}, std::move(body)})};
}

}  // namespace tilec::codegen
