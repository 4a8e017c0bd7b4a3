// What a scan with a decay keeps while it walks along a tile.
//
//   Y[t] = +(exp(A[t] - A[s]) * X[s]), s <= t   ⇒   a sum that each step multiplies by exp(A[t] - A[t - 1]), the sizes
//                                                   of its terms, and whether something holds that a decay cannot say
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/decay.h"
#include "codegen/spell/doubles.h"
#include "codegen/spell/scan_tile.h"

namespace tilec::codegen {

// Names of registers, each with a value for every lane.
struct DecayNames {
  std::vector<std::string> sums;                       // for each n, Σ w C(d, n) x over the elements so far: w an
                                                       // element's weight here, d how far back it lies
  std::string size;                                    // Σ |w| (|x| + 1): no term is larger
  std::string growth;                                  // Σ |w| over the steps so far: how large an error of 1 at each
                                                       // of them has become
  std::string exponent;                                // of this element's weight; the next step subtracts it from its
                                                       // own
  std::vector<std::string> runs;                       // the value of each run at this element; the next step compares
                                                       // its own with it
  std::vector<std::string> gates;                      // of each product, `first` at this element; the next step
                                                       // multiplies by it
  std::string rise, first;                             // the value that rises, at this element and at the first one;
                                                       // sums[1] has the terms of sums[0] times how far it has risen
  std::string rises, falls;                            // 1 until a run's value or one that rises falls, or rises; where
                                                       // both are 0 it may return to a value that it left
  std::string wrong;                                   // 1 from the first element on where something holds that a decay
                                                       // cannot say
  // If anchored(), weights in the sums are those at an anchor, an element passed before, and `growth` counts terms
  // below least_kept() only.
  std::vector<std::string> lost, anchors;              // what additions to each sum rounded away; each level at the
                                                       // anchor
  std::string weight, steps;                           // of this element at the anchor; from the anchor to it
  std::string terms, moved;                            // Σ |w x|; the same, each term as often as its anchor has
                                                       // changed
};

struct DecayState {
  explicit DecayState(ScanTile& of);

  ScanTile& tile;
  Decay decay;
  std::vector<double> binomials;                       // of its lengths
  double longest = 1;                                  // the most that the lengths multiply to

  // A step loses nothing while terms stay in the type that the text makes them in, and what was lost below f64 does not
  // grow into sight.
  double largest_term() const;
  double largest_growth() const;
  // No type has more digits than the text's: weights are rounded once for an anchor instead of once for each step, and
  // sums keep what they lose.
  bool anchored() const;
  bool weighed() const;
  bool bounded() const;
  bool monotonic() const { return !decay.runs.empty() || decay.rise; }
  Expr ignored() const;                                // what a value adds that does not count
  Expr combined(const Expr& a, const Expr& b) const;
  Line line(const Length& length) const;
  // Notes where the condition does not hold.
  void demand(Body& body, const DecayNames& p, std::int64_t v, const Expr& condition) const;
  Expr held(const std::string& view, std::int64_t v, DType type) const { return Load{view, Expr(v), type}; }
};

inline void hold(Body& body, const std::string& view, std::int64_t v, const Expr& value) {
  body.push_back(stmt(Store{view, Expr(v), value}));
}

}  // namespace tilec::codegen
