// What all spellers of leaves share: fresh names, the tensors of a kernel, what surrounds a leaf, serial loops.
//
//   serial(names, "i", {0, 4}, inside)       ⇒   for i in 4: inside(i)
//   serial(names, "i", {lo, hi}, inside)     ⇒   i_lo = lo, i_n = hi - i_lo; if 0 < i_n: for i in i_n: inside(i_lo + i)
#pragma once

#include <cstddef>
#include <cstdint>
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
void append(Body& body, Body more);

class Finishing;

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
  std::map<std::size_t, Expr> base;                    // read → what to subtract from its offset; `target_access`: the
                                                       // target
  std::map<std::size_t, std::string> views = {};       // read → a view that holds its elements, in the place of its
                                                       // tensor's
  std::optional<Expr> later;                           // whether the target holds a part of the sum already, to which
                                                       // this one is added
  bool reached = false;                                // every element of the target has a point, in this turn or
                                                       // another
  std::int64_t threads = 0;                            // lanes are this many threads of a block; 0: lanes of a vector
  const Finishing* finishing = nullptr;                // what is computed of each sum, and written in its place
  std::map<std::size_t, std::string> held = {};        // read or target → registers that are the block's rows of it
};
inline constexpr std::size_t target_access = static_cast<std::size_t>(-1);

// How many neighbours along dimension d, `most` at most, one access of a thread has: it begins at a multiple of their
// number, as far as strides say.
inline constexpr std::int64_t most_access_bytes = 16;
std::int64_t neighbours_of(const Storage& storage, const FlatAccess& access, std::size_t d, std::int64_t most);
std::int64_t neighbours_of(const FlatAccess& access, std::size_t d, std::int64_t element_bytes, std::int64_t most);
// Whether so many elements of a tensor are one access.
Expr aligned(const Storage& storage, Names& names, Body& body, TensorId tensor, std::int64_t elements);

// A serial loop over [lo, hi), which may be empty; `inside` gets the value.
Body serial(
    Names& names, const std::string& stem, const Interval& range, const std::function<Body(const Expr&)>& inside);
// One of both: where the condition is known it is not asked.
Body where(const Expr& condition, Body then, Body otherwise = {});
// A number as it is; else a variable with this value.
Expr named(Names& names, Body& body, const std::string& stem, const Expr& e);

}  // namespace tilec::codegen
