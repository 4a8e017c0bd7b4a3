// What a thread of a staged contraction folds: its elements, the values that it reads of shared memory for them, and
// what it holds of its own (staged.h).
//
//   dX[i, k] = +(X[i, k] > Y[j, k] ? dD[i, j] : 0)        block 4x4
//     ⇒  own[4 * 4] = X of its rows and columns; for each j: a[4] = dD, b[4] = Y,
//        acc[r, c] += own[r, c] > b[c] ? a[r] : 0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codegen/staged_copies.h"

namespace tilec::codegen {

class StagedValues : protected StagedCopies {
 protected:
  using StagedCopies::StagedCopies;

  Body put_all(const Expr& stage);
  Expr buffer(const Copy& copy, const Expr& stage) const { return remainder(stage, 2) * i64(depth_ * copy.pitch); }

  // Its row of threads, and its column: warps are 8 x 4 threads where there are so many.
  Body place_of_thread();
  static std::int64_t square(std::int64_t count);      // neighbours of one thread
  std::int64_t row_step() const { return threads_ / leaf_.lanes * square(leaf_.rows); }
  std::int64_t column_step() const { return leaf_.lanes * square(leaf_.vectors); }
  Expr row(std::int64_t i) const;                      // within the block
  Expr column(std::int64_t j) const;
  Expr slot(std::int64_t i, std::int64_t j) const { return i64(i * leaf_.vectors + j); }

  Body hold(const poly::Read& read);                   // what a thread's own elements have of it
  Body values(const Expr& stage);                      // all of a stage, folded

  Expr thread_row_ = i64(0), thread_column_ = i64(0);
  std::string acc_;
  std::vector<Copy> copies_;                           // masked: of m

 private:
  // Of each copy, what a thread reads of it for one value of the reduction: of its rows, or of its columns.
  using OfCopies = std::vector<std::vector<Expr>>;
  OfCopies read_copies(Body& body, const std::vector<Expr>& from, const Expr& k) const;
  Expr folded(const Expr& acc, const OfCopies& read, std::int64_t i, std::int64_t j) const;

  std::vector<std::string> held_;                      // of each read of its own
};

}  // namespace tilec::codegen
