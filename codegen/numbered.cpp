#include "codegen/numbered.h"

#include <algorithm>
#include <cstdlib>

#include "codegen/model/thresholds.h"

namespace tilec::codegen {

std::vector<std::string> numbered(const Nest& nest, const Compute& leaf) {
  const auto apart = [&](const std::string& name) {
    return std::abs(nest.target.offset.coefficients[*nest.dim(name)]);
  };
  const bool fills_warp = !leaf.n.empty() && nest.dims[*nest.dim(leaf.n)].extent >= model::threads::warp;
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

}  // namespace tilec::codegen
