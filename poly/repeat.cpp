#include "poly/repeat.h"

#include <algorithm>

#include "poly/count.h"
#include "poly/fold.h"
#include "poly/hull.h"
#include "poly/intern.h"
#include "poly/interpret.h"
#include "poly/substitute.h"

namespace tilec::poly {
namespace {

// Of each index: does a value, an element or a row of such an index depend on it?
std::vector<bool> mentioned(const Statement& s) {
  std::vector<bool> result(s.indices.size(), false);
  const auto mark = [&](const Affine& form) {
    for (std::size_t k = 0; k < result.size(); ++k)
      if (!form.coefficients[k].is(0)) result[k] = true;
  };
  std::ranges::for_each(s.target.element, mark);
  for (const Access& read : s.reads) std::ranges::for_each(read.element, mark);
  for (const Expr& part : parts(s.value))
    if (const auto* index = part.as<Index>()) mark(index->value);
  for (std::vector<bool> before; before != result;) {
    before = result;
    for (std::size_t r = result.size(); r < s.domain.size(); ++r) {
      const Affine& form = s.domain[r].value;
      for (std::size_t k = 0; k < result.size(); ++k)
        if (before[k] && !form.coefficients[k].is(0)) {
          mark(form);
          break;
        }
    }
  }
  return result;
}

// How many points the indices in `idle` have among themselves; none where that is too dear to count.
std::optional<std::int64_t> repetitions(const Statement& s, const std::vector<std::size_t>& idle) {
  std::vector<Row> rows;
  Box box;
  for (const std::size_t k : idle) {
    const Row hull = row_of(s.domain[k]);
    box.index.push_back({-hull.constant, *hull.extent - 1 - hull.constant});
    box.empty = box.empty || *hull.extent <= 0;
  }
  for (const Range& range : s.domain) {
    Row row = row_of(range);
    std::vector<std::int64_t> own;
    for (const std::size_t k : idle) own.push_back(row.coefficients[k]);
    if (std::ranges::all_of(own, [](std::int64_t c) { return c == 0; })) continue;
    row.coefficients = std::move(own);
    rows.push_back(std::move(row));
  }
  return count_points(rows, box);
}

Statement without(const Statement& s, const std::vector<std::size_t>& idle) {
  const std::size_t n = s.indices.size();
  Map map{lattice::Matrix(n, lattice::Vector(n - idle.size(), 0)), lattice::Vector(n, 0)};
  std::vector<std::string> names;
  Statement kept = s;
  kept.domain.clear();
  const auto is_idle = [&](std::size_t k) { return std::ranges::count(idle, k) > 0; };
  for (std::size_t k = 0; k < n; ++k) {
    if (is_idle(k)) continue;
    map.matrix[k][names.size()] = 1;
    names.push_back(s.indices[k]);
  }
  for (std::size_t r = 0; r < s.domain.size(); ++r) {
    const bool theirs =
        std::ranges::any_of(idle, [&](std::size_t k) { return !s.domain[r].value.coefficients[k].is(0); });
    if (r < n ? !is_idle(r) : !theirs) kept.domain.push_back(s.domain[r]);
  }
  return substitute(kept, map, std::move(names));
}

Expr product(const Expr& a, const Expr& b) { return Apply{Op::Mul, {a, b}, a.type()}; }

Expr times(const Expr& value, std::int64_t count) {
  const DType type = value.type();
  if (!lang::is_float(type)) return product(value, Number{.type = type, .integer = wrap_to(type, count)});
  const auto exact = static_cast<double>(count);
  const DType wide = round_to(type, exact) == exact ? type : DType::F64;
  const Expr many = product(wide == type ? value : Expr(Cast{value, wide}), Number{.type = wide, .real = exact});
  return Apply{Op::Add, {wide == type ? many : Expr(Cast{many, type}), Number{.type = type}}, type};
}

Expr power(Expr square, std::int64_t count) {
  std::optional<Expr> result;
  for (;;) {
    if (count % 2 != 0) result = result ? product(*result, square) : square;
    count /= 2;
    if (count == 0) return *result;
    square = product(square, square);
  }
}

}  // namespace

Statement without_repeats(Statement s) {
  const DType type = s.value.type();
  if (s.aggregation == Aggregation::Assign || type == DType::Bool ||
      (s.aggregation == Aggregation::Product && lang::is_float(type)))
    return s;
  const std::vector<bool> walked = mentioned(s);
  std::vector<std::size_t> idle;
  for (std::size_t k = 0; k < walked.size(); ++k)
    if (!walked[k]) idle.push_back(k);
  if (idle.empty()) return s;
  const std::optional<std::int64_t> count = repetitions(s, idle);
  if (!count || *count < 2) return s;
  Statement result = without(s, idle);
  if (s.aggregation == Aggregation::Sum) result.value = folded(times(result.value, *count));
  if (s.aggregation == Aggregation::Product) result.value = folded(power(result.value, *count));
  return result;
}

}  // namespace tilec::poly
