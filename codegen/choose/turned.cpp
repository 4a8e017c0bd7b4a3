#include "codegen/choose/turned.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "codegen/choose/loop_order.h"
#include "codegen/choose/threads.h"
#include "codegen/model/thresholds.h"
#include "codegen/turned.h"

namespace tilec::codegen {

// n is the dimension along which the target lies side by side, m the one along which most bytes of the reads that lie
// across it do.
std::optional<Compute> turned_leaf(const Facts& f, int node, const poly::Program& program, const Target& target) {
  const Nest& nest = f.nest;
  if (std::any_of(nest.dims.begin(), nest.dims.end(), [](const Dim& d) { return d.reduction; })) return std::nullopt;
  const auto usable = [&](std::size_t d) { return f.extent[d] >= model::threads::least_to_turn; };
  // A tile goes on in the dimension that follows n in the target.
  const auto columns = [&](std::size_t n, std::size_t m) {
    std::int64_t most = f.extent[n];
    for (std::size_t d = 0; d < f.extent.size(); ++d)
      if (d != n && d != m && stride(nest.target, d) == f.extent[n]) most = std::max(most, f.extent[n] * f.extent[d]);
    return most;
  };
  std::optional<std::pair<std::size_t, std::size_t>> best;
  std::int64_t most = 0;
  for (std::size_t n = 0; n < f.extent.size(); ++n)
    for (std::size_t m = 0; m < f.extent.size(); ++m) {
      if (m == n || std::abs(stride(nest.target, n)) != 1 || !usable(m) ||
          columns(n, m) < model::threads::least_to_turn || share_row(nest, m, n))
        continue;
      std::int64_t across = 0;
      for (const FlatAccess& read : nest.reads) {
        const std::int64_t bytes = lang::bytes(program.tensor(read.tensor).dtype);
        if (lies_across(read, m, n, bytes)) across += bytes;
      }
      if (across > most) most = across, best = {m, n};
    }
  if (!best) return std::nullopt;
  Compute leaf;
  leaf.node = node;
  leaf.set_m(nest.dims[best->first].name);
  leaf.n = nest.dims[best->second].name;
  leaf.block()->turned = true;
  leaf.rows = model::threads::most_rows;
  leaf.lanes = threads_of_a_block;
  leaf.outer = names(nest, outer_dims(f, leaf, best->second, best->first));
  while (leaf.rows > 1 && model::threads::turning_blocks * tile_bytes(program, nest, leaf) > target.shared_bytes)
    leaf.rows /= 2;
  return tile_bytes(program, nest, leaf) <= target.shared_bytes ? std::optional(leaf) : std::nullopt;
}

}  // namespace tilec::codegen
