// The value of a statement: text ⇒ typed expression over reads and indices.
//
//   +(exp(A[i, k] - Mx[i]) * W[k])       reads A[i, k], Mx[i], W[k]       exp(Read 0 - Read 1) * Read 2
//   Y = A + reshape(B, N, 1);            reads A[i, j], B[i]              Read 0 + Read 1
//
// Both statement kinds meet here. They differ in what a bare name is: in a contraction a scalar, a size or an index; in
// an elementwise statement a whole tensor, read at the point that broadcasting gives it.
#pragma once

#include "poly/broadcast.h"
#include "poly/scope.h"

namespace tilec::poly {

// A tensor seen under another shape: dimension k of the tensor is dimension becomes[k] of `shape`, or element 0.
struct View { TensorId tensor = -1; Shape shape; std::vector<std::optional<std::size_t>> becomes; };

struct Body {
  Scope& scope;
  std::vector<std::string> indices = {};               // Affine coefficients follow this order
  std::vector<Access> reads = {};
  const Shape* result = nullptr;                       // of an elementwise statement; null in a contraction
  std::vector<std::pair<lang::Expr, View>> views = {};  // reshapes of an elementwise statement, by node
  std::vector<std::pair<lang::Expr, Named>> made = {};  // what calls that make tensors stand for, by node
};

std::optional<Scalar> scalar_of(Body& body, const lang::Expr& expr);
// The same for the whole value of a statement: a bit operation on inputs of no known type wants them to be integers.
std::optional<Scalar> value_of_statement(Body& body, const lang::Expr& expr);

// The shape of an elementwise expression. Emits what its reshapes need before it; `name` is for tensors made on the
// way.
std::optional<Shape> shape_of(Body& body, const lang::Expr& expr, const std::string& name);

// The value of a name without type in this statement.
Scalar carried_here(Body& body, const Named& weak);
Expr read(Body& body, Access access);                  // the same access is read once

}  // namespace tilec::poly
