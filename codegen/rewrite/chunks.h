// A sum over a triangle in chunks of it: within a chunk as written, and what lies before it by a state.
//
//   O[t, e] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t, by 32
//     ⇒  C[a, d, e] = +(K[32*a + j, d] * V[32*a + j, e])                     the total of chunk a
//        P[b, d, e] = +(C[a, d, e]), a <= b                                  the state after chunk b
//        F[32*b + 32 + i, e] = +(Q[32*b + 32 + i, d] * P[b, d, e])           what lies before the chunk
//        N[32*b + i, e] = +(Q[32*b + i, d] * K[32*b + j, d] * V[32*b + j, e]), j <= i
//        O = N + F
//
// All but P, which has an element for each chunk, are products of matrices. Under a decay exp(L[t, d] - L[s, d]) the
// values of a chunk are weighed against the largest of its exponents -L, states against the largest so far, and what
// reads a state makes up for that.
//
// Powers pow(A, t - s) and exp((t - s) * A) are such decays, with signs where A is negative.
//
// In:  a sum of products over a triangle.   Out: statements that make it, some for other such sums too.
// Why it is allowed, and what range it has: docs/decisions/chunks.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/rewrite/factors.h"
#include "codegen/rewrite/halves.h"
#include "codegen/target.h"

namespace tilec::codegen {

// The triangle that the sum over an index is cut by, and the factors on its two sides. Indices are the statement's.
struct ChunkedTriangle {
  std::size_t along = 0, over = 0;
  bool along_down = false, over_down = false;          // counted from the end
  std::int64_t c = 0;                                  // element p sums values up to p + c <= p
  std::vector<ProductFactor> before, after, weights;   // factors of a state, of what reads it, and of both
  std::optional<poly::Expr> there, here;               // the decay exp(here + there), f64
  std::optional<poly::Expr> there_sign, here_sign;     // 1 or -1, which it is multiplied with
  std::vector<bool> there_mentions, here_mentions;     // of both
  std::vector<std::size_t> state;                      // dimensions of a state, `along` among them: of which chunk
  lang::DType type = lang::DType::F32;                 // of states
};

std::optional<ChunkedTriangle> chunked_triangle(
    const poly::Program& program, const poly::Statement& s, const FactoredProduct& product, std::size_t over);

// The sum within chunks, over whose target it is written.
poly::Statement sum_in_chunks(const poly::Statement& s, const ChunkedTriangle& triangle, std::int64_t chunk);

// The statements that make the two sums, and their sum. `first`: the tensor that the first one makes.
Halves chunks_of(const poly::Program& program, const poly::Statement& s, const FactoredProduct& product,
    const ChunkedTriangle& triangle, std::int64_t chunk, const Target& target, poly::TensorId first);

}  // namespace tilec::codegen
