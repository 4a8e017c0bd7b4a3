// The accumulators of a block, in registers: one for each row and vector.
//
//   block 2x3      ⇒   acc in register 6 = 0, 0, 0, 0, 0, 0; row 1 of vector 2 is acc[5]
//
// A block that may meet no point remembers in `hit` whether it met one.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/product.h"
#include "codegen/spell/spelled_leaf.h"

namespace tilec::codegen {

struct Accumulators {
  SpelledLeaf& leaf;
  std::int64_t vectors;                                // of a row
  std::string name;
  Scaled product = {};                                 // where the fold is a product of floats
  std::string hit = "";

  std::int64_t slot(std::int64_t row, std::int64_t vector) const { return row * vectors + vector; }
  // acc[slot] folded with x.
  Body add(std::int64_t slot, const Expr& x) const;
  Body add_product(std::int64_t slot, const Expr& a, const Expr& b) const;
  // What it holds in the end.
  Expr folded(Body& body, std::int64_t slot) const;
  Stmt met() const;
  Expr has_met() const;
  // `value`, or the target's fill where no point was met.
  Expr or_fill(const Expr& value) const;
};

// Empty accumulators.
Accumulators begin_sums(Body& body, SpelledLeaf& leaf, std::int64_t rows, std::int64_t vectors);

}  // namespace tilec::codegen
