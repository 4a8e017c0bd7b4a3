// Elementary functions on f32 and f64, scalar or vector: own polynomials where they pay, libm lane by lane for the
// rest.
//
//   vector_math(b, Op::Exp, {<16 x float> x})  ⇒  20 instructions, at most 1 ulp, exp(-inf) = 0, exp(NaN) = NaN
//
// A scalar and a lane of a vector run the same arithmetic, so a tail gives the same bits as a full vector.
#pragma once

#include <span>

#include "codegen/llvm/arith.h"

namespace tilec::codegen::llvm_backend {

llvm::Value* vector_math(Builder& b, Op op, std::span<llvm::Value* const> operands);

}  // namespace tilec::codegen::llvm_backend
