// How large the boxes of a tiled contraction should be, and what the contraction then costs (codegen/tile.h).
//
//   C[b, n, m : 1541, 104, 48] = +(A[k, m, b] * B[n, k, b])
//     ⇒  16 b at a time, all of n, m, k: 0.5 MB, every line read once
//
// A box has whole lines of every tensor, and what it copies fits half of the second cache. Beyond that it grows where
// this saves most.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/target.h"

namespace tilec::codegen {

enum class Class { Batch, First, Second, Reduced, Single };  // First, Second: of the result and of that operand;
                                                             // Single: anything else

// A contraction of two operands in numbers: tensors 0 and 1 are its operands, 2 is its result.
struct Boxed {
  // of each index; in elements
  struct Dimension { std::vector<std::int64_t> coefficients; std::int64_t stride = 0, size = 0; };
  std::vector<std::int64_t> extent;
  std::vector<Class> classes;
  std::vector<bool> whole;                             // every box has all values of the index
  std::vector<Dimension> tensors[3];
  bool bounded = false;                                // rows say which points there are
  double lanes = 16, bytes = 4;                        // of a vector; of an element
};
struct Boxes {
  std::vector<std::int64_t> steps;                     // of each index; its extent where it stays whole
  double cycles = 0;
};

// Lanes run over `lanes`; `packed`: which tensors each box copies (bits 0, 1, 2).
Boxes choose_boxes(const Boxed& contraction, Class lanes, unsigned packed, const Target& target);

// What the tensors that are not `copied` take from memory at least.
double streaming_cycles(const Boxed& contraction, unsigned copied, const Target& target);

}  // namespace tilec::codegen
