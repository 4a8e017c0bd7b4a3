#include "codegen/choose/traffic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace tilec::codegen {

namespace {

constexpr double line = 64;                            // bytes
// Cycles for a line from the next level, of a Zen 4 core (bench, docs: 116, 100 and 25 GB/s at 3.7 GHz): one after the other, and anywhere.
struct Level { double in_order, anywhere; };
constexpr Level from_l2{2, 4}, from_l3{2.5, 8}, from_memory{9, 20};

struct Footprint { double lines = 1, run = 1; };       // lines, and how many of them follow each other

// Of the loops from `first` inwards.
Footprint footprint(const std::vector<Turn>& loops, std::size_t first, std::size_t access, double bytes) {
  struct Step { double stride, extent; };
  std::array<Step, 16> steps{};
  std::size_t count = 0;
  for (std::size_t l = first; l < loops.size() && count < steps.size(); ++l) {
    const auto stride = static_cast<double>(std::abs(loops[l].strides[access]));
    if (stride > 0 && loops[l].extent > 1) steps[count++] = {stride * bytes, static_cast<double>(loops[l].extent)};
  }
  std::sort(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(count), [](const Step& a, const Step& b) { return a.stride < b.stride; });
  double reach = bytes, pieces = 1;                    // bytes side by side, and how many such pieces
  for (std::size_t s = 0; s < count; ++s) {
    if (steps[s].stride <= std::max(reach, line)) reach += steps[s].stride * (steps[s].extent - 1);
    else pieces *= steps[s].extent;
  }
  const double run = std::ceil(reach / line);
  return {pieces * run, run};
}

}  // namespace

double traffic(const std::vector<Turn>& loops, const Caches& caches) {
  const std::array<std::pair<double, Level>, 3> levels{{{static_cast<double>(caches.l1), from_l2}, {static_cast<double>(caches.l2), from_l3}, {static_cast<double>(caches.l3) / 2, from_memory}}};
  const std::size_t accesses = caches.bytes.size();
  std::vector<std::vector<Footprint>> at(loops.size() + 1, std::vector<Footprint>(accesses));
  std::vector<double> all(loops.size() + 1, 0);
  for (std::size_t l = 0; l <= loops.size(); ++l)
    for (std::size_t a = 0; a < accesses; ++a) {
      at[l][a] = footprint(loops, l, a, static_cast<double>(caches.bytes[a]));
      all[l] += at[l][a].lines * line;
    }
  double most = 0;                                     // levels work at the same time
  for (const auto& [size, level] : levels) {
    double cycles = 0;
    std::size_t fits = 0;
    while (fits < loops.size() && all[fits] > size) ++fits;
    for (std::size_t a = 0; a < accesses; ++a) {
      // Loops around that do not move the access find it again if nothing larger than the cache was between: the innermost ones only.
      double times = 1;
      bool kept = true;
      for (std::size_t l = fits; l-- > 0;) {
        const bool moves = loops[l].strides[a] != 0;
        kept = kept && !moves && at[l][a].lines * line <= size / 2;
        if (!kept) times *= static_cast<double>(loops[l].extent);
      }
      // The target's lines come and go.
      const double whole = at[0][a].lines, fetched = std::max(whole, at[fits][a].lines * times);
      const double run = at[fits][a].run;
      cycles += (a == 0 ? 2 : 1) * fetched * (level.in_order + (level.anywhere - level.in_order) / run);
    }
    most = std::max(most, cycles);
  }
  return most;
}

}  // namespace tilec::codegen
