// What isl is asked about integer points. Plain data in and out; every call has its own context and an operation cap,
// and answers nullopt when the cap is reached: the caller falls back, nobody waits.
//
//   0 <= x + y < 5,  0 <= x - y < 5    ⇒   0 <= x <= 4, -2 <= y <= 2
//
// Keeps: isl stays in solve.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tilec::poly {

// 0 <= (coefficients·i + constant)/divisor, < extent if any, and the division is exact.
struct Row {
  std::vector<std::int64_t> coefficients;
  std::int64_t constant = 0;
  std::int64_t divisor = 1;
  std::optional<std::int64_t> extent;
  bool operator==(const Row&) const = default;
};

struct Interval {                                      // both ends included; nullopt is infinity
  std::optional<std::int64_t> lower, upper;
  bool operator==(const Interval&) const = default;
};

namespace solve {

constexpr unsigned long operation_cap = 300'000;

// How often this thread asked, and how often the cap ended the answer; for tests.
struct Usage { int asked = 0, capped = 0; };
Usage usage();
void reset_usage();

struct Hull { bool empty = false; std::vector<Interval> index; };
std::optional<Hull> hull(const std::vector<Row>& rows, std::size_t indices, unsigned long cap = operation_cap);
std::optional<bool> is_empty(const std::vector<Row>& rows, std::size_t indices, unsigned long cap = operation_cap);

// Two different points on which all `forms` (coefficients only) agree. The inner optional is empty when there are none.
using Collision = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;
std::optional<std::optional<Collision>> collision(const std::vector<Row>& rows,
    const std::vector<std::vector<std::int64_t>>& forms, std::size_t indices, unsigned long cap = operation_cap);

}  // namespace solve
}  // namespace tilec::poly
