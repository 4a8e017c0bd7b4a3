// Values of a tensor, as the interpreter has them.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "lang/type.h"

namespace tilec::poly {

using lang::DType;

// A dense row-major tensor of any type: floats in `reals` (already rounded), everything else in `integers` (two's complement).
struct Array {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  std::int64_t count() const { return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()); }
};

}  // namespace tilec::poly
