// Two statements that become one: a producer, and the only statement that reads it.
//
//   T[i: N] = =(max(X[i], A[i]));  Y[i: N] = =(T[i] * B[i])     ⇒  Y[i: N] = =(max(X[i], A[i]) * B[i])
//   T[i: N] = +(…);  Y[2, i: M, N] = =(T[i]) default X          ⇒  Y[2, i: M, N] = +(…) default X
#pragma once

#include <cstddef>
#include <optional>

#include "poly/program.h"

namespace tilec::poly {

// Whether the reader may compute what its read r holds: each point of it has an element of its own, so nothing is
// computed twice, and the sum of both is still a statement of common size. A value that the producer's tensor would
// round stays there: codegen inlines these, where the cast is not seen.
bool mergeable(const Program& program, const Statement& producer, const Statement& reader, std::size_t r);
void merge(const Program& program, const Statement& producer, Statement& reader, std::size_t r);

// The producer, written where a copy of all of its elements writes; nothing where `copy` does more than that, or some
// element has no point.
std::optional<Statement> placed(const Program& program, const Statement& producer, const Statement& copy);

}  // namespace tilec::poly
