#include "codegen/model/known.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "codegen/model/machine.h"
#include "codegen/ranges.h"
#include "poly/intern.h"

namespace tilec::codegen::model {

namespace {

// The part of its box that all rows leave: of points spread evenly by steps of irrational numbers (a Kronecker
// sequence).
double filled_part(const Nest& nest) {
  if (nest.rows.empty()) return 1;
  constexpr int samples = 256;
  constexpr double golden = 0.6180339887498949;
  int inside = 0;
  struct Sampled { std::size_t d; double step, extent, at; };
  std::vector<Sampled> dims;                           // that a row mentions
  double step = golden;
  for (std::size_t d = 0; d < nest.dims.size(); ++d, step = step * golden + 0.1234567)
    if (in_rows(nest, d)) dims.push_back({d, step, static_cast<double>(nest.dims[d].extent), 0});
  for (int n = 0; n < samples; ++n) {
    for (Sampled& dim : dims) {
      const double place = (n + 0.5) * dim.step, part = place - static_cast<double>(static_cast<std::int64_t>(place));
      dim.at = static_cast<double>(static_cast<std::int64_t>(part * dim.extent));
    }
    inside += std::ranges::all_of(nest.rows, [&](const Row& row) {
      double value = static_cast<double>(row.form.constant);
      for (const Sampled& dim : dims) value += dim.at * static_cast<double>(row.form.coefficients[dim.d]);
      return value >= 0 && (!row.extent || value < static_cast<double>(*row.extent));
    });
  }
  return std::max(inside, 1) / static_cast<double>(samples);
}

double operations_of(const poly::Expr& value, const Machine& machine) {
  double count = 0;
  for (const poly::Expr& part : poly::parts(value)) {
    if (const auto* apply = part.as<poly::Apply>()) count += model::operations_of(apply->op, apply->type, machine);
    if (part.as<poly::Cast>()) ++count;
  }
  return count;
}

Known known(Nest nest, const Target& target) {
  const Machine* machine = machine_of(target);
  const double filled = filled_part(nest),
               operations = nest.value && machine != nullptr ? operations_of(*nest.value, *machine) : 0;
  std::vector<Condition> asked =
      nest.value && (identity_is_fill(nest) || always_reached(nest)) ? conditions(nest) : std::vector<Condition>{};
  return {std::move(nest), filled, operations, std::move(asked)};
}

}  // namespace

KnownGroup known(const poly::Program& program, const Group& group, const Strides& strides, const Target& target) {
  KnownGroup made;
  for (const Compute& leaf : group.body) made.push_back(known(leaf_nest(program, group, leaf, strides), target));
  return made;
}

KnownPlan known(const Plan& plan, std::vector<std::vector<Nest>> nests, const Strides& strides, const Target& target) {
  KnownPlan made;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (nests[g].size() != plan.groups[g].body.size()) {
      made.push_back(known(plan.program, plan.groups[g], strides, target));
      continue;
    }
    KnownGroup& group = made.emplace_back();
    for (Nest& nest : nests[g]) group.push_back(known(std::move(nest), target));
  }
  return made;
}

KnownPlan known(const Plan& plan, const Strides& strides, const Target& target) {
  KnownPlan made;
  for (const Group& group : plan.groups) made.push_back(known(plan.program, group, strides, target));
  return made;
}

}  // namespace tilec::codegen::model
