#include "codegen/numbered.h"

#include <algorithm>
#include <cstdlib>

namespace tilec::codegen {

std::vector<std::string> numbered(const Nest& nest, const Compute& leaf) {
  const auto apart = [&](const std::string& name) {
    return std::abs(nest.target.offset.coefficients[*nest.dim(name)]);
  };
  std::vector<std::string> order = leaf.outer;
  if (!leaf.m().empty()) {
    // The plan says how those around m follow one another.
    auto at = order.end();
    while (at != order.begin() && apart(*(at - 1)) < apart(leaf.m())) --at;
    order.insert(at, leaf.m());
  }
  if (!leaf.n.empty()) order.push_back(leaf.n);
  return order;
}

}  // namespace tilec::codegen
