// What is chosen, as a value: groups of leaves over the statements of a reduced Program. Prints, parses, compares.
//
//   copy K  in O  order 1 0 2 3
//   group O
//     parallel n by 1, y by 1
//       contract O  m x  n co  k ky kx ci  block 9x2  lanes 16
//
// In front of the groups stand the directives that made the Program of the reduced one (rewrite/directive.h).
//
// A group is one launch. Its loops are over output dimensions that all its statements share by name; `by` is how many
// of them one turn covers, `by 64/4` that its leaves have 4 of the 64 at a time, so that what one leaves the next finds
// in cache. A loop may be over a reduction too, where the statement has a part of its sum for each turn
// (`part_of_turn`). A leaf covers what the loops leave of its statement: `lower` cuts `m` and `n` into blocks and walks
// the rest in the order written. Rows of the domain become exact loop bounds at the level of their last dimension;
// where they couple m or n with something further in, `lower` splits interior and border at that loop, so no leaf has a
// guard in its innermost loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/nest.h"
#include "codegen/plan_text.h"
#include "codegen/rewrite/directive.h"
#include "poly/program.h"

namespace tilec::codegen {

// How a leaf runs, with what only leaves of this form have; `word` is its name in a plan.
namespace forms {

// Blocks of `rows` of m by `vectors` of n.
struct Block {
  std::string m;                                       // empty: none
  bool turned = false;                                 // accesses with unit stride along m go through squares
                                                       // transposed in registers, on a GPU in shared memory: turned.h
  bool m_inner = true;                                 // blocks of m run inside blocks of n
  bool claims = false;                                 // lines of the result are asked for, to be written, before a
                                                       // block computes them
  bool operator==(const Block&) const = default;
};
struct Map : Block {
  static constexpr const char* word = "map";
  bool stream = false;                                 // stores go past the cache: nobody reads the target soon
  bool operator==(const Map&) const = default;
};
// Reductions inside of a block of accumulators.
struct Contract : Block {
  static constexpr const char* word = "contract";
  std::int64_t chunk = 0;                              // how much of the first of `k` is folded before the next block;
                                                       // 0: all
  std::int64_t taps = 0;                               // how many of the first of k stand outside the blocks, where
                                                       // they bound one a value at a time: its bounds are exact
  bool stream = false;                                 // as of a map, where each element is written once
  std::vector<std::string> outside = {};               // simt: output dimensions of which a block has all, as of m: its
                                                       // rows are their values and those of m, m innermost
  bool operator==(const Contract&) const = default;
};
// simt: a Contract whose operands go through shared memory, `depth` of the reduction a turn.
struct Staged {
  static constexpr const char* word = "contract";
  std::string m;
  std::int64_t depth = 0;
  std::vector<std::string> outside = {}, outside_n = {};  // output dimensions that are one with m, and with n, around
                                                          // it
  bool across = false;                                 // all of k are one reduction: a stage ends in the middle of none
                                                       // but the last
  bool operator==(const Staged&) const = default;
};
// cuda: a Contract on tensor cores (tensor_cores.h). `lanes` are the threads of the instruction, a warp's or those of
// four warps; `rows` x `vectors` of its results are theirs, and `warps_m` x `warps_n` times so many a block.
struct TensorCores {
  static constexpr const char* word = "contract";
  std::string m, instruction;                          // its name in matrix_instruction.h
  std::int64_t depth = 0;                              // of the reduction a turn
  std::int64_t warps_m = 1, warps_n = 1;
  std::int64_t buffers = 2;                            // turns whose operands shared memory holds
  std::vector<std::string> outside = {}, outside_n = {};  // as of a staged leaf
  bool across = false;                                 // likewise
  std::int64_t threads() const;                        // of a block
  std::int64_t ahead() const;                          // turns, that operands are copied before they are multiplied
  bool operator==(const TensorCores&) const = default;
};
// simt: of a pass (online_leaf.h), as all of its group; n of the first one is what it passes over. Of products and sums
// `lanes` threads side by side have `rows` x `vectors` of m and n each, of others so many threads have a row.
struct Online {
  static constexpr const char* word = "online";
  std::string m;
  std::int64_t depth = 0;                              // of what is passed over, a turn
  std::string instruction = {};                        // of tensor cores, for all products and sums, `rows` x `vectors`
                                                       // of its results of a warp (online_cores.h); empty: none
  bool twice = false;                                  // it goes over n for what others read of folds, then for all
  bool operator==(const Online&) const = default;
};
// simt: an element of what the first leaf of its group sums, by the thread that has the sum (finishing.h).
struct Finish {
  static constexpr const char* word = "finish";
  bool operator==(const Finish&) const = default;
};
// Lanes over the reduction dimension n: `rows` of m a time, which are folded together, or one output element.
struct Reduce {
  static constexpr const char* word = "reduce";
  std::string m;                                       // empty: none
  bool operator==(const Reduce&) const = default;
};
// Partial results along an output dimension, lanes over another one, n. Without n: along it alone, on the CPU `rows`
// elements a step, on a GPU `rows` to each of `lanes` threads (1: a thread for each scan).
struct Scan {
  static constexpr const char* word = "scan";
  std::string along;                                   // each of its elements goes on from the one before
  bool operator==(const Scan&) const = default;
};
// Every element of the target gets its fill.
struct Fill : Block {
  static constexpr const char* word = "fill";
  bool operator==(const Fill&) const = default;
};
// Gather, Scatter, Sort: of the Intrinsic of that name, alone in their group, which has no loops: `rows` a turn owns,
// lanes over n.
struct Gather {
  static constexpr const char* word = "gather";
  bool operator==(const Gather&) const = default;
};
struct Scatter {
  static constexpr const char* word = "scatter";
  std::int64_t columns = 0;                            // that one turn has, or a block, whose threads look for their
                                                       // terms together; 0: all, or one
  bool operator==(const Scatter&) const = default;
};
struct Sort {
  static constexpr const char* word = "sort";
  std::int64_t part = 0;                               // elements of a row that one turn or thread has; 0: all
  bool operator==(const Sort&) const = default;
};

}  // namespace forms

using LeafForm = std::variant<forms::Map, forms::Contract, forms::Staged, forms::TensorCores, forms::Online,
    forms::Finish, forms::Reduce, forms::Scan, forms::Fill, forms::Gather, forms::Scatter, forms::Sort>;

// A leaf: what all forms have, and its form.
// What is read so many steps of a reduction, blocks of m or n, or turns of a loop around them later is asked for.
struct Ahead {
  std::string index;
  std::int64_t count = 0;
  bool operator==(const Ahead&) const = default;
};
struct Compute {
  Compute();  // these six are long, so they are compiled once, in a .cpp
  Compute(const Compute&);
  Compute(Compute&&) noexcept;
  Compute& operator=(const Compute&);
  Compute& operator=(Compute&&) noexcept;
  ~Compute();

