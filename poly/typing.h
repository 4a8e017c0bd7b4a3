// Types of scalar expressions: literals stay open until they meet a typed operand (docs/language.md#types).
//
//   0.5 * H[i]       H is f16     ⇒   the literal is an f16
//   A[i] + k         A is u8      ⇒   k is a u8
//   A[i] == k        A is u8      ⇒   both are i64: an index must not wrap in a comparison
//   exp(N)                        ⇒   f32, or the type of the float it meets
//
// A value without a type is *weak*. Weak integers are computed in i64 (an affine form stays one), weak floats in f64,
// until resolve() gives them their type: constants are checked to fit, what is computed is computed again in that type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::poly {

struct Scalar {
  enum class Weak { No, Integer, Float };
  Expr expr;
  Weak weak = Weak::No;
  bool literal = false;                                // weak, and made of literals alone: i32 rather than i64 on its
                                                       // own
  bool operator==(const Scalar&) const = default;
};

// `count` is the number of indices of the statement.
Scalar integer_literal(std::uint64_t magnitude, bool negative, std::size_t count);
Scalar float_literal(double value);
Scalar affine_value(Affine value, bool literal = false);
Expr number(DType type, double value);                 // rounded to the type; integers saturate

DType type_alone(const Scalar& value);                 // when nothing else decides: i64, i32 for literals, f32
std::optional<Expr> resolve(const Scalar& value, DType type, Span span, lang::Diagnostics& diagnostics);
Scalar cast(const Scalar& value, DType type);          // what the text asks for by name: constants wrap and round
std::optional<Expr> condition(const Scalar& value, Span span, lang::Diagnostics& diagnostics);  // != 0
std::optional<Scalar> apply(Op op, const std::vector<Scalar>& operands, Span span, lang::Diagnostics& diagnostics);

// The same expression computed in the wider `type` of a sum: reads are cast, not results.
//
//   f32 of (A[i] * B[i]), both f16   ⇒   f32(A[i]) * f32(B[i])
Expr accumulate_in(const Expr& value, DType type);

// A contraction's body: the type of its result (`written` when the text says it) and the value in the type of its fold.
struct Folded { DType result; Expr value; };
std::optional<Folded> folded(Aggregation aggregation, const Scalar& scalar, std::optional<DType> written, Span span,
    lang::Diagnostics& diagnostics);

// The same expression in a statement of `count` indices whose read k is where[k]; it must not mention an index yet.
Expr carried(const Expr& value, const std::vector<int>& where, std::size_t count);
std::size_t node_count(const Expr& value, std::size_t limit);

}  // namespace tilec::poly
