#include "codegen/rewrite/factors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "codegen/part.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Expr;
using poly::Statement;
using Role = ProductFactor::Role;

std::optional<Op> operator_of(const Statement& s) {
  if (s.aggregation == Aggregation::Sum) return Op::Mul;
  if (s.aggregation != Aggregation::Max && s.aggregation != Aggregation::Min) return std::nullopt;
  const auto* apply = s.value.as<poly::Apply>();
  return apply && (apply->op == Op::Max || apply->op == Op::Min) ? std::optional(apply->op) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(const Statement& s) : s_(s) {}

  std::optional<FactoredProduct> read() {
    const auto op = operator_of(s_);
    if (!op) return std::nullopt;
    product_.op = *op;
    take(s_.value);
    return std::move(product_);
  }

 private:
  void add(const Expr& value, Role role) {
    ProductFactor factor{role, value, std::vector<bool>(s_.indices.size(), false)};
    mark(value, s_.reads, factor.mentions);
    product_.factors.push_back(std::move(factor));
  }

  void take_condition(const Expr& e) {
    const auto* apply = e.as<poly::Apply>();
    if (!apply || apply->op != Op::And || apply->type != DType::Bool) return add(e, Role::When);
    for (const Expr& operand : apply->operands) take_condition(operand);
  }

  static bool is_plain(const Expr& e) {
    const auto* n = e.as<poly::Number>();
    return n && (!lang::is_float(n->type) || (std::isfinite(n->real) && n->real != 0));
  }

  // `whole`: the value is e, or e times numbers. `(c ? x : 0) * y` is NaN where c does not hold and y is infinite, so c
  // is no condition of that; of whole numbers it is.
  void take(const Expr& e, bool whole = true) {
    const std::size_t from = product_.factors.size();
    const auto* apply = e.as<poly::Apply>();
    if (!apply || apply->type != s_.value.type()) return add(e, Role::Times);
    if (apply->op == product_.op) {
      for (std::size_t k = 0; k < apply->operands.size(); ++k) {
        bool alone = whole;
        for (std::size_t o = 0; o < apply->operands.size(); ++o)
          alone = alone && (o == k || is_plain(apply->operands[o]));
        take(apply->operands[k], alone);
      }
    } else if (product_.op == Op::Mul && apply->op == Op::Neg) {
      product_.negative = !product_.negative;
      return take(apply->operands[0], whole);
    } else if (product_.op == Op::Mul && apply->op == Op::Div && lang::is_float(apply->type)) {
      take(apply->operands[0], whole && is_plain(apply->operands[1]));
      add(apply->operands[1], Role::Over);
    } else if ((whole || !lang::is_float(apply->type)) && product_.op == Op::Mul && apply->op == Op::Select &&
        is_zero(apply->operands[2])) {
      take_condition(apply->operands[0]);
      take(apply->operands[1]);
    } else {
      return add(e, Role::Times);
    }
    product_.written.emplace_back(from, product_.factors.size());
  }

  const Statement& s_;
  FactoredProduct product_;
};

}  // namespace

std::optional<FactoredProduct> product_of(const Statement& s) { return Reader(s).read(); }

bool is_zero(const Expr& e) {
  const auto* n = e.as<poly::Number>();
  return n && (lang::is_float(n->type) ? n->real == 0 : n->integer == 0);
}

namespace {

// x / divisor
Expr times_reciprocal(const Expr& x, const Expr& divisor) {
  const DType type = x.type();
  const auto number = [&](double v) { return Expr(poly::Number{type, 0, v}); };
  const auto apply = [&](Op op, std::vector<Expr> operands) {
    return Expr(poly::Apply{op, std::move(operands), type});
  };
  if (const auto* known = divisor.as<poly::Number>()) {
    const double reciprocal = static_cast<float>(1 / known->real);
    return std::isnormal(static_cast<float>(reciprocal)) ? apply(Op::Mul, {x, number(reciprocal)})
                                                         : apply(Op::Div, {x, divisor});
  }
  const Expr is_small = poly::Apply{Op::Lt, {apply(Op::Abs, {divisor}), number(std::ldexp(1, -64))}, DType::Bool};
  const Expr near = apply(Op::Select, {is_small, number(std::ldexp(1, 64)), number(1)});
  return apply(Op::Mul,
      {apply(Op::Mul, {x, near}), apply(Op::Div, {number(1), apply(Op::Mul, {divisor, near})})});
}

}  // namespace

Expr times_reciprocals(const Statement& s, const std::vector<std::size_t>& summed) {
  const std::function<Expr(const Expr&)> with = [&](const Expr& e) -> Expr {
    const auto* apply = e.as<poly::Apply>();
    if (!apply || apply->type != DType::F32) return e;
    if (apply->op == Op::Mul || apply->op == Op::Neg) {
      std::vector<Expr> operands;
      for (const Expr& operand : apply->operands) operands.push_back(with(operand));
      return poly::Apply{apply->op, std::move(operands), apply->type};
    }
    if (apply->op != Op::Div) return e;
    const Expr &divisor = apply->operands[1], divided = with(apply->operands[0]);
    std::vector<bool> mentioned(s.indices.size(), false);
    mark(divisor, s.reads, mentioned);
    if (is_zero(divisor) || std::ranges::any_of(summed, [&](std::size_t k) { return mentioned[k]; }))
      return poly::Apply{Op::Div, {divided, divisor}, apply->type};
    return times_reciprocal(divided, divisor);
  };
  return with(s.value);
}

