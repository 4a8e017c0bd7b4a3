// What the choice of a leaf knows of a statement: its nest, how much of it one turn has, and the machine in numbers.
//
//   C[i, j] = +(A[i, k] * B[k, j]), 100 x 64 over 50, turns of 8 rows of i, AVX-512
//     ⇒  extent 8, 64, 50; lanes 16; 1 operation a point, for a sum of products is fused; parts of the sum may be added
//        up in C
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/conditions.h"
#include "codegen/nest.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

// What the cost model needs of a nest, with the extents that one turn of the group's loops leaves.
struct Facts {
  const Nest& nest;
  std::vector<std::int64_t> extent;                    // of each dim, inside one turn
  std::vector<bool> fixed;                             // by a group loop with step 1
  std::int64_t width;                                  // lanes of a full vector
  int registers;
  int ops;                                             // per point, the fold included
  std::int64_t l1, l2;                                 // bytes
  bool adds;                                           // parts of the reduction may be added up in the target
  double fold;                                         // cycles to fold the lanes of one output
  bool squares;                                        // of registers may be transposed
  std::int64_t stored = 4;                             // bytes of an element of the target
  double near = 2;                                     // cycles for a line of the second cache, where a full vector
                                                       // takes half of one to multiply and add
  double unhidden = 0, exposed = 0;                    // of loads and of the second cache beside multiply-adds:
                                                       // machine.h
  double from_memory = 0;                              // the part of the target that no cache keeps from one call to
                                                       // the next
  std::vector<Condition> conditions = {};              // of its points
  std::vector<TensorId> shared = {};                   // that a block of threads has in shared memory
};
// Whether its choice may add parts of a sum up in the target; parts of a turn are added up there already.
bool may_add(const poly::Program& program, const Group& group, int node, const Nest& nest, const Strides& strides);
// The nest of a leaf that may be chosen anew, or made from that of `leaf_nest`; the loops that a turn of its group
// leaves.
Nest nest_to_choose(const poly::Program& program, const Group& group, const Compute& leaf, const Strides& strides);
Nest nest_to_choose(
    Nest nest, const poly::Program& program, const Group& group, const Compute& leaf, const Strides& strides);
std::vector<Loop> loops_of_turn(const Group& group);
Facts facts(const Nest& nest, const std::vector<Loop>& loops, const Target& target);
// Of a leaf of the group, which is one of several.
Facts facts_in(const Group& group, const Nest& nest, const Target& target);

// How far apart neighbours along d lie, in elements.
inline std::int64_t stride(const FlatAccess& access, std::size_t d) { return access.offset.coefficients[d]; }
// Of each dimension, whether it is one.
std::vector<bool> reductions(const Nest& nest);
std::vector<std::string> names(const Nest& nest, const std::vector<std::size_t>& dims);
// Whether a row couples two output dimensions: a triangle.
bool outputs_share_rows(const Nest& nest);
// How many points one turn has.
double points(const Facts& f);
// The part of d for which no reduction leaves the domain.
double interior(const Facts& f, std::size_t d);
// The part of its steps that conditions leave (conditions.h).
double left(const Facts& f, std::size_t n, std::optional<std::size_t> m = std::nullopt, double rows = 1,
    double vectors = 1);
// Lanes of a vector of so many elements.
std::int64_t lanes_for(const Facts& f, std::int64_t extent);
// Cycles to load or to store a vector whose lanes lie so far apart.
double access_cost(std::int64_t stride_of_lane, std::int64_t lanes);

// As few blocks as do, of at most so many, and how many the largest of them then has.
struct Tiles {
  std::int64_t count, most;
  bool operator==(const Tiles&) const = default;
};
inline Tiles balanced(std::int64_t extent, std::int64_t block) {
  const std::int64_t count = (extent + block - 1) / block;
  return {count, (extent + count - 1) / count};
}

}  // namespace tilec::codegen
