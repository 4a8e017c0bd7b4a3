#include "codegen/spell/block_place.h"

#include <cstdlib>
#include <utility>

#include <fmt/core.h>

#include "codegen/strip.h"

namespace tilec::codegen {

namespace {

bool others_none(const Row& row, std::size_t d) {
  for (std::size_t k = 0; k < row.form.coefficients.size(); ++k) if (k != d && row.form.coefficients[k]) return false;
  return true;
}

}  // namespace

Expr BlockPlace::corner(std::size_t access, const Form& offset) const {
  Expr sum = leaf.points.known_part(offset);
  if (tile.blocked_m) sum = sum + tile.m0 * Expr(offset.coefficients[static_cast<std::size_t>(leaf.m)]);
  if (tile.blocked_n) sum = sum + tile.n0 * Expr(offset.coefficients[static_cast<std::size_t>(leaf.n)]);
  const auto base = leaf.around.base.find(access);
  return base == leaf.around.base.end() ? sum : sum - base->second;
}

std::int64_t BlockPlace::of_row(const Form& f, std::int64_t i) const {
  std::int64_t sum = 0;
  for (const auto& [d, value] : leaf.values_of_row(i, tile.rows)) sum += value * f.coefficients[d];
  return sum;
}

Expr BlockPlace::inside_tile(const Form& f, std::int64_t i, std::int64_t v) const {
  Expr sum(std::int64_t{0});
  if (in_m(f)) sum = sum + Expr(of_row(f, i));
  if (in_n(f))
    sum = sum + (Expr(v * leaf.compute.lanes) + lane()) * Expr(f.coefficients[static_cast<std::size_t>(leaf.n)]);
  return sum;
}

Expr BlockPlace::index_value(const Form& f, std::int64_t i, std::int64_t v) const {
  Expr sum = leaf.points.known_part(f);
  if (tile.blocked_m)
    sum = sum + tile.m0 * Expr(f.coefficients[static_cast<std::size_t>(leaf.m)]) + Expr(of_row(f, i));
  if (tile.blocked_n)
    sum = sum +
        (tile.n0 + Expr(v * leaf.compute.lanes) + lane()) * Expr(f.coefficients[static_cast<std::size_t>(leaf.n)]);
  return sum;
}

std::optional<Expr> BlockPlace::guard() const {
  std::optional<Expr> all;
  if (tile.valid) all = mask(0);
  const std::size_t n = static_cast<std::size_t>(leaf.n);
  for (const Row& row : leaf.nest.rows) {
    const std::int64_t c = row.form.coefficients[n];
    if (!c || others_none(row, n)) continue;
    const Expr value = leaf.points.known_part(row.form) + (tile.n0 + lane()) * Expr(c);
    Expr holds = at_least(value, Expr(std::int64_t{0}));
    if (row.extent) holds = both(holds, less(value, Expr(*row.extent)));
    all = all ? both(*all, holds) : holds;
  }
  return all;
}

bool BlockPlace::turns(const Form& f) const {
  return leaf.block.turned && tile.blocked_m && tile.blocked_n && !lane_name.empty() &&
      f.coefficients[static_cast<std::size_t>(leaf.m)] == 1 &&
      std::abs(f.coefficients[static_cast<std::size_t>(leaf.n)]) > 1;
}

bool BlockPlace::strip(const Form& f) const {
  return is_strip(f.coefficients[static_cast<std::size_t>(leaf.m)], f.coefficients[static_cast<std::size_t>(leaf.n)],
      tile.rows, leaf.compute.lanes);
}

Expr BlockPlace::along_m(const Form& f, std::int64_t v, std::int64_t l) const {
  return lane() + Expr((v * leaf.compute.lanes + l) * f.coefficients[static_cast<std::size_t>(leaf.n)]);
}

Expr BlockPlace::along_strip(std::int64_t v, std::int64_t j) const {
  return lane() + Expr((v * tile.rows + j) * leaf.compute.lanes);
}

Stmt BlockPlace::of_strip(Stmt s, std::int64_t v, std::int64_t j) const {
  return masked(v) ? stmt(If{less(along_strip(v, j), *tile.valid * Expr(tile.rows)), {std::move(s)}, {}}) : s;
}

Stmt BlockPlace::of_square(Stmt s, std::int64_t v, std::int64_t l) const {
  if (tile.rows < leaf.compute.lanes) s = stmt(If{less(lane(), Expr(tile.rows)), {std::move(s)}, {}});
  if (masked(v)) s = stmt(If{less(Expr(v * leaf.compute.lanes + l), *tile.valid), {std::move(s)}, {}});
  return s;
}

Views views_of(Body& body, const BlockPlace& at) {
  const SpelledLeaf& leaf = at.leaf;
  const auto held_by = [&](std::size_t r) -> const std::string& {
    const auto view = leaf.around.views.find(r);
    return view == leaf.around.views.end() ? leaf.storage.name(leaf.nest.reads[r].tensor) : view->second;
  };
  Views views;
  for (std::size_t r = 0; r < leaf.nest.reads.size(); ++r) {
    if (const auto held = leaf.around.held.find(r); held != leaf.around.held.end()) {
      views.push_back(held->second);
      continue;
    }
    const FlatAccess& read = leaf.nest.reads[r];
    std::size_t same = 0;
    while (same < r &&
        !(leaf.nest.reads[same].tensor == read.tensor && leaf.nest.reads[same].offset == read.offset &&
            held_by(same) == held_by(r)))
      ++same;
    if (same < r) {
      views.push_back(views[same]);
      continue;
    }
    const std::string name = leaf.names.fresh(fmt::format("p{}", r));
    body.push_back(stmt(View{name, held_by(r), at.corner(r, read.offset)}));
    views.push_back(name);
  }
  return views;
}

std::vector<Advance> advance(const BlockPlace& at, const Views& views, std::size_t d, std::int64_t values) {
  std::vector<Advance> moves;
  for (std::size_t r = 0; r < views.size(); ++r) {
    const std::int64_t s = at.leaf.nest.reads[r].offset.coefficients[d];
    if (s && first_of_view(views, r)) moves.push_back({views[r], Expr(s * values)});
  }
  return moves;
}

OwnRanges own_ranges(Body& body, const BlockPlace& at, std::size_t d) {
  SpelledLeaf& leaf = at.leaf;
  const std::string& stem = leaf.nest.dims[d].name;
  std::vector<Interval> rows;
  for (std::int64_t i = 0; i < at.tile.rows; ++i) {
    const auto values = leaf.values_of_row(i, at.tile.rows);
    for (const auto& [of, value] : values)
      leaf.points.fix(of, static_cast<int>(of) == leaf.m ? at.tile.m0 + Expr(value) : Expr(value));
    const Interval range = leaf.points.bounds(d);
    for (const auto& [of, value] : values) leaf.points.release(of);
    rows.push_back({named(leaf.names, body, stem + "_lo", range.lo), named(leaf.names, body, stem + "_end", range.hi)});
  }
  Interval any = rows.front(), all = any;
  for (const Interval& row : rows) {
    any = {minimum(any.lo, row.lo), maximum(any.hi, row.hi)};
    all = {maximum(all.lo, row.lo), minimum(all.hi, row.hi)};
  }
  any.hi = maximum(any.lo, any.hi);
  return {std::move(rows), any, all};
}

}  // namespace tilec::codegen
