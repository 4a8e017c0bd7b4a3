// Recomputes an elementwise tensor where it is read instead of storing it, with the cast that keeps its rounding.
//
//   E[i, j] = =(exp(X[i, j] - M[i]));  Y[i, j] = =(E[i, j] / S[i]);   ⇒   Y[i, j] = =(exp(X[i, j] - M[i]) / S[i]);
//
// Only where that costs less than storing: few reads of each element, or next to no work; on a GPU also where rows that
// a block of threads would keep are longer than its shared memory.
#pragma once
#include "codegen/rewrite/rewriting.h"
namespace tilec::codegen {
void inline_elementwise(Rewriting& r);
// The consumer, which computes what it reads of the producer.
poly::Statement inlined(
    const poly::Program& program, const poly::Statement& producer, poly::Statement consumer);
}  // namespace tilec::codegen