  int node = -1;                                       // position in Program::nodes
  std::vector<std::string> outer;                      // serial, outermost first
  std::string n;                                       // of the lanes; empty: none
  std::vector<std::string> k;                          // reductions, innermost last (of Reduce: without n)
  std::int64_t rows = 1, vectors = 1, lanes = 1;
  std::vector<Ahead> ahead;                            // of an operand the first one counts that moves it
  LeafForm form;

  template <typename Form> bool is() const { return std::holds_alternative<Form>(form); }
  template <typename Form> const Form* as() const { return std::get_if<Form>(&form); }
  template <typename Form> Form* as() { return std::get_if<Form>(&form); }
  const forms::Block* block() const;                   // null: its form has none
  forms::Block* block();
  const std::string& m() const;                        // empty: none
  std::vector<std::string> all_of_m() const, all_of_n() const;  // outermost first
  bool across() const;                                 // whether its stages go through all of k as one
  bool set_m(const std::string& m);                    // false: its form has none
  bool streams() const {
    return is<forms::Map>() ? as<forms::Map>()->stream : is<forms::Contract>() && as<forms::Contract>()->stream;
  }
  bool set_streams();                                  // false: its form cannot
  bool operator==(const Compute&) const;
};
struct Loop {
  std::string index;
  std::int64_t step = 1;
  std::int64_t walk = 0;                               // how much of a turn its leaves have at a time, one part after
                                                       // the other; 0: all of it
  std::int64_t part() const { return walk ? walk : step; }
  bool operator==(const Loop&) const = default;
};
struct Group {
  Group();  // these six are long, so they are compiled once, in a .cpp
  Group(const Group&);
  Group(Group&&) noexcept;
  Group& operator=(const Group&);
  Group& operator=(Group&&) noexcept;
  ~Group();

