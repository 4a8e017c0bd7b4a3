#include "codegen/interval_sums.h"

#include <limits>

#include "codegen/part.h"
#include "codegen/restate.h"
#include "codegen/rewrite.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Access;
using poly::Affine;
using poly::Aggregation;
using poly::Apply;
using poly::Cast;
using poly::Expr;
using poly::Index;
using poly::Number;
using poly::Program;
using poly::Range;
using poly::Size;
using poly::Statement;
using poly::TensorId;

Expr real(double value) { return Number{DType::F64, 0, value}; }
Expr count(std::int64_t value) { return Number{DType::I32, value, 0}; }
Expr choose(const Expr& c, const Expr& a, const Expr& b) { return Apply{Op::Select, {c, a, b}, a.type()}; }
Expr test(Op op, const Expr& a) { return Apply{op, {a}, DType::Bool}; }
Expr compare(Op op, const Expr& a, const Expr& b) { return Apply{op, {a, b}, DType::Bool}; }
Expr both(const Expr& a, const Expr& b) { return Apply{Op::And, {a, b}, DType::Bool}; }
Expr negated(const Expr& a) { return Apply{Op::Not, {a}, DType::Bool}; }

// T[o, v] = ⊕ value(o, u) over u < v, counted from the first u.
TensorId running(Program& program, const FactorLine& line, const char* suffix, Aggregation how, const Expr& value,
    std::vector<Statement>& before) {
  Statement whole = *line.statement;
  whole.value = value;
  whole.aggregation = how;
  const std::int64_t factors = extent(whole, line.u);
  const std::size_t rank = line.of_factor.size(), v = rank, u = rank + 1;
  Frame f = frame(
      whole, line.of_factor, {{fresh_index(whole, "v"), factors + 1, false}, {whole.indices[line.u], factors, true}});
  f.map[line.u] = shifted(Affine::index(u, f.count()), low(whole, line.u));
  Statement part = seen_in(whole, f, [](const Affine&) { return false; });
  Affine behind = minus(Affine::index(v, f.count()), Affine::index(u, f.count()));
  part.domain.push_back({shifted(behind, -1), std::nullopt});
  poly::Tensor tensor{
      fresh_name(program, program.tensor(whole.target.tensor).name + suffix), value.type(), {}, whole.span};
  for (std::size_t d = 0; d <= rank; ++d) tensor.shape.push_back(*f.hull[d].extent);
  const auto id = static_cast<TensorId>(program.tensors.size());
  program.tensors.push_back(std::move(tensor));
  write_part(part, id, rank + 1);
  drop_unused(part);
  before.push_back(std::move(part));
  return id;
}

}  // namespace

Affine shifted(Affine e, std::int64_t by) {
  e.constant = Size(e.constant.get() + by);
  return e;
}

Affine minus(const Affine& a, const Affine& b) { return a.plus(b.times(Size(-1))); }

Expr times(const Expr& a, const Expr& b) { return Apply{Op::Mul, {a, b}, a.type()}; }

int add_read(Statement& statement, Access access) {
  statement.reads.push_back(std::move(access));
  return static_cast<int>(statement.reads.size()) - 1;
}

std::optional<FactorLine> line_of(const Statement& s, std::size_t u) {
  const std::size_t count = s.indices.size();
  FactorLine line{&s, u, Affine::of(Size(low(s, u)), count), Affine::of(Size(low(s, u) + extent(s, u)), count), {}};
  bool bounded_below = false, bounded_above = false;
  std::vector<bool> used(count, false);
  mark(s.value, s.reads, used);
  for (std::size_t r = count; r < s.domain.size(); ++r) {
    const Affine& row = s.domain[r].value;
    if (!mentions(row, u) || s.domain[r].extent || !row.divisor.is(1)) return std::nullopt;
    const std::int64_t c = row.coefficients[u].get();
    Affine rest = row;
    rest.coefficients[u] = Size(0);
    if (c == 1 && !bounded_below) bounded_below = true, line.lo = rest.times(Size(-1));
    else if (c == -1 && !bounded_above) bounded_above = true, line.hi = shifted(rest, 1);
    else return std::nullopt;
  }
  if (!used[u] || (!bounded_below && !bounded_above)) return std::nullopt;
  for (std::size_t k = 0; k < count; ++k) {
    if (k == u || !used[k]) continue;
    if (mentions(line.lo, k) || mentions(line.hi, k)) return std::nullopt;
    line.of_factor.push_back(k);
  }
  return line;
}

FactorSums running_sums(Program& program, const FactorLine& line, std::vector<Statement>& before) {
  const Statement& s = *line.statement;
  const Expr a = s.value, x = Cast{a, DType::F64}, zero = compare(Op::Eq, x, real(0)), finite = test(Op::IsFinite, x);
  const Expr log = Apply{Op::Log, {Expr(Apply{Op::Abs, {x}, DType::F64})}, DType::F64};
  const auto one_if = [](const Expr& c) { return choose(c, count(1), count(0)); };
  const auto sum = [&](const char* suffix, const Expr& value) {
    return running(program, line, suffix, Aggregation::Sum, value, before);
  };
  FactorSums sums;
  sums.log = sum("_logs", choose(both(finite, negated(zero)), log, real(0)));
  sums.zeros = sum("_zeros", one_if(zero));
  sums.wild = sum("_wild", one_if(negated(finite)));
  sums.nans = sum("_nans", one_if(test(Op::IsNan, x)));
  sums.sign = running(program, line, "_signs", Aggregation::Product,
      choose(compare(Op::Lt, x, real(0)), count(-1), count(1)), before);
  return sums;
}

Expr product_over(const Program& program, Statement& reader, const FactorLine& line, const FactorSums& sums,
    const std::vector<Affine>& map, const std::vector<Stretch>& stretches) {
  const auto at = [&](TensorId id, const Affine& v) {
    Access access{id, {}};
    for (const std::size_t k : line.of_factor) access.element.push_back(shifted(map[k], -low(*line.statement, k)));
    access.element.push_back(shifted(v, -low(*line.statement, line.u)));
    return Expr(poly::Read{add_read(reader, std::move(access)), program.tensor(id).dtype});
  };
  std::optional<Expr> exponent, sign, no_zero, tame, no_nan;
  const auto join = [](std::optional<Expr>& all, Op op, const Expr& e) {
    all = all ? Expr(Apply{op, {*all, e}, e.type()}) : e;
  };
  for (const Stretch& s : stretches) {
    const auto same = [&](TensorId id) { return compare(Op::Eq, at(id, s.hi), at(id, s.lo)); };
    join(exponent, Op::Add, Apply{Op::Sub, {at(sums.log, s.hi), at(sums.log, s.lo)}, DType::F64});
    for (const Affine& end : {s.hi, s.lo}) join(sign, Op::Mul, Cast{at(sums.sign, end), DType::F64});
    join(no_zero, Op::And, same(sums.zeros));
    join(tame, Op::And, same(sums.wild));
    join(no_nan, Op::And, same(sums.nans));
  }
  const Expr usual = choose(*no_zero, times(*sign, Expr(Apply{Op::Exp, {*exponent}, DType::F64})), real(0));
  const Expr wild = choose(both(*no_nan, *no_zero), times(*sign, real(std::numeric_limits<double>::infinity())),
      real(std::numeric_limits<double>::quiet_NaN()));
  return choose(*tame, usual, wild);
}

}  // namespace tilec::codegen
