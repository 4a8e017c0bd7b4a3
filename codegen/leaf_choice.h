// The form, block and loop order of one leaf, by a cost model in cycles.
#pragma once

#include <optional>
#include <string>
#include <vector>

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
};
// Whether its choice may add parts of a sum up in the target; parts of a turn are added up there already.
bool may_add(const poly::Program& program, const Group& group, int node, const Nest& nest, const Strides& strides);
// The nest of a leaf that may be chosen anew, and the loops that a turn of its group leaves.
Nest nest_to_choose(const poly::Program& program, const Group& group, const Compute& leaf, const Strides& strides);
std::vector<Loop> loops_of_turn(const Group& group);
Facts facts(const Nest& nest, const std::vector<Loop>& loops, const Target& target);

// Whether a row couples two output dimensions: a triangle.
bool outputs_share_rows(const Nest& nest);

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
// The best blocks of other lanes, rows and forms, those that cost least by the same estimate first.
std::vector<Compute> other_leaves(const Facts& f, int node, std::size_t most);
// The same leaf with vectors half as long. Nothing: it is of a kind, or so narrow, that none is.
std::optional<Compute> with_half_vectors(const Facts& f, Compute leaf);
// Lanes that fold along n, with rows of m; none where rows do not pay.
std::optional<Choice> fold_rows_of(const Facts& f, int node, const std::string& n, const std::string& m);
// Blocks whose result is stored past the cache have few rows, for a core gathers the parts of few lines at once.
void widen_for_streams(Compute& leaf, const Facts& f);
// Cycles of the busiest multiprocessor for one value of the reduction, where the sum of a staged contraction has so
// many parts; none: it is not staged.
std::optional<double> staged_cycles(const Facts& f, double parts, const Target& target);
// A contraction of two factors for blocks of threads; none when the nest is no such thing, or too small.
// threads: of a block
std::optional<Compute> staged_leaf(const Facts& f, int node, const Target& target, std::int64_t& threads);
// The same on tensor cores, where the target has an instruction for its factors.
std::optional<Compute> leaf_on_tensor_cores(
    const poly::Program& program, const Facts& f, int node, const Target& target);
// The few rows that a block of threads folds together, for they read the same; empty: none, or blocks would be too few.
std::string rows_of_a_block(const Compute& leaf, const Facts& f, const Target& target);
// A map for blocks of threads that goes through tiles in shared memory (turned.h); none where nothing that it reads
// lies across.
std::optional<Compute> turned_leaf(const Facts& f, int node, const poly::Program& program, const Target& target);
// A leaf chosen for lanes, made one for threads.
void for_threads(Compute& leaf, const Facts& f, std::int64_t threads, const Target& target);
// How many threads the blocks have that go through rows of so many elements and keep so many bytes of each in shared
// memory: so many that a multiprocessor, which holds few such blocks or gets few, has enough of them.
std::int64_t threads_of_rows(double rows, double elements, double bytes, const Target& target);

inline constexpr std::int64_t threads_of_a_block = 128;

}  // namespace tilec::codegen
