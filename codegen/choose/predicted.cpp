#include "codegen/choose/predicted.h"

#include <utility>
#include <vector>

#include "codegen/choose/leaves.h"
#include "codegen/fuse.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite/rows.h"
#include "codegen/schedule.h"

namespace tilec::codegen {

double predicted(Rewriting r, double bar) {
  align_rows(r.program, r.strides, r.target);
  std::vector<Fused::Set> sets = sets_of(r);
  const Fused fused{std::move(r.program), std::move(r.strides), std::move(sets), {}};
  Plan plan = schedule(fused, r.target);
  const double by_counts = model::milliseconds_of(plan, fused.strides, r.target);
  if (by_counts >= model::leaves_save * bar) return by_counts;
  choose_leaves(plan, fused.strides, r.target);
  return model::milliseconds_of(plan, fused.strides, r.target);
}

}  // namespace tilec::codegen
