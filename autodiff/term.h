// Spelling scalar expressions: the few constructors that derivatives are written with.
//
// They fold nothing but the neutral element (1·x, x/1), which is exact for every x; 0·x stays, since it is NaN at
// infinity.
#pragma once

#include <utility>

#include "poly/intern.h"
#include "poly/program.h"

namespace tilec::autodiff::term {

using poly::with_leaves;

using lang::DType;
using lang::Op;
using poly::Expr;

inline Expr number(DType type, double value) {
  poly::Number n{type};
  if (lang::is_float(type)) n.real = value;
  else n.integer = static_cast<std::int64_t>(value);
  return n;
}

inline bool is_number(const Expr& e, double value) {
  const auto* n = e.as<poly::Number>();
  return n && (lang::is_float(n->type) ? n->real == value : static_cast<double>(n->integer) == value);
}

// The value in another type. Numbers convert at once where that is exact: float → wider float.
inline Expr cast(const Expr& e, DType type) {
  if (e.type() == type) return e;
  if (const auto* n = e.as<poly::Number>();
      n && lang::is_float(n->type) && lang::is_float(type) && lang::bits(type) > lang::bits(n->type))
    return number(type, n->real);
  return poly::Cast{e, type};
}

inline Expr add(const Expr& a, const Expr& b) { return poly::Apply{Op::Add, {a, b}, a.type()}; }
inline Expr sub(const Expr& a, const Expr& b) { return poly::Apply{Op::Sub, {a, b}, a.type()}; }
inline Expr neg(const Expr& a) { return poly::Apply{Op::Neg, {a}, a.type()}; }
inline Expr mul(const Expr& a, const Expr& b) {
  if (is_number(a, 1)) return b;
  if (is_number(b, 1)) return a;
  return poly::Apply{Op::Mul, {a, b}, a.type()};
}
inline Expr div(const Expr& a, const Expr& b) {
  return is_number(b, 1) ? a : Expr(poly::Apply{Op::Div, {a, b}, a.type()});
}
inline Expr call(Op op, const Expr& a) { return poly::Apply{op, {a}, a.type()}; }
inline Expr call(Op op, const Expr& a, const Expr& b) { return poly::Apply{op, {a, b}, a.type()}; }
inline Expr compare(Op op, const Expr& a, const Expr& b) { return poly::Apply{op, {a, b}, DType::Bool}; }
inline Expr both(const Expr& a, const Expr& b) { return poly::Apply{Op::And, {a, b}, DType::Bool}; }
inline Expr select(const Expr& condition, const Expr& a, const Expr& b) {
  return poly::Apply{Op::Select, {condition, a, b}, a.type()};
}

// The expression with its reads numbered anew.
template <class Renumber> Expr renumbered(const Expr& e, const Renumber& renumber) {
  return with_leaves(e, [&](const Expr& leaf) -> Expr {
    const auto* read = leaf.as<poly::Read>();
    return read ? Expr(poly::Read{renumber(read->read), read->type}) : leaf;
  });
}

}  // namespace tilec::autodiff::term
