// A tensor's whole derivative from its parts.
//
//   dE_1[i, j] = =(dS[i]), dE_2[i, j] = =(dY[i, j] / S[i])     ⇒   dE[i, j: M, N] = =(dS[i] + dY[i, j] / S[i]);
//
//   dX_2[1, n] = …, dX_1[0, n] = …  ⇒  dX_2[1, n: T, N] = …;  dX[0, n: T, N] = … default dX_2;
//
//   dG_1[n, m + M] = …, dG_2[n, m + M] = …                     ⇒   dG_1[n, m: N, M] = …;  dG_2[n, m: N, M] = …;
//                                                                  dG[n, i + M: N, 2*M] = =(dG_1[n, i] + dG_2[n, i]);
//
// Parts that reach one slice are tensors of that slice, and their sum is one part. Parts that reach different elements
// (apart.h) are a chain in one buffer: what reads T slices of a tensor has a cotangent of T links, not T tensors of
// zeros and a sum. A part that gives every element one point, as both of the first do, is written into the sum; others
// stay tensors, in the type they are summed in. The whole has the tensor's own type.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autodiff/graph.h"
#include "poly/program.h"

namespace tilec::autodiff {

struct Part {
  poly::TensorId tensor;
  std::optional<poly::DType> fold;                     // the type it is summed in; nothing: its type is fixed
};

// In: two parts or more, in the order of the text; `of` is the tensor that they are derivatives of. A sum of very many
//     is several statements, each
// of which goes on from the one before, in the type that is summed in, so no bit differs. `helpers` gets the tensors
// that were made besides.
poly::TensorId sum(poly::Program& program, Writers& known, const poly::Tensor& of, const std::vector<Part>& parts,
    std::string name, std::vector<poly::TensorId>& helpers);

// dX[i: N] = =(0.0), which is exact: nothing depends on X.
poly::TensorId zeros(poly::Program& program, const poly::Tensor& of, std::string name);

}  // namespace tilec::autodiff
