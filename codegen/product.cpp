#include "codegen/product.h"

#include <cmath>

#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

// Exponents of two. Factors are kept within 2^±factor and m within 2^±mantissa, so that their product is a normal
// number; a step takes any finite number there, subnormal ones too.
struct Limits { int step, factor, mantissa; };
Limits limits(DType type) { return type == DType::F64 ? Limits{768, 480, 384} : Limits{96, 60, 48}; }

Expr real(DType type, double value) { return Constant{type, 0, value}; }
Expr count(std::int64_t value) { return Constant{DType::I32, value, 0}; }
Expr add(const Expr& a, const Expr& b) { return Operation{Op::Add, {a, b}, a.type()}; }
Expr times(const Expr& a, const Expr& b) { return Operation{Op::Mul, {a, b}, a.type()}; }
Expr choose(const Expr& condition, const Expr& a, const Expr& b) {
  return Operation{Op::Select, {condition, a, b}, a.type()};
}
Expr greater(const Expr& a, const Expr& b) { return Operation{Op::Gt, {a, b}, DType::Bool}; }
Expr lesser(const Expr& a, const Expr& b) { return Operation{Op::Lt, {a, b}, DType::Bool}; }

Expr named(Body& body, Names& names, const std::string& stem, const Expr& value) {
  const std::string name = names.fresh(stem);
  body.push_back(stmt(Let{name, value}));
  return Variable{name, value.type()};
}

// x * 2^(step*e), as a pair.
struct Pair { Expr x, e; };

// One step towards 1 where |x| is beyond 2^±limit; `unit` is what a step counts.
Pair moved(Body& body, Names& names, const Pair& p, double limit, int step, int unit) {
  const DType type = p.x.type();
  const Expr size = named(body, names, "size", Operation{Op::Abs, {p.x}, type});
  const Expr large = named(body, names, "large", greater(size, real(type, std::exp2(limit)))),
             small = named(body, names, "small", lesser(size, real(type, std::exp2(-limit))));
  const Expr by = choose(
      large, real(type, std::ldexp(1.0, -step)), choose(small, real(type, std::ldexp(1.0, step)), real(type, 1)));
  const Expr change = choose(large, count(unit), choose(small, count(-unit), count(0)));
  return {named(body, names, "x", times(p.x, by)), named(body, names, "e", add(p.e, change))};
}

// x * 2^step where e has such a step left.
Pair given_back(Body& body, Names& names, const Pair& p, int step, int unit) {
  const DType type = p.x.type();
  const Expr up = named(body, names, "up", greater(p.e, count(unit - 1))),
             down = named(body, names, "down", lesser(p.e, count(1 - unit)));
  const Expr by =
      choose(up, real(type, std::ldexp(1.0, step)), choose(down, real(type, std::ldexp(1.0, -step)), real(type, 1)));
  const Expr change = choose(up, count(-unit), choose(down, count(unit), count(0)));
  return {named(body, names, "x", times(p.x, by)), named(body, names, "e", add(p.e, change))};
}

Pair held(const Scaled& product, std::int64_t slot, DType type) {
  return {Load{product.mantissa, Expr(slot), type}, Load{product.exponent, Expr(slot), DType::I32}};
}

void multiply(Body& body, Names& names, const Scaled& product, std::int64_t slot, const Pair& factor) {
  const Limits l = limits(factor.x.type());
  const Pair before = held(product, slot, factor.x.type());
  const Pair after = moved(body, names,
      {named(body, names, "x", times(before.x, factor.x)), named(body, names, "e", add(before.e, factor.e))},
      l.mantissa, l.step, 1);
  body.push_back(stmt(Store{product.mantissa, Expr(slot), after.x}));
  body.push_back(stmt(Store{product.exponent, Expr(slot), after.e}));
}

}  // namespace

bool has_scale(Aggregation how, DType type) { return how == Aggregation::Product && lang::is_float(type); }

void begin_product(Body& body, const Scaled& product, std::int64_t slot, DType type) {
  body.push_back(stmt(Store{product.mantissa, Expr(slot), real(type, 1)}));
  body.push_back(stmt(Store{product.exponent, Expr(slot), count(0)}));
}

void multiply(Body& body, Names& names, const Scaled& product, std::int64_t slot, const Expr& factor) {
  const Limits l = limits(factor.type());
  multiply(
      body, names, product, slot, moved(body, names, {named(body, names, "x", factor), count(0)}, l.factor, l.step, 1));
}

void multiply_by_slot(
    Body& body, Names& names, const Scaled& product, std::int64_t slot, std::int64_t other, DType type) {
  multiply(body, names, product, slot, held(product, other, type));
}

// Beyond three steps m has become infinite or 0.
Expr product_of(Body& body, Names& names, const Scaled& product, std::int64_t slot, DType type) {
  Pair p = held(product, slot, type);
  for (int turn = 0; turn < 3; ++turn) p = given_back(body, names, p, limits(type).step, 1);
  return p.x;
}

