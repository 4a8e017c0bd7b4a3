// What the model says of a program as its directives leave it so far: milliseconds, with the leaves that would be
// chosen.
#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/fuse.h"
#include "codegen/model/known.h"
#include "codegen/model/predict.h"
#include "codegen/plan.h"
#include "codegen/rewrite/rewriting.h"
#include "codegen/target.h"

namespace tilec::codegen {

// The program planned by counts, and then, where that may matter, with leaves that the model likes better: that takes
// twice as long as all before it.
class Planned {
 public:
  explicit Planned(Rewriting r);
  Planned(Planned&&) = default;                        // no copies: seen_ refers to statements_
  Planned& operator=(Planned&&) = default;

  double by_counts() const;
  // None where no leaves bring it below what is `wanted`. Asked once.
  std::optional<double> time(double wanted);

 private:
  Target target_;
  Fused fused_;                                        // but for its program, which is the plan's
  std::vector<std::vector<Nest>> nests_;               // until they are known
  Plan plan_;
  model::KnownPlan statements_;
  std::vector<model::SeenGroup> seen_;                 // its leaves
  std::vector<model::GroupTime> times_;                // with the leaves that counts choose
};

// Milliseconds that no plan gets below of a program whose statements are launches of their own: what they compute, and
// what they must move. 0 where some are not.
double least_of(const Rewriting& r);

// `wanted`, where it is no less.
inline double predicted(Rewriting r, double wanted = std::numeric_limits<double>::infinity()) {
  return least_of(r) < wanted ? Planned(std::move(r)).time(wanted).value_or(wanted) : wanted;
}

}  // namespace tilec::codegen
