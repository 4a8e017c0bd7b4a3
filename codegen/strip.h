// Strips: rows whose elements lie between each other's. Element l of row i is x[l*rows + i], as those of a pixel's
//         colours are.
//
//   row 0   a0 a1 a2 …          whole vectors   a0 b0 c0 a1
//   row 1   b0 b1 b2 …    ⇔     of the strip    b1 c1 a2 b2
//   row 2   c0 c1 c2 …                          c2 …
//
// A strip is read and written as so many whole vectors as it has rows, and shuffled in registers: by the prime factors
// p of their number, in p - 1 shuffles of each vector. Stores of a few lanes at a time are slow where they come from
// memory: Zen 5, three rows of 84 MB, 26 ns for 16 columns where whole vectors take 5.
#pragma once

#include <cmath>
#include <cstdint>

namespace tilec::codegen {

// Shuffles of each vector.
inline std::int64_t strip_shuffles(std::int64_t rows) {
  std::int64_t shuffles = 0;
  for (std::int64_t p = 2; rows > 1; ++p)
    for (; rows % p == 0; rows /= p) shuffles += p - 1;
  return shuffles;
}

// Whether so many rows, whose elements lie `along_m` apart and whose columns `along_n`, are a strip that takes no more
// shuffles than a square of registers.
inline bool is_strip(std::int64_t along_m, std::int64_t along_n, std::int64_t rows, std::int64_t lanes) {
  return along_m == 1 && along_n == rows && rows > 1 && rows < lanes &&
      static_cast<double>(rows * strip_shuffles(rows)) <=
      static_cast<double>(lanes) * std::log2(static_cast<double>(lanes));
}

}  // namespace tilec::codegen