  std::string name;
  std::vector<Loop> loops;                             // parallel (cpu), blocks (simt)
  std::vector<Loop> tile;                              // tile.h: boxes of these indices of a contraction are the turns,
                                                       // and there are no loops
  std::vector<TensorId> locals;                        // never in global memory: one turn's part of it is a buffer of
                                                       // the turn
  std::vector<Compute> body;
  std::int64_t threads = 0;                            // simt: per block
  std::vector<TensorId> kept = {};                     // simt: sums in parts, each added up in shared memory and
                                                       // written where the turn ends
  bool operator==(const Group&) const;
};
// What the scheduler compared: lanes over n, in blocks of `rows` of m by `vectors` (0: before blocking). Cycles of its
// model.
struct Weighed { std::string n, m; std::int64_t rows = 0, vectors = 0; double cycles = 0; };
// Why a group is as it is: how many elements each of its loops has; per leaf, for one turn, the lanes and the blocks
// that were weighed, the best first, and the milliseconds that the model predicts where it knows a faster leaf than
// these counts. Empty where a rule decides. For `explain` only.
struct Why {
  struct Leaf {
    std::vector<Weighed> lanes, blocks;
    double predicted = 0, by_counts = 0;
  };
  std::vector<std::int64_t> extents;
  std::vector<Leaf> leaves;
};
struct Plan {
  Plan();  // these six are long, so they are compiled once, in a .cpp
  Plan(const Plan&);
  Plan(Plan&&) noexcept;
  Plan& operator=(const Plan&);
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  poly::Program program;                               // reduced; the pieces `fuse` rewrote included
  std::string target;
  std::vector<Directive> directives;
  std::vector<Group> groups;
  std::vector<Why> why = {};                           // per group
};

bool is_kept(const Group& group, TensorId id);

std::string print(const Plan& plan);
// Reads back the groups that print wrote, over the same Program, and passes over directives. Null with a message when a
// line is not a plan's.

// A group as a text says it: `loops` of a leaf are all its indices, `block` is what follows them; what is not said is
// chosen.
struct GivenLeaf {
  Compute leaf;
  bool loops = false, block = false;
  lang::Span span;
  std::string misfit;                                  // the first part that its form has not; empty: none
};
struct GivenGroup {
  Group group;                                         // its body is `leaves`
  std::vector<GivenLeaf> leaves;
  bool parallel = false;                               // its loops are said
  lang::Span span;
};
std::optional<std::vector<GivenGroup>> parse_groups(
    const std::vector<PlanLine>& lines, const poly::Program& program, PlanFault& fault);
std::optional<std::vector<Group>> parse_groups(
    const std::string& text, const poly::Program& program, std::string& message);
// Throws InternalError: a leaf names a dimension its nest lacks, a statement has no leaf or two, a local is read
// outside its group.
void verify(const Plan& plan, const Strides& strides);

const char* word_of(const LeafForm& form);
LeafForm form_of(poly::IntrinsicOp op);
TensorId target_of(const poly::Program& program, int node);
// What a leaf covers; indices that a group of several leaves loops over are dimensions of their own. Locals lie as the
// turn holds them.
Nest leaf_nest(const poly::Program& program, const Group& group, const Compute& leaf, const Strides& strides);
// Of each local and each sum that is kept, strides of the dense part that a turn holds; of others those given.
std::vector<std::int64_t> turn_strides(
    const poly::Program& program, const Group& group, const Strides& strides, TensorId id);
std::vector<std::int64_t> turn_shape(const poly::Program& program, const Group& group, TensorId id);

// P[s, j] = +(X[i, j]), 0 <= i - 188 s < 188: with turns of 188 of i, turn s computes row s of P. Such an s is no
// dimension of the leaf.
struct PartOfTurn { std::string index; std::int64_t stride; };  // that index, and how far its elements lie apart in the
                                                                // target
std::optional<PartOfTurn> part_of_turn(const poly::Statement& s, const Loop& loop, const Strides& strides);
std::optional<PartOfTurn> part_of_turn(
    const poly::Statement& s, const Loop& loop, const std::vector<std::int64_t>& of_target);

// Which buffer each tensor lives in: the links of a chain of `default`s share the last one's.
std::vector<TensorId> buffers(const poly::Program& program);

}  // namespace tilec::codegen
