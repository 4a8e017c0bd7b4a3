// A scalar of the interpreter, with how far from it a backend may be.
//
//   apply_real(Op::Add, F32, {0.1f, ea}, {0.2f, eb})   ⇒   {0.3f, ea + eb + 2 ulp}
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "poly/interpret.h"

namespace tilec::poly {

inline constexpr double infinity = std::numeric_limits<double>::infinity();  // of an error: nothing is known

struct Value { double real = 0; std::int64_t integer = 0; double error = 0; };  // a float in `real`, anything else in `integer`
struct Stored { Array array; std::vector<double> errors; };  // a tensor while the Program runs

Value load(const Stored& tensor, std::size_t at);
void store(Stored& tensor, std::size_t at, const Value& value);

double epsilon(DType type);
double as_real(DType type, const Value& value);
double distance(double a, double b);                   // |a - b|; unbounded where that is no number

Value apply_real(Op op, DType type, const Value& a, const Value& b, const Value& c);
Value apply_integer(Op op, DType type, const Value& a, const Value& b, const Value& c);
Value compare(Op op, DType type, const Value& a, const Value& b);
Value choose(DType condition_type, DType type, const Value& condition, const Value& a, const Value& b);
Value cast(DType from, DType to, const Value& value);

// What an element has gathered so far.
// A product is value·2^exponent: partial products have no range of their own.
struct Fold { Value value; double terms = 0; std::int64_t count = 0, exponent = 0; };
void fold(Aggregation aggregation, DType type, Fold& fold, const Value& value);
Value finished(Aggregation aggregation, DType type, DType target, const Fold& fold);  // rounded to the target

}  // namespace tilec::poly
