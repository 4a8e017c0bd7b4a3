// The canonical form of a node: a text that is equal for two nodes iff they are written alike up to what changes no
// bit.
//
//   E[i, j: M, N] = =(X[i, j] * M[i]);      F[a, b: M, N] = =(M[a] * X[a, b]);       ⇒   the same form
//
// Index names, the order of the indices that are dimensions of the target, of reads, of rows and of the operands of a
// commutative operation do not show; reduction indices keep their order, since sums round.
// In:  a node, and for every tensor the one it stands for (equal tensors stand for the first of them).
#pragma once

#include <string>
#include <vector>

#include "poly/program.h"

namespace tilec::poly {

std::string canonical(const Program& program, const Node& node, const std::vector<TensorId>& stands_for);

// Are two values of one statement the same bits at every point, a + b being b + a?
bool equal_in_any_order(const Expr& a, const Expr& b);

}  // namespace tilec::poly
