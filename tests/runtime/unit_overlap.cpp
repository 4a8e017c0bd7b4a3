// Overlap of strided tensors against the sets of bytes that they touch.
#include "runtime/overlap.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <random>
#include <set>

#include "runtime/error.h"

using namespace tilec;
using runtime::layout_of;

namespace {

struct Case { lang::DType dtype; std::vector<std::int64_t> shape, strides; std::int64_t at; };

std::vector<std::int64_t> addresses(const Case& c) {
  std::vector<std::int64_t> found{c.at};
  for (std::size_t d = 0; d < c.shape.size(); ++d) {
    std::vector<std::int64_t> more;
    for (const std::int64_t address : found)
      for (std::int64_t n = 0; n < c.shape[d]; ++n) more.push_back(address + n * c.strides[d] * lang::bytes(c.dtype));
    found = std::move(more);
  }
  return found;
}

std::set<std::int64_t> bytes(const Case& c) {
  std::set<std::int64_t> all;
  for (const std::int64_t address : addresses(c))
    for (int b = 0; b < lang::bytes(c.dtype); ++b) all.insert(address + b);
  return all;
}

runtime::Layout layout(const Case& c) { return layout_of("A", c.dtype, c.shape, c.strides); }
const void* pointer(const Case& c) { return reinterpret_cast<const void*>(c.at); }

Case random_case(std::mt19937_64& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  constexpr lang::DType types[] = {lang::DType::I8, lang::DType::F16, lang::DType::F32, lang::DType::F64};
  Case c{types[random() % 4], {}, {}, pick(10000, 10120)};
  for (std::int64_t d = pick(0, 4); d > 0; --d) {
    c.shape.push_back(pick(0, 20) == 0 ? 0 : pick(1, 4));
    c.strides.push_back(pick(-14, 14));
  }
  return c;
}

}  // namespace

TEST_CASE("two tensors overlap when they share a byte, and only then") {
  const char* const asked = std::getenv("TILEC_SEED");
  std::mt19937_64 random(asked != nullptr ? std::strtoull(asked, nullptr, 10) : 1);
  int shared = 0, apart = 0, folded = 0;
  for (int n = 0; n < 6000; ++n) {
    const Case a = random_case(random), b = random_case(random);
    const std::set<std::int64_t> of_a = bytes(a), of_b = bytes(b);
    bool meet = false;
    for (const std::int64_t byte : of_a) meet = meet || of_b.contains(byte);
    CHECK(runtime::overlap(layout(a), pointer(a), layout(b), pointer(b)) == meet);
    const bool meets_itself = of_a.size() < addresses(a).size() * static_cast<std::size_t>(lang::bytes(a.dtype));
    CHECK(runtime::overlaps_itself(layout(a)) == meets_itself);
    (meet ? shared : apart) += 1;
    folded += meets_itself;
  }
  CHECK(shared > 500);
  CHECK(apart > 500);
  CHECK(folded > 500);
}

TEST_CASE("quadrants, columns and diagonals of a large matrix are apart, their neighbours' edges are not") {
  const std::int64_t n = 20000, half = n / 2;
  const auto quadrant = [&](std::int64_t row, std::int64_t column) {
    return Case{lang::DType::F32, {half, half}, {n, 1}, 4096 + 4 * (row * n + column)};
  };
  const auto overlap = [](const Case& a, const Case& b) {
    return runtime::overlap(layout(a), pointer(a), layout(b), pointer(b));
  };
  CHECK_FALSE(overlap(quadrant(0, 0), quadrant(0, half)));
  CHECK_FALSE(overlap(quadrant(0, 0), quadrant(half, half)));
  CHECK_FALSE(overlap(quadrant(half, 0), quadrant(0, half)));
  CHECK(overlap(quadrant(0, 0), quadrant(half - 1, half - 1)));
  CHECK_FALSE(overlap({lang::DType::F32, {n}, {n}, 4096}, {lang::DType::F32, {n}, {n}, 4100}));
  CHECK(overlap({lang::DType::F32, {n}, {n + 1}, 4096}, {lang::DType::F32, {n, 1}, {n, 1}, 4096}));
  CHECK_FALSE(runtime::overlaps_itself(layout(quadrant(0, 0))));
}

TEST_CASE("a search that is made to last ends") {
  // Sums of thirty strides that all but reach each other: whether one is met is a knapsack. "They may" is the answer
  // then.
  Case a{lang::DType::I8, {}, {}, 1 << 20}, b{lang::DType::I8, {}, {}, (1 << 20) + 1};
  for (int d = 0; d < 30; ++d) {
    a.shape.push_back(2), a.strides.push_back((1 << 20) + 2 * d * d);
    b.shape.push_back(2), b.strides.push_back((1 << 20) + 2 * d * d + 2);
  }
  CHECK(runtime::overlap(layout(a), pointer(a), layout(b), pointer(b)));
}

TEST_CASE("addresses that do not fit are refused, and what is large but fits is not") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(layout_of("A", lang::DType::F64, {2}, {most / 4}), runtime::RuntimeError);
  CHECK_THROWS_AS(layout_of("A", lang::DType::F64, {3, 3}, {most / 20, -most / 20}), runtime::RuntimeError);
  CHECK_THROWS_AS(
      layout_of("A", lang::DType::I8, {2}, {std::numeric_limits<std::int64_t>::min()}), runtime::RuntimeError);
  const runtime::Layout wide = layout_of("A", lang::DType::I8, {2, 2}, {most / 2, -most / 2});
  CHECK_FALSE(runtime::overlap(wide, pointer({lang::DType::I8, {}, {}, 100}), layout_of("B", lang::DType::I8, {}, {}),
      reinterpret_cast<const void*>(101)));
  CHECK(runtime::overlaps_itself(wide));                  // 0 and most/2 - most/2
  CHECK(runtime::overlaps_itself(layout_of("A", lang::DType::I8, {most, 2}, {0, 1})));
  CHECK_FALSE(runtime::overlaps_itself(layout_of("A", lang::DType::I8, {most, 0}, {most, 1})));
}
