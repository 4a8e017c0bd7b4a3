// Reductions that take less time in parts, on a CPU, by what the model says of the parts.
//
//   dB[k, n] = +(dC[m, n, x] * A[2*m + 2*k, x])   with 20 MB of dC, read again for each k
//     ⇒  split dB  over m  by 128: 2.5 MB a part
#pragma once

#include <optional>

#include "codegen/rewrite/split.h"

namespace tilec::codegen {

// The cut of a fold that may be cut. Nothing where the whole takes less, or not clearly more, than its parts.
std::optional<Cut> cut_by_time(const Rewriting& r, const poly::Statement& s);

}  // namespace tilec::codegen
