// What the model says of a program as its directives leave it so far: milliseconds, with the leaves that would be
// chosen.
#pragma once

#include <limits>
#include <utility>

#include "codegen/fuse.h"
#include "codegen/model/known.h"
#include "codegen/plan.h"
#include "codegen/rewrite/rewriting.h"
#include "codegen/target.h"

namespace tilec::codegen {

// The program planned by counts, and then, where that may matter, with leaves that the model likes better: that takes
// twice as long as all before it.
class Planned {
 public:
  explicit Planned(Rewriting r);

  double by_counts() const { return by_counts_; }
  // `bar`: what other directives come to. Far above it, leaves are those that counts choose. Asked once.
  double time(double bar = std::numeric_limits<double>::infinity());

 private:
  Target target_;
  Fused fused_;                                        // but for its program, which is the plan's
  Plan plan_;
  model::KnownPlan statements_;
  double by_counts_;
};

inline double predicted(Rewriting r, double bar = std::numeric_limits<double>::infinity()) {
  return Planned(std::move(r)).time(bar);
}

}  // namespace tilec::codegen
