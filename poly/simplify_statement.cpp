#include "poly/simplify_statement.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "poly/exact.h"
#include "poly/fold.h"
#include "poly/intern.h"
#include "poly/tidy.h"
#include "poly/view.h"

namespace tilec::poly {
namespace {

// Index k as the constant it must be: a row 0 <= ±k + c < 1.
std::optional<std::int64_t> only_value(const Range& row, std::size_t k) {
  const auto c = row.value.coefficients[k].value(), constant = row.value.constant.value();
  if (!row.extent || !row.extent->is(1) || !row.value.divisor.is(1) || !c || !constant || (*c != 1 && *c != -1) ||
      *constant == INT64_MIN)
    return std::nullopt;
  for (std::size_t j = 0; j < row.value.coefficients.size(); ++j)
    if (j != k && !row.value.coefficients[j].is(0)) return std::nullopt;
  return *c == 1 ? -*constant : *constant;
}

// The statement without index k, which is always `number`. Nothing where a form would leave 64 bits.
std::optional<Statement> without_index(Statement s, std::size_t k, std::int64_t number) try {
  const auto count = s.indices.size() - 1;
  std::vector<Affine> map;
  for (std::size_t j = 0; j < s.indices.size(); ++j)
    map.push_back(j == k ? Affine::of(number, count) : Affine::index(j - (j > k), count));
  const auto compose = [&](Affine& affine) { affine = affine.compose(map, count); };
  for (auto& affine : s.target.element) compose(affine);
  for (auto& read : s.reads) std::for_each(read.element.begin(), read.element.end(), compose);
  for (auto& row : s.domain) compose(row.value);
  s.value = with_leaves(s.value, [&](const Expr& leaf) -> Expr {
    const auto* index = leaf.as<Index>();
    return index ? Expr{Index{index->value.compose(map, count), index->type}} : leaf;
  });
  s.indices.erase(s.indices.begin() + static_cast<std::ptrdiff_t>(k));
  return s;
} catch (const Overflow&) {
  return std::nullopt;
}

void remove_single_valued(Statement& s) {
  for (std::size_t k = 0; k < s.indices.size();) {
    std::optional<std::int64_t> value;
    for (const auto& row : s.domain)
      if (!value) value = only_value(row, k);
    auto without = value ? without_index(s, k, *value) : std::nullopt;
    if (without) s = *std::move(without);
    else ++k;
  }
}

// Does every index stand alone in some dimension of the target, so that an element has one point at most?
bool one_point(const Statement& s) {
  std::set<std::size_t> alone;
  for (const auto& affine : s.target.element)
    if (const auto k = affine.single_index()) alone.insert(*k);
  return alone.size() == s.indices.size();
}

void fold_to_assign(const Program& program, Statement& s) {
  if (s.aggregation == Aggregation::Assign || !one_point(s)) return;
  const auto type = program.tensor(s.target.tensor).dtype;
  s.aggregation = Aggregation::Assign;
  s.ties = Ties::Split;
  if (s.value.type() != type) s.value = Cast{s.value, type};
}

// A condition on an index that the rows decide: of `i - M >= 0` under 0 <= i < M nothing is left.
std::optional<bool> decided(const Statement& s, const Apply& condition) {
  const auto* index = condition.operands[0].as<Index>();
  const auto* zero = condition.op == Op::Ge && index ? condition.operands[1].as<Number>() : nullptr;
  if (!zero || zero->integer != 0 || zero->type != DType::I64 || !index->value.divisor.is(1)) return std::nullopt;
  const auto above = [&](const Affine& form) {         // index - form, where that is a number
    const auto gap = index->value.plus(form.times(-1));
    return gap.is_constant() && gap.divisor.is(1) ? gap.constant.value() : std::nullopt;
  };
  for (const auto& row : s.domain) {
    if (!row.value.divisor.is(1)) continue;
    if (above(row.value).value_or(-1) >= 0) return true;
    if (!row.extent) continue;
    const auto end = Affine::of(*row.extent, s.indices.size());
    if (above(row.value.plus(end.times(-1))).value_or(1) <= 0) return false;                     // value < extent
    if (above(end.plus(row.value.times(-1)).plus(Affine::of(-1, s.indices.size()))).value_or(-1) >= 0) return true;
    if (above(row.value.times(-1)).value_or(0) < 0) return false;                                // -value <= 0
  }
  return std::nullopt;
}

Expr with_decided(const Statement& s, const Expr& value) {
  const auto* cast = value.as<Cast>();
  if (cast) {
    auto operand = with_decided(s, cast->operand);
    return operand.same_as(cast->operand) ? value : Expr{Cast{std::move(operand), cast->type}};
  }
  const auto* apply = value.as<Apply>();
  if (!apply) return value;
  if (apply->op == Op::Ge)
    if (const auto holds = decided(s, *apply)) return Number{DType::Bool, *holds, 0};
  std::optional<Apply> changed;
  for (std::size_t k = 0; k < apply->operands.size(); ++k) {
    auto operand = with_decided(s, apply->operands[k]);
    if (operand.same_as(apply->operands[k])) continue;
    if (!changed) changed = *apply;
    changed->operands[k] = std::move(operand);
  }
  return changed ? Expr{*std::move(changed)} : value;
}

}  // namespace

void tidy_domain(Statement& s) {
  Distinct<Range> rows;
  for (const Range& row : s.domain)
    if (!always_holds(row)) rows.place_of(row);
  s.domain = rows.take();
}

void simplify(const Program& program, Statement& s) {
  remove_single_valued(s);
  s.value = folded(with_decided(s, folded(s.value)));
  tidy_domain(s);
  tidy_reads(s);
  fold_to_assign(program, s);
  s.value = folded(s.value);
}

}  // namespace tilec::poly
