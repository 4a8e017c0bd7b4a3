// Products of what lies between a value and an element (Op::Between), in a scan that goes on and in one that is
// computed by its definition.
//
//   Y[t] = +(between(A[s], A[t], t - s) * X[s]), s <= t
//     ⇒  for t: p = 1; for s from t down: sum += p * X[s], p *= A[s]
//
// Values are visited from the last one back, so that a product goes on from one value to the next. The products leave
// no range (codegen/product.h).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "codegen/spell/decay_state.h"

namespace tilec::codegen {

// In a scan that goes on: what holds before the first element, what a step multiplies by, what the last value of an
// element has as its weight.
void start_gates(const DecayState& d, Body& body, const DecayNames& p, std::int64_t v);
std::optional<Expr> step_of_gates(const DecayState& d, Body& body, const DecayNames& p, std::int64_t v);
std::optional<Expr> weight_of_gates(const DecayState& d, Body& body, std::int64_t v);

class ProductsBetween {
 public:
  ProductsBetween(ScanTile& tile, const DecayState& state) : s_(tile), d_(state) {}

  Body allocate();
  Body begin(const Expr& j);                           // element j, to which the tile is fixed
  // `add` for each value of [values.lo, values.hi) and each vector; the tile knows the products there.
  Body each(const Expr& j, const Interval& values, const std::function<void(Body&, std::int64_t)>& add);

 private:
  Body turn(const Expr& k, const std::function<void(Body&, std::int64_t)>& add);
  void multiply_by(Body& body, std::size_t n, const poly::Expr& factor, std::int64_t v);

  ScanTile& s_;
  const DecayState& d_;
  std::vector<Scaled> products_;
};

}  // namespace tilec::codegen
