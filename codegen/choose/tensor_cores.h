// The tile of a staged contraction on tensor cores (codegen/tensor_cores.h).
//
//   C[i, j] = +(f32(A[i, k]) * f32(B[k, j])), bf16, 4096 x 4096 over 4096, sm_80
//     ⇒  block 4x8  lanes 32  stage 64  mma m16n8k16.bf16  warps 2x2  buffers 4: a warp of 64 x 64 reads so little of
//        shared memory for each product that the tensor cores decide; smaller ones wait for it
#pragma once

#include <optional>

#include "codegen/choose/facts.h"
#include "codegen/matrix_instruction.h"

namespace tilec::codegen {

// None where the target has no instruction for its factors.
std::optional<Compute> leaf_on_tensor_cores(
    const poly::Program& program, const Facts& f, int node, const Target& target);

// Cycles of the busiest multiprocessor for one value of the reductions, where the sum has so many parts. None where
// operands come one by one, too: products wait for them, however many tiles there are.
std::optional<double> cycles_on_tensor_cores(
    const poly::Program& program, const Facts& f, double parts, const Target& target);

// What a contraction as it lies takes of the device, its launch aside.
struct OnCores { const MatrixInstruction* instruction; double cycles; bool in_pieces; };
std::optional<OnCores> contraction_on_cores(
    const poly::Program& program, const Nest& nest, const Target& target);

}  // namespace tilec::codegen
