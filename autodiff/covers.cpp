// Both questions are answered on coefficients alone, so that they hold for symbolic sizes.
//
// image: where every index of the target is read off the element (i = ±(o − c)), a row over indices becomes a row over the
// element by substitution; nothing is solved. A reduction index asks for one thing: that its range is not empty.
//
// rank: two points of one fibre { i : F i + f = o } differ in some row of S as soon as [F; S] has full column rank. With
// digits 0 <= t_j < R_j taken from such rows, (t₁·R₂ + t₂)·R₃ + … is a different integer for each. Rows with integer
// coefficients come first: no size can make them dependent.
#include "autodiff/covers.h"

#include <algorithm>
#include <map>

#include "poly/hull.h"

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

// Vectors over the rationals, kept in echelon form modulo a prime; a size stands for a fixed number.
class Independent {
 public:
  // True when the row is independent of those added so far; it is then added.
  bool add(const std::vector<Size>& coefficients) {
    std::vector<std::uint64_t> row;
    for (const auto& coefficient : coefficients) row.push_back(residue(coefficient));
    for (const auto& [pivot, other] : rows_) {
      const std::uint64_t factor = row[pivot];
      for (std::size_t k = 0; k < row.size(); ++k) row[k] = (row[k] + (prime - factor) * other[k]) % prime;
    }
    const auto first = std::find_if(row.begin(), row.end(), [](std::uint64_t v) { return v != 0; });
    if (first == row.end()) return false;
    const std::uint64_t scale = inverse(*first);
    for (auto& entry : row) entry = entry * scale % prime;
    rows_.emplace_back(static_cast<std::size_t>(first - row.begin()), row);
    return true;
  }
  std::size_t rank() const { return rows_.size(); }

 private:
  static constexpr std::uint64_t prime = 2147483647;

  static std::uint64_t inverse(std::uint64_t value) {
    std::uint64_t result = 1;
    for (std::uint64_t exponent = prime - 2; exponent > 0; exponent /= 2, value = value * value % prime)
      if (exponent % 2 == 1) result = result * value % prime;
    return result;
  }
  std::uint64_t residue(const Size& size) {
    std::map<std::string, std::int64_t> values;
    for (const auto& name : size.names()) values[name] = stand_ins_.try_emplace(name, 1009 + 7919 * static_cast<std::int64_t>(stand_ins_.size())).first->second;
    const std::int64_t value = size.substitute(values).get() % static_cast<std::int64_t>(prime);
    return static_cast<std::uint64_t>(value < 0 ? value + static_cast<std::int64_t>(prime) : value);
  }

  std::vector<std::pair<std::size_t, std::vector<std::uint64_t>>> rows_;
  std::map<std::string, std::int64_t> stand_ins_;
};

bool integral(const Affine& form) {
  return std::all_of(form.coefficients.begin(), form.coefficients.end(), [](const Size& c) { return c.value().has_value(); });
}

// ---- upper bounds that no row states ---------------------------------------------------------------------------------------------

// At least what the form is, where the domain bounds its indices from below and they only add to it.
std::optional<Size> least(const Affine& form, const std::vector<Range>& domain) {
  Size sum = form.constant;
  for (std::size_t k = 0; k < form.coefficients.size(); ++k) {
    const auto coefficient = form.coefficients[k].value();
    if (!coefficient || *coefficient < 0) return std::nullopt;
    if (*coefficient == 0) continue;
    const auto from = std::find_if(domain.begin(), domain.end(), [&](const Range& row) {
      Affine alone = row.value;
      alone.constant = 0;
      return alone.single_index() == k;
    });
    if (from == domain.end()) return std::nullopt;
    sum = sum - *coefficient * from->value.constant;
  }
  return sum;
}

// 0 <= value < extent where the rows together say so: j in 0 <= i + j < N, i >= 0; or i in i >= 0, 3 - i >= 0.
std::optional<Size> implied_extent(const Affine& value, const std::vector<Range>& domain) {
  const std::size_t count = value.coefficients.size();
  for (const Range& row : domain) {
    if (!value.divisor.is(1) || !row.value.divisor.is(1)) continue;
    if (const Affine sum = row.value.plus(value); sum.is_constant()) return sum.constant + 1;
    if (!row.extent) continue;
    for (const Affine& side : {row.value, row.value.times(-1).plus(Affine::of(*row.extent - 1, count))})
      if (const auto rest = least(side.plus(value.times(-1)), domain)) return *row.extent - *rest;
  }
  return std::nullopt;
}

bool is_bound(const Range& row) {
  const auto number = [](const Size& size) { return size.value().has_value(); };
  return std::all_of(row.value.coefficients.begin(), row.value.coefficients.end(), number) && number(row.value.constant) && number(row.value.divisor) && (!row.extent || number(*row.extent));
}

// The domain with an extent wherever one follows; of numbers, also what intervals say of each index.
std::vector<Range> closed(const Statement& statement) {
  std::vector<Range> rows = statement.domain;
  for (Range& row : rows)
    if (!row.extent) row.extent = implied_extent(row.value, statement.domain);
  const bool open = std::any_of(rows.begin(), rows.end(), [](const Range& row) { return !row.extent; });
  if (!open || !std::all_of(rows.begin(), rows.end(), is_bound)) return rows;
  poly::Box box;
  box.index.resize(statement.indices.size());
  poly::tighten(poly::rows_of(statement), box);
  for (std::size_t k = 0; k < box.index.size(); ++k)
    if (const auto& [low, high] = box.index[k]; low && high)
      rows.push_back({Affine::index(k, box.index.size()).plus(Affine::of(-*low, box.index.size())), Size(std::max<std::int64_t>(0, *high - *low + 1))});
  return rows;
}

