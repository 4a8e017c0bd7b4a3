#include "codegen/gates.h"

#include <algorithm>

#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/halves.h"
#include "codegen/scan.h"

namespace tilec::codegen {

using lang::DType;
using lang::Op;
using poly::Access;
using poly::Affine;
using poly::Apply;
using poly::Expr;
using poly::Program;
using poly::Size;
using poly::Statement;

Expr FactorElements::product_over(const std::vector<Stretch>& stretches) {
  std::optional<Expr> all;
  for (const Stretch& stretch : stretches) {
    auto one = of_tensor(stretch);
    if (!one) one = of_copy(stretch);
    all = all ? times(*all, *one) : *one;
  }
  return *all;
}

Expr FactorElements::between(DType type, Access first, Access last, const Stretch& stretch) {
  const auto read = [&](Access access) { return Expr(poly::Read{add_read(reader_, std::move(access)), type}); };
  const Expr a = read(std::move(first)), b = read(std::move(last));
  return Apply{Op::Between, {a, b, Expr(poly::Index{minus(stretch.hi, stretch.lo), DType::I64})}, DType::F64};
}

std::optional<Expr> FactorElements::of_tensor(const Stretch& stretch) {
  const auto* read = line_.statement->value.as<poly::Read>();
  if (!read) return std::nullopt;
  const Access& factors = line_.statement->reads[static_cast<std::size_t>(read->read)];
  const auto at = [&](const Affine& u) -> std::optional<Access> {
    std::vector<Affine> there = map_;
    there[line_.u] = u;
    Access access{factors.tensor, {}};
    for (std::size_t d = 0; d < factors.element.size(); ++d) {
      Affine e = factors.element[d].compose(there, reader_.indices.size());
      const std::int64_t extent = program_.tensor(factors.tensor).shape[d].get();
      if (!holds_(e) || !holds_(shifted(e.times(Size(-1)), extent - 1))) return std::nullopt;
      access.element.push_back(std::move(e));
    }
    return access;
  };
  const auto moves = std::ranges::count_if(factors.element, [&](const Affine& e) { return mentions(e, line_.u); });
  auto first = at(shifted(stretch.lo, -1)), last = at(shifted(stretch.hi, -1));
  if (moves != 1 || !first || !last) return std::nullopt;
  return between(read->type, std::move(*first), std::move(*last), stretch);
}

Expr FactorElements::of_copy(const Stretch& stretch) {
  if (!copy_) copy_ = copied();
  const auto at = [&](const Affine& v) {
    Access access{*copy_, {}};
    for (const std::size_t k : line_.of_factor) access.element.push_back(shifted(map_[k], -low(*line_.statement, k)));
    access.element.push_back(shifted(v, -low(*line_.statement, line_.u)));
    return access;
  };
  return between(program_.tensor(*copy_).dtype, at(stretch.lo), at(stretch.hi), stretch);
}

// T[v] = factor(v - 1), counted from the first one, behind a 1.
poly::TensorId FactorElements::copied() {
  Statement whole = *line_.statement;
  whole.aggregation = poly::Aggregation::Assign;
  const DType type = whole.value.type();
  const std::size_t v = line_.of_factor.size();
  Frame f = frame(whole, line_.of_factor, {{fresh_index(whole, "v"), extent(whole, line_.u) + 1, false}});
  f.map[line_.u] = shifted(Affine::index(v, f.count()), low(whole, line_.u) - 1);
  Statement part = seen_in(whole, f, [](const Affine&) { return false; });
  part.domain.push_back({shifted(Affine::index(v, f.count()), -1), std::nullopt});
  poly::Tensor tensor{
      fresh_name(program_, program_.tensor(whole.target.tensor).name + "_factors"), type, {}, whole.span};
  for (std::size_t d = 0; d <= v; ++d) tensor.shape.push_back(*f.hull[d].extent);
  const auto id = static_cast<poly::TensorId>(program_.tensors.size());
  program_.tensors.push_back(std::move(tensor));
  write_part(part, id, v + 1);
  part.fill = poly::Number{type, 1, 1.0};
  drop_unused(part);
  before_.push_back(std::move(part));
  return id;
}

std::vector<std::size_t> summed_first(const Statement& sum, const Affine& lo, const Affine& hi) {
  std::vector<std::size_t> ends;
  std::size_t reductions = 0;
  for (std::size_t k = 0; k < sum.indices.size(); ++k) {
    if (is_output_index(sum, k)) continue;
    ++reductions;
    if (mentions(lo, k) || mentions(hi, k)) ends.push_back(k);
  }
  return ends.size() < reductions ? ends : std::vector<std::size_t>();
}

bool sum_first(
    Program& program, Statement& sum, const std::vector<std::size_t>& first, std::vector<Statement>& before) {
  const auto product = product_of(sum);
  auto halves = product
      ? halves_of_sum(program, sum, *product, static_cast<poly::TensorId>(program.tensors.size()), first)
      : std::nullopt;
  if (!halves) return false;
  for (HalfSum& part : halves->inner) {
    part.temporary.name = fresh_name(program, program.tensor(sum.target.tensor).name + part.temporary.name);
    program.tensors.push_back(std::move(part.temporary));
    before.push_back(std::move(part.statement));
  }
  sum = std::move(halves->outer);
  return true;
}

bool goes_on(const Statement& s) {
  if (!has_gate(s.value)) return true;
  const auto scan = scan_of(s);
  return scan && scan->decays && !scan->further;
}

}  // namespace tilec::codegen
