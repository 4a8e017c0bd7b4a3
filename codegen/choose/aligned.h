// Which operands of a contraction on tensor cores are read from copies whose rows begin at multiples of 16 bytes.
//
//   C[i, j] = +(f32(A[i, k]) * f32(B[k, j])), bf16, 4001 of each
//     ⇒  copies of A and B in rows of 4008: 16 bytes come to shared memory at a time, where each element came by itself
#pragma once

#include <optional>

#include "codegen/choose/layout.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// None where the contraction takes less without, or is none on tensor cores.
std::optional<Layouts> aligned_copies(const Rewriting& r, const poly::Statement& s);

}  // namespace tilec::codegen
