#include "codegen/model/footprint.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/model/machine.h"

namespace tilec::codegen::model {

namespace {

struct Side { std::int64_t stride, extent; };

std::vector<Side> sides_of(const FlatAccess& access, const std::vector<std::int64_t>& extent) {
  std::vector<Side> sides;
  for (std::size_t d = 0; d < extent.size(); ++d)
    if (const std::int64_t stride = std::abs(access.offset.coefficients[d]); stride != 0 && extent[d] > 1) sides.push_back({stride, extent[d]});
  std::ranges::sort(sides, {}, &Side::stride);
  return sides;
}

// Sums of the sides' steps that differ: a side within what the closer ones span adds what it spans beyond them.
double distinct(const std::vector<Side>& sides) {
  double count = 1, span = 1;
  std::int64_t grid = 0;
  for (const Side& side : sides) {
    grid = std::gcd(grid, side.stride);
    const double further = static_cast<double>(side.stride) * static_cast<double>(side.extent - 1);
    const double apart = count * static_cast<double>(side.extent);
    count = static_cast<double>(side.stride) >= span ? apart : std::min(apart, (span + further - 1) / static_cast<double>(grid) + 1);
    span += further;
  }
  return count;
}

// Lines or pages, by their bytes.
double units(const std::vector<Side>& sides, double bytes, double unit) {
  double run = bytes, pieces = 1, span = bytes;        // bytes of a piece without holes, how many there are, and from the first to the last
  bool aligned = true;                                 // every piece starts where the first one does in its unit
  for (const Side& side : sides) {
    const double step = static_cast<double>(side.stride) * bytes;
    const double further = step * static_cast<double>(side.extent - 1);
    if (pieces == 1 && step <= std::max(unit, run)) run += further;
    else {
      pieces *= static_cast<double>(side.extent);
      aligned = aligned && std::fmod(step, unit) == 0;
    }
    span += further;
  }
  const double of_a_piece = aligned ? std::ceil(run / unit) : 1 + (run - bytes) / unit;
  const double all = std::ceil(span / unit);
  return std::min(pieces * of_a_piece, all);
}

}  // namespace

Footprint footprint(const FlatAccess& access, const std::vector<std::int64_t>& extent, std::int64_t element_bytes) {
  const std::vector<Side> sides = sides_of(access, extent);
  return {distinct(sides), units(sides, static_cast<double>(element_bytes), line), units(sides, static_cast<double>(element_bytes), page)};
}

}  // namespace tilec::codegen::model
