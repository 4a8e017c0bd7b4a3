// Squares of distances to a mean, summed before the mean is known.
//
//   S[q, c] = +(X[q, k, c]);   m[c] of all S;   V[q, c] = +((X[q, k, c] - m[c]) * (X[q, k, c] - m[c]))
//     ⇒  with p[q, c] = X[q, 0, c], and K values of k,
//        D[q, c] = +(X[q, k, c] - p[q, c]);   Q[q, c] = +((X[q, k, c] - p[q, c]) * (X[q, k, c] - p[q, c]));
//        V[q, c] = =(Q[q, c] + 2 (p[q, c] - m[c]) D[q, c] + K (p[q, c] - m[c]) (p[q, c] - m[c]))
//
// That holds for any p. p is one of the values: where it is far from the others it is so in V, too, which is as large
// as the terms but for a factor of K. X is read where S is summed, and not again when m is known.
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// On a GPU, of sums in parts (split.h).
void center_squares(Rewriting& r);

}  // namespace tilec::codegen
