// Integers of sizes, rows, lattices, strides and counts: 64 bits, whose sums and products are exact or throw. Nothing
// wraps.
//
//   Exact sum = constant;  sum += Exact(coefficient) * begin;  sum.get()
//
// The error says which operation it was. Who works on one statement says where (`located`); codegen::compile reports
// it.
#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "lang/source.h"

namespace tilec::poly {

struct SizeError : std::runtime_error {
  using std::runtime_error::runtime_error;
  lang::Span span;                                     // of what was computed; empty until somebody knows
};
struct Overflow : SizeError { using SizeError::SizeError; };

[[noreturn]] void overflow(std::int64_t a, char operation, std::int64_t b);

class Exact {
 public:
  constexpr Exact(std::int64_t value = 0) : value_(value) {}  // NOLINT: implicit on purpose
  constexpr std::int64_t get() const { return value_; }
  constexpr auto operator<=>(const Exact&) const = default;

  friend Exact operator+(Exact a, Exact b) {
    std::int64_t result;
    if (__builtin_add_overflow(a.value_, b.value_, &result)) overflow(a.value_, '+', b.value_);
    return result;
  }
  friend Exact operator-(Exact a, Exact b) {
    std::int64_t result;
    if (__builtin_sub_overflow(a.value_, b.value_, &result)) overflow(a.value_, '-', b.value_);
    return result;
  }
  friend Exact operator*(Exact a, Exact b) {
    std::int64_t result;
    if (__builtin_mul_overflow(a.value_, b.value_, &result)) overflow(a.value_, '*', b.value_);
    return result;
  }
  Exact operator-() const { return Exact(0) - *this; }
  Exact& operator+=(Exact other) { return *this = *this + other; }
  Exact& operator-=(Exact other) { return *this = *this - other; }
  Exact& operator*=(Exact other) { return *this = *this * other; }

 private:
  std::int64_t value_;
};

// sum + a·b.
inline void add_product(std::int64_t& sum, std::int64_t a, std::int64_t b) { sum = (sum + Exact(a) * b).get(); }

// The elements of a shape. None where an extent is 0, however large the others are.
template <class Extents> std::int64_t product(const Extents& extents) {
  Exact count = 1;
  for (const std::int64_t extent : extents)
    if (extent == 0) return 0;
  for (const std::int64_t extent : extents) count *= extent;
  return count.get();
}

// f(), whose errors are about the text at `span`.
template <class F> auto located(lang::Span span, F f) {
  try {
    return f();
  } catch (SizeError& error) {
    if (error.span == lang::Span{}) error.span = span;
    throw;
  }
}

}  // namespace tilec::poly
