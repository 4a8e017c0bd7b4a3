#include "codegen/rewrite/projection.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tilec::codegen {

namespace {

constexpr std::int64_t far = std::int64_t{1} << 30;

bool is_near(const poly::Row& row) {
  const auto near = [](std::int64_t c) { return c > -far && c < far; };
  return row.divisor == 1 && near(row.constant) && near(row.extent.value_or(0)) &&
      std::all_of(row.coefficients.begin(), row.coefficients.end(), near);
}

// 0 <= row, and what its extent says.
std::vector<poly::Row> halves_of(const poly::Row& row) {
  std::vector<poly::Row> halves{{row.coefficients, row.constant, 1, std::nullopt}};
  if (!row.extent) return halves;
  poly::Row above{row.coefficients, *row.extent - 1 - row.constant, 1, std::nullopt};
  for (std::int64_t& c : above.coefficients) c = -c;
  halves.push_back(std::move(above));
  return halves;
}

}  // namespace

std::optional<std::vector<poly::Row>> without(const std::vector<poly::Row>& rows, std::size_t k) {
  std::vector<poly::Row> result, below, above;
  for (const poly::Row& row : rows) {
    if (!row.coefficients[k]) {
      result.push_back(row);
      continue;
    }
    if (!is_near(row)) return std::nullopt;
    for (poly::Row& half : halves_of(row)) (half.coefficients[k] > 0 ? below : above).push_back(std::move(half));
  }
  for (const poly::Row& low : below)
    for (const poly::Row& high : above) {
      const std::int64_t a = low.coefficients[k], b = -high.coefficients[k];
      if (a != 1 && b != 1) return std::nullopt;
      poly::Row both{low.coefficients, b * low.constant + a * high.constant, 1, std::nullopt};
      for (std::size_t i = 0; i < both.coefficients.size(); ++i)
        both.coefficients[i] = b * low.coefficients[i] + a * high.coefficients[i];
      result.push_back(std::move(both));
    }
  return result;
}

}  // namespace tilec::codegen
