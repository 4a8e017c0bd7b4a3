// The table of scalar derivatives: what one operation hands to one of its operands.
//
//   exp(x)     c  ⇒  c · result              x * y, to y   c  ⇒  x · c
//   max(x, y), to x   c  ⇒  x >= y ? (what comes from under x for c · (x == y ? 0.5 : 1)) : 0
//
// A derivative is linear in `c`, and comes in two parts: a factor put on `c` before it goes on to the operand, and a
// bracket put around everything that came from under the operand. The bracket is a select and not a product with 0 or
// 1, because what it excludes may be infinite or NaN there (max(x, sqrt(y)) at y = 0). `through` is the way to the
// operand: reverse mode continues downwards in it, forward mode returns its argument.
//
// In:  the operation, its operands and its result, all as the forward statement computes them; `c`, of a float type at
//      least as wide as theirs, in which the derivative is computed; which operand.
// Out: what arrives under the operand; nothing where the derivative is zero by declaration (floor, comparisons,
//      conditions).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::autodiff {

using Through = std::function<std::optional<poly::Expr>(const poly::Expr& c)>;

std::optional<poly::Expr> derivative(lang::Op op, const std::vector<poly::Expr>& operands, const poly::Expr& result,
    std::size_t operand, const poly::Expr& c, const Through& through);

}  // namespace tilec::autodiff
