#include "codegen/model/footprint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "codegen/model/few.h"
#include "codegen/model/machine.h"

namespace tilec::codegen::model {

namespace {

struct Side { std::int64_t stride, extent; };
using Sides = Few<Side>;

// `extent`: of dimension d.
template <class Extent> Sides sides_of(const FlatAccess& access, std::size_t dims, Extent extent) {
  Sides sides;
  for (std::size_t d = 0; d < dims; ++d)
    if (const std::int64_t stride = std::abs(access.offset.coefficients[d]); stride != 0 && extent(d) > 1)
      sides.insert({stride, extent(d)}, &Side::stride);
  return sides;
}

Sides sides_of(const FlatAccess& access, std::span<const std::int64_t> extent) {
  return sides_of(access, extent.size(), [&](std::size_t d) { return extent[d]; });
}

// Sums of the sides' steps that differ: a side within what the closer ones span adds what it spans beyond them.
double distinct(const Sides& sides) {
  const auto grid_to = [&](const Side& last) {
    std::int64_t grid = 0;
    for (const Side* side = sides.begin(); side <= &last; ++side) grid = std::gcd(grid, side->stride);
    return static_cast<double>(grid);
  };
  double count = 1, span = 1;
  for (const Side& side : sides) {
    const double further = static_cast<double>(side.stride) * static_cast<double>(side.extent - 1);
    const double apart = count * static_cast<double>(side.extent);
    count = static_cast<double>(side.stride) >= span ? apart
                                                     : std::min(apart, (span + further - 1) / grid_to(side) + 1);
    span += further;
  }
  return count;
}

// Lines or pages, by their bytes.
double units(const Sides& sides, std::int64_t element_bytes, double unit) {
  const auto bytes = static_cast<double>(element_bytes);
  double run = bytes, pieces = 1, span = bytes;        // bytes of a piece without holes, how many there are, and from
                                                       // the first to the last
  bool aligned = true;                                 // every piece starts where the first one does in its unit
  for (const Side& side : sides) {
    const double step = static_cast<double>(side.stride) * bytes;
    const double further = step * static_cast<double>(side.extent - 1);
    if (pieces == 1 && step <= std::max(unit, run)) run += further;
    else {
      pieces *= static_cast<double>(side.extent);
      aligned = aligned && side.stride * element_bytes % static_cast<std::int64_t>(unit) == 0;
    }
    span += further;
  }
  const double of_a_piece = aligned ? std::ceil(run / unit) : 1 + (run - bytes) / unit;
  const double all = std::ceil(span / unit);
  return std::min(pieces * of_a_piece, all);
}

// Whether some step is a multiple of a quarter of a page, so that few sets of a cache may hold all.
bool may_crowd(const FlatAccess& access, std::int64_t element_bytes) {
  constexpr auto quarter = static_cast<std::int64_t>(page) / 4;
  return std::ranges::any_of(access.offset.coefficients,
      [&](std::int64_t stride) { return stride != 0 && stride * element_bytes % quarter == 0; });
}

// Sets of a first cache that hold any of the lines, of `sets`.
double used_sets(const Sides& sides, std::int64_t element_bytes) {
  constexpr auto of_line = static_cast<std::int64_t>(line);
  std::uint64_t used = 1;
  static_assert(sets == 64);
  for (const Side& side : sides) {
    const std::int64_t span = side.stride * element_bytes * (side.extent - 1),
                       step = std::max(side.stride * element_bytes, of_line);
    const std::uint64_t before = used;
    for (std::int64_t at = step; at <= span && at <= step * sets; at += step)
      used |= std::rotl(before, static_cast<int>(at / of_line % sets));
  }
  return std::popcount(used);
}

// Lines of a first cache that these lines take, as if all sets held as many as the fullest ones: more than there are
// where some hold more than they have ways.
double room(const Sides& sides, std::int64_t element_bytes, double lines) {
  constexpr auto of_line = static_cast<std::int64_t>(line);
  const bool may_share = std::ranges::any_of(
      sides, [&](const Side& side) { return side.stride * element_bytes % (2 * of_line) == 0; });
  if (lines <= least_ways || !may_share) return lines;
  const double deep = lines / used_sets(sides, element_bytes);
  return deep > least_ways ? deep * sets : lines;
}

}  // namespace

Footprints::Footprints(const FlatAccess& access, std::int64_t element_bytes) : element_bytes_(element_bytes) {
  for (std::size_t d = 0; d < access.offset.coefficients.size(); ++d)
    if (const std::int64_t stride = std::abs(access.offset.coefficients[d]); stride != 0)
      moves_.insert({stride, d}, &Moves::stride);
}

Footprint Footprints::of(std::span<const std::int64_t> extent) const {
  Sides sides;
  for (const auto& [stride, d] : moves_) if (extent[d] > 1) sides.push_back({stride, extent[d]});
  const double lines = units(sides, element_bytes_, line);
  return {distinct(sides), lines, units(sides, element_bytes_, page), room(sides, element_bytes_, lines)};
}

double elements_of(const FlatAccess& access, const Nest& nest) {
  return distinct(sides_of(access, nest.dims.size(), [&](std::size_t d) { return nest.dims[d].extent; }));
}

double elements_of(const FlatAccess& access, std::span<const std::int64_t> extent) {
  return distinct(sides_of(access, extent));
}

double sharing_sets(const FlatAccess& access, const Walk& walk, std::int64_t element_bytes) {
  if (!may_crowd(access, element_bytes)) return 1;
  const std::span<const std::int64_t> block = walk.boxes.back();
  std::vector<std::int64_t> extent(block.begin(), block.end());
  double lines = footprint(access, extent, element_bytes).lines;
  for (std::size_t at = walk.loops.size(); at-- > 0 && lines < sets;) {
    for (const std::size_t d : walk.loops[at].dims)
      extent[d] = std::min(walk.boxes[at][d], extent[d] * static_cast<std::int64_t>(std::ceil(sets / lines)));
    lines = footprint(access, extent, element_bytes).lines;
  }
  return std::min<double>(sets, lines) / used_sets(sides_of(access, extent), element_bytes);
}

}  // namespace tilec::codegen::model
