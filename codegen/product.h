// Products of floats, whose partial results leave no range.
//
//   *([1e30 1e30 1e-30 1e-30])      = 1, in any order, though 1e30 * 1e30 is infinite in f32
//   *([0 100 100 … 100])            = 0, though 39 factors of 100 in a lane of their own are infinite and infinity * 0
//                                   is NaN
//
// Blocks, lanes, threads and scans multiply in orders of their own, so an overflow in between must not be seen. An
// accumulator is a mantissa m and a count e of steps of 2^S: the product is m * 2^(S*e). Each factor, and then m, is
// moved by one step where it is far from 1. Powers of two are exact: what fits in the type has the bits of plain
// multiplication in the same order. An infinity or NaN among the factors stays what it is.
#pragma once

#include "codegen/loops.h"
#include "codegen/spelling.h"

namespace tilec::codegen {

// Whether a fold is spelled this way.
bool has_scale(Aggregation how, DType type);

// A register per accumulator for m and one for e.
struct Scaled { std::string mantissa, exponent; };

void begin_product(Body& body, const Scaled& product, std::int64_t slot, DType type);
void multiply(Body& body, Names& names, const Scaled& product, std::int64_t slot, const Expr& factor);
void multiply_by_slot(
    Body& body, Names& names, const Scaled& product, std::int64_t slot, std::int64_t other, DType type);
Expr product_of(Body& body, Names& names, const Scaled& product, std::int64_t slot, DType type);
// of all of them; uniform
Expr product_over_lanes(
    Body& body, Names& names, const Scaled& product, std::int64_t slot, DType type, const std::string& lanes);

// The product of all factors, from which any one can be taken out again: zeros, infinities and NaNs are left out of it
// and counted.
struct Divisible { Scaled product; std::string zeros, infinities, nans; };

void allocate_divisible(Body& body, Names& names, Divisible& product, std::int64_t slots, DType type);
void multiply_divisible(Body& body, Names& names, const Divisible& product, std::int64_t slot, const Expr& factor);
// The product with `instead` in place of one of its factors.
Expr product_with(
    Body& body, Names& names, const Divisible& product, std::int64_t slot, const Expr& factor, const Expr& instead);

}  // namespace tilec::codegen
