// The operands of a contraction on tensor cores in shared memory: where their elements lie, how threads bring them
// there, and how a warp takes them out.
//
// In shared memory a row holds the values of one operand along k, or along m (n) where those have the unit stride; a
// row is cut into pieces of 16 bytes, and piece c of row r lies at c ^ (r mod 8), so that the 8 rows which a Fragment
// reads together are in different banks. Where rows have fewer than 8 pieces, several share the 32 banks: with 4 of
// them c ^ (r / 2 mod 4).
//
//   64 bytes a row, 16 rows, piece 0:  0  0  1  1  2  2  3  3   rows 0 .. 7 → banks 0, 16, 4, 20, 8, 24, 12, 28
//
// Where instructions read shared memory themselves, rows have 128 bytes: longer ones are panels of that width, one
// after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/matrix_instruction.h"
#include "codegen/staged_block.h"

namespace tilec::codegen {

// The dimension along which neighbouring threads read: `depth`, or the last one of m or n.
std::size_t reads_along(const Form& offset, std::size_t depth, std::size_t last);
// Whether so many elements along a dimension, from `first` on, are groups of neighbours in memory, each at a multiple
// of its size.
bool in_groups(
    const Form& offset, std::size_t along, std::int64_t first, std::int64_t count, std::int64_t elements);

class CoreOperands : protected StagedBlock {
 protected:
  static constexpr std::int64_t piece_bytes = 16, row_bytes = 128;

  struct Operand {
    const FlatAccess* access = nullptr;
    std::vector<std::size_t> dims;                     // of m, or n
    std::int64_t side = 0;                             // values of them that a block has
    bool by_m = false;
    bool along_k = true;                               // of rows in shared memory
    bool reads_along_k = true;                         // neighbouring threads read neighbours in k
    Expr first = Expr(std::int64_t{0});                // of its dimensions
    std::string shared;
  };

  // Which matrix of a Fragment this thread names the row of, and the row.
  struct OfThread { Expr row, low, high; };

  // `height` x `width` values of m and n are a block.
  CoreOperands(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
      std::int64_t height, std::int64_t width);

  Operand operand(const poly::Expr& factor, std::vector<std::size_t> dims, std::int64_t values, bool by_m) const;
  // How many neighbours in memory always lie side by side at a multiple of their bytes and take part together, as far
  // as strides, bounds and rows say, from aligned memory; one where none do.
  std::int64_t in_memory(const Operand& x) const;
  // How many elements one Copy has.
  std::int64_t together(const Operand& x) const;
  // Those of a stage, `elements` at a time; one by one, loads wait for each other eight at a time, so that few
  // registers hold them.
  Body copy(const Operand& x, const Expr& k0, const Expr& buffer, std::int64_t elements);
  // f32 that instructions read in shared memory are rounded on their way there, so they go through registers: pieces of
  // 16 bytes, or squares of 4 x 4 elements where memory has neighbours in m or n and shared memory in k. Those of a
  // stage are loaded behind the products of an earlier one, and put where these do not read.
  bool rounds() const { return instruction_.from_shared() && instruction_.operand == DType::F32; }
  bool in_pieces(const Operand& x) const { return rounds() && in_memory(x) == of_piece_; }
  std::int64_t held_count(const Operand& x) const;     // registers of a thread
  Body load(const Operand& x, const Expr& k0, const std::string& held);
  Body put(const Operand& x, const Expr& buffer, const std::string& held);
  // A Fragment takes from thread 8 q + r the place of row r of its q-th matrix. Of A these are m 0 .. 7 and 8 .. 15 of
  // the first half of k, then of the second; of two neighbours of B the halves of k of the first, then of the second.
  // To registers `first` .. of `to`, from k and this value of m or n on.
  void fragment(Body& body, const Operand& x, const Expr& buffer, const std::string& to, std::int64_t first,
      std::int64_t k, const Expr& value, const OfThread& of);
  Expr panel(const Operand& x, const Expr& number) const;  // where it begins, if instructions read shared memory
  static Body when(const Expr& condition, Body body);

  const forms::TensorCores& cores_;
  const MatrixInstruction& instruction_;
  std::int64_t bytes_, of_piece_;                      // of an element; elements of 16 bytes
  std::string thread_;
  Expr lane_ = i64(0);                                 // of this thread in its warp

 private:
  DType type_of(const Operand& x) const { return storage_.plan.program.tensor(x.access->tensor).dtype; }
  // Whether so many elements are one Copy: four bytes of what is copied as it is, or more.
  bool at_a_time(const Operand& x, std::int64_t elements) const {
    return elements * bytes_ >= 4 && type_of(x) == instruction_.operand && !rounds();
  }
  // f of each square: its number among the thread's, its k and its value of m or n.
  Body squares(const Operand& x, const std::function<Body(std::int64_t, const Expr&, const Expr&)>& f);
  std::int64_t lines_of(const Operand& x) const { return x.reads_along_k ? 1 : of_piece_; }  // of a square
  // Where an element lies in its buffer: `at` in row `row`.
  Expr place(const Operand& x, const Expr& row, const Expr& at) const;
  Expr piece_of(const Operand& x, const Expr& row, const Expr& piece) const;
};

}  // namespace tilec::codegen
