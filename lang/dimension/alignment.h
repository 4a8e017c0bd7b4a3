// Whole values that meet in an operation: their dimensions are aligned at the right.
//
//   A + B   with A[M, N], B[M]   ⇒   the M of B meets the N of A, though there is another M: a warning
#pragma once

#include <string_view>

#include "lang/dimension/shape.h"

namespace tilec::lang::dimensions {

Value meet(Tensors& here, const std::vector<Value>& operands, Span at);
// The shape of two that meet; names that are kept apart must not. how: in what way they meet.
Shape both(Tensors& here, const Shape& a, const Shape& b, std::string_view how);
void note_assertion(Tensors& here, const Expr& e);     // `assert_square(M == N)`

}  // namespace tilec::lang::dimensions
