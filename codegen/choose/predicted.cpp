#include "codegen/choose/predicted.h"

#include <utility>

#include "codegen/choose/leaves.h"
#include "codegen/fuse.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite/rows.h"
#include "codegen/schedule.h"

namespace tilec::codegen {

double predicted(Rewriting r, double bar) {
  const Target target = r.target;
  const Fused fused = in_sets(std::move(r));
  Plan plan = schedule(fused, target);
  const model::KnownPlan statements = model::known(plan, fused.strides, target);
  const double by_counts = model::milliseconds_of(plan, statements, target);
  if (by_counts >= model::leaves_save * bar) return by_counts;
  choose_leaves(plan, statements, fused.strides, target);
  return model::milliseconds_of(plan, statements, target);
}

}  // namespace tilec::codegen
