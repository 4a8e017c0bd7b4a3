// Elementwise statements: one Assign with one index per dimension, the whole expression as its value.
//
//   Y = A + B;   with A[M, N], B[N]      ⇒   Y[i, j: M, N] = =(A[i, j] + B[j]);
//
// In:  an expression over whole tensors.   Out: nodes at the end of the scope's Program.
#pragma once

#include "poly/scalar.h"

namespace tilec::poly {

struct ElementwiseTarget {
  std::string name;
  std::optional<DType> dtype = {};                     // written by the user
  std::string kernel_name = {};
  Span span = {};
};

// What `expr` becomes: a tensor, or, without tensors and a written type, a size or a scalar that waits for its type.
std::optional<Named> elementwise(Scope& scope, const ElementwiseTarget& target, const lang::Expr& expr);

// A tensor for a value that has to be stored: an output, a default, the operand of a reshape.
std::optional<TensorId> stored(Scope& scope, const Named& named, const ElementwiseTarget& target);

// target = tensor, of another type if the target has one.
std::optional<Named> copied(Scope& scope, TensorId tensor, const ElementwiseTarget& target);
// The same, broadcast to a shape it fits.
std::optional<Named> spread(Scope& scope, TensorId tensor, const Shape& shape, const ElementwiseTarget& target);

// The tensor an expression is: itself when it names one, else a new one called `name`.
std::optional<TensorId> tensor_of(Scope& scope, const lang::Expr& expr, const std::string& name);

// nothing after a report of an overflow
std::optional<Size> element_count(Scope& scope, const Shape& shape, Span span);

// `operand` seen as `shape`: a View of it when only ones come or go, else a View of a new tensor that a Reshape fills.
std::optional<View> reshape(Scope& scope, TensorId operand, const Shape& shape, const std::string& name, Span span);

}  // namespace tilec::poly
