// Instructions of tensor cores, and copies to shared memory, as functions of CUDA: each is defined among the helpers of
// Scalars the first time, and comes back by name. Comments say what it is called with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "codegen/loops.h"
#include "codegen/simt/scalar.h"

namespace tilec::codegen::simt {

class Ptx {
 public:
  explicit Ptx(Scalars& scalars) : scalars_(scalars) {}

  // From sm_80 on.
  // (to, from, there): to shared memory, zeros unless there; where it may be `some` of them, behind so many
  std::string copy(DType type, std::int64_t count, bool some);
  std::string fragment(DType registers, bool transposed);  // (registers, row in shared memory)
  std::string pack(DType type, std::int64_t parts);    // (registers, how far the parts lie apart, low, high)
  std::string exchange();                              // (two registers): see Exchange
  std::string store_packed(DType type, std::int64_t words);  // (to, registers)
  std::string multiply(const MatrixInstruction& instruction);  // (c, a, b)
  // Of sm_90a.
  std::string matrix();                                // (where it begins, bytes to the next panel, behind how many
                                                       // times 16 bytes): the descriptor of a matrix in shared memory
  // (c, descriptors of a and b); without `a_transposed` a is in registers
  std::string multiply_shared(const MatrixInstruction& instruction, std::int64_t columns,
      std::optional<bool> a_transposed, bool b_transposed, bool begins);
  std::string await(DType type, std::int64_t registers, int pending);  // (c)

 private:
  Scalars& scalars_;
};

}  // namespace tilec::codegen::simt
