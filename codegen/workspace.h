// Scratch of a lowered program at offsets of one block of memory.
//
//   T: steps 0..1, 4 KB   U: steps 1..2, 4 KB   V: steps 3..4, 4 KB     ⇒     T at 0, U at 4096, V at 0: 8 KB
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/lowered.h"

namespace tilec::codegen {

struct Workspace {
  std::vector<std::int64_t> offsets;                   // per Lowered::buffers; 0 of inputs and outputs
  std::int64_t bytes = 0;
};
Workspace workspace_of(const Lowered& program);

}  // namespace tilec::codegen
