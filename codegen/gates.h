// Products over intervals as what lies between two elements of a tensor (Op::Between): sums of them are scans whose
// steps multiply by an element.
//
//   G[s, t] = *(A[u]), s < u, u <= t;      H[t] = +(G[s, t] * B[s]), s <= t
//     ⇒  H[t] = +(between(A[s], A[t], t - s) * B[s]), s <= t
//   G[s, t] = *(1 - A[u]), s <= u, u < t
//     ⇒  F[v] = =(1 - A[v - 1]), 1 <= v default 1;   H[t] = +(between(F[s], F[t], t - s) * B[s]), s <= t
//
// Nothing but a scan computes such a product (decay.h).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "codegen/interval_sums.h"
#include "poly/program.h"

namespace tilec::codegen {

// The factors of a line as elements of a tensor: of theirs where there is one before the first of them too, else of a
// new one.
class FactorElements {
 public:
  using Holds = std::function<bool(const poly::Affine&)>;  // whether a form of the reader is at least 0
  // `map`: each index of the line's statement over those of the reader.
  FactorElements(poly::Program& program, poly::Statement& reader, const FactorLine& line,
      const std::vector<poly::Affine>& map, std::vector<poly::Statement>& before, Holds holds)
      : program_(program), reader_(reader), line_(line), map_(map), before_(before), holds_(std::move(holds)) {}

  // The product over all stretches in f64, as the reader sees it: its reads are added.
  poly::Expr product_over(const std::vector<Stretch>& stretches);

 private:
  std::optional<poly::Expr> of_tensor(const Stretch& stretch);
  poly::Expr of_copy(const Stretch& stretch);
  poly::TensorId copied();
  poly::Expr between(poly::DType type, poly::Access first, poly::Access last, const Stretch& stretch);

  poly::Program& program_;
  poly::Statement& reader_;
  const FactorLine& line_;
  const std::vector<poly::Affine>& map_;
  std::vector<poly::Statement>& before_;
  Holds holds_;
  std::optional<poly::TensorId> copy_;
};

// The indices of a sum that an end of an interval has, where it sums over others too; else none.
std::vector<std::size_t> summed_first(const poly::Statement& sum, const poly::Affine& lo, const poly::Affine& hi);
// The sum over these indices goes to `before`. False where nothing leaves it.
bool sum_first(poly::Program& program, poly::Statement& sum, const std::vector<std::size_t>& first,
    std::vector<poly::Statement>& before);
// Whether it multiplies by no such product, or is a scan.
bool goes_on(const poly::Statement& s);

}  // namespace tilec::codegen
