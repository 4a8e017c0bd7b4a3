// The rewrites of a statement, by file. Each changes one place, the first it finds, and says whether there was one.
#pragma once

#include <string>

#include "lang/repair/draft.h"

namespace tilec::lang::repair {

// marks.cpp: how operators, numbers and assignments are spelled
bool commas(Draft& s);                                 // `+(X[i],)`, `exp(X,)`, `Y[i,: N,]`: a comma behind the last
bool tuples(Draft& s);                                 // `P, Q = g(X)`
bool calls_of_tensors(Draft& s);                       // `O(x, y) = I(x - 1, y) + I(x, y)`: a tensor is no function
bool additions(Draft& s);                              // `O[i] += A[i, k]`
bool returns(Draft& s);                                // `return X`
bool marks(Draft& s);                                  // `A × B`, `A && B`, `A .* B`
bool numbers(Draft& s);                                // `2.0f`, `2x`
bool powers(Draft& s);                                 // `A ** 2`
bool negations(Draft& s);                              // `!A`, `not A`
bool brackets(Draft& s);                               // `A[i][j]`

// types.cpp
bool casts(Draft& s);                                  // `(f32) X`, `X.astype(np.float32)`, `static_cast<float>(X)`

// conditions.cpp: what is computed where
bool choices(Draft& s);                                // `where(A, B, C)`, `B if A else C`
bool conditions(Draft& s);  // `+(X[k] if k <= i)`, `+(X[k]) if k <= i`, `… for k in range(i)`
bool comparison_of_constraint(Draft& s);               // `, j > i`
bool constraint_of_elements(Draft& s);  // `+(X[i]), I[i] == 2`: a constraint reads no tensor; a choice does

// calls.cpp: functions by the names and arguments they have elsewhere
bool keywords(Draft& s);  // `conv2d(I, K, stride=2)`: numbers known before the run stand in `< >`
bool prefixes(Draft& s);                               // `np.exp(X)`, `X.exp()`, `maximum(X, 0)`
bool pairs(Draft& s);      // `V = topk(A, 3)`, `V = top_k<3>(A)`: the largest, and where they are
bool movements(Draft& s);  // `cat((A, B), 1)`, `roll(X, 1, axis=0)`, `flip(X, 0)`: ranks are known
bool reshapes(Draft& s);                               // `reshape(X, -1)`: the size that is left
bool remainders(Draft& s);                             // `A % B`

// reads.cpp: parts of tensors
bool members(Draft& s);                                // `X.shape[0]`, `X.T`
bool slices(Draft& s);   // `X[1:, 0]`, `X[::2]`, `X[..., 0]` of a tensor whose sizes the text has
bool wraps(Draft& s);    // `X[(i + 1) % N]`: two statements; the second takes what lies within
bool gathers(Draft& s);  // `X[b, Y[b]]`: of all `c`, the one that equals Y[b]. `X[I[i]]`: rows

// whole.cpp: sums and products of whole tensors
bool einsums(Draft& s);                                // `einsum("ik,kj->ij", A, B)`: what the letters say
bool whole_reductions(Draft& s);                       // `sum(X)`, `max(X, axis=1)`, `mean(X, 0, keepdims=True)`
bool products(Draft& s);  // `A @ B`, `matmul(A, B)`, `dot(X, Z)` of tensors whose sizes the text has

// aggregations.cpp: sums of elements
bool sums_over_an_index(Draft& s);                     // `sum(k, A[i, k])`, `sum(A[i, k], axis=k)`
bool reduction_inside(Draft& s);                       // `E[i] / +(E[k])`
bool positions(Draft& s);  // `argmax(A[i, j])` for each `i`: of a whole tensor, along an axis
bool running(Draft& s);                                // `Y[i: N] = Y[i - 1] + X[i]`, and with `*`: a running sum
bool target(Draft& s);                                 // sizes behind the indices, and an aggregation

// Python's `%` and NumPy's and PyTorch's remainders differ for negative numbers from C's, and from ours: a note.
void note_sign(Draft& s, const std::string& of, const std::string& by);

}  // namespace tilec::lang::repair
