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

// a float in `real`, anything else in `integer`
struct Value { double real = 0; std::int64_t integer = 0; double error = 0; };
// a tensor while the Program runs; exact: no element has an error
struct Stored { Array array; std::vector<double> errors; bool exact = false; };

// Values of one type at the points of a block.
constexpr std::size_t block_size = 512;                // columns of it stay in the first cache
struct Column {
  std::vector<double> real = std::vector<double>(block_size);
  std::vector<std::int64_t> integer = std::vector<std::int64_t>(block_size);
  std::vector<double> error = std::vector<double>(block_size);
  bool exact = true;                                   // all errors are 0, whatever `error` says
  Value at(std::size_t k) const { return {real[k], integer[k], exact ? 0 : error[k]}; }
  void set(std::size_t k, const Value& value) {
    real[k] = value.real;
    integer[k] = value.integer;
    error[k] = value.error;
    exact = exact && value.error == 0;
  }
};

Value load(const Stored& tensor, std::size_t at);
void load(const Stored& tensor, std::size_t count, const std::size_t* at, Column& result);
void store(Stored& tensor, std::size_t at, const Value& value);

double epsilon(DType type);
double largest(DType type);                             // finite one
double as_real(DType type, const Value& value);
double distance(double a, double b);                   // |a - b|; unbounded where that is no number

// `fuses`: a product that a backend may add without rounding it.
Value apply_real(Op op, DType type, const Value& a, const Value& b, const Value& c, bool fuses = false);
void apply_real(Op op, DType type, bool fuses, std::size_t count, const Column& a, const Column& b, const Column& c,
    Column& result);
Value apply_integer(Op op, DType type, const Value& a, const Value& b, const Value& c);
Value compare(Op op, DType type, const Value& a, const Value& b);
Value choose(DType condition_type, DType type, const Value& condition, const Value& a, const Value& b);
Value cast(DType from, DType to, const Value& value);

// What an element has gathered so far.
// A product is value·2^exponent: partial products have no range of their own.
// A sum of floats is value + rest, and `rest` what additions rounded away: in f64 there is no wider type for it.
// whole: all are whole numbers without an error
struct Fold {
  Value value;
  double rest = 0, terms = 0;
  std::int64_t count = 0, exponent = 0;
  bool whole = true;
};
void fold(Aggregation aggregation, DType type, Fold& fold, const Value& value);
// value k into folds[at[k]], in order
void fold(
    Aggregation aggregation, DType type, std::size_t count, const std::size_t* at, const Column& values, Fold* folds);
Value finished(Aggregation aggregation, DType type, DType target, const Fold& fold);  // rounded to the target

}  // namespace tilec::poly
