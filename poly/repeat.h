// Indices that nothing but their bounds mentions are counted, not walked.
//
//   Y[] = +(X[i]), 0 <= k < 100000000000        ⇒   Y[] = +(f32(f64(X[i]) * 100000000000.0) + 0.0)
//   Y[] = >(X[i]), 0 <= k < 7, 0 <= l < k       ⇒   Y[] = >(X[i])
//
// A sum takes the value times their count, a product of integers the value to that power by squaring, a maximum or
// minimum the value. A count that the fold's type does not have is multiplied in f64. The zero that a sum starts from
// is added: many -0 are 0. Products of floats stay: their range is that of the sequence.
//
// In:  a bounded statement (bounds.h).   Keeps: every value, within what rounding may do to the fold.
#pragma once

#include "poly/program.h"

namespace tilec::poly {

Statement without_repeats(Statement statement);

}  // namespace tilec::poly
