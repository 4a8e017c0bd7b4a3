// Squares of distances to a mean, summed before the mean is known.
//
//   S[q, c] = +(X[q, k, c]);   m[c] of all S;   V[q, c] = +((X[q, k, c] - m[c]) * (X[q, k, c] - m[c]))
//     ⇒  with p[q, c] the median of three of X[q, k, c], and K values of k,
//        D[q, c] = +(X[q, k, c] - p[q, c]);   Q[q, c] = +((X[q, k, c] - p[q, c]) * (X[q, k, c] - p[q, c]));
//        V[q, c] = =(Q[q, c] + 2 (p[q, c] - m[c]) D[q, c] + K (p[q, c] - m[c]) (p[q, c] - m[c]))
//
// That holds for any p. Near the others nothing cancels: p is the median of the first, the middle and the last value. X
// is read where S is summed, and not again when m is known.
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// On a GPU, of sums in parts (split.h), but for those that a block has whole.
void center_squares(Rewriting& r);

}  // namespace tilec::codegen
