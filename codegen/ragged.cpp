#include "codegen/ragged.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "codegen/model/sums.h"
#include "codegen/ranges.h"

namespace tilec::codegen {

bool has_ragged_blocks(const Nest& nest, std::size_t m) {
  if (!in_rows(nest, m)) return false;
  std::vector<std::int64_t> extents;
  std::vector<bool> reductions;
  for (const Dim& dim : nest.dims) extents.push_back(dim.extent), reductions.push_back(dim.reduction);
  return interior_part(nest, extents, m, reductions) < model::rows_in_common &&
      (identity_is_fill(nest) || always_reached(nest));
}

double asked_steps(const Nest& nest, std::size_t m, double rows) {
  double steps = 1, common = 1;
  for (std::size_t d = 0; d < nest.dims.size(); ++d) {
    if (!nest.dims[d].reduction) continue;
    const auto extent = static_cast<double>(nest.dims[d].extent);
    double uneven = 0;
    for (const Row& row : nest.rows)
      if (row.form.coefficients[m] && row.form.coefficients[d])
        uneven += (row.extent ? 2 : 1) * (rows - 1) *
            std::abs(static_cast<double>(row.form.coefficients[m]) / static_cast<double>(row.form.coefficients[d]));
    steps *= extent;
    common *= std::max(0.0, extent - uneven);
  }
  return steps - common;
}

}  // namespace tilec::codegen
