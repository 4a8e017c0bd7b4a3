// The leaf of a map for blocks of threads that goes through tiles in shared memory (codegen/turned.h).
//
//   B[j, i] = =(A[i, j])     ⇒   map B  m j  n i  block 8x1  lanes 128  turned
#pragma once

#include <optional>

#include "codegen/choose/facts.h"

namespace tilec::codegen {

// None where nothing that it reads lies across.
std::optional<Compute> turned_leaf(const Facts& f, int node, const poly::Program& program, const Target& target);

}  // namespace tilec::codegen
