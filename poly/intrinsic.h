// The dimensions of an Intrinsic by what they stand for, and what must hold of them.
//
//   O = gather(D, I, 1)      D[B, V, R], I[B, J], O[B, J, R]   ⇒   batch {B}   index {J}   extent V   rest {R}
//   I = argsort(X, 0)        X[B, N]                           ⇒   batch {B}   extent N
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "poly/program.h"

namespace tilec::poly {

std::string_view name(IntrinsicOp op);                 // as a call spells it: `gather`, `argsort`

struct Groups { std::vector<Size> batch, index, rest; Size extent; };
Groups groups(const Program& program, const Intrinsic& intrinsic);  // of one without a fault

// What is wrong with the number of operands, ranks or types, in words; empty: nothing.
std::string fault(const Program& program, const Intrinsic& intrinsic);

// Two dimensions that must have one extent.
struct Equal { TensorId left; std::size_t left_dim; TensorId right; std::size_t right_dim; };
std::vector<Equal> equal_extents(const Program& program, const Intrinsic& intrinsic);  // of one without a fault

}  // namespace tilec::poly
