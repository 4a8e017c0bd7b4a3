#include "codegen/choose/predicted.h"

#include <utility>
#include <vector>

#include "codegen/fuse.h"
#include "codegen/model/predict.h"
#include "codegen/rewrite/rows.h"
#include "codegen/schedule.h"

namespace tilec::codegen {

double predicted(Rewriting r) {
  std::vector<Fused::Set> sets = sets_of(r);
  const Fused fused{std::move(r.program), std::move(r.strides), std::move(sets), {}};
  return model::milliseconds_of(schedule(fused, r.target), fused.strides, r.target);
}

}  // namespace tilec::codegen
