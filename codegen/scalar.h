// From a Program's scalars to those of Loops.
#pragma once

#include <functional>
#include <vector>

#include "codegen/loops.h"
#include "poly/program.h"

namespace tilec::codegen {

bool is_const(const Expr& e);
std::int64_t const_or(const Expr& e, std::int64_t otherwise);

// Arithmetic is done in f32 where the program says f16 or bf16 (Loops rule 9).
DType compute_type(DType type);
Expr convert(const Expr& e, DType type);
Expr constant_of(const poly::Number& number);
// A cast of the program, `value` being the value of `of`: to f16 or bf16 it rounds, and goes on in f32; of f16 or bf16
// it first rounds what was computed in f32.
Expr cast(const Expr& value, const poly::Expr& of, DType to);
Expr identity(Aggregation how, DType type);            // what folding nothing gives: 0, 1, the extremes
Expr combine(Aggregation how, const Expr& acc, const Expr& x);

}  // namespace tilec::codegen
