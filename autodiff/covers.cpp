// The question is answered on coefficients alone, so that the answer holds for symbolic sizes: where every index of the
// target is read off the element (i = ±(o − c)), a row over indices becomes a row over the element by substitution;
// nothing is solved. A reduction index asks for one thing: that its range is not empty.
#include "autodiff/covers.h"

#include <algorithm>

namespace tilec::autodiff {
namespace {

using poly::Affine;
using poly::Range;
using poly::Size;
using poly::Statement;

// k when the form is ±(index k) + constant.
std::optional<std::size_t> unit_index(const Affine& form) {
  std::optional<std::size_t> found;
  if (!form.divisor.is(1)) return std::nullopt;
  for (std::size_t k = 0; k < form.coefficients.size(); ++k) {
    if (form.coefficients[k].is(0)) continue;
    if (found || !(form.coefficients[k].is(1) || form.coefficients[k].is(-1))) return std::nullopt;
    found = k;
  }
  return found;
}

// Each index as a form over the element, where one dimension of the target says it.
std::vector<std::optional<Affine>> indices_of_element(const Statement& statement) {
  const std::size_t rank = statement.target.element.size();
  std::vector<std::optional<Affine>> map(statement.indices.size());
  for (std::size_t d = 0; d < rank; ++d) {
    const Affine& form = statement.target.element[d];
    const auto k = unit_index(form);
    if (!k || map[*k]) continue;
    const Size sign = form.coefficients[*k];
    map[*k] = Affine::index(d, rank).plus(Affine::of(-form.constant, rank)).times(sign);
  }
  return map;
}

bool mentions_unknown(const Affine& form, const std::vector<std::optional<Affine>>& map) {
  for (std::size_t k = 0; k < map.size(); ++k)
    if (!map[k] && !form.coefficients[k].is(0)) return true;
  return false;
}

// form >= 0 holds on every element of the shape: it does where it is least.
bool implied(const Affine& form, const std::vector<Size>& shape) {
  Size least = form.constant;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto coefficient = form.coefficients[d].value();
    if (!coefficient) return false;
    if (*coefficient < 0) least = least + *coefficient * (shape[d] - 1);
  }
  const auto value = least.value();
  return value && *value >= 0;
}

// The forms that are to be >= 0 for 0 <= value < extent.
std::vector<Affine> sides(const Affine& value, const std::optional<Size>& extent) {
  std::vector<Affine> forms{value};
  if (extent) forms.push_back(value.times(-1).plus(Affine::of(*extent - 1, value.coefficients.size())));
  return forms;
}

}  // namespace

std::optional<std::vector<Affine>> image(const Statement& statement, const std::vector<Size>& shape) {
  const std::size_t rank = shape.size();
  const auto found = indices_of_element(statement);
  std::vector<Affine> map, conditions;
  for (const auto& form : found) map.push_back(form ? *form : Affine::of(0, rank));
  const auto require = [&](const Affine& form) {
    if (!implied(form, shape) && std::find(conditions.begin(), conditions.end(), form) == conditions.end())
      conditions.push_back(form);
  };

  for (std::size_t d = 0; d < rank; ++d) {
    const Affine& form = statement.target.element[d];
    if (!form.divisor.is(1) || mentions_unknown(form, found)) return std::nullopt;
    const Affine difference = form.compose(map, rank).plus(Affine::index(d, rank).times(-1));
    for (const auto& side : sides(difference, 1)) require(side);
  }
  for (const auto& row : statement.domain) {
    if (mentions_unknown(row.value, found)) {
      if (!row.value.single_index() || !row.extent) return std::nullopt;
      require(Affine::of(*row.extent - 1, rank));
    } else {
      if (!row.value.divisor.is(1)) return std::nullopt;
      for (const auto& side : sides(row.value.compose(map, rank), row.extent)) require(side);
    }
  }
  return conditions;
}

}  // namespace tilec::autodiff
