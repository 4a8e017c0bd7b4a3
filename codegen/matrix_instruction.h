// The matrix instructions of CUDA's tensor cores, as a table: C[m, n] += A[m, k] B[k, n] by the 32 threads of a warp.
//
// Each row says all that codegen and its emitter ask: the shape, the types, the first architecture that has it. How the elements lie in
// the registers of the threads follows from the shape (docs/decisions/tensor_cores.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lang/type.h"

namespace tilec::codegen {

struct MatrixInstruction {
  const char *name, *shape;                            // in a plan; as PTX spells it
  lang::DType operand, accumulator;
  std::int64_t m, n, k;
  int capability;                                      // 80: sm_80

  // Registers of 32 bits that a thread has of each matrix.
  std::int64_t registers_of_a() const { return m * k * lang::bits(operand) / 1024; }
  std::int64_t registers_of_b() const { return k * n * lang::bits(operand) / 1024; }
  std::int64_t registers_of_c() const { return m * n * lang::bits(accumulator) / 1024; }
};

std::span<const MatrixInstruction> matrix_instructions();
// Null: the tensor cores of no architecture multiply these.
const MatrixInstruction* matrix_instruction(lang::DType operand, lang::DType accumulator);
const MatrixInstruction* matrix_instruction(std::string_view name);

}  // namespace tilec::codegen
