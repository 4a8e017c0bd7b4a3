#include "codegen/staged_block.h"

#include <algorithm>
#include <numeric>

#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

using lang::InternalError;

namespace {

Staging roles_of(const Nest& nest, const Compute& leaf) {
  auto roles = staging_of(nest, leaf);
  if (!roles) throw InternalError("the plan stages a statement that is no contraction of two sides");
  return *std::move(roles);
}

// Whether no row keeps d from 0, whatever the others are: parts of a sum, of which the last may be short, begin there.
bool begins_at_0(const Nest& nest, std::size_t d) {
  return std::ranges::all_of(nest.rows, [&](const Row& row) {
    poly::Exact least = row.form.constant, most = least;
    for (std::size_t k = 0; k < nest.dims.size(); ++k) {
      const std::int64_t c = row.form.coefficients[k];
      if (k != d && c) (c > 0 ? most : least) = (c > 0 ? most : least) + poly::Exact(c) * (nest.dims[k].extent - 1);
    }
    const std::int64_t a = row.form.coefficients[d];
    return a == 0 || (a > 0 ? least.get() >= 0 : !row.extent || most.get() < *row.extent);
  });
}

Expr divided(Op op, const Expr& value, const Expr& by) { return Operation{op, {value, by}, DType::I64}; }

}  // namespace

StagedBlock::StagedBlock(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
    std::int64_t depth, std::int64_t height, std::int64_t width)
    : nest_(nests.front()),
      leaf_(leaf),
      storage_(storage),
      names_(names),
      finishing_(nests, storage, names),
      points_(nest_),
      depth_(depth),
      height_(height),
      width_(width),
      type_(compute_type(nest_.value->type())),
      roles_(roles_of(nest_, leaf)) {}

std::int64_t StagedBlock::extent(const std::vector<std::size_t>& dims) const {
  return std::accumulate(dims.begin(), dims.end(), poly::Exact(1), [&](poly::Exact product, std::size_t d) {
    return product * extent(d);
  }).get();
}

Expr StagedBlock::let(Body& body, const std::string& stem, const Expr& value) const {
  if (value.as<Constant>() || value.as<Variable>()) return value;
  const std::string name = names_.fresh(stem);
  body.push_back(stmt(Let{name, value}));
  return Variable{name, value.type()};
}

Body StagedBlock::coordinates() {
  Body body;
  Expr rest = var(block_);
  blocks_ = 1;
  const auto digit = [&](const std::string& stem, std::int64_t count, std::int64_t step) {
    const Expr value = let(body, stem, remainder(rest, count) * i64(step));
    rest = quotient(rest, count);
    blocks_ = (poly::Exact(blocks_) * count).get();
    return value;
  };
  n0_ = digit(leaf_.n + "_0", ceil_divide(extent(roles_.n), width_), width_);
  m0_ = digit(leaf_.m() + "_0", ceil_divide(extent(roles_.m), height_), height_);
  for (std::size_t o = leaf_.outer.size(); o-- > 0;) {
    const std::size_t d = *nest_.dim(leaf_.outer[o]);
    points_.fix(d, digit(leaf_.outer[o], extent(d), 1));
  }
  range_ = across() ? Interval{i64(0), i64(extent(roles_.staged))} : points_.bounds(roles_.depth);
  if (begins_at_0(nest_, roles_.depth)) range_.lo = i64(0);
  return body;
}

Expr StagedBlock::part(const Form& form, const std::vector<std::size_t>& dims, const std::vector<Expr>& at) {
  Expr sum = i64(0);
  for (std::size_t d = 0; d < dims.size(); ++d) sum = sum + at[d] * i64(form.coefficients[dims[d]]);
  return sum;
}

std::vector<Expr> StagedBlock::digits(Body& body, const std::vector<std::size_t>& dims, const Expr& value) {
  std::vector<Expr> at(dims.size(), value);
  for (std::size_t d = dims.size(); d-- > 1;) {
    const std::string& stem = nest_.dims[dims[d]].name;
    const Expr rest = let(body, stem, at[d]);
    at[d] = let(body, stem, remainder(rest, extent(dims[d])));
    at[d - 1] = quotient(rest, extent(dims[d]));
  }
  at[0] = let(body, nest_.dims[dims[0]].name, at[0]);
  return at;
}

bool StagedBlock::in_steps(const Form& form) const {
  for (std::size_t d = 1; d < roles_.staged.size(); ++d)
    if (form.coefficients[roles_.staged[d - 1]] != form.coefficients[roles_.staged[d]] * extent(roles_.staged[d]))
      return false;
  return true;
}

