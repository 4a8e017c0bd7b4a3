#include "codegen/matrix_instruction.h"

#include <algorithm>

namespace tilec::codegen {

namespace {

using lang::DType;

// PTX ISA, "Multiply-and-accumulate instruction: mma" and "Asynchronous multiply-and-accumulate instruction:
// wgmma.mma_async". TF32 is f32 with the 10 bits that an f16 has behind the point.
constexpr MatrixInstruction table[] = {
    {"m16n8k16.f16", "m16n8k16", DType::F16, DType::F32, 16, 8, 16, 80},
    {"m16n8k16.bf16", "m16n8k16", DType::BF16, DType::F32, 16, 8, 16, 80},
    {"m16n8k8.tf32", "m16n8k8", DType::F32, DType::F32, 16, 8, 8, 80},
    {"m16n8k32.i8", "m16n8k32", DType::I8, DType::I32, 16, 8, 32, 80},
    {"m16n8k32.u8", "m16n8k32", DType::U8, DType::I32, 16, 8, 32, 80},
    {"m64n8k16.f16", "m64n{}k16", DType::F16, DType::F32, 64, 8, 16, 90, 4, "sm_90a"},
    {"m64n8k16.bf16", "m64n{}k16", DType::BF16, DType::F32, 64, 8, 16, 90, 4, "sm_90a"},
    {"m64n8k8.tf32", "m64n{}k8", DType::F32, DType::F32, 64, 8, 8, 90, 4, "sm_90a"},
    {"m64n8k32.i8", "m64n{}k32", DType::I8, DType::I32, 64, 8, 32, 90, 4, "sm_90a"},
    {"m64n8k32.u8", "m64n{}k32", DType::U8, DType::I32, 64, 8, 32, 90, 4, "sm_90a"},
};

}  // namespace

std::span<const MatrixInstruction> matrix_instructions() { return table; }

const MatrixInstruction* matrix_instruction(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(table), std::end(table), [&](const MatrixInstruction& i) { return name == i.name; });
  return found == std::end(table) ? nullptr : found;
}

bool has_instruction(const Target& target, const MatrixInstruction& instruction) {
  return target.capability >= instruction.capability && (!instruction.only || target.arch == instruction.only);
}

}  // namespace tilec::codegen
