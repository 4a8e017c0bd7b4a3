// The product that a sum sums, as its factors.
//
//   O[t, e] = +(b[t, s] ? Q[t, d] * K[s, d] / N[t] : 0)
//     ⇒  times Q, of t and d; times K, of s and d; over N, of t; when b, of t and s
//
// A temporary is a sum of some of them; `joined` multiplies them again.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/rewrite.h"

namespace tilec::codegen {

struct ProductFactor {
  enum class Role { Times, Over, When } role;          // a factor, a divisor, the condition of `c ? x : 0`
  poly::Expr value;
  std::vector<bool> mentions;                          // per index
};
struct FactoredProduct {
  lang::Op op = lang::Op::Mul;                         // or of maxima and minima, which distribute over each other
  bool negative = false;
  std::vector<ProductFactor> factors;                  // in the order written
  std::vector<std::pair<std::size_t, std::size_t>> written;  // factors that the text multiplies before others: from, to
};

// None where the statement folds no products.
std::optional<FactoredProduct> product_of(const poly::Statement& s);

// The value of a sum of products of f32, its divisors that are none of `summed` turned into factors that a loop over
// these computes once. A term is rounded once more for each, and leaves f32 where it does in the text: what divides by
// less than 2^-64 is brought near 1 before, for its reciprocal may be infinite.
poly::Expr times_reciprocals(const poly::Statement& s, const std::vector<std::size_t>& summed);

bool is_zero(const poly::Expr& e);
poly::Expr in_type(const poly::Expr& e, lang::DType type);

// Whether all factors are finite and no divisor is 0 or NaN, where that may be otherwise. `asked`: also of those that
// are NaN where they are not, as `each_finite` makes them.
std::optional<poly::Expr> all_finite(const std::vector<ProductFactor>& factors, bool asked);

// The same of each by itself: what is not finite is NaN.
std::vector<ProductFactor> each_finite(std::vector<ProductFactor> factors, lang::DType type);

// Inf·(1 - 1) is Inf·0, but Inf·1 - Inf·1 is no number: a sum of products with one factor that is not finite is none,
// or infinite. It is none here, since the temporary may be anything; and 0 where conditions leave nothing to sum.
struct FiniteGuard {
  poly::Expr finite;
  std::optional<poly::Expr> reached = std::nullopt;    // the number of points that satisfy the conditions

  poly::Expr operator()(const poly::Expr& value) const;
};

// In an order that does not depend on the text, so that equal sums are found to be one. For sums in a wider type than
// the text's: in its own, the text's order rounds as the text does.
std::vector<ProductFactor> alike(const poly::Statement& s, std::vector<ProductFactor> factors);

// The product of some factors, in the order written.
poly::Expr joined(const FactoredProduct& product, const std::vector<ProductFactor>& factors, lang::DType type,
    const std::optional<FiniteGuard>& guard = std::nullopt);

// f16 keeps within 6e-8 and 65504: f32 holds what four of them give.
bool keeps_range(const std::vector<ProductFactor>& factors);
// In which type a temporary is summed. Q·(K·V) may leave f32 where (Q·K)·V as written does not: then in f64, which it
// does not leave.
lang::DType type_of_sums(const FactoredProduct& product, const std::vector<bool>& inside,
    const std::vector<ProductFactor>& factors, lang::DType type);

}  // namespace tilec::codegen
