// A contraction for a block of threads on tensor cores, its operands staged in shared memory in their own type.
//
//   C[i, j] = +(f32(A[i, k]) * f32(B[k, j]))   block 4x8  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 4
//     ⇒  a block of 128 x 256 elements, 64 x 64 of them in the registers of each of 8 warps: 32 of k at a time are
//        copied to one of 4 buffers in shared memory, three turns ahead; then every warp multiplies its 4 x 8 pairs of
//        fragments
//
//   block 1x32  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 4
//     ⇒  a block of 128 x 256 by two groups of four warps: one instruction multiplies 64 x 16 by 16 x 256 out of shared
//        memory, asynchronously
//
// The operands are reads of the table's type, or casts of them that keep every value: the products are exact, and the
// sums have the type that the statement asks for. f16 beside bf16 are multiplied as tf32, which holds both, and bytes
// beside either in its type; f32 are rounded to tf32 where the target's `math` says so. Rows of the domain may bound
// all but n: where they bound m, operands outside are zeros (staged.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/matrix_instruction.h"
#include "codegen/spelling.h"
#include "codegen/staged.h"

namespace tilec::codegen {

// The read that a factor is, below its casts; null: it is no read.
const poly::Read* read_of(const poly::Expr& factor);
// Of such a read.
DType type_read(const poly::Program& program, const Nest& nest, const poly::Expr& factor);
// Whether the casts of a factor that reads elements of such a type keep their values.
bool keeps_values(const poly::Expr& factor, DType type);
// What a factor rounds to the type, with nothing but casts that keep its values behind it; null: it does not.
const poly::Expr* rounded_in(const poly::Expr& factor, DType type);

// Whether an instruction multiplies the factors of such a contraction. `tf32`: f32 may be rounded.
bool multiplies(const MatrixInstruction& instruction, const poly::Program& program, const Nest& nest,
    const std::optional<Staging>& roles, bool tf32);

// Values of m and of n that a block has.
std::pair<std::int64_t, std::int64_t> tile_of(const Compute& leaf);
// Bytes of shared memory of a block.
std::int64_t shared_bytes_of(const Compute& leaf);

// The kernel's body: one Block loop. `nests`: of the contraction, and of what finishes it (finishing.h).
Body spell_on_tensor_cores(
    const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names);

}  // namespace tilec::codegen
