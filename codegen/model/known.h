// What the model asks of a statement whatever its loops and blocks are: found once, while hundreds of them are weighed.
#pragma once

#include <vector>

#include "codegen/conditions.h"
#include "codegen/nest.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen::model {

struct Known {
  Nest nest;
  double filled;                                       // the part of the box that the rows of the domain leave
  double operations;                                   // of the value, in vector multiply-adds
  std::vector<Condition> conditions = {};              // of the points
};
// Of each leaf of a group, and of each group of a plan.
using KnownGroup = std::vector<Known>;
using KnownPlan = std::vector<KnownGroup>;

KnownGroup known(const poly::Program& program, const Group& group, const Strides& strides, const Target& target);
KnownPlan known(const Plan& plan, const Strides& strides, const Target& target);
// `nests`: of each group those of its leaves, or none.
KnownPlan known(const Plan& plan, std::vector<std::vector<Nest>> nests, const Strides& strides, const Target& target);

}  // namespace tilec::codegen::model
