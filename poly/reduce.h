// The change of coordinates that gives every output element one writer: which indices must move together, and how.
//
//   dI[n, 2*x + k - 1, ci] += dO[n, x, co] * K[k, ci, co]
//     ⇒  components {n}, {x, k}, {ci}, {co}; {x, k} has H = (1), 2 classes
//
// A component is a set of indices that the target's element or a division couples; each has its own lattice, so a 2-D
// convolution is two problems of two indices, not one of seven. In: a bound statement without divisors left.
#pragma once

#include <cstddef>
#include <vector>

#include "poly/lattice.h"
#include "poly/program.h"

namespace tilec::poly {

struct Component {
  std::vector<std::size_t> members;                    // positions in Statement::indices
  std::vector<std::size_t> dimensions;                 // of the target, that mention a member
  bool identity = true;                                // nothing to do: on the domain the element is injective in the
                                                       // members it mentions
  lattice::Matrix outputs;                             // F: the target's rows at `dimensions`, over the members
  std::vector<lattice::Candidate> taps;                // else: the rows S, chosen to stay constant per class
  lattice::Stacked lattice;                            // of F stacked on S
  lattice::Vector period;                              // per output: a diagonal period lattice (V, or diagonal inside
                                                       // V)
  lattice::Matrix winding;                             // taps × outputs: how z moves when an output moves by its period
  double classes = 1;                                  // residue classes: the product of `period`
};

bool has_divisors(const Statement& statement);
bool mentions(const Affine& form, std::size_t k);
// some dimension of the target mentions index k
bool is_output(const Statement& statement, std::size_t k);
// Where an output index first appears in the target; behind all dimensions for a reduction index.
std::size_t first_dimension(const Statement& statement, std::size_t k);
// No divisors, and the element is injective in the indices it mentions, by rank or because it is an Assign.
bool is_reduced(const Statement& statement);
// `coupled`: groups of indices that a division ties together; a component of outputs and taps is split even where the
// target alone would not ask for it.
std::vector<Component> components(const Statement& statement, const std::vector<std::vector<std::size_t>>& coupled);

}  // namespace tilec::poly
