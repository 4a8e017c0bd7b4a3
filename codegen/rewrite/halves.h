// A sum of products as two: what some of its indices are summed over first, and the rest.
//
//   O[t, e] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t, with s first
//     ⇒  inner  T[t, d, e] = +(K[s, d] * V[s, e]), s <= t;   outer  O[t, e] = +(Q[t, d] * T[t, d, e])
//
// An element that no point reaches must keep its fill. The rows that say which points there are may hold the indices
// that are summed first, so they are projected (projection.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "codegen/rewrite/factors.h"

namespace tilec::codegen {

struct HalfSum {
  poly::Statement statement;
  poly::Tensor temporary;                              // its name is what follows that of the statement's target
};
struct Halves {
  std::vector<HalfSum> inner;                          // the sums, and where conditions matter how many points they
                                                       // have
  poly::Statement outer;
  bool as_many_points = false;                         // in the sums as in the whole, but they are products of matrices
};

// What else than fewer points, or a product of matrices of as many, which a product of more factors is not, makes a
// sum worth its halves: divisors leave it, or others sum the same. `wide`: in f64 rather than f32. `reciprocals`: a sum
// in f32 that only divisors leave multiplies by their reciprocals, and has no half that is summed first.
struct WorthHalves { bool quotients = false, others = false, wide = false, reciprocals = false; };
// Nothing where no factor leaves the sum over these indices, or it is not worth it. `id`: the tensor that the first
// temporary will be.
std::optional<Halves> halves_of_sum(const poly::Program& program, const poly::Statement& s,
    const FactoredProduct& product, poly::TensorId id, const std::vector<std::size_t>& summed, WorthHalves worth = {});

// A sum of products of two tensors, each with an index of the result that the other has not, none of them short.
bool is_matrix_product(const poly::Statement& s);

// By which equal sums are found to be one.
std::string form_of(const poly::Program& program, const poly::Statement& s);

// Of the temporaries.
double bytes_of(const Halves& halves);

}  // namespace tilec::codegen
