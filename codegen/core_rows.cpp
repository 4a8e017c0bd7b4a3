#include "codegen/core_rows.h"

namespace tilec::codegen {

namespace {

Expr differ(const Expr& a, const Expr& b) { return Operation{Op::Xor, {a, b}, DType::I64}; }

}  // namespace

Expr CoreRows::turned(const Expr& row, const Expr& of_eight, const Expr& number) const {
  const std::int64_t pieces = width / of_piece();
  if (by_fours) {
    if (pieces % 8 == 0) return differ(number, remainder(row, 4) * i64(2));
    return pieces == 4 ? differ(number, remainder(quotient(row, 2), 2) * i64(2)) : number;
  }
  if (pieces % 8 == 0) return differ(number, of_eight);
  return pieces == 2 || pieces == 4 ? differ(number, quotient(of_eight, 8 / pieces)) : number;
}

Expr CoreRows::piece(const Expr& row, const Expr& of_eight, const Expr& number) const {
  if (!instruction.from_shared()) return row * i64(width) + turned(row, of_eight, number) * i64(of_piece());
  const bool panels = width > instruction.of_panel();
  const Expr before = panels ? quotient(number, 8) * i64(panel()) : i64(0);
  return before + row * i64(instruction.of_panel()) +
      differ(panels ? remainder(number, 8) : number, of_eight) * i64(of_piece());
}

Expr CoreRows::place(const Expr& row, const Expr& at) const {
  return piece(row, quotient(at, of_piece())) + remainder(at, of_piece());
}

Expr CoreRows::begin(const Expr& row, std::int64_t at) const {
  const std::int64_t of_panel = instruction.of_panel();
  return row * i64(of_panel) + i64(at / of_panel * panel() + at % of_panel);
}

}  // namespace tilec::codegen
