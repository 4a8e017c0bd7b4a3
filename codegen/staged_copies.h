// The operands of a contraction on their way to shared memory: from global memory to registers, while the stage before
// is multiplied, and from there to the buffer that it was not multiplied from.
//
//   As[2][8 k][128 i]  ⇐  A[i, k], k neighbours in memory, 256 threads
//     ⇒  thread 5 of a stage: 4 elements k 4 .. 7 of row i 2, by one access where A begins at 16 bytes, else by four;
//        then a store to each of 4 rows of As
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/staged_block.h"

namespace tilec::codegen {

// Calls f for every read of `e`; false when there is an Index node, whose value staging does not carry.
bool each_read(const poly::Expr& e, const std::function<void(int)>& f);

class StagedCopies : protected StagedBlock {
 protected:
  static constexpr std::int64_t neighbours = 4;        // elements of an access, at most

  // What a thread copies by one access, in every stage.
  struct Piece {
    Expr k, put;                                       // the first of its values of the staged reduction, from the
                                                       // stage's first; where it goes in a buffer
    std::optional<Expr> there;                         // whether the box ends behind it
    std::vector<Expr> at;                              // values of the dimensions of m, or of n
  };

  // One factor: a box of `depth` x `side`.
  struct Copy {
    const poly::Expr& factor;
    std::vector<std::size_t> dims;                     // of m, or n
    bool masked;                                       // rows of the domain bound it
    std::int64_t side, pitch = 0, width = 1;           // pitch: elements from one k to the next
    bool along_depth = false;                          // neighbours in memory follow the staged reduction
    DType type = DType::F32;                           // in shared memory
    std::string shared = {}, held = {}, aligned = {};  // aligned: whether its tensors begin where accesses of `width`
                                                       // may; empty: it has none
    std::vector<Piece> pieces = {};
    bool partial = false;                              // not all threads have the last piece
  };

  StagedCopies(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
      std::int64_t depth, std::int64_t height, std::int64_t width, std::int64_t threads)
      : StagedBlock(nests, leaf, storage, names, depth, height, width), threads_(threads) {}

  Copy described(const poly::Expr& factor, const std::vector<std::size_t>& dims, bool masked, std::int64_t side,
      const std::string& stem);
  Body prepare(Copy& copy, const Expr& first);         // what does not change from stage to stage
  // Every piece of a stage from `k0` on to registers: zeros where there is none. `more`: whether there is such a stage.
  // Its pieces are loaded on no branch, lest the compiler moves the loads down to their stores.
  Body load(const Copy& copy, const Expr& k0, const std::optional<Expr>& more);
  Body put(const Copy& copy, const Expr& buffer);      // from registers to the buffer that begins there

  std::int64_t threads_;
  std::string thread_;

 private:
  std::int64_t access_width(const FlatAccess& access, std::size_t d, std::int64_t most) const;
  std::size_t along(const Copy& copy) const { return copy.along_depth ? roles_.depth : copy.dims.back(); }
  Body look_at_addresses(Copy& copy);
  Body accesses(const Copy& copy, const Piece& piece, const Step& k, std::int64_t slot,
      const std::map<int, Expr>& from, bool together);
};

}  // namespace tilec::codegen
