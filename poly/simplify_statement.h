// What can be said more shortly of one statement alone.
//
//   B[i, j: N, 1] = +(i >= 0 ? A[i, j] : X[i])     ⇒   B[i, 0: N, 1] = =(A[i, 0])
//
// An index with a single value is replaced by it; conditions that the domain decides go; rows that say nothing, or say
// something twice, go; a fold over at most one point becomes an Assign.
#pragma once

#include "poly/program.h"

namespace tilec::poly {

void simplify(const Program& program, Statement& statement);
// Rows that say nothing, and rows said twice, go.
void tidy_domain(Statement& statement);

}  // namespace tilec::poly
