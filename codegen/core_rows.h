// Operands of tensor cores in shared memory: rows of elements, and what lies where in them.
//
// A row holds the values of one operand along k, or along m (n) where those have the unit stride; it is cut into pieces
// of 16 bytes, and piece c of row r lies at c ^ (r mod 8), so that the 8 rows which a Fragment reads together are in
// different banks. Where rows have fewer than 8 pieces, several share the 32 banks: with 4 of them c ^ (r / 2 mod 4).
//
//   64 bytes a row, 16 rows, piece 0:  0  0  1  1  2  2  3  3   rows 0 .. 7 → banks 0, 16, 4, 20, 8, 24, 12, 28
//
// Where instructions read shared memory themselves, rows have 128 bytes: longer ones are panels of that width, one
// after the other.
#pragma once

#include <cstdint>

#include "codegen/loops.h"

namespace tilec::codegen {

struct CoreRows {
  const MatrixInstruction& instruction;
  std::int64_t rows, width;                            // how many; elements of one
  bool by_fours = false;                               // 32 bits that threads read themselves: four rows of two pieces
                                                       // together

  // Where piece `number` of a row begins, and an element lies. `of_eight`: the row modulo 8.
  Expr piece(const Expr& row, const Expr& of_eight, const Expr& number) const;
  Expr piece(const Expr& row, const Expr& number) const { return piece(row, remainder(row, 8), number); }
  Expr place(const Expr& row, const Expr& at) const;
  // Where a matrix begins that an instruction reads from element `at` of this row on, which is a multiple of 8.
  Expr begin(const Expr& row, std::int64_t at) const;
  std::int64_t panel() const { return rows * instruction.of_panel(); }  // elements of one

 private:
  std::int64_t of_piece() const { return instruction.of_piece(); }
  Expr turned(const Expr& row, const Expr& of_eight, const Expr& number) const;
};

}  // namespace tilec::codegen
