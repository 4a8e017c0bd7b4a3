// The scalar operations behind `evaluate` and `convert`, one representation at a time: what the interpreter calls per
// point.
#pragma once

#include <cstddef>
#include <cstdint>

#include "poly/program.h"

namespace tilec::poly {

double real_operation(Op op, DType type, double a, double b, double c);
// on each of them
void real_operation(
    Op op, DType type, std::size_t count, const double* a, const double* b, const double* c, double* result);
std::int64_t integer_operation(Op op, DType type, std::int64_t a, std::int64_t b, std::int64_t c);
bool compare_reals(Op op, DType type, double a, double b);
bool compare_integers(Op op, DType type, std::int64_t a, std::int64_t b);
std::int64_t real_to_integer(DType type, double value);  // saturates; NaN gives 0
double integer_to_real(DType from, DType to, std::int64_t value);
bool truth(const Number& value);                       // != 0; NaN is true

}  // namespace tilec::poly
