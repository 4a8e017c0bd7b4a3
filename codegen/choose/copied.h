// What a contraction on tensor cores takes that reads copies of its operands, these included.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "codegen/choose/layout.h"
#include "codegen/choose/tensor_cores.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// The dimensions of a tensor as they lie, the last ones side by side.
std::vector<std::size_t> order_in_memory(const Rewriting& r, TensorId tensor);
// Cycles of the device: what it multiplies, or what it moves.
double cycles_of_device(const OnCores& cores, const Rewriting& r, const poly::Statement& s);
// The contraction as it would read its copies: none where it does not take these by whole pieces.
struct WithCopies { const MatrixInstruction* instruction; double cycles; };
std::optional<WithCopies> with_copies(const Rewriting& r, const poly::Statement& s, const Layouts& layouts);

}  // namespace tilec::codegen
