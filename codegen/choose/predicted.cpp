#include "codegen/choose/predicted.h"

#include <utility>

#include "codegen/choose/leaves.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite/rows.h"
#include "codegen/schedule.h"

namespace tilec::codegen {

Planned::Planned(Rewriting r)
    : target_(r.target),
      fused_(in_sets(std::move(r))),
      plan_(schedule(std::move(fused_), target_)),
      statements_(model::known(plan_, fused_.strides, target_)),
      times_(model::times_of(plan_, statements_, target_)) {}

double Planned::by_counts() const { return sum(times_, &model::GroupTime::milliseconds); }

std::optional<double> Planned::time(double wanted) {
  if (by_counts() >= model::leaves_save * wanted ||
      !choose_leaves(plan_, statements_, fused_.strides, target_, times_, wanted))
    return std::nullopt;
  return sum(model::times_of(plan_, statements_, target_), &model::GroupTime::milliseconds);
}

}  // namespace tilec::codegen
