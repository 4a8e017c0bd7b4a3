#include "codegen/conditions.h"

#include <algorithm>
#include <utility>

#include "codegen/model/estimates.h"
#include "codegen/scalar.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::Op;
namespace likely = model::likely;

class Conditions {
 public:
  explicit Conditions(const Nest& nest) : nest_(nest) {}

  // Choices at the top of the value whose other arm adds nothing.
  std::vector<Condition> all() {
    poly::Expr rest = *nest_.value;
    while (const auto* choice = rest.as<poly::Apply>()) {
      if (choice->op != Op::Select) break;
      const bool met = is_nothing(choice->operands[2]);
      if (!met && !is_nothing(choice->operands[1])) break;
      take(choice->operands[0], met);
      rest = poly::Expr(choice->operands[met ? 1 : 2]);
    }
    return std::move(found_);
  }

 private:
  // What a fold of nothing is, and adds.
  bool is_nothing(const poly::Expr& e) const {
    const auto* number = e.as<poly::Number>();
    if (!number) return false;
    const Expr value = constant_of(*number), none = identity(nest_.aggregation, value.type());
    const auto *a = value.as<Constant>(), *b = none.as<Constant>();
    return lang::is_float(value.type()) ? a->real == b->real : a->integer == b->integer;
  }

  void take(const poly::Expr& e, bool met) {
    const auto* apply = e.as<poly::Apply>();
    if (apply && apply->type == DType::Bool && apply->op == Op::Not) return take(apply->operands[0], !met);
    if (apply && apply->type == DType::Bool && apply->op == (met ? Op::And : Op::Or)) {
      for (const poly::Expr& operand : apply->operands) take(operand, met);
      return;
    }
    Condition one{e, met, std::vector<bool>(nest_.dims.size(), false), 1};
    mark(e, one.dims);
    one.told = told(e, met);
    one.likely = one.told ? 1 / static_cast<double>(std::max<std::int64_t>(1, nest_.dims[one.told->dim].extent))
                          : likely_of(e, met);
    found_.push_back(std::move(one));
  }

  double likely_of(const poly::Expr& e, bool met) const {
    const auto* apply = e.as<poly::Apply>();
    if (!apply || (apply->op != Op::Eq && apply->op != Op::Ne)) return likely::other;
    double equal = likely::equal;
    for (const poly::Expr& side : apply->operands) {
      const auto* index = side.as<poly::Index>();
      const Form* form = index ? &nest_.form(index->value) : nullptr;
      for (std::size_t d = 0; form && d < nest_.dims.size(); ++d)
        if (form->coefficients[d]) equal = std::min(equal, 1 / static_cast<double>(nest_.dims[d].extent));
    }
    return (apply->op == Op::Eq) == met ? equal : 1 - equal;
  }

  // `index == value`, of an index that this type holds.
  std::optional<Condition::Told> told(const poly::Expr& e, bool met) const {
    const auto* apply = e.as<poly::Apply>();
    if (!apply || apply->op != (met ? Op::Eq : Op::Ne) || !lang::is_integer(apply->operands[0].type()))
      return std::nullopt;
    for (const bool left : {true, false}) {
      const poly::Expr &index = apply->operands[left ? 0 : 1], &value = apply->operands[left ? 1 : 0];
      const auto d = reduction_of(index);
      if (!d) continue;
      std::vector<bool> dims(nest_.dims.size(), false);
      mark(value, dims);
      if (!dims[d->first]) return Condition::Told{d->first, value, d->second};
    }
    return std::nullopt;
  }

  // d + constant, of one reduction d.
  std::optional<std::pair<std::size_t, std::int64_t>> reduction_of(const poly::Expr& e) const {
    const auto* index = e.as<poly::Index>();
    if (!index) return std::nullopt;
    const Form& form = nest_.form(index->value);
    std::optional<std::size_t> only;
    for (std::size_t d = 0; d < form.coefficients.size(); ++d) {
      if (!form.coefficients[d]) continue;
      if (only || form.coefficients[d] != 1 || !nest_.dims[d].reduction) return std::nullopt;
      only = d;
    }
    const int bits = lang::bits(e.type()) - (lang::is_signed(e.type()) ? 1 : 0);
    if (!only || form.constant < 0 ||
        (bits < 62 && form.constant + nest_.dims[*only].extent > (std::int64_t{1} << bits)))
      return std::nullopt;
    return std::pair(*only, form.constant);
  }

  void mark(const poly::Expr& value, std::vector<bool>& dims) const {
    const auto add = [&](const Form& form) {
      for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = dims[d] || form.coefficients[d] != 0;
    };
    for (const poly::Expr& part : poly::parts(value)) {
      if (const auto* read = part.as<poly::Read>()) add(nest_.reads[static_cast<std::size_t>(read->read)].offset);
      if (const auto* index = part.as<poly::Index>()) add(nest_.form(index->value));
    }
  }

  const Nest& nest_;
  std::vector<Condition> found_;
};

}  // namespace

std::vector<Condition> conditions(const Nest& nest) {
  const bool folds = std::ranges::any_of(nest.dims, &Dim::reduction);
  if (!folds || !nest.value || nest.aggregation == Aggregation::Assign) return {};
  return Conditions(nest).all();
}

bool asks_alone(const Nest& nest, const Condition& condition) {
  return std::ranges::all_of(nest.rows, [&](const Row& row) {
    bool own = false, other = false;
    for (std::size_t d = 0; d < condition.dims.size(); ++d)
      if (row.form.coefficients[d]) (condition.dims[d] ? own : other) = true;
    return !own || !other;
  });
}

bool worth_asking(double operations) { return operations >= model::blocks::asks_from; }

double left_by(const std::vector<Condition>& all, const Nest& nest, std::optional<std::size_t> n,
    std::optional<std::size_t> m, double rows, double operations) {
  double left = 1;
  for (const Condition& one : all) {
    if ((n && one.dims[*n]) || !asks_alone(nest, one)) continue;
    const bool of_rows = m && one.dims[*m] && rows > 1;
    double inside = operations;
    for (std::size_t d = 0; d < nest.dims.size(); ++d)
      if (nest.dims[d].reduction && !one.dims[d]) inside *= static_cast<double>(nest.dims[d].extent);
    if (one.told && !of_rows) left *= one.likely;
    else if (worth_asking(inside))
      left *= std::min(1.0, (of_rows ? rows : 1) * (one.likely + model::blocks::question / inside));
  }
  return left;
}

}  // namespace tilec::codegen
