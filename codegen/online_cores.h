// A pass (online_leaf.h) whose products and sums tensor cores multiply, out of operands in shared memory in their own
// type.
//
//   online S  m i  n j  k d  block 1x8  lanes 32  stage 64  mma m16n8k16.bf16  S[i, j] = +(f32(Q[i, d]) * f32(K[j, d]))
//   online E  m i  n j       block 2x1  lanes 4   stage 64  mma m16n8k16.bf16
//   online U  m i  n e  k j  block 1x8  lanes 32  stage 64  mma m16n8k16.bf16  U[i, e] = +(E[i, j] * f32(V[j, e]))
//     ⇒  each of 4 warps has 16 rows i, and 64 j at a time, which cp.async copies a turn ahead: S in the registers of
//        its 8 results, where four threads have a row; E in their place; packed by twos, they are the first operand of
//        the next product
//
// Factors of columns, and both of a product, are reads of the instruction's type or casts of them that keep every
// value. What a sum takes of its row is computed as f32: it is packed as it is where the text rounded it to that type,
// else as three bf16 whose sum it is, so no bit is lost; f16 beside it are two bf16 then. Results that are not finite
// are computed again, element by element (docs/decisions/online.md).
#pragma once

#include <string>
#include <vector>

#include "codegen/matrix_instruction.h"
#include "codegen/target_words.h"
#include "codegen/online_leaf.h"

namespace tilec::codegen {

// Why these statements are no pass of that instruction; empty: they are.
std::string refuses_cores(const MatrixInstruction& instruction, const poly::Program& program,
    const std::vector<Nest>& nests, const std::vector<OnlinePart>& parts);

// A sum x y of these statements: x is the sum of `of_row` operands of the instruction, y of `of_column`, each about
// 2^-8 of the one before it.
struct SplitFactors {
  const MatrixInstruction* instruction;
  std::int64_t of_row = 1, of_column = 1;
  // What is left out is less than 2^-23 of a product, or, where factors may be rounded, than 2^-14 or 2^-8.
  bool multiplied(std::int64_t row, std::int64_t column) const { return row + column < of_row; }
  std::int64_t products() const;
};
SplitFactors split_factors(const MatrixInstruction& instruction, Math math, const poly::Program& program,
    const Nest& nest, const OnlinePart& part);
// Bytes of shared memory of a block, whose warps have `tall` results above one another.
std::int64_t cores_bytes(const MatrixInstruction& instruction, const std::vector<Nest>& nests,
    const std::vector<OnlinePart>& parts, std::int64_t threads, std::int64_t tall, std::int64_t depth, bool twice);

Body spell_online_on_cores(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
    Names& names, std::int64_t threads);

}  // namespace tilec::codegen
