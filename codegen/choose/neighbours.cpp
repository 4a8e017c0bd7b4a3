#include "codegen/choose/neighbours.h"

#include <algorithm>
#include <utility>

#include "codegen/model/thresholds.h"
#include "codegen/spelling.h"

namespace tilec::codegen {

namespace {

// As many as make one access of 16 bytes of the widest that has an element for each, if threads are then left, and all
// begin at multiples of them; where none is narrow, 1.
std::int64_t neighbours_of_a_thread(
    const Facts& f, std::size_t n, const poly::Program& program, const Target& target) {
  std::vector<FlatAccess> all{f.nest.target};
  std::ranges::copy_if(f.nest.reads, std::back_inserter(all), [&](const FlatAccess& read) { return stride(read, n); });
  const auto bytes = [&](const FlatAccess& access) {
    return std::int64_t{lang::bytes(program.tensor(access.tensor).dtype)};
  };
  const auto [least, most] = std::ranges::minmax(all, {}, bytes);
  if (bytes(least) >= model::threads::narrow_bytes) return 1;
  double elements = 1;
  for (const std::int64_t extent : f.extent) elements *= static_cast<double>(extent);
  const double enough = model::threads::wanted_of_a_multiprocessor * target.multiprocessors;
  std::int64_t count = std::min(model::threads::most_rows, most_access_bytes / bytes(most));
  while (count > 1 && elements / static_cast<double>(count) < enough) count /= 2;
  const bool together = std::ranges::all_of(
      all, [&](const FlatAccess& access) { return neighbours_of(access, n, bytes(access), count) == count; });
  return together ? count : 1;
}

}  // namespace

void join_neighbours(Compute& leaf, const Facts& f, const poly::Program& program, const Target& target) {
  const bool alone = std::ranges::none_of(f.fixed, [](bool fixed) { return fixed; });
  if (target.family != Target::Family::Cuda || !alone || !leaf.block() || leaf.block()->turned || !leaf.k.empty() ||
      leaf.n.empty() || !f.nest.rows.empty())
    return;
  const std::size_t n = *f.nest.dim(leaf.n);
  const std::int64_t count = neighbours_of_a_thread(f, n, program, target);
  if (count == 1) return;
  if (!leaf.m().empty()) leaf.outer.push_back(leaf.m());
  leaf.set_m(std::exchange(leaf.n, ""));
  leaf.rows = count;
  leaf.vectors = 1;
}

}  // namespace tilec::codegen
