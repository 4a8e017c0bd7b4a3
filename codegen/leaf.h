// One leaf of a plan as Loops: which points, in which blocks, with which values.
//
//   contract O  m x  n co  k k ci  block 9x2  lanes 16     ⇒     for x_b, for co_v, for l in vector 16: registers, loops, stores
//
// In:  a nest, its leaf, what the group's loops fixed or restricted.  Out: the Body that computes the target's part.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/loops.h"
#include "codegen/plan.h"
#include "codegen/ranges.h"

namespace tilec::codegen {

inline Stmt stmt(auto node) { return Stmt{std::move(node)}; }
inline void append(Body& body, Body more) {
  for (Stmt& s : more) body.push_back(std::move(s));
}

// Fresh names; indices keep theirs where they can. What the kernel calls its tensors is taken from the start.
class Names {
 public:
  void take(const std::string& name) { taken_.insert(name); }
  std::string fresh(const std::string& stem);

 private:
  std::map<std::string, int> count_;
  std::set<std::string> taken_;
};

// The tensors of one kernel as views, and what its machine has.
struct Storage {
  const Plan& plan;
  const std::vector<TensorId>& buffer;                 // of each tensor, the one whose buffer it lives in
  int registers;                                       // of vectors
  std::map<TensorId, std::string> names;               // by buffer
  const std::string& name(TensorId id) const { return names.at(buffer[static_cast<std::size_t>(id)]); }
};

// What surrounds a leaf.
struct Surroundings {
  std::map<std::size_t, Expr> fixed;                   // dims with one value here
  std::map<std::size_t, Interval> limits;              // dims of which a part is left
  std::map<std::size_t, Expr> base;                    // read → what to subtract from its offset; `target_access`: the target
  std::optional<Expr> later;                           // whether the target holds a part of the sum already, to which this one is added
  bool reached = false;                                // every element of the target has a point, in this turn or another
  std::int64_t threads = 0;                            // lanes are this many threads of a block; 0: lanes of a vector
};
inline constexpr std::size_t target_access = static_cast<std::size_t>(-1);

// Whether steps of dimension d wait for the read: it is of more than a second-level cache keeps, and what one step reads lies so far from what
// the next one does that no core fetches it by itself.
bool waits_for(const Nest& nest, const FlatAccess& read, std::size_t d, std::int64_t bytes);
// Of the leaf's k, the last whose steps some read waits for: what the reductions inside it read, a core asks for then. None: no read waits.
std::optional<std::size_t> level_that_waits(const Nest& nest, const Compute& leaf);
// Whether steps of the contraction's innermost reduction go along a stream all of whose vectors are less than their lanes: for loads under masks
// a Zen 5 fetches nothing ahead, not even the next line.
bool streams_under_masks(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::int64_t bytes);
// Whether it is such a stream and these steps ask for it, whatever else the leaf asks for.
bool asks_by_stream(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::int64_t bytes);
// Whether blocks of a contraction ask for what they read in all, for no step of theirs waits.
bool asks_by_block(const Nest& nest, const Compute& leaf);
// Whether an access is to more elements, of so many bytes each, than a second-level cache keeps from one use to the next.
bool leaves_cache(const Nest& nest, const FlatAccess& access, std::int64_t bytes);
// Whether what it touches over `inner` is so little that a block asks for all of it at once.
bool reads_little(const Form& offset, const std::vector<std::pair<std::size_t, std::int64_t>>& inner);
// Offsets into the cache lines that one step reads of an operand, for a block of rows of m and columns of n (-1: none): the last element of each,
// for memory begins with a line as rarely as rows do, and then a block shares its first line with the one before it. `inner`: dimensions that a
// step runs over too, with all their values.
std::vector<std::int64_t> lines_of_step(const Form& offset, int m, std::int64_t rows, int n, std::int64_t columns, std::int64_t bytes, const std::vector<std::pair<std::size_t, std::int64_t>>& inner = {});

// A serial loop over [lo, hi), which may be empty; `inside` gets the value.
Body serial(Names& names, const std::string& stem, const Interval& range, const std::function<Body(const Expr&)>& inside);

Body spell_leaf(const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names);

}  // namespace tilec::codegen
