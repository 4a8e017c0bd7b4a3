// Expressions of f64 by name, and sums and products that keep what rounding loses (Knuth 1969; Dekker 1971).
//
//   a + b     ⇒   high = a + b, other = high - a, low = (a - (high - other)) + (b - other): high + low is a + b exactly
#pragma once

#include "codegen/loops.h"

namespace tilec::codegen::doubles {

inline Expr real(double value) { return Constant{DType::F64, 0, value}; }
inline Expr times(const Expr& a, const Expr& b) { return Operation{Op::Mul, {a, b}, a.type()}; }
inline Expr plus(const Expr& a, const Expr& b) {
  return a.type() == DType::I64 ? a + b : Expr(Operation{Op::Add, {a, b}, a.type()});
}
inline Expr minus(const Expr& a, const Expr& b) { return Operation{Op::Sub, {a, b}, DType::F64}; }
inline Expr negated(const Expr& a) { return Operation{Op::Neg, {a}, DType::F64}; }
inline Expr size_of(const Expr& a) { return Operation{Op::Abs, {a}, a.type()}; }
inline Expr chosen(const Expr& c, const Expr& a, const Expr& b) { return Operation{Op::Select, {c, a, b}, a.type()}; }
inline Expr logical(Op op, const Expr& a, const Expr& b) { return Operation{op, {a, b}, DType::Bool}; }
inline Expr below(const Expr& a, double b) { return Operation{Op::Lt, {a, real(b)}, DType::Bool}; }

}  // namespace tilec::codegen::doubles
