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
  const double by_counts = model::milliseconds_of(plan, fused.strides, target);
  if (by_counts >= model::leaves_save * bar) return by_counts;
  choose_leaves(plan, fused.strides, target);
  return model::milliseconds_of(plan, fused.strides, target);
}

}  // namespace tilec::codegen
