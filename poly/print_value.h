// The value of a statement as text that build reads back to the same value.
//
//   f32(Read 0) * Number f32 2.0,  Read 0 an f16, summed into an f16     ⇒    A[i] * 2.0
//   Read 0 + Number u8 1                                                 ⇒    A[i] + 1
//   cast of an i32 to f32, divided by an f32                             ⇒    A[i] / B[i]
//
// A cast, or the type of a literal, is written only where build would not find it. Because build's rules are many, they
// are not repeated here but asked: each operation is printed with as few casts as give, by typing.h, the operation
// printed.
#pragma once

#include <string>
#include <vector>

#include "poly/program.h"
#include "poly/typing.h"

namespace tilec::poly {

// Binding strength, as in the grammar: ?: ^ | & == < << + * unary primary.
enum Strength {
  Choice,
  XorLevel,
  OrLevel,
  AndLevel,
  EqualLevel,
  RelationLevel,
  ShiftLevel,
  SumLevel,
  ProductLevel,
  UnaryLevel,
  Primary
};

struct PrintedValue {
  std::string text;
  Strength strength = Primary;
  Scalar scalar;                                       // what build makes of the text
};

std::string print_number(const Number& number);        // as a literal; its type is left to the context
// `reads` are the texts of the statement's accesses.
PrintedValue print_value(
    const Expr& value, const std::vector<std::string>& reads, const std::vector<std::string>& indices);

}  // namespace tilec::poly
