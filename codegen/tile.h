// The turns of a tiled group: each has a box of the indices of one contraction, and copies of what it needs in its own
// memory.
//
//   group C  local A_t B_t C_s                         for b by 16, m by 64: for k by 128:
//     tile b by 16, m by 64, k by 128                    A_t[b, k, m] = A[k, m, b] of the box: 64 x 16 x 128
//       map A_t …   map B_t …                            B_t[b, k, n] = B[n, k, b] of the box
//       contract C_s …                             ⇒     C_s[b, m, n] += A_t[b, k, m] * B_t[b, k, n]
//       map C …                                        C[b, n, m] = C_s[b, m, n] of the box
//
// Index m is 64 m.0 + m in such a turn: m.0 is the number of the box, a dimension of the nest with one value a turn; m
// goes up to the step. A local lies densely, as large as a whole box. At the end of an index the contraction fills it
// with elements that nobody reads, except along what is reduced.
#pragma once

#include <string>

#include "codegen/nest.h"
#include "codegen/plan.h"

namespace tilec::codegen {

// Of the index's dimension that numbers the boxes.
inline std::string origin(const std::string& index) { return index + ".0"; }

// The loops of the group as what they fix in each nest.
std::vector<Loop> origins(const Group& group);

// The statement whose indices the group tiles: the one that reduces.
int tiled_node(const poly::Program& program, const Group& group);

Nest tile_nest(const poly::Program& program, const Group& group, int node, const Strides& strides);
// How many elements a local of the group has.
std::int64_t tile_elements(const poly::Program& program, const Group& group, TensorId local);

}  // namespace tilec::codegen
