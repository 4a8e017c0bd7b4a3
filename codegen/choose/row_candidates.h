// Which indices of a statement may be rows, that is, loops which it shares with others.
//
//   E[i, j] = =(exp(X[i, j] - M[i]))         ⇒   i, j
//   C[i, j] = +(A[i, k] * B[k, j])           ⇒   i: a contraction keeps its last dimension for lanes
//   S[i, j] = +(X[i, k]), k <= j             ⇒   i: one turn has the whole scan
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/rewrite/share.h"

namespace tilec::codegen {

// First dimensions.
Leads row_candidates(const poly::Program& program, const poly::Statement& s, const Strides& strides);
// Any: whole dimensions, and what is summed over where parts of it can be added up.
std::vector<std::size_t> row_indices(const poly::Program& program, const poly::Statement& s);

// Whether an access is to one of several elements along a dimension.
bool is_slice(const poly::Program& program, const poly::Access& access);
// Whether a statement reads or writes a slice, as a step of a recurrence does of its inputs: the same statement of
// another step has another address, so the two have no kernel in common.
bool has_slice(const poly::Program& program, const poly::Statement& s);
// Whether it may be one step of an unrolled recurrence: it reads or writes a slice; on a GPU, of no input.
bool is_step(const Rewriting& r, const poly::Statement& s);
// One statement of an unrolled recurrence and the same one of another step.
bool alike(const poly::Program& program, const poly::Statement& a, const poly::Statement& b);

}  // namespace tilec::codegen
