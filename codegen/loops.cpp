// Loops as a value, and i64 arithmetic that folds while it is spelled. loops_print.cpp prints them, loops_verify.cpp
// checks them.
#include "codegen/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "codegen/parts.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

Stmt::Stmt(const Stmt&) = default;
Stmt::Stmt(Stmt&&) noexcept = default;
Stmt& Stmt::operator=(const Stmt&) = default;
Stmt& Stmt::operator=(Stmt&&) noexcept = default;
Stmt::~Stmt() = default;

Expr::Expr(std::int64_t value) : Expr(Constant{DType::I64, value, 0}) {}
DType Expr::type() const { return std::visit([](const auto& n) { return n.type; }, *node_); }
bool Expr::operator==(const Expr& other) const { return node_.get() == other.node_.get() || *node_ == *other.node_; }

bool Constant::operator==(const Constant& other) const {
  return type == other.type && integer == other.integer &&
      std::bit_cast<std::int64_t>(real) == std::bit_cast<std::int64_t>(other.real);
}

// ---- spelling

Expr var(std::string name) { return Variable{std::move(name), DType::I64}; }

namespace {

using poly::Exact;

const std::int64_t* constant(const Expr& e) {
  const Constant* c = e.as<Constant>();
  return c && c->type == DType::I64 ? &c->integer : nullptr;
}

Expr i64_operation(Op op, const Expr& a, const Expr& b) { return Operation{op, {a, b}, DType::I64}; }

Expr add_constant(const Expr& e, std::int64_t c) {
  if (c == 0) return e;
  if (const std::int64_t* value = constant(e)) return Expr((Exact(*value) + c).get());
  return i64_operation(Op::Add, e, Expr(c));
}

Expr comparison(Op op, const Expr& a, const Expr& b, bool (*fold)(std::int64_t, std::int64_t)) {
  const std::int64_t *x = constant(a), *y = constant(b);
  if (x && y) return Constant{DType::Bool, fold(*x, *y) ? 1 : 0, 0};
  return Operation{op, {a, b}, DType::Bool};
}

}  // namespace

std::pair<Expr, std::int64_t> constant_apart(const Expr& e) {
  if (const std::int64_t* c = constant(e)) return {Expr(std::int64_t{0}), *c};
  const Operation* sum = e.as<Operation>();
  if (sum && sum->op == Op::Add && sum->type == DType::I64)
    if (const std::int64_t* c = constant(sum->operands[1])) return {sum->operands[0], *c};
  return {e, 0};
}

Expr operator+(const Expr& a, const Expr& b) {
  auto [x, p] = constant_apart(a);
  auto [y, q] = constant_apart(b);
  if (constant(x)) return add_constant(y, (Exact(p) + q).get());      // x is 0 here
  if (constant(y)) return add_constant(x, (Exact(p) + q).get());
  return add_constant(i64_operation(Op::Add, x, y), (Exact(p) + q).get());
}

Expr operator-(const Expr& a, const Expr& b) {
  auto [x, p] = constant_apart(a);
  auto [y, q] = constant_apart(b);
  const std::int64_t rest = (Exact(p) - q).get();
  if (constant(y)) return add_constant(x, rest);
  if (x == y) return Expr(rest);
  return add_constant(i64_operation(Op::Sub, x, y), rest);
}

Expr operator*(const Expr& a, const Expr& b) {
  const std::int64_t *x = constant(a), *y = constant(b);
  if (x && y) return Expr((Exact(*x) * *y).get());
  if (x) return b * a;
  if (y && *y == 0) return Expr(std::int64_t{0});
  if (y && *y == 1) return a;
  if (y) {
    const Operation* product = a.as<Operation>();
    if (product && product->op == Op::Mul)
      if (const std::int64_t* c = constant(product->operands[1]))
        return product->operands[0] * Expr((Exact(*c) * *y).get());
  }
  return i64_operation(Op::Mul, a, b);
}

Expr less(const Expr& a, const Expr& b) {
  return comparison(Op::Lt, a, b, [](std::int64_t x, std::int64_t y) { return x < y; });
}

Expr at_least(const Expr& a, const Expr& b) {
  return comparison(Op::Ge, a, b, [](std::int64_t x, std::int64_t y) { return x >= y; });
}

Expr both(const Expr& a, const Expr& b) {
  if (const Constant* c = a.as<Constant>()) return c->integer ? b : a;
  if (const Constant* c = b.as<Constant>()) return c->integer ? a : b;
  return Operation{Op::And, {a, b}, DType::Bool};
}

Expr minimum(const Expr& a, const Expr& b) {
  const std::int64_t *x = constant(a), *y = constant(b);
  if (x && y) return Expr(std::min(*x, *y));
  return a == b ? a : i64_operation(Op::Min, a, b);
}

Expr maximum(const Expr& a, const Expr& b) {
  const std::int64_t *x = constant(a), *y = constant(b);
  if (x && y) return Expr(std::max(*x, *y));
  return a == b ? a : i64_operation(Op::Max, a, b);
}

// Op::Div truncates, so a negative dividend is moved down first; a power of two is an arithmetic shift.
Expr floor_divide(const Expr& a, std::int64_t b) {
  if (b <= 0) throw lang::InternalError(fmt::format("floor_divide by {}", b));
  if (b == 1) return a;
  if (const std::int64_t* x = constant(a)) return Expr(*x / b - (*x % b < 0 ? 1 : 0));
  const auto divisor = static_cast<std::uint64_t>(b);
  if (std::has_single_bit(divisor)) return i64_operation(Op::Shr, a, Expr(std::int64_t{std::countr_zero(divisor)}));
  const Expr down =
      Operation{Op::Select, {less(a, Expr(std::int64_t{0})), Expr(1 - b), Expr(std::int64_t{0})}, DType::I64};
  return i64_operation(Op::Div, i64_operation(Op::Add, a, down), Expr(b));
}

Expr ceil_divide(const Expr& a, std::int64_t b) { return floor_divide(a + Expr(b - 1), b); }

Expr quotient(const Expr& a, std::int64_t b) { return b > 1 ? i64_operation(Op::Div, a, i64(b)) : a; }

Expr remainder(const Expr& a, std::int64_t b) { return b > 1 ? i64_operation(Op::Mod, a, i64(b)) : i64(0); }

}  // namespace tilec::codegen
