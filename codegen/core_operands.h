// The operands of a contraction on tensor cores in shared memory (core_rows.h): how threads bring them there, and how a
// warp takes them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/core_rows.h"
#include "codegen/matrix_instruction.h"
#include "codegen/staged_block.h"

namespace tilec::codegen {

// The dimension along which neighbouring threads read: `depth`, or the last one of m or n.
std::size_t reads_along(const Form& offset, std::size_t depth, std::size_t last);
// Whether so many elements along a dimension, from `first` on, are groups of neighbours in memory, each at a multiple
// of its size.
bool in_groups(
    const Form& offset, std::size_t along, std::int64_t first, std::int64_t count, std::int64_t elements);
// The same, where the last group may be a part of one.
inline bool in_groups_but_last(const Form& offset, std::size_t along, std::int64_t first, std::int64_t elements) {
  return in_groups(offset, along, first, elements, elements);
}

class CoreOperands : protected StagedBlock {
 protected:
  struct Operand {
    const FlatAccess* access = nullptr;
    std::vector<std::size_t> dims;                     // of m, or n
    std::int64_t side = 0;                             // values of them that a block has
    bool by_m = false;
    bool along_k = true;                               // of rows in shared memory
    bool reads_along_k = true;                         // neighbouring threads read neighbours in k
    Expr first = Expr(std::int64_t{0});                // of its dimensions
    Expr aligned = Expr(std::int64_t{0});              // whether it begins at a multiple of 16 bytes
    std::string shared;
    std::string held = {};                             // registers of what a thread has of a stage, on its way; empty:
                                                       // there are none
  };

  // Which matrix of a Fragment this thread names the row of, and the row.
  struct OfThread { Expr row, low, high; };

  // `height` x `width` values of m and n are a block.
  CoreOperands(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
      std::int64_t height, std::int64_t width);

  Operand operand(const poly::Expr& factor, std::vector<std::size_t> dims, std::int64_t values, bool by_m) const;
  // How many elements one Copy has: neighbours in shared memory that always lie side by side in memory too, at a
  // multiple of their bytes, and take part together, as far as strides, bounds and rows say, from aligned memory, but
  // for those behind the last one; one where none do.
  std::int64_t together(const Operand& x) const {
    return type_of(x) == instruction_.operand ? neighbours(x, !across() && x.dims.size() == 1) : 1;
  }
  // Those of a stage, `elements` at a time; one by one, loads wait for each other eight at a time, so that few
  // registers hold them.
  Body copy(const Operand& x, const Expr& k0, const Expr& buffer, std::int64_t elements);
  // Those of a stage one by one, or words of bytes, to registers, zeros where there is none, and from there. `more`:
  // whether there is such a stage. As in StagedCopies, no branch is around them all.
  Body fetch(const Operand& x, const Expr& k0, const Expr& more);
  Body put(const Operand& x, const Expr& buffer);
  Stmt registers(const Operand& x) const;              // what `held` names
  std::int64_t registers_of_thread(const Operand& x) const;
  // Whether registers hold what a thread has of a later stage: not where it finds the place of each piece anew, which
  // would lie in registers as well.
  bool may_hold(const Operand& x) const { return x.dims.size() == 1 && !rows_apart(x.by_m); }
  // A Fragment takes from thread 8 q + r the place of row r of its q-th matrix. Of A these are m 0 .. 7 and 8 .. 15 of
  // the first half of k, then of the second; of two neighbours of B the halves of k of the first, then of the second.
  // To registers `first` .. of `to`, from k and this value of m or n on.
  void fragment(Body& body, const Operand& x, const Expr& buffer, const std::string& to, std::int64_t first,
      std::int64_t k, const Expr& value, const OfThread& of);
  DType type_of(const Operand& x) const { return storage_.plan.program.tensor(x.access->tensor).dtype; }
  CoreRows rows_of(const Operand& x) const {
    return {instruction_, x.along_k ? x.side : depth_, x.along_k ? depth_ : x.side, !x.along_k && bytes_ == 4};
  }
  static Body when(const Expr& condition, Body body);

  const forms::TensorCores& cores_;
  const MatrixInstruction& instruction_;
  std::int64_t bytes_, of_piece_;                      // of an element; elements of 16 bytes
  std::string thread_;
  Expr lane_ = i64(0);                                 // of this thread in its warp

 private:
  // What a thread copies in one of its passes: its number in the stage, the first of its values of the staged
  // reduction, from the stage's first, and of m or n, from the block's; its place in a buffer.
  struct Piece { Expr number, k, value, place; };
  Piece piece(Body& body, const Operand& x, const Expr& pass, std::int64_t elements) const;
  struct Source { Expr there, offset; };               // whether it takes part, and where it lies
  // Of each `one` elements of a piece.
  std::vector<Source> sources(Body& body, const Operand& x, const Piece& piece, const Expr& k0,
      const std::optional<Expr>& all, std::int64_t elements, std::int64_t one);
  std::int64_t grouped(const Operand& x) const;
  // As `together`, of any type: a piece of 16 bytes in shared memory, or less, that is four bytes or more in memory.
  // `part`: the last one may be a part of one.
  std::int64_t neighbours(const Operand& x, bool part = false) const;
  // Of a Copy of neighbours: whether all are there, or how many.
  Expr there(const Operand& x, const Piece& piece, const Source& from, const Expr& k0, std::int64_t elements) const;
  // Whether it comes as words of four bytes, whose elements are converted where they are written.
  bool in_words(const Operand& x) const {
    return lang::bytes(type_of(x)) == 1 && type_of(x) != instruction_.operand && neighbours(x) > 1;
  }
  std::int64_t registers_of_piece(const Operand& x) const { return in_words(x) ? neighbours(x) / 4 : grouped(x); }
  Body only(const Operand& x, const Piece& piece, std::int64_t elements, Body body) const;
  Body read(const Operand& x, const std::vector<Source>& from, const std::string& to, const Expr& slot);
  Body read_words(const Operand& x, const Source& from, const std::string& to, const Expr& slot, bool aligned);
  Expr held_value(const Operand& x, const std::string& from, const Expr& slot, std::int64_t at) const;
  Body write_piece(
      const Operand& x, const Expr& place, const std::string& from, const Expr& slot, std::int64_t elements) const;
  // Whether so many elements are one Copy: four bytes of what is copied as it is, or more.
  bool at_a_time(const Operand& x, std::int64_t elements) const {
    return elements * bytes_ >= 4 && type_of(x) == instruction_.operand;
  }
};

}  // namespace tilec::codegen
