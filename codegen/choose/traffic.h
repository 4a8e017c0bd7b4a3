// Bytes that statements move from and to memory: what decides which of them share a launch, and how many rows its turns
// have.
//
//   Mx[j] = >(X[i, j]);  E[i, j] = =(exp(X[i, j] - Mx[j]));  S[j] = +(E[i, j]);  Y[i, j] = =(E[i, j] / S[j]);
//     with X of 12 MB,
//     a launch each: X twice, E three times, Y once: 72 MB      one launch by strips of j: X and Y once: 24 MB
//
// A tensor that the second-level cache holds moves nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/nest.h"
#include "codegen/target.h"
#include "poly/program.h"

namespace tilec::codegen {

// A statement of a set, and which of its indices are the set's rows.
struct Member {
  const poly::Statement* statement;
  std::vector<std::size_t> rows;
};

// 0 where the second-level cache holds the tensor.
double bytes_from_memory(const poly::Program& program, TensorId id, const Target& target);
// What of all their tensors each row of the set has, and what all rows have in common.
struct RowBytes {
  double each = 0, common = 0;
  double of(double rows) const { return common + rows * each; }
};
RowBytes bytes_of_a_row(const poly::Program& program, const std::vector<Member>& members);
// What a launch for each moves beyond what one launch of all of them moves.
double bytes_saved(const poly::Program& program, const std::vector<Member>& members, const Target& target);

// How far apart in memory neighbours along index k lie.
std::int64_t stride_along(const poly::Access& access, std::size_t k, const Strides& strides);

// Whether neighbours along index k lie side by side in a large tensor, in which the statement goes along other indices
// too: turns have strips of it then.
bool lies_along(const poly::Program& program, const Strides& strides, const poly::Statement& s, std::size_t k,
    const Target& target);
// How wide a strip is; whether the second-level cache holds one as wide as a line.
std::int64_t strip_of(const RowBytes& row, std::int64_t extent, const Target& target);
bool fits_strip(const RowBytes& row, const Target& target);

}  // namespace tilec::codegen
