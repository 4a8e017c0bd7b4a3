// Scalar operations on LLVM values, as docs/language.md#types defines them: total, typed, the same for one value and
// for a vector.
//
//   apply(b, Op::Div, I32, {x, y})  ⇒  select(y == 0, 0, sdiv x, (y == 0 or x == min and y == -1 ? 1 : y))
//
// In registers Bool is i1, f16 and bf16 are their 16 bits (only convert() looks inside); in memory Bool is a byte 0 or
// 1. All operands have one shape: scalars, or vectors of one length.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "codegen/loops.h"

namespace tilec::codegen::llvm_backend {

using Builder = llvm::IRBuilder<>;

llvm::Type* element_type(llvm::LLVMContext& context, DType type);   // in a register
llvm::Type* storage_type(llvm::LLVMContext& context, DType type);   // in memory
llvm::Type* like(llvm::Type* element, llvm::Value* shape);           // `element`, or a vector of it as long as `shape`
llvm::Constant* constant(llvm::Type* type, double value);            // of a float type or vector of it
llvm::Constant* constant_integer(llvm::Type* type, std::int64_t value);

llvm::Value* to_storage(Builder& b, llvm::Value* value, DType type);
llvm::Value* from_storage(Builder& b, llvm::Value* value, DType type);

// `type`: of the operands (of the last two for Select).
llvm::Value* apply(Builder& b, Op op, DType type, std::span<llvm::Value* const> operands);
llvm::Value* combine(Builder& b, Aggregation how, DType type, llvm::Value* x, llvm::Value* y);
llvm::Value* convert(Builder& b, llvm::Value* value, DType from, DType to);

}  // namespace tilec::codegen::llvm_backend
