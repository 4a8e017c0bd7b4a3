#include "codegen/choose/loop_order.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "codegen/model/estimates.h"
#include "codegen/model/few.h"
#include "codegen/model/footprint.h"
#include "codegen/model/thresholds.h"

namespace tilec::codegen {

namespace {

namespace blocks = model::blocks;

// More of it than the second cache holds.
bool from_afar(const Facts& f, const FlatAccess& read) {
  double elements = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (stride(read, d)) elements *= static_cast<double>(f.nest.dims[d].extent);
  return elements * static_cast<double>(f.stored) > static_cast<double>(f.l2);
}

// A window: its values share lines with those of an output, whatever the order.
bool slides(const Facts& f, std::size_t d) {
  for (std::size_t out = 0; out < f.extent.size(); ++out)
    if (!f.nest.dims[out].reduction && share_row(f.nest, d, out)) return true;
  return false;
}

// What most bytes of memory belong to: the target, or the read that is larger.
const FlatAccess& largest(const Facts& f) {
  const FlatAccess* most = &f.nest.target;
  const auto bytes = [&](const FlatAccess& access, std::int64_t each) {
    return std::ranges::find(f.nest.locals, access.tensor) != f.nest.locals.end()
        ? 0
        : model::elements_of(access, f.extent) * static_cast<double>(each);
  };
  double held = std::max(2 * bytes(f.nest.target, f.stored), model::ahead::kept);
  for (const FlatAccess& read : f.nest.reads)
    if (const double of_read = bytes(read, lang::bytes(f.nest.value->type())); of_read > held)
      most = &read, held = of_read;
  return *most;
}

}  // namespace

std::vector<std::size_t> reduction_order(const Facts& f, std::optional<std::size_t> lane) {
  bool far =
      std::any_of(f.nest.reads.begin(), f.nest.reads.end(), [&](const FlatAccess& read) { return from_afar(f, read); });
  for (std::size_t d = 0; d < f.extent.size(); ++d) far = far && !(f.nest.dims[d].reduction && slides(f, d));
  std::vector<std::size_t> k;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (f.nest.dims[d].reduction && !f.fixed[d] && d != lane) k.push_back(d);
  const auto weight = [&](std::size_t d) {
    std::int64_t sum = 0;
    for (const FlatAccess& read : f.nest.reads) sum += !far || from_afar(f, read) ? std::abs(stride(read, d)) : 0;
    return sum;
  };
  model::sort_few(k, [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  if (k.empty()) return k;
  // Steps of `d` should not go from page to page where those of the innermost one stay on a line.
  const auto pages = [&](std::size_t d) {
    return std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) {
      return std::abs(stride(read, d)) >= blocks::pages_apart && stride(read, k.back()) &&
          std::abs(stride(read, k.back())) < blocks::shuffled_apart;
    });
  };
  const auto longest_of = [&](auto may) {
    auto longest = k.end();
    for (auto d = k.begin(); d != k.end(); ++d)
      if (may(*d) && (longest == k.end() || f.extent[*d] > f.extent[*longest])) longest = d;
    return longest;
  };
  if (f.extent[k.back()] < (far ? blocks::short_loop_from_afar : blocks::short_loop)) {
    const auto longest = longest_of([](std::size_t) { return true; });
    if (f.extent[*longest] >= 2 * f.extent[k.back()] && !pages(*longest)) std::rotate(longest, longest + 1, k.end());
  }
  // Where no vector is without a border, what decides which lanes are left is found as rarely as may be.
  const auto masks = [&](std::size_t d) { return lane && share_row(f.nest, d, *lane); };
  if (masks(k.back()) &&
      interior(f, *lane) * static_cast<double>(f.extent[*lane]) <
          static_cast<double>(lanes_for(f, f.extent[*lane])))
    if (const auto longest = longest_of([&](std::size_t d) { return !masks(d); });
        longest != k.end() && f.extent[*longest] >= blocks::short_loop && !pages(*longest))
      std::rotate(longest, longest + 1, k.end());
  // What decides whether there are points is known before what they are summed over.
  for (std::size_t c = f.conditions.size(); c-- > 0;)
    if (const Condition& one = f.conditions[c]; !(lane && one.dims[*lane]) && asks_alone(f.nest, one))
      std::stable_partition(k.begin(), k.end(), [&](std::size_t d) { return one.dims[d]; });
  return k;
}

std::vector<std::size_t> outer_dims(
    const Facts& f, const Compute& leaf, std::optional<std::size_t> lane, std::optional<std::size_t> m) {
  const Nest& nest = f.nest;
  std::vector<std::size_t> outer;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (!f.fixed[d] && !nest.dims[d].reduction && d != lane && d != m) outer.push_back(d);
  // Outermost is the dimension with the longest stride. A contraction asks the tensor that has most bytes; rows that
  // are folded together ask all that they read, because the target is written once. A turned map, which reorders, asks
  // the tensor where the stride is shortest: the line that neighbours share there is still in a cache.
  const FlatAccess& most = leaf.is<forms::Contract>() ? largest(f) : nest.target;
  const auto apart = [&](std::size_t d) {
    if (leaf.is<forms::Reduce>() && m)
      return std::accumulate(nest.reads.begin(), nest.reads.end(), std::int64_t{0},
          [&](std::int64_t sum, const FlatAccess& read) { return sum + std::abs(stride(read, d)); });
    std::int64_t least = std::abs(stride(most, d));
    if (leaf.is<forms::Map>() && leaf.block()->turned)
      for (const FlatAccess& read : nest.reads)
        if (stride(read, d)) least = std::min(least, std::abs(stride(read, d)));
    return least;
  };
  model::sort_few(outer, [&](std::size_t a, std::size_t b) { return apart(a) > apart(b); });
  return outer;
}

}  // namespace tilec::codegen
