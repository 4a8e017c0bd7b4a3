// The one table of scalar operators and elementwise functions: lang, poly and Loops name operations by it.
#pragma once

#include <optional>
#include <string_view>

namespace tilec::lang {

enum class Op {
  // operators of the text
  Add, Sub, Mul, Div, Neg,
  Eq, Ne, Lt, Le, Gt, Ge,
  And, Or, Xor, Not, Shl, Shr,
  Select,                                              // c ? a : b, takes one arm
  // functions
  Abs, Max, Min, Pow, Mod, Fma, Recip, Relu, Sigmoid, Sign,
  Exp, Log, Sqrt, Erf,
  Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Atan2,
  Ceil, Floor, Round, Trunc,
  IsNan, IsFinite,
  // What a text cannot call. Between(T[a], T[b], n): the product of the n elements of T behind a, up to b, which differ
  // in one dimension by n; both operands are reads.
  Between,
  Tf32,                                                // an f32 to nearest with 11 bits, ties away from 0: what tensor
                                                       // cores multiply as TF32
};

// type of the result; Float: Promoted, integers become f32
enum class Result { Promoted, Boolean, Float, SecondAndThird };

struct OpInfo {
  Op op;
  std::string_view name;                               // `add`, `exp`: what a call writes
  std::string_view symbol;                             // `+`; empty for functions
  int arity;
  Result result;
  bool integers_only;                                  // bit operations
};

const OpInfo& info(Op op);
std::optional<Op> function_named(std::string_view name);  // by `name`; aliases: mad, select, eq ne lt le gt ge, bit_shl
                                                          // bit_shr; ident is not an Op

}  // namespace tilec::lang
