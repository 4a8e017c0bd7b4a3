// The tile of a pass (codegen/online_leaf.h): threads, rows of a block, how much of what is passed over a turn has.
#pragma once

#include <optional>
#include <vector>

#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

// Leaves of these statements and threads of a block, by waves, shared memory, multiplications and accesses. None: no
// tile fits shared memory, or, of one that goes over its index twice, tensor cores cannot multiply it.
struct PassTile {
  std::vector<Compute> leaves;
  std::int64_t threads = 0;
  double cycles = 0;
};
std::optional<PassTile> choose_tile_of_pass(const poly::Program& program, const std::vector<Nest>& nests,
    const std::vector<int>& nodes, const std::vector<std::string>& rows, const std::string& over, bool twice,
    const Target& target);

}  // namespace tilec::codegen
