// The matrix instructions of CUDA's tensor cores, as a table: C[m, n] += A[m, k] B[k, n] by the 32 threads of a warp,
// or the 128 of a group of four.
//
// Each row says all that codegen and its emitter ask: the shape, the types, who has it. How the elements lie in the
// registers of the threads, or in shared memory, follows from the shape (docs/decisions/tensor_cores.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "codegen/target.h"
#include "lang/type.h"

namespace tilec::codegen {

// Operands in shared memory: what threads copy at once, and a row of what instructions read there.
inline constexpr std::int64_t piece_bytes = 16, panel_bytes = 128;

struct MatrixInstruction {
  const char *name, *shape;                            // in a plan; as PTX spells it
  lang::DType operand, accumulator;
  std::int64_t m, n, k;
  int capability;                                      // 80: sm_80
  std::int64_t warps = 1;                              // 4: wgmma, by four warps. Both operands lie in shared memory,
                                                       // and results side by side along n are one instruction
  const char* only = nullptr;                          // the one architecture that has it

  bool from_shared() const { return warps > 1; }
  std::int64_t threads() const { return 32 * warps; }
  // The type of A's and B's registers: f32 are rounded there.
  lang::DType fragment() const { return operand == lang::DType::F32 ? operand : lang::DType::U32; }
  std::int64_t of_piece() const { return piece_bytes / lang::bytes(operand); }  // elements
  std::int64_t of_panel() const { return panel_bytes / lang::bytes(operand); }
  // Registers of 32 bits that a thread has of each matrix.
  std::int64_t registers_of_a() const { return m * k * lang::bits(operand) / 32 / threads(); }
  std::int64_t registers_of_b() const { return k * n * lang::bits(operand) / 32 / threads(); }
  std::int64_t registers_of_c() const { return m * n * lang::bits(accumulator) / 32 / threads(); }
};

std::span<const MatrixInstruction> matrix_instructions();
// Null: there is none of that name.
const MatrixInstruction* matrix_instruction(std::string_view name);
bool has_instruction(const Target& target, const MatrixInstruction& instruction);

}  // namespace tilec::codegen