// Rows to take digits from, the better ones first: two-sided before one-sided, integer coefficients before symbolic ones, and
// among those the ranges of indices that the target does not mention: their digits do not change from element to element. A range of one
// index is the digit that says most.
std::vector<Range> candidates(const Statement& statement, std::vector<Range> rows) {
  const auto of_target = [&](const Affine& form) {
    for (std::size_t k = 0; k < form.coefficients.size(); ++k)
      for (const auto& element : statement.target.element)
        if (!form.coefficients[k].is(0) && !element.coefficients[k].is(0)) return true;
    return false;
  };
  const auto worse = [&](const Range& row) { return (row.extent ? 0 : 8) + (integral(row.value) ? 0 : 4) + (of_target(row.value) ? 2 : 0) + (row.value.single_index() ? 0 : 1); };
  std::stable_sort(rows.begin(), rows.end(), [&](const Range& x, const Range& y) { return worse(x) < worse(y); });
  return rows;
}

std::size_t last_index(const Range& row) {
  std::size_t last = row.value.coefficients.size();
  while (last > 0 && row.value.coefficients[last - 1].is(0)) --last;
  return last;
}

// A digit that grows with its last index: 0 <= N - j - 1 < N counts j as well from the other end.
Range growing(Range row) {
  const std::size_t last = last_index(row);
  const auto c = last > 0 ? row.value.coefficients[last - 1].value() : std::nullopt;
  if (!row.extent || !c || *c > 0 || !row.value.divisor.is(1)) return row;
  row.value = Affine::of(*row.extent - 1, row.value.coefficients.size()).plus(row.value.times(-1));
  return row;
}

// Most significant first; only that digit may do without an extent. The others stand in the order of their last indices: where these
// differ, digits that grow with them count points in the order of the indices, (i, 2*i + j) as (i, j).
std::optional<std::vector<Range>> digits(const Statement& statement, const std::vector<Range>& domain, bool on_fibre) {
  Independent chosen;
  if (on_fibre)
    for (const auto& form : statement.target.element) chosen.add(form.coefficients);
  std::vector<Range> rows;
  for (const auto& row : candidates(statement, domain)) {
    if (chosen.rank() == statement.indices.size()) break;
    if (!chosen.add(row.value.coefficients)) continue;
    if (!row.extent && !rows.empty() && !rows.front().extent) return std::nullopt;
    rows.insert(row.extent ? rows.end() : rows.begin(), row);
  }
  if (chosen.rank() < statement.indices.size()) return std::nullopt;
  std::transform(rows.begin(), rows.end(), rows.begin(), growing);
  std::stable_sort(rows.begin() + (!rows.empty() && !rows.front().extent), rows.end(), [](const Range& x, const Range& y) { return last_index(x) < last_index(y); });
  return rows;
}

}  // namespace

std::optional<std::vector<Affine>> image(const Statement& statement, const std::vector<Size>& shape) {
  const std::size_t rank = shape.size();
  const auto found = indices_of_element(statement);
  std::vector<Affine> map, conditions;
  for (const auto& form : found) map.push_back(form ? *form : Affine::of(0, rank));
  const auto require = [&](const Affine& form) {
    if (!implied(form, shape) && std::find(conditions.begin(), conditions.end(), form) == conditions.end()) conditions.push_back(form);
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

namespace {

bool nonnegative(const Size& size) {
  using Kind = Size::Kind;
  const auto factor = [](const Size::Factor& f) {
    const auto& a = f.arguments;
    return f.kind == Kind::Name || (f.kind == Kind::Divide && nonnegative(a[0]) && nonnegative(a[1])) || (f.kind == Kind::Max && (nonnegative(a[0]) || nonnegative(a[1])));
  };
  return std::all_of(size.terms().begin(), size.terms().end(), [&](const Size::Term& t) { return t.coefficient >= 0 && std::all_of(t.factors.begin(), t.factors.end(), factor); });
}

}  // namespace

std::optional<Order> order(const Statement& statement) {
  const std::vector<Range> rows_closed = closed(statement);
  const auto& element = statement.target.element;
  const bool certain = std::all_of(element.begin(), element.end(), [](const Affine& form) { return integral(form); });
  auto rows = digits(statement, rows_closed, certain);
  if (!rows && !certain) rows = digits(statement, rows_closed, true);
  if (!rows) return std::nullopt;
  Order order{Affine::of(0, statement.indices.size()), Size(1)};
  for (const auto& row : *rows) {
    order.rank = order.rank.times(row.extent.value_or(0)).plus(row.value);
    if (!row.extent) order.count.reset();
    if (order.count) order.count = *order.count * (nonnegative(*row.extent) ? *row.extent : Size::apply(Size::Kind::Max, {0, *row.extent}));
  }
  return order;
}

}  // namespace tilec::autodiff
