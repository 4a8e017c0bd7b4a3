// How many rows a leaf whose lanes fold along n goes over together, so that what they have in common is loaded once.
//
//   y[i] = +(A[i, k] * x[k]), lanes over k    ⇒    rows of i, for x does not depend on it; each is folded on its own
//
// Long sums have as many accumulators as without rows, so they are as exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "codegen/choose/facts.h"

namespace tilec::codegen {

struct FoldedRows { std::optional<std::size_t> m; std::int64_t rows = 1; double cost = 0; };  // no m: one row at a time

// Vectors of n in a step.
std::int64_t folded_vectors(const Facts& f, std::size_t n);
FoldedRows folded_alone(const Facts& f, std::size_t n);
// The best rows of all dimensions; the best number of rows of m. One row at a time, unless these cost clearly less.
FoldedRows folded_rows(const Facts& f, std::size_t n);
FoldedRows folded_rows_of(const Facts& f, std::size_t n, std::size_t m);

}  // namespace tilec::codegen
