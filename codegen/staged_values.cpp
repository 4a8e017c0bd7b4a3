#include "codegen/staged_values.h"

#include <algorithm>
#include <numeric>

#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t warp_rows = 8, warp_columns = 4;  // threads of a warp: with 4x4 elements each, its accesses to
                                                         // either copy are of different banks

}  // namespace

Body StagedValues::put_all(const Expr& stage) {
  Body body;
  for (const Copy& copy : copies_) append(body, put(copy, buffer(copy, stage)));
  return body;
}

// ---- where a thread is

Body StagedValues::place_of_thread() {
  Body body;
  const std::int64_t rows = threads_ / leaf_.lanes;
  const std::int64_t tall = std::gcd(rows, warp_rows), wide = std::gcd(leaf_.lanes, warp_columns),
                     across = leaf_.lanes / wide;
  const Expr lane = let(body, "lane", remainder(var(thread_), tall * wide)),
             group = let(body, "warp", quotient(var(thread_), tall * wide));
  thread_row_ =
      let(body, "t_m", (quotient(group, across) * i64(tall) + quotient(lane, wide)) * i64(square(leaf_.rows)));
  thread_column_ =
      let(body, "t_n", (remainder(group, across) * i64(wide) + remainder(lane, wide)) * i64(square(leaf_.vectors)));
  return body;
}

std::int64_t StagedValues::square(std::int64_t count) { return std::gcd(count, neighbours); }

Expr StagedValues::row(std::int64_t i) const {
  return thread_row_ + i64(i / square(leaf_.rows) * row_step() + i % square(leaf_.rows));
}

Expr StagedValues::column(std::int64_t j) const {
  return thread_column_ + i64(j / square(leaf_.vectors) * column_step() + j % square(leaf_.vectors));
}

Body StagedValues::hold(const poly::Read& read) {
  const FlatAccess& access = nest_.reads[static_cast<std::size_t>(read.read)];
  const DType stored = storage_.plan.program.tensor(access.tensor).dtype, type = compute_type(read.type);
  const std::string& name = held_.emplace_back(names_.fresh("own"));
  Body body{stmt(Allocate{name, type, leaf_.rows * leaf_.vectors, Memory::Register})};
  const Expr known = let(body, "from", points_.known_part(access.offset));
  std::vector<Expr> columns;
  for (std::int64_t j = 0; j < leaf_.vectors; ++j)
    columns.push_back(let(body, "of", part(access.offset, roles_.n, digits(body, roles_.n, n0_ + column(j)))));
  for (std::int64_t i = 0; i < leaf_.rows; ++i) {
    const Expr of_row = let(body, "of", known + part(access.offset, roles_.m, digits(body, roles_.m, m0_ + row(i))));
    for (std::int64_t j = 0; j < leaf_.vectors; ++j) {
      const Expr place = of_row + columns[static_cast<std::size_t>(j)],
                 there = both(less(m0_ + row(i), i64(extent(roles_.m))), less(n0_ + column(j), i64(extent(roles_.n))));
      body.push_back(stmt(Store{name, slot(i, j), Constant{type, 0, 0.0}}));
      body.push_back(stmt(If{there,
          {stmt(Store{name, slot(i, j), convert(Load{storage_.name(access.tensor), place, stored}, type)})}, {}}));
    }
  }
  return body;
}

// ---- values of a stage

Body StagedValues::values(const Expr& stage) {
  Body body;
  const std::string k = names_.fresh("k");
  std::vector<Expr> from;
  for (const Copy& copy : copies_)
    from.push_back(let(body, copy.masked ? "at_a" : "at_b",
        buffer(copy, stage) + (copy.masked ? thread_row_ : thread_column_)));
  Body one;
  const OfCopies read = read_copies(one, from, var(k));
  for (std::int64_t i = 0; i < leaf_.rows; ++i)
    for (std::int64_t j = 0; j < leaf_.vectors; ++j)
      one.push_back(stmt(Store{acc_, slot(i, j), folded(Load{acc_, slot(i, j), type_}, read, i, j)}));
  if (roles_.joined && ragged_) {                      // nothing stands for what is not there
    const Expr left = let(body, "left", range_.hi - begin_stage(body, stage));
    end_stage();
    one = {stmt(If{less(var(k), left), std::move(one), {}})};
  }
  body.push_back(stmt(For{k, Kind::Unroll, i64(depth_), {}, std::move(one)}));
  return body;
}

StagedValues::OfCopies StagedValues::read_copies(Body& body, const std::vector<Expr>& from, const Expr& k) const {
  OfCopies read(copies_.size());
  for (std::size_t c = 0; c < copies_.size(); ++c) {
    const Copy& copy = copies_[c];
    for (std::int64_t x = 0; x < (copy.masked ? leaf_.rows : leaf_.vectors); ++x) {
      const Expr own = copy.masked ? row(x) - thread_row_ : column(x) - thread_column_;
      const std::string name = names_.fresh(copy.masked ? "a" : "b");
      body.push_back(stmt(Let{name, Load{copy.shared, from[c] + k * i64(copy.pitch) + own, copy.type}}));
      read[c].push_back(Variable{name, copy.type});
    }
  }
  return read;
}

Expr StagedValues::folded(const Expr& acc, const OfCopies& read, std::int64_t i, std::int64_t j) const {
  const auto of = [&](std::size_t c) { return read[c][static_cast<std::size_t>(copies_[c].masked ? i : j)]; };
  if (!roles_.joined) return sum(acc, of(0), of(1));
  const auto there = [&](const poly::Expr& part) -> std::optional<Expr> {
    for (std::size_t c = 0; c < copies_.size(); ++c) if (part == copies_[c].factor) return of(c);
    const auto& own = roles_.joined->own;
    const auto held = std::ranges::find(own, part);
    if (held == own.end()) return std::nullopt;
    return Load{held_[static_cast<std::size_t>(held - own.begin())], slot(i, j), compute_type(part.type())};
  };
  const auto* product = nest_.value->as<poly::Apply>();
  if (nest_.aggregation == Aggregation::Sum && product && product->op == Op::Mul) {
    const auto& factors = product->operands;
    return sum(acc, convert(joined_value(factors[0], there), type_), convert(joined_value(factors[1], there), type_));
  }
  return combine(nest_.aggregation, acc, convert(joined_value(*nest_.value, there), type_));
}

}  // namespace tilec::codegen
