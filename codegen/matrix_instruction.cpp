#include "codegen/matrix_instruction.h"

#include <algorithm>

namespace tilec::codegen {

namespace {

using lang::DType;

// PTX ISA, "Multiply-and-accumulate instruction: mma". f32 operands are none of them: TF32 would drop 13 of their bits.
constexpr MatrixInstruction table[] = {
    {"m16n8k16.f16", "m16n8k16", DType::F16, DType::F32, 16, 8, 16, 80},
    {"m16n8k16.bf16", "m16n8k16", DType::BF16, DType::F32, 16, 8, 16, 80},
    {"m16n8k32.i8", "m16n8k32", DType::I8, DType::I32, 16, 8, 32, 80},
    {"m16n8k32.u8", "m16n8k32", DType::U8, DType::I32, 16, 8, 32, 80},
};

const MatrixInstruction* first_that(const auto& holds) {
  const auto* found = std::find_if(std::begin(table), std::end(table), holds);
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

std::span<const MatrixInstruction> matrix_instructions() { return table; }

const MatrixInstruction* matrix_instruction(DType operand, DType accumulator) {
  return first_that([&](const MatrixInstruction& i) { return i.operand == operand && i.accumulator == accumulator; });
}

const MatrixInstruction* matrix_instruction(std::string_view name) {
  return first_that([&](const MatrixInstruction& i) { return name == i.name; });
}

}  // namespace tilec::codegen
