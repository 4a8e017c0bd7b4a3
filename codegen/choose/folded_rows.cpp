#include "codegen/choose/folded_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/product.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

namespace blocks = model::blocks;

// Vectors of n at which some of `rows` rows of m have begun or ended and others not.
double uneven_vectors(const Facts& f, std::size_t n, std::size_t m, std::int64_t rows, std::int64_t lanes) {
  double begins = 0, ends = 0;
  for (const Row& row : f.nest.rows) {
    const auto by_n = static_cast<double>(row.form.coefficients[n]),
               by_m = static_cast<double>(row.form.coefficients[m]);
    if (by_n == 0 || by_m == 0) continue;
    const double vectors =
        std::ceil(std::abs(by_m / by_n) * static_cast<double>(rows - 1) / static_cast<double>(lanes));
    if (by_n > 0 || row.extent) begins = std::max(begins, vectors);
    if (by_n < 0 || row.extent) ends = std::max(ends, vectors);
  }
  return begins + ends;
}

bool ragged(const Facts& f, std::size_t n) {
  return std::ranges::any_of(f.nest.rows, [&](const Row& row) {
    return row.form.coefficients[n] &&
        std::ranges::count_if(row.form.coefficients, [](std::int64_t c) { return c != 0; }) > 1;
  });
}

double folded_cost(
    const Facts& f, std::size_t n, std::optional<std::size_t> m, std::int64_t rows, std::int64_t vectors) {
  const std::int64_t lanes = lanes_for(f, f.extent[n]);
  const double along = std::ceil(static_cast<double>(f.extent[n]) / static_cast<double>(lanes));
  double steps = 1, others = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (d != n && d != m && !f.fixed[d])
      (f.nest.dims[d].reduction ? steps : others) *= static_cast<double>(f.extent[d]);
  const bool own_ranges = m && staggered(f.nest, *m, n, reductions(f.nest));
  const auto block = [&](double r) {
    const double uneven = own_ranges && r > 1 ? std::min(along, uneven_vectors(f, n, *m, rows, lanes)) : 0;
    double shared = r * static_cast<double>(f.ops) / model::pipes, alone = shared;
    for (const FlatAccess& read : f.nest.reads) {
      const double access = access_cost(stride(read, n), lanes);
      shared += access * (m && stride(read, *m) ? r : 1);
      alone += access * r;
    }
    const double chain = model::latency / static_cast<double>(vectors);
    const double step = (along - uneven) * std::max(shared, chain) + uneven * std::max(alone, chain) +
        (ragged(f, n) ? blocks::ragged_row : 0);
    const double store = m && std::abs(stride(f.nest.target, *m)) > 1 ? blocks::scattered_lane * r : blocks::load;
    return steps * left(f, n, m, r) * step + (r > 1 ? blocks::fold_of_row * r + store + blocks::start : f.fold);
  };
  if (!m) return others * block(1);
  const double extent = static_cast<double>(f.extent[*m]), inside = own_ranges ? extent : interior(f, *m) * extent;
  const Tiles tiles = balanced(std::max<std::int64_t>(1, std::llround(inside)), rows);
  return others *
      (static_cast<double>(tiles.count) * block(static_cast<double>(tiles.most)) + (extent - inside) * block(1));
}

bool may_fold_rows(const Facts& f) {
  return f.squares && !has_scale(f.nest.aggregation, compute_type(f.nest.value->type()));
}

// The best number of rows of m, where they cost less than `most`.
FoldedRows rows_of(const Facts& f, std::size_t n, std::size_t m, double most) {
  FoldedRows best{std::nullopt, 1, most};
  if (f.fixed[m] || f.nest.dims[m].reduction || f.extent[m] < 2) return best;
  // Rows with nothing in common only save folds, and are read as so many streams: softmax of 4096 rows of 256 took 1.15
  // times as long.
  if (std::all_of(
          f.nest.reads.begin(), f.nest.reads.end(), [&](const FlatAccess& read) { return stride(read, m) != 0; }))
    return best;
  const std::int64_t vectors = folded_vectors(f, n), reads = static_cast<std::int64_t>(f.nest.reads.size());
  for (std::int64_t rows = 2; rows <= std::min(f.extent[m], blocks::folded_rows); ++rows) {
    if (rows * vectors + vectors + reads > f.registers - 1 ||
        rows * vectors * f.ops > static_cast<std::int64_t>(blocks::spelled_out))
      continue;
    if (const double cost = folded_cost(f, n, m, rows, vectors); cost < best.cost) best = {m, rows, cost};
  }
  return best;
}

}  // namespace

std::int64_t folded_vectors(const Facts& f, std::size_t n) {
  return std::clamp<std::int64_t>(f.extent[n] / f.width, 1, blocks::reduced_vectors);
}

FoldedRows folded_alone(const Facts& f, std::size_t n) {
  return {std::nullopt, 1, folded_cost(f, n, std::nullopt, 1, folded_vectors(f, n))};
}

FoldedRows folded_rows(const Facts& f, std::size_t n) {
  FoldedRows best = folded_alone(f, n);
  if (!may_fold_rows(f)) return best;
  const double most = blocks::folded_less * best.cost;
  for (std::size_t m = f.extent.size(); m-- > 0;)
    if (const FoldedRows rows = rows_of(f, n, m, std::min(most, blocks::less * best.cost)); rows.m) best = rows;
  return best;
}

FoldedRows folded_rows_of(const Facts& f, std::size_t n, std::size_t m) {
  const FoldedRows alone = folded_alone(f, n);
  if (!may_fold_rows(f)) return alone;
  const FoldedRows rows = rows_of(f, n, m, blocks::folded_less * alone.cost);
  return rows.m ? rows : alone;
}

}  // namespace tilec::codegen
