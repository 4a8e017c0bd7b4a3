#include "codegen/spell/few_steps.h"

#include <algorithm>

#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

bool is_whole(const StepsOfRows& steps) {
  return std::ranges::all_of(
      steps, [](const std::vector<bool>& row) { return std::ranges::find(row, false) == row.end(); });
}

// A dimension that counts parts of the reduction, with the few parts in which rows lack steps; without it, it is known
// what rows have.
struct FewSteps {
  std::optional<std::size_t> part;
  std::vector<std::int64_t> borders;
};

// What else says which steps rows have; `one`: whether it is one dimension at most.
std::optional<std::size_t> part_of(const SpelledLeaf& l, bool& one) {
  std::optional<std::size_t> found;
  const std::size_t d = l.k.back();
  for (const Row& row : l.nest.rows)
    for (std::size_t q = 0; q < l.nest.dims.size(); ++q) {
      if (!row.form.coefficients[d] || !row.form.coefficients[q] || q == d || l.is_of_rows(q)) continue;
      if (is_const(*l.points.at(q)) || found == q) continue;
      if (found || l.nest.dims[q].reduction) one = false;
      found = q;
    }
  return found;
}

// None: which steps rows have is not known here.
std::optional<StepsOfRows> steps_of_rows(const BlockPlace& at) {
  const std::size_t d = at.leaf.k.back();
  const Interval steps = at.leaf.points.bounds(d);
  Body none;
  StepsOfRows present;
  for (const Interval& row : own_ranges(none, at, d).rows) {
    if (!is_const(row.lo) || !is_const(row.hi)) return std::nullopt;
    present.emplace_back();
    for (std::int64_t u = const_or(steps.lo, 0); u < const_or(steps.hi, 0); ++u)
      present.back().push_back(const_or(row.lo, 0) <= u && u < const_or(row.hi, 0));
  }
  return present;
}

std::optional<FewSteps> few_steps(const BlockPlace& at) {
  SpelledLeaf& l = at.leaf;
  bool known = true;
  FewSteps few{part_of(l, known), {}};
  if (!few.part) return steps_of_rows(at) ? std::optional(few) : std::nullopt;
  for (std::int64_t b = 0; known && b < l.nest.dims[*few.part].extent; ++b)
    l.with(*few.part, Expr(b), [&] {
      const auto steps = steps_of_rows(at);
      known = steps.has_value();
      if (known && !is_whole(*steps)) few.borders.push_back(b);
      return Body();
    });
  return known && few.borders.size() <= model::threads::borders_apart ? std::optional(few) : std::nullopt;
}

}  // namespace

bool has_few_steps(const BlockPlace& at) {
  const SpelledLeaf& l = at.leaf;
  if (l.outside.empty() || !at.tile.staggered || l.k.size() < 2) return false;
  const std::size_t d = l.k.back();
  for (const Row& row : l.nest.rows)
    for (std::size_t q = 0; q < l.nest.dims.size(); ++q)
      if (row.form.coefficients[d] && row.form.coefficients[q] && q != d && !l.is_of_rows(q) && !l.points.at(q))
        return false;
  const Interval range = l.points.bounds(d);
  return is_const(range.lo) && is_const(range.hi) &&
      const_or(range.hi, 0) - const_or(range.lo, 0) <= model::threads::most_side_by_side;
}

Body spell_few_steps(const BlockPlace& at, const std::function<Body(const BlockPlace&, StepsOfRows)>& steps) {
  SpelledLeaf& l = at.leaf;
  Body body;
  const std::optional<FewSteps> few = few_steps(at);
  if (!few) {
    const Interval range = l.points.bounds(l.k.back()), all = own_ranges(body, at, l.k.back()).all;
    BlockPlace border = at;
    border.tile.border = true, border.tile.staggered = false;
    Body whole = steps(at, {}), masked = steps(border, {});
    body.push_back(
        stmt(If{both(at_least(range.lo, all.lo), at_least(all.hi, range.hi)), std::move(whole), std::move(masked)}));
    return body;
  }
  if (!few->part) return steps(at, *steps_of_rows(at));
  const std::size_t part = *few->part;
  if (static_cast<std::int64_t>(few->borders.size()) < l.nest.dims[part].extent) body = steps(at, {});
  const Expr number = *l.points.at(part);
  for (const std::int64_t b : few->borders) {
    Body border = l.with(part, Expr(b), [&] { return steps(at, *steps_of_rows(at)); });
    if (!body.empty())
      border = {
          stmt(If{both(at_least(number, Expr(b)), at_least(Expr(b), number)), std::move(border), std::move(body)})};
    body = std::move(border);
  }
  return body;
}

}  // namespace tilec::codegen
