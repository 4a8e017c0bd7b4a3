#include "codegen/spell/spelled_leaf.h"

#include <algorithm>

#include "codegen/product.h"
#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/intern.h"

namespace tilec::codegen {

SpelledLeaf::SpelledLeaf(
    const Nest& of, const Compute& leaf, const Storage& held, const Surroundings& surroundings, Names& fresh)
    : nest(of), compute(leaf), storage(held), around(surroundings), names(fresh), points(of) {
  for (const auto& [d, value] : around.fixed) points.fix(d, value);
  for (const auto& [d, interval] : around.limits) points.limit(d, interval);
  const auto find = [&](const std::string& name) -> int {
    if (name.empty()) return -1;
    const auto d = nest.dim(name);
    if (!d) throw lang::InternalError("the plan names a dimension `" + name + "` that its statement lacks");
    return static_cast<int>(*d);
  };
  m = find(leaf.m());
  if (leaf.block()) block = *leaf.block();
  if (const auto* own = leaf.as<forms::Contract>()) contract = *own;
  for (const std::string& name : contract.outside) outside.push_back(static_cast<std::size_t>(find(name)));
  n = find(leaf.n);
  for (const std::string& name : leaf.outer) outer.push_back(static_cast<std::size_t>(find(name)));
  for (const std::string& name : leaf.k) k.push_back(static_cast<std::size_t>(find(name)));
  for (const Ahead& one : leaf.ahead) ahead.emplace_back(static_cast<std::size_t>(find(one.index)), one.count);
  type = compute_type(nest.value->type());
  target_type = storage.plan.program.tensor(nest.target.tensor).dtype;
  scaled = has_scale(nest.aggregation, type);
  flag = !around.reached && !always_reached(nest) && !identity_is_fill(nest);
  if (!flag) conditions = codegen::conditions(nest);
}

bool SpelledLeaf::is_of_rows(std::size_t d) const {
  return static_cast<int>(d) == m || std::ranges::find(outside, d) != outside.end();
}

bool SpelledLeaf::moves_along_rows(const Form& form) const {
  return (m >= 0 && form.coefficients[static_cast<std::size_t>(m)] != 0) ||
      std::ranges::any_of(outside, [&](std::size_t d) { return form.coefficients[d] != 0; });
}

std::int64_t SpelledLeaf::values_of_m(std::int64_t rows) const {
  for (const std::size_t d : outside) rows /= nest.dims[d].extent;
  return rows;
}

bool SpelledLeaf::has_part_of_m() const {
  return !outside.empty() && values_of_m(compute.rows) < nest.dims[static_cast<std::size_t>(m)].extent;
}

std::vector<std::pair<std::size_t, std::int64_t>> SpelledLeaf::values_of_row(std::int64_t i, std::int64_t rows) const {
  const std::int64_t of_m = values_of_m(rows);
  std::vector<std::pair<std::size_t, std::int64_t>> values{{static_cast<std::size_t>(m), i % of_m}};
  i /= of_m;
  for (auto d = outside.rbegin(); d != outside.rend(); ++d) {
    values.emplace_back(*d, i % nest.dims[*d].extent);
    i /= nest.dims[*d].extent;
  }
  return values;
}

std::optional<bool> SpelledLeaf::answer(const poly::Expr& asked) const {
  if (answers.empty()) return std::nullopt;
  if (const auto known = answers.find(poly::address(asked)); known != answers.end()) return known->second;
  const auto* apply = asked.as<poly::Apply>();
  if (!apply || apply->type != DType::Bool) return std::nullopt;
  if (apply->op == Op::Not) {
    const std::optional<bool> other = answer(apply->operands[0]);
    return other ? std::optional(!*other) : std::nullopt;
  }
  if (apply->op != Op::And && apply->op != Op::Or) return std::nullopt;
  const bool decides = apply->op == Op::Or;
  bool all = true;
  for (const poly::Expr& operand : apply->operands) {
    const std::optional<bool> one = answer(operand);
    if (one == decides) return decides;
    all = all && one;
  }
  return all ? std::optional(!decides) : std::nullopt;
}

const poly::Expr& SpelledLeaf::value() const {
  const poly::Expr* value = &*nest.value;
  while (const auto* choice = value->as<poly::Apply>()) {
    const std::optional<bool> met = choice->op == Op::Select ? answer(choice->operands[0]) : std::nullopt;
    if (!met) break;
    value = &choice->operands[*met ? 1 : 2];
  }
  return *value;
}

Body SpelledLeaf::with(std::size_t d, const Expr& value, const std::function<Body()>& inside) {
  const std::optional<Expr> before = points.at(d);
  points.fix(d, value);
  Body body = inside();
  if (before) points.fix(d, *before);
  else points.release(d);
  return body;
}

Body SpelledLeaf::within(std::size_t d, const Interval& part, const std::function<Body()>& inside) {
  const Interval before = points.limit(d, part);
  Body body = inside();
  points.limit(d, before);
  return body;
}

Body SpelledLeaf::loop(std::size_t d, const Interval& range, const std::function<Body()>& inside) {
  return serial(names, nest.dims[d].name, range, [&](const Expr& v) { return with(d, v, inside); });
}

std::int64_t SpelledLeaf::bytes_of(std::size_t read) const {
  return lang::bytes(storage.plan.program.tensor(nest.reads[read].tensor).dtype);
}

}  // namespace tilec::codegen
