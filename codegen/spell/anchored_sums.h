// Sums of a decaying scan whose weights are rounded once for an anchor instead of once for each step.
//
//   Y[t] = +(exp(A[t] - A[s]) * X[s]), f64, anchor s0     ⇒   Σ exp(A[s0] - A[s]) * X[s], with what its additions round
//                                                            away, times exp(A[t] - A[s0])
//
// Where the weight at the anchor leaves a range that keeps all digits, this element becomes the anchor.
#pragma once

#include "codegen/spell/decay_state.h"

namespace tilec::codegen {

class AnchoredSums {
 public:
  static constexpr double most_moved = 2;              // of a term: a move rounds twice, and the text's term may be
                                                       // off by 12 roundings

  explicit AnchoredSums(DecayState& decay) : d_(decay), s_(decay.tile) {}

  // From one element to the next.
  void go_on(Body& body, const DecayNames& p, std::int64_t v);
  // One term more, where it counts.
  void add(Body& body, const DecayNames& p, std::int64_t v, const Expr& x, const std::optional<Expr>& counts);

 private:
  // A number as the sum of two, the second of which is what rounding left of the first.
  struct Exact { Expr high, low; };
  Exact exact_sum(Body& body, const Expr& a, const Expr& b);
  Exact exact_product(Body& body, const Expr& a, const Expr& b);
  Exact exact_sum(Body& body, const std::optional<Exact>& a, const Exact& b);
  Exact scaled(Body& body, const Level& level, std::int64_t v, Exact e);
  Expr exponential(Body& body, const Exact& e);
  // The weight of this element at the anchor, `steps` after it.
  std::optional<Expr> weight_at_anchor(Body& body, const DecayNames& p, std::int64_t v, const Expr& steps);
  // The weight of the value that is added now.
  std::optional<Expr> exact_weight(Body& body, std::int64_t v);
  void add_exactly(Body& body, const DecayNames& p, std::size_t n, std::int64_t v, const Exact& x);

  DecayState& d_;
  ScanTile& s_;
};

}  // namespace tilec::codegen