bool StagedBlock::rows_apart(bool by_m) const {
  return std::ranges::any_of(nest_.rows, [&](const Row& row) { return asks(row, by_m) && !in_steps(row.form); });
}

StagedBlock::Step StagedBlock::step(Body& body, const Expr& value, bool apart) {
  if (!apart) return {value, {}};
  const Expr all = let(body, "step", value);
  return {all, digits(body, roles_.staged, all)};
}

Expr StagedBlock::part(const Form& form, const Step& step) const {
  return in_steps(form) ? step.value * i64(form.coefficients[roles_.depth]) : part(form, roles_.staged, step.at);
}

// ---- stages

Expr StagedBlock::count_stages(Body& body) {
  known_ = is_const(range_.lo) && is_const(range_.hi);
  ragged_ = !known_ || (const_or(range_.hi, 0) - const_or(range_.lo, 0)) % depth_ != 0;
  const std::string& stem = nest_.dims[roles_.depth].name;
  range_.lo = let(body, stem + "_lo", range_.lo), range_.hi = let(body, stem + "_end", range_.hi);
  turns_ = let(body, stem + "_n", maximum(i64(0), ceil_divide(range_.hi - range_.lo, depth_)));
  std::vector<std::size_t> taps;
  if (!across())
    for (const std::string& name : leaf_.k) if (*nest_.dim(name) != roles_.depth) taps.push_back(*nest_.dim(name));
  taps_ = extent(taps);
  return let(body, "stages", turns_ * i64(taps_));
}

Expr StagedBlock::begin_stage(Body& body, const Expr& stage) {
  const auto of_turns = [&](Op op, const Expr& value) {
    if (!is_const(turns_)) return divided(op, value, turns_);
    return op == Op::Mod ? remainder(value, const_or(turns_, 1)) : quotient(value, const_or(turns_, 1));
  };
  Expr rest = stage;
  const bool taps = leaf_.k.size() > 1 && !across();
  const Expr k0 = let(body, nest_.dims[roles_.depth].name,
      range_.lo + (taps ? of_turns(Op::Mod, rest) : rest) * i64(depth_));
  if (taps) {
    rest = let(body, "tap", of_turns(Op::Div, rest));
    std::int64_t left = taps_;
    for (std::size_t level = leaf_.k.size(); level-- > 0;) {
      const std::size_t d = *nest_.dim(leaf_.k[level]);
      if (d == roles_.depth) continue;
      left /= std::max<std::int64_t>(extent(d), 1);
      // The rest by its quotient, which is there: ptxas makes fewer instructions of it than of a second division.
      const Expr above = left > 1 ? let(body, "tap", quotient(rest, extent(d))) : i64(0);
      points_.fix(d, let(body, nest_.dims[d].name, left > 1 ? rest - above * i64(extent(d)) : rest));
      rest = above;
    }
  }
  rows_.clear();
  for (const Row& row : nest_.rows)
    rows_.push_back(is_asked(row) ? let(body, "row", points_.known_part(row.form)) : i64(0));
  return k0;
}

void StagedBlock::end_stage() {
  for (const std::string& name : leaf_.k) points_.release(*nest_.dim(name));
}

bool StagedBlock::mentions_m(const Row& row) const {
  return std::any_of(roles_.m.begin(), roles_.m.end(), [&](std::size_t d) { return row.form.coefficients[d] != 0; });
}

bool StagedBlock::mentions_taps(const Row& row) const {
  return std::any_of(leaf_.k.begin(), leaf_.k.end(), [&](const std::string& name) {
    const std::size_t d = *nest_.dim(name);
    return d != roles_.depth && row.form.coefficients[d] != 0;
  });
}

bool StagedBlock::is_asked(const Row& row) const {
  return across() || !row.form.coefficients[roles_.depth] || mentions_m(row) || mentions_taps(row);
}

bool StagedBlock::is_asked_along(std::size_t d) const {
  return std::ranges::any_of(
      nest_.rows, [&](const Row& row) { return is_asked(row) && row.form.coefficients[d] != 0; });
}

std::optional<Expr> StagedBlock::takes_part(
    std::optional<Expr> all, bool by_m, const Step& k, const std::vector<Expr>& at) const {
  const auto too = [&](const Expr& holds) { all = all ? both(*all, holds) : holds; };
  if (ragged_) too(less(k.value, range_.hi));
  for (std::size_t r = 0; r < nest_.rows.size(); ++r) {
    const Row& row = nest_.rows[r];
    if (!asks(row, by_m)) continue;
    Expr value = rows_[r] + part(row.form, k);
    if (by_m) value = value + part(row.form, roles_.m, at);
    too(points_.holds(row, value));
  }
  return all;
}

