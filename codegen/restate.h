// The same sum, written otherwise: what a rewrite that counts points may find cheaper.
//
//   +(X[t - j]), 0 <= j                    ⇒   +(X[s]), 0 <= t - s
//   +(s <= t ? X[s] : 0)                   ⇒   +(X[s]), 0 <= t - s
//   +(G[t]*A[s] + X[s]*G[t]*B[s])          ⇒   +(G[t] * (A[s] + X[s]*B[s]))
//   A[t, s] = +(Q[t, d] * K[s, d]);  O[t, e] = +(A[t, s] * V[s, e])     ⇒   O[t, e] = +(Q[t, d] * K[s, d] * V[s, e])
//
// In: statements of a reduced Program.   Out: nothing where the form is not there, or would not mean the same.
#pragma once

#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::codegen {

// Every sum whose index the value knows in one form only runs over that form.
std::optional<poly::Statement> straightened(const poly::Statement& s);
// Sums of products in the value with their common factors in front: a·x + a·y is a·(x + y).
std::optional<poly::Statement> gathered(const poly::Statement& s);
// Conditions on indices that choose between a value and what the fold ignores are rows.
std::optional<poly::Statement> unmasked(const poly::Program& program, const poly::Statement& s);
// The reader sums over the producer's points too. The producer is a sum in the type of the tensor between them, or has
// one value for each element.
std::optional<poly::Statement> merged(
    const poly::Program& program, const poly::Statement& producer, const poly::Statement& reader);

// A sum over a triangle, with what makes its factors over both of the triangle's indices written out in it.
//   A[t, s] = +(Q[t, d] * K[s, d]);  W[t, s] = A[t, s] * exp(L[t] - L[s]), s <= t;  O[t, e] = +(W[t, s] * V[s, e])
//     ⇒  O[t, e] = +(Q[t, d] * K[s, d] * exp(L[t] - L[s]) * V[s, e]), s <= t
std::optional<poly::Statement> unfolded(const poly::Program& program, std::size_t n);

// The sum over a triangle as that over a strip of it and that over the rest, which is a scan (`values_apart`).
//   O[t] = +((t - s - 3) * X[s]), s <= t
//     ⇒  S[t] = +((w - 3) * X[t - w]), w < 3;   R[t] = +((t - s - 3) * X[s]), s <= t - 3;   O[t] = S[t] + R[t]
struct Apart { poly::Statement strip, rest, both; };
// New tensors are added to the program.
std::optional<Apart> set_apart(poly::Program& program, const poly::Statement& s);

// Every row follows from those of the statement and its ranges.
bool follow(const std::vector<poly::Range>& rows, const poly::Statement& s);

}  // namespace tilec::codegen
