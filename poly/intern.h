// Equal parts of a value become one node, so that whoever remembers values by node computes each once.
//
//   (x + b) * (1.0 + tanh(x + b))     both `x + b` are one node; a gradient that spells tanh(…) seven times holds one
//
// In: a typed expression.   Out: an equal one.
#pragma once

#include <vector>

#include "poly/program.h"

namespace tilec::poly {

Expr interned(const Expr& value);
std::vector<Expr> parts(const Expr& value);            // every node of it once, itself first

}  // namespace tilec::poly