// ---- elements

Expr StagedBlock::factor_value(const poly::Expr& e, const std::function<Expr(int)>& read) {
  return joined_value(e, [&](const poly::Expr& part) -> std::optional<Expr> {
    const auto* r = part.as<poly::Read>();
    return r ? std::optional(convert(read(r->read), compute_type(r->type))) : std::nullopt;
  });
}

Expr StagedBlock::joined_value(
    const poly::Expr& e, const std::function<std::optional<Expr>(const poly::Expr&)>& there) {
  if (auto known = there(e)) return *std::move(known);
  const auto missing = [](const auto&) -> Expr { throw InternalError("a value is neither staged nor held"); };
  return e.match([&](const poly::Number& n) { return constant_of(n); },
                 [&](const poly::Index& x) { return missing(x); }, [&](const poly::Read& r) { return missing(r); },
                 [&](const poly::Cast& c) { return cast(joined_value(c.operand, there), c.operand, c.type); },
                 [&](const poly::Apply& a) {
                   std::vector<Expr> operands;
                   for (const poly::Expr& o : a.operands) operands.push_back(joined_value(o, there));
                   return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
                 });
}

Expr StagedBlock::sum(const Expr& acc, const Expr& a, const Expr& b) const {
  if (lang::is_float(type_)) return Operation{Op::Fma, {a, b, acc}, type_};
  return Operation{Op::Add, {acc, Operation{Op::Mul, {a, b}, type_}}, type_};
}

bool StagedBlock::has_zeros() const {
  return lang::is_float(type_) &&
      std::any_of(nest_.rows.begin(), nest_.rows.end(), [&](const Row& row) { return mentions_m(row); });
}

Body StagedBlock::unless_finite(const std::string& registers, std::int64_t count, Body elements) {
  Expr all = Load{registers, i64(0), type_};
  for (std::int64_t x = 1; x < count; ++x) all = Operation{Op::Add, {all, Load{registers, i64(x), type_}}, type_};
  Body body;
  all = let(body, "all", all);
  const Expr finite =
      Operation{Op::Eq, {Operation{Op::Sub, {all, all}, type_}, identity(Aggregation::Sum, type_)}, DType::Bool};
  body.push_back(stmt(If{finite, {}, std::move(elements)}));
  return body;
}

Body StagedBlock::element(const Expr& m, const Expr& n) {
  Body body;
  for (const auto& [dims, value] : {std::pair(&roles_.m, &m), std::pair(&roles_.n, &n)}) {
    const std::vector<Expr> at = digits(body, *dims, *value);
    for (std::size_t d = 0; d < at.size(); ++d) points_.fix((*dims)[d], at[d]);
  }
  const std::string total = names_.fresh("sum");
  body.push_back(stmt(Allocate{total, type_, 1, Memory::Register}));
  body.push_back(stmt(Store{total, i64(0), identity(Aggregation::Sum, type_)}));
  std::vector<std::size_t> order;
  for (const std::string& name : leaf_.k) if (*nest_.dim(name) != roles_.depth) order.push_back(*nest_.dim(name));
  order.push_back(roles_.depth);
  Body points = through(order, 0, total);
  if (const auto rows = points_.fixed_rows()) points = {stmt(If{*rows, std::move(points), {}})};
  append(body, std::move(points));
  append(body,
      finishing_.stores(Load{total, i64(0), type_}, [&](const Form& form) { return points_.known_part(form); }));
  for (const std::size_t d : roles_.m) points_.release(d);
  for (const std::size_t d : roles_.n) points_.release(d);
  return {stmt(If{both(less(m, i64(extent(roles_.m))), less(n, i64(extent(roles_.n)))), std::move(body), {}})};
}

Body StagedBlock::through(const std::vector<std::size_t>& order, std::size_t level, const std::string& total) {
  if (level == order.size()) {
    const auto read = [&](int r) {
      const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
      return Expr(Load{storage_.name(access.tensor), points_.known_part(access.offset),
          storage_.plan.program.tensor(access.tensor).dtype});
    };
    const Expr a = convert(factor_value(roles_.by_m, read), type_), b = convert(factor_value(roles_.by_n, read), type_);
    return {stmt(Store{total, i64(0), sum(Load{total, i64(0), type_}, a, b)})};
  }
  const std::size_t d = order[level];
  return serial(names_, nest_.dims[d].name, points_.bounds(d), [&](const Expr& value) {
    points_.fix(d, value);
    Body body = through(order, level + 1, total);
    points_.release(d);
    return body;
  });
}

}  // namespace tilec::codegen
