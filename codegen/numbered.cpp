#include "codegen/numbered.h"

#include <algorithm>
#include <cstdlib>

#include "codegen/model/side_by_side.h"
#include "codegen/model/thresholds.h"

namespace tilec::codegen {

namespace {

bool has_part_of_m(const Nest& nest, const Compute& leaf) {
  const auto* contract = leaf.as<forms::Contract>();
  if (!contract || contract->outside.empty()) return false;
  std::int64_t rows = nest.dims[*nest.dim(leaf.m())].extent;
  for (const std::string& name : contract->outside) rows *= nest.dims[*nest.dim(name)].extent;
  return leaf.rows < rows;
}

}  // namespace

std::vector<std::string> numbered(const Nest& nest, const Compute& leaf) {
  const auto apart = [&](const std::string& name) {
    return std::abs(nest.target.offset.coefficients[*nest.dim(name)]);
  };
  const bool fills_warp = !has_part_of_m(nest, leaf) && !leaf.n.empty() &&
      nest.dims[*nest.dim(leaf.n)].extent >= model::threads::warp;
  std::vector<std::string> order = leaf.outer;
  if (!leaf.m().empty()) {
    // The plan says how those around m follow one another.
    auto at = order.end();
    while (!fills_warp && at != order.begin() && apart(*(at - 1)) < apart(leaf.m())) --at;
    order.insert(at, leaf.m());
  }
  if (!leaf.n.empty()) order.push_back(leaf.n);
  return order;
}

std::int64_t values_of_line(const poly::Program& program, const Nest& nest, const Compute& leaf) {
  if (leaf.n.empty()) return 1;
  const std::size_t n = *nest.dim(leaf.n);
  const std::int64_t extent = nest.dims[n].extent;
  if (!has_part_of_m(nest, leaf) || numbered(nest, leaf).size() < 2) return extent;
  std::int64_t most = extent;
  const auto see = [&](const FlatAccess& access) {
    const std::int64_t bytes =
        std::abs(access.offset.coefficients[n]) * lang::bytes(program.tensor(access.tensor).dtype);
    if (bytes) most = std::min(most, std::max<std::int64_t>(1, model::side_by_side::line_bytes / bytes));
  };
  see(nest.target);
  for (const FlatAccess& read : nest.reads) see(read);
  while (extent % most) --most;
  return most;
}

}  // namespace tilec::codegen
