// Rows of an operand that a block of threads keeps in shared memory, for they are read again and the second cache does
// not hold them until then.
//
//   Mx[i] = >(X[i, j]);  S[i] = +(exp(X[i, j] - Mx[i]));  Y[i, j] = =(exp(X[i, j] - Mx[i]) / S[i]), X of 512 x 50000
//     ⇒  X_t[i, j] = =(X[i, j]), which the others read, in their launch
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Whether it reads whole rows at the places of its own: X[i, j] of Mx[i] or of Y[i, j].
bool reads_rows(
    const poly::Program& program, const poly::Statement& s, const poly::Access& read, std::size_t lead);
// Whether what comes of the fold is read beside the same rows.
bool is_asked_again(const poly::Program& program, const poly::Statement& fold, const poly::Access& read);

// Bytes and elements of a row of each, and how many of its first dimensions are a row's place.
struct LongRow { double bytes, elements; std::size_t lead; };
std::map<TensorId, LongRow> rows_to_keep(const poly::Program& program, const Target& target);

// Copies them for all that read them so; none: there are no such rows. What becomes of a copy that no launch keeps is
// the caller's to see.
std::optional<Rewriting> keeping_rows(const Rewriting& r);

}  // namespace tilec::codegen
