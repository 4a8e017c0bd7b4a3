#include "codegen/choose/predicted.h"

#include <utility>

#include "codegen/choose/leaves.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite/rows.h"
#include "codegen/schedule.h"

namespace tilec::codegen {

Planned::Planned(Rewriting r)
    : target_(r.target),
      fused_(in_sets(std::move(r))),
      plan_(schedule(std::move(fused_), target_)),
      statements_(model::known(plan_, fused_.strides, target_)),
      by_counts_(model::milliseconds_of(plan_, statements_, target_)) {}

double Planned::time(double bar) {
  if (by_counts_ >= model::leaves_save * bar) return by_counts_;
  choose_leaves(plan_, statements_, fused_.strides, target_);
  return model::milliseconds_of(plan_, statements_, target_);
}

}  // namespace tilec::codegen
