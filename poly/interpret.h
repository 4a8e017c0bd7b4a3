// Executes a Program by definition: the oracle for every backend. Runs after any pass on bound Programs.
//
// Integers in their own width (wrapping), floats in double, rounded to the tensor's type where a tensor is stored; a
// Cast rounds too. Iterates the integer points of the domain (hull by interval arithmetic when it is not there yet).
#pragma once
#include <cstdint>
#include <vector>
#include "poly/array.h"
#include "poly/program.h"
namespace tilec::poly {

struct Interpretation {
  std::vector<Array> outputs;                          // in the order of Program::outputs
  std::vector<std::vector<double>> magnitudes;         // per output element, about Σ|terms| of its fold and of what it
                                                       // read: a backend may be off by 8·eps(type)·this; 0: exact; of
                                                       // other types than floats the error itself
};

double round_to(DType type, double value);             // f16, bf16, f32: nearest even
std::int64_t wrap_to(DType type, std::int64_t value);  // integers; Bool: != 0

Interpretation interpret(const Program& program, const std::vector<Array>& inputs);

// One scalar operation with the total arithmetic of docs/language.md#types; shared by constant folding.
Number evaluate(Op op, const std::vector<Number>& operands, DType type);
Number convert(const Number& value, DType type);

}  // namespace tilec::poly
