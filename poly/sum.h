// Sums of products of 64-bit integers that must fit at their end only, as where forms are composed.
//
//   Sum sum;  sum.add(1000000000000000, 999999999999999).add(-999999999999999, 1000000000000000);  sum.get()      ⇒  0
//
// Throws Overflow, as Exact does (exact.h), where the end does not fit, or the way there leaves 128 bits.
#pragma once

#include <numeric>

#include "poly/exact.h"

namespace tilec::poly {

class Sum {
 public:
  explicit Sum(std::int64_t start = 0) : value_(start) {}
  Sum& add(std::int64_t a, std::int64_t b) {
    if (__builtin_add_overflow(value_, static_cast<Wide>(a) * b, &value_)) overflow(a, '*', b);
    return *this;
  }
  // a divisor above 0
  std::int64_t common(std::int64_t divisor) const {
    return std::gcd(static_cast<std::int64_t>(value_ % divisor), divisor);
  }
  Sum over(std::int64_t divisor) const {               // where that divides it
    Sum quotient;
    quotient.value_ = value_ / divisor;
    return quotient;
  }
  std::int64_t get() const {
    if (value_ > INT64_MAX || value_ < INT64_MIN) throw Overflow("a sum of products does not fit 64 bits");
    return static_cast<std::int64_t>(value_);
  }

 private:
  __extension__ using Wide = __int128;
  Wide value_;
};

}  // namespace tilec::poly
