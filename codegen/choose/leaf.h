// The form, block and loop order of one leaf, by a cost model in cycles.
//
//   O[x, co] = +(I[x + k, ci] * K[k, ci, co]), 54 x 64 over 3 x 32
//     ⇒  contract O  m x  n co  k k ci  block 9x2: lanes over co, which has unit stride in O and K and none in I
//
// A leaf's time is modelled in cycles of one core: two vector loads and two vector operations a cycle, four cycles from
// one accumulation to the next, a gather as half its lanes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "codegen/choose/facts.h"

namespace tilec::codegen {

struct Choice {
  Compute leaf;
  double cost;
  Why::Leaf why;
  double again = 0;                                    // of the cost, what it takes to fetch lines that a cache has
                                                       // lost
  double torn = 0;                                     // of the cost, what it takes to write a large result in short
                                                       // runs
};
Choice choose_leaf(const Facts& f, int node);
// Its lanes and its block, which say what it costs; then what follows from them: how long sums go in parts, and their
// blocks with that, or with what is asked for ahead; then all that is asked for, which leaves the block as it is.
Choice weigh_leaf(const Facts& f, int node);
void settle_block(const Facts& f, Compute& leaf);
void ask_ahead(const Facts& f, Compute& leaf);
// The best blocks of other lanes, rows and forms, those that cost least by the same estimate first. They ask for
// nothing ahead yet.
std::vector<Compute> other_leaves(const Facts& f, int node, std::size_t most);
// The same leaf with vectors half as long. Nothing: it is of a kind, or so narrow, that none is.
std::optional<Compute> with_half_vectors(const Facts& f, Compute leaf);
// The same sums along the rows of an operand that no cache holds, a few rows at a time, as a core fetches them ahead by
// itself: parts of each sum are added up in the target.
//   Y[j] = +(A[i, j] * X[i]), 4000 x 4000   ⇒   n j  k i  block 1x8  chunk 8
std::optional<Compute> along_rows(const Facts& f, Compute leaf);
// Lanes that fold along n, with rows of m; none where rows do not pay.
std::optional<Choice> fold_rows_of(const Facts& f, int node, const std::string& n, const std::string& m);
// Blocks whose result is stored past the cache have few rows, for a core gathers the parts of few lines at once.
void widen_for_streams(Compute& leaf, const Facts& f);

}  // namespace tilec::codegen
