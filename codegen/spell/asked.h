// Conditions of a fold, asked where what they depend on is known: where one does not hold, no step is taken.
//
//   S = +(LAB[a] == LAB[p] ? relu(R[a, p] - R[a, n]) : 0)
//     ⇒  for a, for p: if LAB[a] == LAB[p]: for n: acc += relu(R[a, p] - R[a, n])
//   Y[t, o] = +(e == I[t] ? W[e, o] : 0)
//     ⇒  e = I[t]; if 0 <= e < 8: acc += W[e, o]
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "codegen/spell/block_place.h"
#include "codegen/spell/step_values.h"

namespace tilec::codegen {

// Of a step of the innermost loop: what its reads and values are already.
struct KnownStep { const Views& views; const KnownValues& values; };

// `inside`, which adds to the block's sums, behind the questions that may be asked here and are worth it. Of a block of
// rows it is asked whether one of them has points.
Body asked(const BlockPlace& at, const std::function<Body()>& inside, const std::optional<KnownStep>& step = {});
// Whether a question may be asked and is worth it once d is known, which is not yet.
bool is_asked_by(const BlockPlace& at, std::size_t d);

// Whether a condition tells the only value of d that counts, and its loop.
bool is_told(const BlockPlace& at, std::size_t d);
Body told_loop(const BlockPlace& at, std::size_t d, const std::function<Body()>& inside);

}  // namespace tilec::codegen
