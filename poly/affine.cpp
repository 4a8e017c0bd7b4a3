// Affine forms: arithmetic keeps the divisor positive and free of common factors once it is an integer, so that
// `(2*i + 4)/2` and `i + 2` are one form.
#include "poly/affine.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "lang/diagnostic.h"

namespace tilec::poly {
namespace {

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

std::uint64_t content(const Size& size, std::uint64_t common) {
  common = std::gcd(common, magnitude(size.constant()));
  for (const auto& term : size.terms()) common = std::gcd(common, magnitude(term.coefficient));
  return common;
}

// Exact where `content` says that it divides: Divide folds it.
Affine reduced(Affine form) {
  const auto divisor = form.divisor.value();
  if (!divisor || *divisor == 1) return form;
  if (*divisor == 0) throw SizeError("an index expression divides by zero");
  std::uint64_t common = content(form.constant, magnitude(*divisor));
  for (const auto& coefficient : form.coefficients) common = content(coefficient, common);
  if (common > static_cast<std::uint64_t>(INT64_MAX)) return form;
  const Size factor = *divisor < 0 ? -static_cast<std::int64_t>(common) : static_cast<std::int64_t>(common);
  if (factor.is(1)) return form;
  for (auto& coefficient : form.coefficients) coefficient = coefficient / factor;
  form.constant = form.constant / factor;
  form.divisor = form.divisor / factor;
  return form;
}

Affine scaled(Affine form, const Size& factor) {
  for (auto& coefficient : form.coefficients) coefficient = coefficient * factor;
  form.constant = form.constant * factor;
  return form;
}

}  // namespace

Affine Affine::index(std::size_t k, std::size_t count) {
  Affine form = of(0, count);
  form.coefficients.at(k) = 1;
  return form;
}

Affine Affine::of(Size constant, std::size_t count) { return {std::vector<Size>(count), std::move(constant), 1}; }

bool Affine::is_constant() const {
  return std::all_of(coefficients.begin(), coefficients.end(), [](const Size& c) { return c.is(0); });
}

std::optional<std::size_t> Affine::single_index() const {
  if (!constant.is(0) || !divisor.is(1)) return std::nullopt;
  std::optional<std::size_t> found;
  for (std::size_t k = 0; k < coefficients.size(); ++k) {
    if (coefficients[k].is(0)) continue;
    if (found || !coefficients[k].is(1)) return std::nullopt;
    found = k;
  }
  return found;
}

Affine Affine::plus(const Affine& other) const {
  if (coefficients.size() != other.coefficients.size())
    throw lang::InternalError("affine forms over different indices are added");
  const bool same = divisor == other.divisor;
  const Affine left = same ? *this : scaled(*this, other.divisor);
  const Affine right = same ? other : scaled(other, divisor);
  Affine sum{{}, left.constant + right.constant, same ? divisor : divisor * other.divisor};
  for (std::size_t k = 0; k < coefficients.size(); ++k)
    sum.coefficients.push_back(left.coefficients[k] + right.coefficients[k]);
  return reduced(std::move(sum));
}

Affine Affine::times(const Size& factor) const { return reduced(scaled(*this, factor)); }

Affine Affine::substitute(const std::map<std::string, std::int64_t>& values) const {
  Affine form{{}, constant.substitute(values), divisor.substitute(values)};
  for (const auto& coefficient : coefficients) form.coefficients.push_back(coefficient.substitute(values));
  return reduced(std::move(form));
}

Affine Affine::compose(std::span<const Affine> map, std::size_t new_count) const {
  if (map.size() != coefficients.size())
    throw lang::InternalError("an affine form is composed with a map of another size");
  Affine form = of(constant, new_count);
  for (std::size_t k = 0; k < coefficients.size(); ++k) {
    if (coefficients[k].is(0)) continue;
    if (!form.divisor.is(1) || !map[k].divisor.is(1) || map[k].coefficients.size() != new_count) {
      form = form.plus(map[k].times(coefficients[k]));
      continue;
    }
    if (!map[k].constant.is(0)) form.constant = form.constant + map[k].constant * coefficients[k];
    for (std::size_t j = 0; j < new_count; ++j)
      if (!map[k].coefficients[j].is(0))
        form.coefficients[j] = form.coefficients[j] + map[k].coefficients[j] * coefficients[k];
  }
  form.divisor = form.divisor * divisor;
  return reduced(std::move(form));
}

Affine Affine::renumber(std::span<const std::size_t> where, std::size_t new_count) const {
  Affine form = of(constant, new_count);
  form.divisor = divisor;
  for (std::size_t k = 0; k < coefficients.size(); ++k)
    if (!coefficients[k].is(0)) form.coefficients.at(where[k]) = form.coefficients[where[k]] + coefficients[k];
  return form;
}

// Printing: terms with a plus first, indices before sizes before the number.
namespace {

struct Part { bool negative; std::string text; };

Part product(const Size& coefficient, const std::string& index) {
  if (const auto number = coefficient.value())
    return {*number < 0, *number == 1 || *number == -1 ? index : fmt::format("{}*{}", magnitude(*number), index)};
  if (coefficient.constant() != 0 || coefficient.terms().size() > 1)
    return {false, fmt::format("({})*{}", coefficient.print(true), index)};
  const bool negative = coefficient.terms()[0].coefficient < 0 && coefficient.terms()[0].coefficient != INT64_MIN;
  return {negative, fmt::format("{}*{}", (negative ? -coefficient : coefficient).print(true), index)};
}

std::string joined(const std::vector<Part>& parts) {
  std::string text;
  for (const bool negative : {false, true})
    for (const auto& part : parts)
      if (part.negative == negative)
        text += text.empty() ? (negative ? "-" : "") + part.text : (negative ? " - " : " + ") + part.text;
  return text.empty() ? "0" : text;
}

}  // namespace

std::string Affine::print(std::span<const std::string> indices) const {
  std::vector<Part> parts;
  for (std::size_t k = 0; k < coefficients.size(); ++k)
    if (!coefficients[k].is(0)) parts.push_back(product(coefficients[k], indices[k]));
  for (const auto& term : constant.terms()) {
    Size alone = term.coefficient;
    for (const auto& factor : term.factors)
      alone = alone *
          (factor.kind == Size::Kind::Name ? Size::named(factor.name) : Size::apply(factor.kind, factor.arguments));
    const auto text = alone.print(true);
    parts.push_back({term.coefficient < 0, term.coefficient < 0 ? text.substr(1) : text});
  }
  if (const auto number = constant.constant(); number != 0)
    parts.push_back({number < 0, std::to_string(magnitude(number))});
  auto text = joined(parts);
  if (divisor.is(1)) return text;
  const auto below = divisor.print(true);
  const bool simple = divisor.value() || divisor.lone_factor();
  return fmt::format("{}/{}", parts.size() > 1 ? "(" + text + ")" : text, simple ? below : "(" + below + ")");
}

}  // namespace tilec::poly
