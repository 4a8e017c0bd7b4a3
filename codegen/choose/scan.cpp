#include "codegen/choose/scan.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "codegen/model/estimates.h"
#include "codegen/product.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

namespace blocks = model::blocks;

// A vector of elements that lie apart, to load or to store. Not worth its lanes: a scan has work for one element at a
// time.
double spread_cost(std::int64_t stride_of_lane, std::int64_t lanes) {
  return std::abs(stride_of_lane) <= 1 ? blocks::load : blocks::scattered_lane * static_cast<double>(lanes);
}

}  // namespace

std::pair<Compute, double> choose_scan(const Facts& f, int node, const Scan& scan) {
  const Nest& nest = f.nest;
  Compute leaf;
  leaf.node = node;
  leaf.form = forms::Scan{nest.dims[scan.along].name};
  leaf.k = {nest.dims[scan.over].name};
  const double ops = scan.all_but_one ? model::scans::all_but_one * f.ops
      : scan.decays                   ? model::scans::decaying * f.ops
                                      : f.ops;
  double best = 1 + ops;                               // cycles per element
  std::optional<std::size_t> lane;
  for (std::size_t d = 0; d < f.extent.size(); ++d) {
    if (d == scan.along || nest.dims[d].reduction || f.fixed[d] || f.extent[d] < 2 || in_rows(nest, d)) continue;
    const std::int64_t lanes = lanes_for(f, f.extent[d]);
    double cost = ops + spread_cost(stride(nest.target, d), lanes);
    for (const FlatAccess& read : nest.reads) cost += spread_cost(stride(read, d), lanes);
    cost *= std::ceil(static_cast<double>(f.extent[d]) / static_cast<double>(lanes)) / static_cast<double>(f.extent[d]);
    if (cost < best) best = cost, lane = d;
  }
  leaf.rows = model::scans::rows_at_once;
  if (lane) {
    leaf.n = nest.dims[*lane].name;
    leaf.lanes = lanes_for(f, f.extent[*lane]);
    leaf.vectors = std::clamp<std::int64_t>(f.extent[*lane] / leaf.lanes, 1,
        f.registers /
            (scan.all_but_one || scan.decays ? model::scans::registers_of_decay : model::scans::registers_of_lane));
    leaf.rows = leaf.vectors >= model::scans::vectors_at_once ? 1 : model::scans::vectors_at_once / leaf.vectors;
  }
  if (!scan.steady() || scan.decays || has_scale(nest.aggregation, compute_type(nest.value->type()))) leaf.rows = 1;
  std::vector<std::size_t> outer;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (!f.fixed[d] && !nest.dims[d].reduction && d != scan.along && d != lane) outer.push_back(d);
  std::stable_sort(outer.begin(), outer.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(stride(nest.target, a)) > std::abs(stride(nest.target, b));
  });
  leaf.outer = names(nest, outer);
  const double cycles =
      best * points(f) / std::max(1.0, static_cast<double>(std::min(f.extent[scan.along], f.extent[scan.over])));
  return {std::move(leaf), cycles};
}

}  // namespace tilec::codegen
