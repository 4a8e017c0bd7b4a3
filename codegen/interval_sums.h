// Running sums of what the factors of a product say, and the product over lo <= u < hi as differences of them.
//
//   sum of log|a| below v, how many factors are zero, infinite, NaN, the sign of all, each for every v
//     ⇒  a product is exp(logs[hi] - logs[lo]) * signs[hi] * signs[lo] where zeros[hi] == zeros[lo], else 0
//
// The element of each at v is that of the factors before v, so there is one more of them than factors.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::codegen {

// A statement whose value at u is a factor, for u from lo below hi; these say so over its other indices.
struct FactorLine {
  const poly::Statement* statement;
  std::size_t u;
  poly::Affine lo, hi;
  std::vector<std::size_t> of_factor;                  // indices besides u that the value depends on
};

std::optional<FactorLine> line_of(const poly::Statement& s, std::size_t u);

struct FactorSums { poly::TensorId log, zeros, wild, nans, sign; };  // wild: infinite or NaN
// Their statements are put behind `before`.
FactorSums running_sums(poly::Program& program, const FactorLine& line, std::vector<poly::Statement>& before);

struct Stretch { poly::Affine lo, hi; };
// The product over all stretches of a line, in f64, as `reader` sees it: its reads of the sums are added. `map`: each
// index of the line's statement over those of the reader.
poly::Expr product_over(const poly::Program& program, poly::Statement& reader, const FactorLine& line,
    const FactorSums& sums, const std::vector<poly::Affine>& map, const std::vector<Stretch>& stretches);

int add_read(poly::Statement& statement, poly::Access access);  // its number
poly::Affine shifted(poly::Affine e, std::int64_t by);
poly::Affine minus(const poly::Affine& a, const poly::Affine& b);
poly::Expr times(const poly::Expr& a, const poly::Expr& b);

}  // namespace tilec::codegen