Expr in_type(const Expr& e, DType type) { return e.type() == type ? e : Expr(poly::Cast{e, type}); }

namespace {

Expr none(DType type) { return poly::Number{type, 0, std::numeric_limits<double>::quiet_NaN()}; }

// Whether a factor is finite, a divisor neither 0 nor NaN. Nothing where that is known.
std::optional<Expr> is_finite(const ProductFactor& f) {
  if (f.role == Role::When || !lang::is_float(f.value.type())) return std::nullopt;
  if (const auto* number = f.value.as<poly::Number>();
      number && std::isfinite(number->real) && (f.role == Role::Times || number->real != 0))
    return std::nullopt;
  if (f.role == Role::Times) return poly::Apply{Op::IsFinite, {f.value}, DType::Bool};
  const Expr zero = poly::Number{f.value.type()}, size = poly::Apply{Op::Abs, {f.value}, f.value.type()};
  return poly::Apply{Op::Gt, {size, zero}, DType::Bool};
}

// Whether `each_finite` has asked it: it is NaN where it is not finite.
bool is_asked(const ProductFactor& f) {
  const auto* asked = f.value.as<poly::Apply>();
  const auto* other = asked && asked->op == Op::Select ? asked->operands[2].as<poly::Number>() : nullptr;
  return other && std::isnan(other->real);
}

}  // namespace

std::optional<Expr> all_finite(const std::vector<ProductFactor>& factors, bool asked) {
  std::optional<Expr> all;
  for (const ProductFactor& f : factors)
    if (const auto one = asked || !is_asked(f) ? is_finite(f) : std::nullopt)
      all = all ? Expr(poly::Apply{Op::And, {*all, *one}, DType::Bool}) : *one;
  return all;
}

std::vector<ProductFactor> each_finite(std::vector<ProductFactor> factors, DType type) {
  for (ProductFactor& f : factors)
    if (const auto one = is_asked(f) ? std::nullopt : is_finite(f))
      f.value = poly::Apply{Op::Select, {*one, in_type(f.value, type), none(type)}, type};
  return factors;
}

std::vector<ProductFactor> alike(const Statement& s, std::vector<ProductFactor> factors) {
  std::ranges::stable_sort(factors, std::less<>(), [&](const ProductFactor& f) {
    std::vector<poly::TensorId> ids;
    for (const Expr& part : poly::parts(f.value))
      if (const auto* read = part.as<poly::Read>())
        ids.push_back(s.reads[static_cast<std::size_t>(read->read)].tensor);
    return ids;
  });
  return factors;
}

Expr FiniteGuard::operator()(const Expr& value) const {
  const DType type = value.type();
  Expr otherwise = none(type);
  if (reached)
    otherwise = poly::Apply{Op::Select,
        {Expr(poly::Apply{Op::Ne, {*reached, Expr(poly::Number{reached->type()})}, DType::Bool}), otherwise,
            Expr(poly::Number{type})},
        type};
  return poly::Apply{Op::Select, {finite, value, otherwise}, type};
}

Expr joined(const FactoredProduct& product, const std::vector<ProductFactor>& factors, DType type,
    const std::optional<FiniteGuard>& guard) {
  std::optional<Expr> value, when;
  for (const ProductFactor& f : factors) {
    if (f.role == Role::When) when = when ? Expr(poly::Apply{Op::And, {*when, f.value}, DType::Bool}) : f.value;
    else if (f.role == Role::Times)
      value = value ? Expr(poly::Apply{product.op, {*value, in_type(f.value, type)}, type}) : in_type(f.value, type);
  }
  if (!value) value = Expr(poly::Number{type, 1, lang::is_float(type) ? 1.0 : 0.0});
  for (const ProductFactor& f : factors)
    if (f.role == Role::Over) value = poly::Apply{Op::Div, {*value, in_type(f.value, type)}, type};
  if (guard) value = (*guard)(*value);
  return when ? Expr(poly::Apply{Op::Select, {*when, *value, Expr(poly::Number{type})}, type}) : *value;
}

bool keeps_range(const std::vector<ProductFactor>& factors) {
  const auto half = [](const ProductFactor& f) {
    const auto* cast = f.value.as<poly::Cast>();
    return f.role == Role::When || f.value.as<poly::Number>() ||
        (f.role == Role::Times && cast && cast->operand.type() == DType::F16);
  };
  return factors.size() <= 4 && std::all_of(factors.begin(), factors.end(), half);
}

DType type_of_sums(const FactoredProduct& product, const std::vector<bool>& inside,
    const std::vector<ProductFactor>& factors, DType type) {
  if (product.op != Op::Mul || type != DType::F32 || keeps_range(factors)) return type;
  const auto counts = [&](std::size_t f) {
    return product.factors[f].role != Role::When && !product.factors[f].value.as<poly::Number>();
  };
  const auto is_written = [&](const std::pair<std::size_t, std::size_t>& range) {
    for (std::size_t f = 0; f < inside.size(); ++f)
      if (counts(f) && inside[f] != (f >= range.first && f < range.second)) return false;
    return true;
  };
  std::size_t several = 0;
  for (std::size_t f = 0; f < inside.size(); ++f)
    several += inside[f] && (counts(f) || product.factors[f].role == Role::Over);
  return several < 2 || std::any_of(product.written.begin(), product.written.end(), is_written) ? type : DType::F64;
}

}  // namespace tilec::codegen
