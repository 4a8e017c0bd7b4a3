// Three kinds of views: another tensor's elements, one number everywhere, one number inside a box and the fill outside.
//
// The last is what `default`'s cotangent asks of a slice: with bound sizes the written elements are known. A form over
// indices with ranges, each used once, takes every integer between its ends iff its steps fill their gaps: of 2*i + k
// with k < 2 both are 1, since k bridges what 2*i leaves out.
#include "poly/view.h"

#include <algorithm>

#include "poly/hull.h"
#include "poly/interpret.h"

namespace tilec::poly {
namespace {

bool is_number(const Affine& form) {
  const auto known = [](const Size& size) { return size.value().has_value(); };
  return std::all_of(form.coefficients.begin(), form.coefficients.end(), known) && known(form.constant) &&
      known(form.divisor);
}

bool is_bound(const Program& program, const Statement& s) {
  for (const auto& extent : program.tensor(s.target.tensor).shape)
    if (!extent.value()) return false;
  return std::ranges::all_of(s.domain, has_numbers) && std::ranges::all_of(s.target.element, is_number);
}

// What an element some point reaches holds, where that is one number whatever the number of points.
std::optional<Number> reached(const Program& program, const Statement& s) {
  const auto* value = s.value.as<Number>();
  if (!value) return std::nullopt;
  const Number stored = convert(*value, program.tensor(s.target.tensor).dtype);
  if (s.aggregation == Aggregation::Sum && !(stored == Number{stored.type})) return std::nullopt;
  if (s.aggregation == Aggregation::Product && !(stored == convert(Number{DType::I32, 1, 0}, stored.type)))
    return std::nullopt;
  return stored;
}

struct Ends { std::int64_t low, high; };

// Both ends of a form over a box, where it takes every integer between them.
std::optional<Ends> contiguous(const Affine& form, const Box& box) {
  if (!form.divisor.is(1)) return std::nullopt;
  Ends ends{form.constant.get(), form.constant.get()};
  std::vector<Ends> steps;                             // |coefficient|, and how far the index moves
  for (std::size_t k = 0; k < form.coefficients.size(); ++k) {
    const std::int64_t c = form.coefficients[k].get();
    if (c == 0) continue;
    const std::int64_t low = *box.index[k].lower, high = *box.index[k].upper;
    ends.low += c * (c > 0 ? low : high);
    ends.high += c * (c > 0 ? high : low);
    steps.push_back({c > 0 ? c : -c, high - low});
  }
  std::sort(steps.begin(), steps.end(), [](const Ends& a, const Ends& b) { return a.low < b.low; });
  std::int64_t covered = 0;
  for (const auto& [step, moves] : steps) {
    if (moves > 0 && step > covered + 1) return std::nullopt;
    covered += step * moves;
  }
  return ends;
}

// The ranges of the indices, where they are all that the domain says. Ends far out are left alone: no product
// overflows.
std::optional<Box> plain_box(const Statement& s) {
  constexpr std::int64_t far = std::int64_t{1} << 30;
  Box box;
  box.index.resize(s.indices.size());
  const auto rows = rows_of(s);
  tighten(rows, box);
  if (box.empty) return box;
  for (const auto& [lower, upper] : box.index)
    if (!lower || !upper || *lower < -far || *upper > far) return std::nullopt;
  for (const auto& row : rows) {
    if (row.divisor != 1 || !implied(row, box)) return std::nullopt;
    for (const auto c : row.coefficients)
      if (c < -far || c > far) return std::nullopt;
  }
  return box;
}

std::optional<Shown> number_in_a_box(
    const Program& program, const Statement& s, const Number& inside, const Number& outside) {
  if (!is_bound(program, s)) return std::nullopt;
  const auto box = plain_box(s);
  if (!box) return std::nullopt;
  if (box->empty) return Shown{std::nullopt, outside, std::nullopt};
  Shown view{std::nullopt, inside, Shown::Box{{}, {}, outside}};
  bool whole = true;
  std::vector<bool> used(s.indices.size(), false);
  for (std::size_t d = 0; d < s.target.element.size(); ++d) {
    const auto& form = s.target.element[d];
    for (std::size_t k = 0; k < used.size(); ++k) {
      if (form.coefficients[k].is(0)) continue;
      if (used[k]) return std::nullopt;
      used[k] = true;
    }
    const auto ends = contiguous(form, *box);
    if (!ends) return std::nullopt;
    view.box->low.push_back(ends->low);
    view.box->high.push_back(ends->high);
    whole = whole && ends->low == 0 && ends->high == program.tensor(s.target.tensor).shape[d].get() - 1;
  }
  if (whole) view.box.reset();
  return view;
}

std::optional<Shown> number_view(const Program& program, const Statement& s) {
  const auto inside = reached(program, s);
  const auto* outside = std::get_if<Number>(&s.fill);
  if (!inside) return std::nullopt;
  if ((outside && *outside == *inside) || (s.aggregation == Aggregation::Assign && one_index_per_dimension(program, s)))
    return Shown{std::nullopt, inside, std::nullopt};
  return outside ? number_in_a_box(program, s, *inside, *outside) : std::nullopt;
}

Expr at_least(const Affine& form, std::int64_t bound) {
  return Apply{Op::Ge, {Index{form.plus(Affine::of(-bound, form.coefficients.size())), DType::I64}, Number{DType::I64}},
      DType::Bool};
}

}  // namespace

bool always_holds(const Range& row) {
  const auto number = row.value.is_constant() && row.value.divisor.is(1) ? row.value.constant.value() : std::nullopt;
  return number && *number >= 0 && (!row.extent || row.extent->value().value_or(-1) > *number);
}

bool has_numbers(const Range& row) { return is_number(row.value) && (!row.extent || row.extent->value()); }

bool one_index_per_dimension(const Program& program, const Statement& s) {
  const auto& shape = program.tensor(s.target.tensor).shape;
  if (s.indices.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (s.target.element[d].single_index() != d) return false;
  return std::all_of(s.domain.begin(), s.domain.end(), [&](const Range& row) {
    const auto d = row.value.single_index();
    return always_holds(row) || (d && row.extent == shape[*d]);
  });
}

std::optional<Shown> view_of(const Program& program, const Statement& s) {
  if (auto view = number_view(program, s)) return view;
  if (s.aggregation != Aggregation::Assign || !one_index_per_dimension(program, s)) return std::nullopt;
  const auto* read = s.value.as<Read>();
  if (!read || read->type != program.tensor(s.target.tensor).dtype) return std::nullopt;
  const auto& access = s.reads[static_cast<std::size_t>(read->read)];
  for (std::size_t d = 0; d < access.element.size(); ++d) {
    const Range row{access.element[d], program.tensor(access.tensor).shape[d]};
    if (!always_holds(row) && std::find(s.domain.begin(), s.domain.end(), row) == s.domain.end()) return std::nullopt;
  }
  return Shown{access, std::nullopt, std::nullopt};
}

std::optional<Expr> seen_at(const Shown& view, const std::vector<Affine>& element) {
  if (!view.number) return std::nullopt;
  if (!view.box) return Expr{*view.number};
  std::optional<Expr> inside;
  const auto require = [&](Expr condition) {
    inside = inside ? Expr{Apply{Op::And, {*inside, std::move(condition)}, DType::Bool}} : std::move(condition);
  };
  for (std::size_t d = 0; d < element.size(); ++d) {
    if (!element[d].divisor.is(1)) return std::nullopt;
    require(at_least(element[d], view.box->low[d]));
    require(at_least(element[d].times(-1), -view.box->high[d]));
  }
  return Apply{Op::Select, {*inside, *view.number, view.box->outside}, view.number->type};
}

}  // namespace tilec::poly
