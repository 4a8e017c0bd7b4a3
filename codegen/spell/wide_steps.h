// Steps of a thread's sum that read what lies side by side along it with one access.
//
//   Y[j] = +(A[i, j] * X[i])   a thread for each j, 512 steps
//     ⇒  128 times: x[0 … 3] = X[i … i + 3], an access of 16 bytes; acc += A[i, j] * x[0]; … acc += A[i + 3, j] * x[3]
//
// Where memory begins at no multiple of it, each step reads its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/spell/block_place.h"
#include "codegen/spell/step_values.h"

namespace tilec::codegen {

struct WideSteps {
  struct Read { std::size_t read; std::int64_t width; };
  std::int64_t steps = 1;                              // whose elements are one access of each of `reads`, or a few
  std::vector<Read> reads = {};
};
// Of a dimension that begins at `first` and has so many values; none where nothing lies side by side.
std::optional<WideSteps> wide_steps(const BlockPlace& at, std::size_t d, const Expr& first, std::int64_t count);
// Whether memory begins where all of them may be wide.
Expr may_be_wide(Body& body, const BlockPlace& at, const WideSteps& wide);
// Reads for all steps, from views that stand at the first of them; for each step, what is known of it then.
std::vector<KnownValues> read_widely(
    Body& body, const BlockPlace& at, const Views& views, const KnownValues& known, const WideSteps& wide);

}  // namespace tilec::codegen
