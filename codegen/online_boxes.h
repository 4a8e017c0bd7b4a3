// The operands of a pass on tensor cores (online_cores.h) in shared memory: which boxes of them a block has, and how
// threads bring those, a turn ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/core_rows.h"
#include "codegen/matrix_instruction.h"
#include "codegen/online_pass.h"

namespace tilec::codegen {

// Elements of a row in shared memory that holds so many.
std::int64_t row_width(std::int64_t extent, const MatrixInstruction& instruction);
// The dimension along which rows of an operand of columns lie.
std::size_t wide_dim(const OnlinePart& part);
// Whether both read the same elements of columns.
bool same_columns(const Nest& a, const OnlinePart& p, const Nest& b, const OnlinePart& q);

// Whether a pass takes a turn in two halves (online_cores.cpp): of `tall` results of a warp above one another, or of
// `depth` columns.
bool takes_halves(const MatrixInstruction& instruction, std::int64_t tall, std::int64_t depth);
// Who reads some columns, and how many turns of them a block has then.
struct ColumnUse { bool by_products = false, by_sums = false; };
std::int64_t buffers_of(const ColumnUse& use, bool halves);

class OnlineBoxes : public OnlinePass {
 protected:
  OnlineBoxes(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage, Names& names,
      std::int64_t threads, Sweep sweep);

  // The last rows and columns are zeros where the operand has none.
  struct Box : CoreRows {
    const PassMember* member = nullptr;
    const FlatAccess* access = nullptr;
    std::size_t row, column;                           // dimensions
    std::int64_t row_extent, column_extent, buffers;
    std::string shared = {}, aligned = {};
    std::int64_t together = 1;                         // elements of a Copy
    bool later = false;                                // it is wanted half a turn later than others
    bool there = false;                                // the sweep before has brought it
  };

  Body shared_memory() override;
  // Boxes of another sweep of the same members lie where they lie, and rows that it brings later are there.
  void share_boxes(OnlineBoxes& later) { later_ = &later; }
  Body look_at_addresses();                            // whether they are aligned
  // The rows of a box from `first` on.
  Body bring(const Box& b, const Expr& first, const Expr& buffer);
  Body columns(const Expr& first, const Expr& buffer);
  // Those of a turn that are wanted later, or the others.
  Body columns_of_turn(const Expr& turn, bool later);
  const Box& columns_of(const PassMember& m) const { return of_columns_[box_of_.at(&m)]; }

  const MatrixInstruction& instruction_;
  std::int64_t tall_;                                  // results of a warp above one another
  bool halves_;                                        // a turn is taken in two halves
  std::vector<Box> of_rows_boxes_, of_columns_;        // of products; of products and sums

 private:
  Box box(Body& body, const PassMember& m, const poly::Expr& factor, std::size_t row, std::int64_t rows,
      std::int64_t row_extent, std::size_t column, std::int64_t buffers);
  Body bring(const Box& b, const Expr& first, const Expr& buffer, std::int64_t elements);

  ColumnUse use_of(const PassMember& m) const;

  std::map<const PassMember*, std::size_t> box_of_;    // of columns: several may read one
  OnlineBoxes* later_ = nullptr;
};

}  // namespace tilec::codegen
