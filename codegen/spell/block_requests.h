// The lines that a block asks for before it reads or writes them (codegen/requests.h says which and why).
//
//   contract C  m m  n n  k k  block 9x3  lanes 16  ahead 4 k
//     ⇒  for k: nine rows' sums; prefetch p0 + 4 * 168, prefetch p0 + 5 * 168, …      what step k + 4 reads
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/requests.h"
#include "codegen/spell/block_place.h"

namespace tilec::codegen {

class BlockRequests {
 public:
  explicit BlockRequests(const SpelledLeaf& leaf);

  // For the lines that the block will write, which takes memory about as long as a sum does. `later` gets those of
  // later blocks, which stand among the stores.
  Body claimed(const BlockPlace& at, Body& later) const;
  // By a contraction none of whose steps ask: for what the block reads in all.
  Body before_block(const BlockPlace& at, std::size_t folded_from) const;
  // By a step of reduction `level` of k, with others inside it.
  Body outside(const BlockPlace& at, std::size_t level) const;
  // By step `index` of the innermost reduction d, of which the views have not moved `u`.
  Body by_step(const BlockPlace& at, const Views& views, std::size_t d, const Expr& u, const Expr& index) const;
  // By a block without a reduction, or a step of one whose lanes run over the sum.
  Body by_block(const BlockPlace& at, const Views& views) const;

 private:
  Body asked(
      const BlockPlace& at, std::size_t r, const std::string& view, const Expr& moved, std::size_t level) const;
  Body asked_in_turn(
      const BlockPlace& at, const Views& views, std::size_t r, const Expr& moved, const Expr& index) const;
  Body asked_from_corner(const BlockPlace& at, std::size_t r, std::size_t level) const;
  std::optional<InTurn> in_turn(const BlockPlace& at, std::size_t r) const;
  const std::pair<std::size_t, std::int64_t>* goes_by(const Form& f, bool steps) const;
  std::int64_t further_on(const BlockPlace& at, const Form& f, bool steps = true) const;

  const SpelledLeaf& l_;
  std::size_t level_ = 0;                              // the one of k whose steps ask
  bool by_block_ = false;                              // blocks ask instead
  std::size_t taps_around_ = 0;                        // of k, the first ones whose values are loops around the blocks
  std::vector<bool> by_stream_;                        // per read, whether steps of the innermost reduction ask for it
                                                       // all the same
};

}  // namespace tilec::codegen