namespace {

Expr logical(Op op, const Expr& a, const Expr& b) { return Operation{op, {a, b}, DType::Bool}; }
Expr negated(const Expr& a) { return Operation{Op::Not, {a}, DType::Bool}; }

// What kind of factor it is, and what stands for it in the product: 1 or -1 for those that are counted.
struct Kinds { Expr zero, infinite, nan, plain; };

Kinds kinds(Body& body, Names& names, const Expr& factor) {
  const DType type = factor.type();
  const Expr x = named(body, names, "x", factor);
  const Expr zero = named(body, names, "zero", Operation{Op::Eq, {x, real(type, 0)}, DType::Bool});
  const Expr nan = named(body, names, "nan", Operation{Op::IsNan, {x}, DType::Bool});
  const Expr finite = named(body, names, "finite", Operation{Op::IsFinite, {x}, DType::Bool});
  const Expr infinite = named(body, names, "infinite", logical(Op::And, negated(finite), negated(nan)));
  const Expr sign = choose(lesser(x, real(type, 0)), real(type, -1), real(type, 1));
  return {zero, infinite, nan, named(body, names, "plain", choose(logical(Op::And, finite, negated(zero)), x, sign))};
}

// Counts of a kind: held before, or after taking one factor out.
Expr counted(const std::string& view, std::int64_t slot) { return Load{view, Expr(slot), DType::I32}; }
Expr one_if(const Expr& condition) { return choose(condition, count(1), count(0)); }
Expr left_without(const std::string& view, std::int64_t slot, const Expr& condition) {
  return greater(counted(view, slot), one_if(condition));
}

}  // namespace

void allocate_divisible(Body& body, Names& names, Divisible& product, std::int64_t slots, DType type) {
  product = {{names.fresh("mantissa"), names.fresh("exponent")}, names.fresh("zeros"), names.fresh("infinities"),
      names.fresh("nans")};
  body.push_back(stmt(Allocate{product.product.mantissa, type, slots, Memory::Register}));
  for (const std::string& view : {product.product.exponent, product.zeros, product.infinities, product.nans})
    body.push_back(stmt(Allocate{view, DType::I32, slots, Memory::Register}));
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    begin_product(body, product.product, slot, type);
    for (const std::string& view : {product.zeros, product.infinities, product.nans})
      body.push_back(stmt(Store{view, Expr(slot), count(0)}));
  }
}

void multiply_divisible(Body& body, Names& names, const Divisible& product, std::int64_t slot, const Expr& factor) {
  const Kinds is = kinds(body, names, factor);
  multiply(body, names, product.product, slot, is.plain);
  const auto add_one = [&](const std::string& view, const Expr& condition) {
    body.push_back(stmt(Store{view, Expr(slot), add(counted(view, slot), one_if(condition))}));
  };
  add_one(product.zeros, is.zero);
  add_one(product.infinities, is.infinite);
  add_one(product.nans, is.nan);
}

// The mantissas of factors are within 2^±factor, so a quotient, and after a step its product with another, are normal
// numbers.
Expr product_with(
    Body& body, Names& names, const Divisible& product, std::int64_t slot, const Expr& factor, const Expr& instead) {
  const DType type = factor.type();
  const Limits l = limits(type);
  const Kinds is = kinds(body, names, factor);
  const Pair all = held(product.product, slot, type),
             out = moved(body, names, {is.plain, count(0)}, l.factor, l.step, 1),
             in = moved(body, names, {named(body, names, "x", instead), count(0)}, l.factor, l.step, 1);
  const Pair others = moved(body, names,
      {named(body, names, "x", Operation{Op::Div, {all.x, out.x}, type}),
          named(body, names, "e", Operation{Op::Sub, {all.e, out.e}, DType::I32})},
      l.mantissa, l.step, 1);
  const Expr infinite =
      choose(left_without(product.infinities, slot, is.infinite), real(type, INFINITY), real(type, 1));
  const Expr special = choose(left_without(product.nans, slot, is.nan), real(type, NAN),
      times(choose(left_without(product.zeros, slot, is.zero), real(type, 0), real(type, 1)), infinite));
  Pair p{named(body, names, "x", times(times(others.x, in.x), named(body, names, "special", special))),
      named(body, names, "e", add(others.e, in.e))};
  for (int turn = 0; turn < 3; ++turn) p = given_back(body, names, p, l.step, 1);
  return p.x;
}

// Every lane's m is brought within 2^±0.5 first: of 128 of them no partial product leaves 2^±64.
Expr product_over_lanes(
    Body& body, Names& names, const Scaled& product, std::int64_t slot, DType type, const std::string& lanes) {
  const int step = limits(type).step, most = type == DType::F64 ? 512 : 64;
  Pair p = held(product, slot, type);
  p.e = named(body, names, "e", times(p.e, count(step)));
  for (int by = most; by >= 1; by /= 2) p = moved(body, names, p, by / 2.0, by, by);
  const std::string mantissa = names.fresh("product"), exponent = names.fresh("exponent");
  body.push_back(stmt(Fold{mantissa, Aggregation::Product, p.x, lanes}));
  body.push_back(stmt(Fold{exponent, Aggregation::Sum, p.e, lanes}));
  Pair all{Variable{mantissa, type}, Variable{exponent, DType::I32}};
  for (int turn = 0; turn < 3; ++turn) all = given_back(body, names, all, step, step);
  for (int by = most; by >= 1; by /= 2) all = given_back(body, names, all, by, by);
  return all.x;
}

}  // namespace tilec::codegen
