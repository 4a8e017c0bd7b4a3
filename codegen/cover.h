// Whether the links of a chain write every element of their buffer, so that no fill has to go first.
//
//   dI_0[2*q: 8] = …;                      dI[2*q + 1: 8] = … default dI_0;        4 + 4 elements of 8, none twice: all
//   A[i: 6] = …, 0 <= i < 3 default 1.0;   P[i + 1: 6] = …, 0 <= i < 3 default A;  3 + 3 of 6, but two of them twice
//
// Links count together where they are seen to be disjoint: by ranges or residues of a dimension, as cosets of one
// lattice, or by rows that contradict each other.
#pragma once

#include <vector>

#include "codegen/fuse.h"

namespace tilec::codegen {

// Whether no element is written by both.
bool disjoint(const poly::Statement& a, const poly::Statement& b);

// What the elements hold that a link may write and does not reach: the number that the chain begins with, where no link
// before writes them.
void note_held(poly::Program& program);

class Cover {
 public:
  explicit Cover(const Fused& fused);
  // Of a chain's first link whose elements, with those of the later ones, are not the whole tensor.
  bool needs_fill(const poly::Statement& s) const;

 private:
  const Fused& fused_;
  std::vector<TensorId> buffer_;
  std::vector<double> written_;                        // per buffer, elements
};

}  // namespace tilec::codegen
