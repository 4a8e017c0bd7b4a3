// Values of a tensor, as the interpreter has them.
#pragma once

#include <cstdint>
#include <vector>

#include "lang/type.h"

namespace tilec::poly {

using lang::DType;

// A dense row-major tensor of any type: floats in `reals` (already rounded), everything else in `integers` (two's
// complement).
struct Array {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  std::int64_t count() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
  }
};

}  // namespace tilec::poly
