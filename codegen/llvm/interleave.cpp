// Rows of a strip (codegen/strip.h) put together or taken apart in registers: by one prime factor of their number at a
// time, which needs fewer shuffles than all rows at once.
//
//   a b c d   ⇒   a c | b d   ⇒   a0 c0 a1 c1 … | b0 d0 b1 d1 …   ⇒   a0 b0 c0 d0 a1 b1 c1 d1 …
#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/llvm/body.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

namespace {

using llvm::Value;
using Vectors = std::vector<Value*>;                   // of rows, or of a strip

class Interleaving {
 public:
  Interleaving(llvm::IRBuilderBase& builder, int lanes) : builder_(builder), lanes_(lanes) {}

  Vectors together(const Vectors& rows) const {
    const std::size_t p = factor(rows.size()), q = rows.size() / p;
    if (q == 1)
      return picked(rows, [&](int at) { return std::pair(at % static_cast<int>(p), at / static_cast<int>(p)); });
    std::vector<Vectors> groups(p);                    // row b·p + a is row b of group a
    for (std::size_t i = 0; i < rows.size(); ++i) groups[i % p].push_back(rows[i]);
    for (Vectors& group : groups) group = together(group);
    Vectors all;
    for (std::size_t b = 0; b < q; ++b) {
      Vectors part;
      for (const Vectors& group : groups) part.push_back(group[b]);
      for (Value* v : together(part)) all.push_back(v);
    }
    return all;
  }

  Vectors apart(const Vectors& strip) const {
    const std::size_t p = factor(strip.size()), q = strip.size() / p;
    if (q == 1)
      return picked(strip, [&](int at) {
        const int element = at % lanes_ * static_cast<int>(p) + at / lanes_;
        return std::pair(element / lanes_, element % lanes_);
      });
    std::vector<Vectors> groups(p);
    for (std::size_t b = 0; b < q; ++b) {
      const Vectors part = apart(Vectors(strip.begin() + static_cast<std::ptrdiff_t>(b * p),
          strip.begin() + static_cast<std::ptrdiff_t>((b + 1) * p)));
      for (std::size_t a = 0; a < p; ++a) groups[a].push_back(part[a]);
    }
    Vectors rows(strip.size());
    for (std::size_t a = 0; a < p; ++a) {
      const Vectors group = apart(groups[a]);
      for (std::size_t b = 0; b < q; ++b) rows[b * p + a] = group[b];
    }
    return rows;
  }

 private:
  static std::size_t factor(std::size_t count) {
    for (std::size_t p = 2; p < count; ++p) if (count % p == 0) return p;
    return count;
  }

  // `place`, and where vector i has lanes of vector j of the result, counted from `begin`.
  std::vector<int> lanes_of(int i, int begin, std::vector<int> place, int j, const auto& from_of) const {
    for (int lane = 0; lane < lanes_; ++lane)
      if (const auto [vector, of] = from_of(j * lanes_ + lane); vector == i)
        place[static_cast<std::size_t>(lane)] = begin + of;
    return place;
  }

  // As many vectors as `from` has. from_of(at): the vector and the lane of element `at` of all in a row.
  Vectors picked(const Vectors& from, const auto& from_of) const {
    Vectors made;
    for (int j = 0; j < static_cast<int>(from.size()); ++j) {
      const int first = from_of(j * lanes_).first;
      Value* result = from[static_cast<std::size_t>(first)];
      // of each lane that is found, in the result so far
      std::vector<int> place = lanes_of(first, 0, std::vector<int>(static_cast<std::size_t>(lanes_), -1), j, from_of);
      for (int i = 0; i < static_cast<int>(from.size()); ++i) {
        const std::vector<int> shuffle = lanes_of(i, lanes_, place, j, from_of);
        if (i == first || shuffle == place) continue;
        result = builder_.CreateShuffleVector(result, from[static_cast<std::size_t>(i)], shuffle);
        for (int lane = 0; lane < lanes_; ++lane)
          if (shuffle[static_cast<std::size_t>(lane)] >= 0) place[static_cast<std::size_t>(lane)] = lane;
      }
      made.push_back(builder_.CreateShuffleVector(result, place));
    }
    return made;
  }

  llvm::IRBuilderBase& builder_;
  const int lanes_;
};

}  // namespace

void BodyEmitter::statement(const Interleave& s) {
  const Place& m = memory(s.name);
  Registers& array = registers_[static_cast<std::size_t>(m.registers)];
  if (!lanes_ || mask_ || array.empty() || array.size() > static_cast<std::size_t>(lanes_))
    throw lang::InternalError("LLVM emitter: `" + s.name + "` cannot be interleaved here");
  const Interleaving strip(builder_, lanes_);
  const Vectors vectors(array.begin(), array.end());
  const Vectors made = s.apart ? strip.apart(vectors) : strip.together(vectors);
  std::copy(made.begin(), made.end(), array.begin());
}

}  // namespace tilec::codegen::llvm_backend
