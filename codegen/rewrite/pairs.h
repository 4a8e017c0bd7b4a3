// Sums for each pair of elements first, once for all windows that meet in them.
//
//   dA[3*q + c, b] = +(dC[n, q - z] * B[n, f(z)]) for each residue c
//     ⇒  P[t, x] = +(dC[n, x] * B[n, t]);  dA[3*q + c] = +(P[f(z), q - z])
//
// P has an index for each dimension of the operands that n is not, and no window: it is a product of matrices without
// borders, and all residue classes read the same one. Legal for every fold but products with a scale; the points of the
// sum are those of before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Reduced indices of the statement that each operand has in one dimension at most, and wholly: what may be summed
// first.
std::vector<std::size_t> plain_sums(const poly::Program& program, const poly::Statement& s);

// What a statement becomes. `of_pair` writes a tensor that is not in the program yet; its reads are those of the
// statement.
struct PairSums {
  poly::Statement of_pair, rest;
  poly::Tensor tensor;
  std::string form;                                    // equal where `of_pair` computes the same
};
// `summed`: of `plain_sums`. None where the fold cannot be cut.
std::optional<PairSums> pair_sums(const poly::Program& program, const Strides& strides, const poly::Statement& s,
    const std::vector<std::size_t>& summed);
// The statement at n, and the sums right before it unless they are made already. Returns where it stands then.
std::size_t sum_pairs(Rewriting& r, std::size_t n, PairSums made, const std::vector<std::size_t>& summed);

// Whether a tensor holds such sums.
bool sums_of_pairs(const Rewriting& r, TensorId id);

}  // namespace tilec::codegen
