#include "codegen/model/footprint.h"

#include <algorithm>
#include <bitset>
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

double sharing_sets(const FlatAccess& access, const Walk& walk, std::int64_t element_bytes) {
  constexpr auto line_bytes = static_cast<std::int64_t>(line), quarter = static_cast<std::int64_t>(page) / 4;
  const auto crowds = [&](std::int64_t coefficient) { return coefficient != 0 && coefficient * element_bytes % quarter == 0; };
  if (std::ranges::none_of(access.offset.coefficients, crowds)) return 1;
  std::vector<std::int64_t> extent = walk.boxes.back();
  double lines = footprint(access, extent, element_bytes).lines;
  for (std::size_t at = walk.loops.size(); at-- > 0 && lines < sets;) {
    for (const std::size_t d : walk.loops[at].dims) extent[d] = std::min(walk.boxes[at][d], extent[d] * static_cast<std::int64_t>(std::ceil(sets / lines)));
    lines = footprint(access, extent, element_bytes).lines;
  }
  std::vector<std::int64_t> starts{0};                 // of lines, in bytes
  for (const Side& side : sides_of(access, extent)) {
    const std::int64_t step = std::max(side.stride * element_bytes, line_bytes);
    const std::int64_t count = (side.stride * element_bytes * (side.extent - 1) + element_bytes + step - 1) / step, before = std::ssize(starts);
    if (count * before > 16 * sets) return 1;          // spread over many lines of each set
    for (std::int64_t n = 1; n < count; ++n)
      for (std::int64_t s = 0; s < before; ++s) starts.push_back(starts[static_cast<std::size_t>(s)] + n * step);
  }
  std::bitset<sets> used;
  for (const std::int64_t start : starts) used.set(static_cast<std::size_t>(start / line_bytes % sets));
  return std::min<double>(sets, lines) / static_cast<double>(used.count());
}

}  // namespace tilec::codegen::model
