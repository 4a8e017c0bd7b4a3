// A statement reads an operand from a copy of it: with its dimensions in another order, or in panels of neighbours.
//
//   C[i, j] = +(A[i, k] * B[j, k])   ⇒   B_t[k, j] = =(B[j, k]);  C[i, j] = +(A[i, k] * B_t[k, j]);
//   the same, rounded                ⇒   B_t[k, j] = =(tf32(B[j, k])); …
//   C[i, j] = +(A[i, k] * B[k, j])   ⇒   B_p[b, k, l] = =(B[k, 64*b + l]);  C[i, 64*b + l] = +(A[i, k] * B_p[b, k, l]);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// The read's dimension that alone holds index k.
std::optional<std::size_t> dimension_of(const poly::Access& read, std::size_t k);

// The read of the statement at n comes from a copy, one that is there already or a new one. Returns where the statement
// stands then. `bits`: 11, of f32 that the copy rounds; 0: it keeps them. `rows`: the copy's begin at multiples of so
// many elements; 0: they lie side by side.
std::size_t read_copy(Rewriting& r, std::size_t n, std::size_t read, const std::vector<std::size_t>& order,
    std::int64_t bits = 0, std::int64_t rows = 0);
inline constexpr std::int64_t bits_of_tf32 = 11, most_of_row = 128;
// Why this read of the statement may not be a copy with fewer bits; none: it may.
Refusal may_not_round(const Rewriting& r, const poly::Statement& s, std::size_t read);
// Whether the tensor is a copy of f32 that has 11 bits of each, which tensor cores multiply as they are.
bool holds_tf32(const poly::Program& program, TensorId tensor);

struct Panels { std::size_t read, dimension, index; };
// The statement at n reads panels that are made before it. Returns where it stands then.
std::size_t read_panels(Rewriting& r, std::size_t n, const Panels& panels, std::int64_t width);

}  // namespace tilec::codegen
