// Rows of a domain as bounds of one dimension, given what is fixed around it.
#include "codegen/ranges.h"

#include <algorithm>
#include <functional>

#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

// a·d + rest within [0, extent) as bounds of d, where `least` and `most` are what rest can be.
void tighten(
    Interval& r, std::int64_t a, const Expr& least, const Expr& most, const std::optional<std::int64_t>& extent) {
  const Expr zero(std::int64_t{0}), one(std::int64_t{1});
  if (a > 0) {
    r.lo = maximum(r.lo, ceil_divide(zero - least, a));
    if (extent) r.hi = minimum(r.hi, ceil_divide(Expr(*extent) - most, a));
  } else {
    r.hi = minimum(r.hi, floor_divide(least, -a) + one);
    if (extent) r.lo = maximum(r.lo, ceil_divide(most - Expr(*extent) + one, -a));
  }
}

bool holds_everywhere(const Nest& nest, const std::vector<std::int64_t>& tap) {
  for (const Row& row : nest.rows) {
    std::int64_t least = row.form.constant, most = least;
    bool reduces = false;
    for (std::size_t d = 0; d < nest.dims.size(); ++d) {
      const std::int64_t c = row.form.coefficients[d];
      if (!c) continue;
      if (nest.dims[d].reduction) {
        reduces = true;
        least += c * tap[d];
        most += c * tap[d];
      }
      else (c > 0 ? most : least) += c * (nest.dims[d].extent - 1);
    }
    if (reduces && (least < 0 || (row.extent && most >= *row.extent))) return false;
  }
  return true;
}

}  // namespace

Ranges::Ranges(const Nest& nest) : nest_(nest), at_(nest.dims.size()) {
  for (const Dim& dim : nest.dims) limit_.push_back({Expr(std::int64_t{0}), Expr(dim.extent)});
}

bool Ranges::all_fixed(const Row& row) const {
  for (std::size_t d = 0; d < at_.size(); ++d) if (row.form.coefficients[d] && !at_[d]) return false;
  return true;
}

bool Ranges::others_fixed(const Row& row, std::size_t d) const {
  for (std::size_t k = 0; k < at_.size(); ++k) if (k != d && row.form.coefficients[k] && !at_[k]) return false;
  return true;
}

Expr Ranges::known_part(const Form& form) const {
  Expr sum(form.constant);
  for (std::size_t d = 0; d < at_.size(); ++d)
    if (form.coefficients[d] && at_[d]) sum = sum + *at_[d] * Expr(form.coefficients[d]);
  return sum;
}

Interval Ranges::bounds(std::size_t d) const {
  Interval r = limit_[d];
  for (const Row& row : nest_.rows) {
    const std::int64_t a = row.form.coefficients[d];
    if (!a || !others_fixed(row, d)) continue;
    const Expr rest = known_part(row.form);
    tighten(r, a, rest, rest, row.extent);
  }
  return r;
}

std::optional<Interval> Ranges::interior(std::size_t d, const Interval& range) const {
  Interval r = range;
  bool coupled = false;
  for (const Row& row : nest_.rows) {
    const std::int64_t a = row.form.coefficients[d];
    if (!a || others_fixed(row, d)) continue;
    coupled = true;
    std::int64_t least = 0, most = 0;
    for (std::size_t k = 0; k < at_.size(); ++k) {
      const std::int64_t c = row.form.coefficients[k];
      if (k == d || !c || at_[k]) continue;
      const bool known = is_const(limit_[k].lo) && is_const(limit_[k].hi);
      const std::int64_t first = known ? const_or(limit_[k].lo, 0) : 0,
                         last = known ? const_or(limit_[k].hi, 0) - 1 : nest_.dims[k].extent - 1;
      least += c * (c > 0 ? first : last);
      most += c * (c > 0 ? last : first);
    }
    const Expr rest = known_part(row.form);
    tighten(r, a, rest + Expr(least), rest + Expr(most), row.extent);
  }
  if (!coupled) return std::nullopt;
  const Expr lo = maximum(range.lo, minimum(r.lo, range.hi));
  return Interval{lo, maximum(lo, minimum(r.hi, range.hi))};
}

Expr Ranges::holds(const Row& row, const Expr& value) const {
  const Expr low = at_least(value, Expr(std::int64_t{0}));
  return row.extent ? both(low, less(value, Expr(*row.extent))) : low;
}

std::optional<Expr> Ranges::fixed_rows() const {
  std::optional<Expr> all;
  for (const Row& row : nest_.rows)
    if (all_fixed(row)) all = all ? both(*all, holds(row, known_part(row.form))) : holds(row, known_part(row.form));
  return all;
}

bool bounds_elements(const Nest& nest) {
  return std::ranges::any_of(nest.rows, [&](const Row& row) {
    for (std::size_t d = 0; d < nest.dims.size(); ++d)
      if (nest.dims[d].reduction && row.form.coefficients[d] != 0) return false;
    return true;
  });
}

bool always_reached(const Nest& nest) {
  for (const Dim& dim : nest.dims) if (dim.reduction && dim.extent == 0) return false;
  std::vector<std::size_t> coupled;
  for (std::size_t d = 0; d < nest.dims.size(); ++d)
    if (nest.dims[d].reduction && in_rows(nest, d)) coupled.push_back(d);
  if (coupled.size() > 4) return false;
  std::vector<std::int64_t> tap(nest.dims.size(), 0);
  const std::function<bool(std::size_t)> search = [&](std::size_t c) {
    if (c == coupled.size()) return holds_everywhere(nest, tap);
    const std::int64_t extent = nest.dims[coupled[c]].extent;
    for (const std::int64_t t : {std::int64_t{0}, extent / 2, extent - 1}) {
      tap[coupled[c]] = t;
      if (search(c + 1)) return true;
    }
    return false;
  };
  return search(0);
}

bool identity_is_fill(const Nest& nest) {
  if (!nest.fill || nest.aggregation == Aggregation::Max || nest.aggregation == Aggregation::Min) return false;
  const double one = nest.aggregation == Aggregation::Product ? 1 : 0;
  const poly::Number& n = *nest.fill;
  return lang::is_float(n.type) ? n.real == one : static_cast<double>(n.integer) == one;
}

}  // namespace tilec::codegen
