// The questions are answered on coefficients alone, so that the answers hold for symbolic sizes.
//
// Two points of one fibre { i : F i + f = o } differ in some row of S as soon as [F; S] has full column rank. With
// digits 0 <= t_j < R_j taken from such rows, (t₁·R₂ + t₂)·R₃ + … is a different integer for each. Rows with integer
// coefficients come first: no size can make them dependent.
//
// Where something is stored for each point, the extents matter: `X[p], 0 <= i - p < 5` has N·5 points in a box of N·N,
// which i and i - p enclose better. So rows that say most are taken first, and are cut to what the ranges of their
// indices leave of them.
#include "autodiff/order.h"

#include <algorithm>
#include <map>

#include "poly/hull.h"

namespace tilec::autodiff {
namespace {

using poly::Affine;
using poly::Program;
using poly::Range;
using poly::Size;
using poly::Statement;

bool nonnegative(const Size& size) {
  using Kind = Size::Kind;
  const auto factor = [](const Size::Factor& f) {
    const auto& a = f.arguments;
    return f.kind == Kind::Name ||
        ((f.kind == Kind::Divide || f.kind == Kind::Min) && nonnegative(a[0]) && nonnegative(a[1])) ||
        (f.kind == Kind::Max && (nonnegative(a[0]) || nonnegative(a[1])));
  };
  return size.constant() >= 0 && std::all_of(size.terms().begin(), size.terms().end(), [&](const Size::Term& t) {
    return t.coefficient >= 0 && std::all_of(t.factors.begin(), t.factors.end(), factor);
  });
}

Size length_of(const Size& extent) { return nonnegative(extent) ? extent : Size::apply(Size::Kind::Max, {0, extent}); }

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
    for (const auto& name : size.names())
      values[name] =
          stand_ins_.try_emplace(name, 1009 + 7919 * static_cast<std::int64_t>(stand_ins_.size())).first->second;
    const std::int64_t value = size.substitute(values).get() % static_cast<std::int64_t>(prime);
    return static_cast<std::uint64_t>(value < 0 ? value + static_cast<std::int64_t>(prime) : value);
  }

  std::vector<std::pair<std::size_t, std::vector<std::uint64_t>>> rows_;
  std::map<std::string, std::int64_t> stand_ins_;
};

bool integral(const Affine& form) {
  return std::all_of(
      form.coefficients.begin(), form.coefficients.end(), [](const Size& c) { return c.value().has_value(); });
}

// ---- upper bounds that no row states --------------------------------------------------------------------------------

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

// Each e of 0 <= value < e that the rows together say: j in 0 <= i + j < N, i >= 0; or i in i >= 0, 3 - i >= 0.
std::vector<Size> implied_extents(const Affine& value, const std::vector<Range>& domain) {
  const std::size_t count = value.coefficients.size();
  std::vector<Size> extents;
  for (const Range& row : domain) {
    if (!value.divisor.is(1) || !row.value.divisor.is(1)) continue;
    if (const Affine sum = row.value.plus(value); sum.is_constant()) extents.push_back(sum.constant + 1);
    if (!row.extent) continue;
    const std::vector<Affine> sides{row.value, row.value.times(-1).plus(Affine::of(*row.extent - 1, count))};
    for (const Affine& side : sides)
      if (const auto rest = least(side.plus(value.times(-1)), domain)) extents.push_back(*row.extent - *rest);
  }
  return extents;
}

bool is_bound(const Range& row) {
  const auto number = [](const Size& size) { return size.value().has_value(); };
  return std::all_of(row.value.coefficients.begin(), row.value.coefficients.end(), number) &&
      number(row.value.constant) && number(row.value.divisor) && (!row.extent || number(*row.extent));
}

// The domain with an extent wherever one follows; of numbers, also what intervals say of each index.
std::vector<Range> closed(const Statement& statement) {
  std::vector<Range> rows = statement.domain;
  for (Range& row : rows) {
    if (row.extent) continue;
    if (const auto extents = implied_extents(row.value, statement.domain); !extents.empty()) row.extent = extents[0];
  }
  const bool open = std::any_of(rows.begin(), rows.end(), [](const Range& row) { return !row.extent; });
  if (!open || !std::all_of(rows.begin(), rows.end(), is_bound)) return rows;
  poly::Box box;
  box.index.resize(statement.indices.size());
  poly::tighten(poly::rows_of(statement), box);
  for (std::size_t k = 0; k < box.index.size(); ++k)
    if (const auto& [low, high] = box.index[k]; low && high)
      rows.push_back({Affine::index(k, box.index.size()).plus(Affine::of(-*low, box.index.size())),
          Size(std::max<std::int64_t>(0, *high - *low + 1))});
  return rows;
}

// Rows to take digits from, the better ones first: two-sided before one-sided, integer coefficients before symbolic
// ones, and among those the ranges of indices that the target does not mention: their digits do not change from element
// to element. A range of one index is the digit that says most.
std::vector<Range> candidates(const Statement& statement, std::vector<Range> rows) {
  const auto of_target = [&](const Affine& form) {
    for (std::size_t k = 0; k < form.coefficients.size(); ++k)
      for (const auto& element : statement.target.element)
        if (!form.coefficients[k].is(0) && !element.coefficients[k].is(0)) return true;
    return false;
  };
  const auto worse = [&](const Range& row) {
    return (row.extent ? 0 : 8) + (integral(row.value) ? 0 : 4) + (of_target(row.value) ? 2 : 0) +
        (row.value.single_index() ? 0 : 1);
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Range& x, const Range& y) { return worse(x) < worse(y); });
  return rows;
}

std::size_t last_index(const Range& row) {
  std::size_t last = row.value.coefficients.size();
  while (last > 0 && row.value.coefficients[last - 1].is(0)) --last;
  return last;
}

Range from_the_end(const Range& row) {
  return {Affine::of(*row.extent - 1, row.value.coefficients.size()).plus(row.value.times(-1)), row.extent};
}

// A digit that grows with its last index: 0 <= N - j - 1 < N counts j as well from the other end.
Range growing(const Range& row) {
  const std::size_t last = last_index(row);
  const auto c = last > 0 ? row.value.coefficients[last - 1].value() : std::nullopt;
  return row.extent && c && *c < 0 && row.value.divisor.is(1) ? from_the_end(row) : row;
}

// Most significant first; only that digit may do without an extent. The others stand in the order of their last
// indices: where these differ, digits that grow with them count points in the order of the indices, (i, 2*i + j) as (i,
// j).
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
  std::stable_sort(rows.begin() + (!rows.empty() && !rows.front().extent), rows.end(),
      [](const Range& x, const Range& y) { return last_index(x) < last_index(y); });
  return rows;
}

Order mixed_radix(const std::vector<Range>& digits, std::size_t indices) {
  Order order{Affine::of(0, indices), Size(1)};
  for (const auto& row : digits) {
    order.rank = order.rank.times(row.extent.value_or(0)).plus(row.value);
    if (!row.extent) order.count.reset();
    if (order.count) order.count = *order.count * length_of(*row.extent);
  }
  return order;
}

// ---- little room ----------------------------------------------------------------------------------------------------

// By numbers, or whatever the sizes are, which are 1 at least where there is a point. Too much room does no harm.
bool at_least(const Size& a, const Size& b) try {
  const Size difference = a - b;
  poly::Exact least = difference.constant();
  for (const Size::Term& term : difference.terms()) {
    if (term.coefficient < 0) return false;
    least += term.coefficient;
  }
  return least >= 0;
} catch (const poly::SizeError&) {
  return false;                                        // too far to say
}
bool are_apart(const Size& a, const Size& b) { return !at_least(a, b) && !at_least(b, a); }
Size least_of(const Size& a, const Size& b) {
  return at_least(a, b) ? b : at_least(b, a) ? a : Size::apply(Size::Kind::Min, {a, b});
}

// At most half of b. A number is little beside a size.
bool is_little(const Size& a, const Size& b) {
  const auto x = a.value(), y = b.value();
  if (x && y) return *x <= *y / 2;
  return x || (!y && at_least(b, a + a));
}

struct Row {
  Range range;                                         // two-sided
  int doubts = 0;                                      // where only sizes say how much it is: of a tensor, of the
                                                       // target, or implied
};

// The two-sided rows of a statement, with those that the others imply.
class Rows {
 public:
  Rows(const Program& program, const Statement& statement) : program_(program), statement_(statement) {
    std::vector<Range> rows = closed(statement);
    for (std::size_t n = 0; n < statement.domain.size(); ++n)
      if (!statement.domain[n].extent) narrow(rows, n);
    for (std::size_t n = 0; n < rows.size(); ++n) {
      const bool written = n < statement.domain.size() && statement.domain[n].extent;
      if (rows[n].extent && rows[n].value.divisor.is(1) && integral(rows[n].value))
        all_.push_back({rows[n], (written ? 0 : 1) + doubts(rows[n])});
    }
    std::stable_sort(all_.begin(), all_.end(),
        [&](const Row& x, const Row& y) { return of_target(x.range.value) < of_target(y.range.value); });
  }

  // One for each index that the target leaves open, those first whose values are few.
  std::optional<std::vector<Range>> digits() const {
    Independent chosen;
    for (const Affine& form : statement_.target.element) chosen.add(form.coefficients);
    std::vector<Row> left = all_;
    std::vector<Range> found;
    while (chosen.rank() < statement_.indices.size()) {
      if (left.empty()) return std::nullopt;
      auto best = left.begin();
      for (auto row = left.begin() + 1; row != left.end(); ++row)
        if (is_better(*row, *best)) best = row;
      if (chosen.add(best->range.value.coefficients)) found.push_back(cut(best->range));
      left.erase(best);
    }
    std::stable_sort(
        found.begin(), found.end(), [](const Range& x, const Range& y) { return last_index(x) < last_index(y); });
    return found;
  }

  // What runs along a form of the target in the fewest values.
  Range along(const Affine& form, const Size& extent) const {
    Range best{form, extent};
    if (!integral(form) || !form.divisor.is(1)) return best;
    for (const Row& row : all_) {
      const auto times = ratio(form, row.range.value);
      if (times &&
          (is_little(*row.range.extent, *best.extent) ||
              (*times != 1 && *times != -1 && are_apart(*row.range.extent, *best.extent))))
        best = row.range;
    }
    return cut(best);
  }

  // c where a is c·b + constant.
  static std::optional<std::int64_t> ratio(const Affine& a, const Affine& b) {
    if (b.is_constant() || a.divisor != b.divisor) return std::nullopt;
    if (a.coefficients == b.coefficients) return 1;
    if (!a.divisor.is(1)) return std::nullopt;
    std::optional<std::int64_t> found;
    for (std::size_t k = 0; k < a.coefficients.size(); ++k) {
      const auto x = a.coefficients[k].value(), y = b.coefficients[k].value();
      if (!x || !y || (*x == 0) != (*y == 0)) return std::nullopt;
      if (*x == 0) continue;
      if (*x == INT64_MIN || *x % *y != 0 || (found && *found != *x / *y)) return std::nullopt;
      found = *x / *y;
    }
    return found;
  }

 private:
  const Program& program_;
  const Statement& statement_;
  std::vector<Row> all_;

  // Once more, with the extents that others got.
  static void narrow(std::vector<Range>& rows, std::size_t n) {
    std::vector<Range> others = rows;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(n));
    for (const Size& extent : implied_extents(rows[n].value, others))
      if (!rows[n].extent || is_little(extent, *rows[n].extent)) rows[n].extent = extent;
  }

  int doubts(const Range& row) const {
    const auto keeps_inside = [&](const poly::Access& access) {
      const std::vector<Size>& shape = program_.tensor(access.tensor).shape;
      for (std::size_t d = 0; d < shape.size(); ++d)
        if (shape[d] == *row.extent && access.element[d] == row.value) return true;
      return false;
    };
    const std::vector<Size>& outer = program_.tensor(statement_.target.tensor).shape;
    const bool of_tensor = std::any_of(statement_.reads.begin(), statement_.reads.end(), keeps_inside);
    return (of_tensor ? 1 : 0) + (std::find(outer.begin(), outer.end(), *row.extent) == outer.end() ? 0 : 1);
  }

  bool of_target(const Affine& form) const {
    const auto shares_index = [&](const Affine& element) {
      for (std::size_t k = 0; k < form.coefficients.size(); ++k)
        if (!form.coefficients[k].is(0) && !element.coefficients[k].is(0)) return true;
      return false;
    };
    return std::any_of(statement_.target.element.begin(), statement_.target.element.end(), shares_index);
  }

  static bool is_better(const Row& a, const Row& b) {
    const Size &x = *a.range.extent, &y = *b.range.extent;
    return is_little(x, y) || (are_apart(x, y) && a.doubts < b.doubts);
  }

  // Without the values that the ranges of its indices leave out: of 0 <= i - p < 1000 where i and p are below N,
  // min(1000, N).
  Range cut(const Range& row) const {
    Range written = growing(row);
    for (const Range& side : {written, from_the_end(written)}) {
      const auto bounds = bounds_of(side.value);
      if (!bounds) return written;
      if (!at_least(0, bounds->begin)) continue;
      const Size extent = least_of(bounds->end, *side.extent);
      return is_little(extent, *side.extent) || !(extent - *side.extent).value() ? Range{side.value, extent} : written;
    }
    return written;
  }

  struct Bounds { Size begin, end; };
  std::optional<Bounds> bounds_of(const Affine& form) const {
    const std::size_t count = form.coefficients.size();
    Bounds bounds{form.constant, form.constant + 1};
    for (std::size_t k = 0; k < count; ++k) {
      if (form.coefficients[k].is(0)) continue;
      const auto c = form.coefficients[k].value();
      const auto range = std::find_if(
          all_.begin(), all_.end(), [&](const Row& r) { return ratio(r.range.value, Affine::index(k, count)) == 1; });
      if (!c || range == all_.end()) return std::nullopt;
      const Size first = -range->range.value.constant, last = first + *range->range.extent - 1;
      bounds.begin = bounds.begin + *c * (*c > 0 ? first : last);
      bounds.end = bounds.end + *c * (*c > 0 ? last : first);
    }
    return bounds;
  }
};

}  // namespace

std::optional<Order> order(const Statement& statement) {
  const std::vector<Range> rows_closed = closed(statement);
  const auto& element = statement.target.element;
  const bool certain = std::all_of(element.begin(), element.end(), integral);
  auto rows = digits(statement, rows_closed, certain);
  if (!rows && !certain) rows = digits(statement, rows_closed, true);
  return rows ? std::optional(mixed_radix(*rows, statement.indices.size())) : std::nullopt;
}

std::optional<Order> narrow_order(const Program& program, const Statement& statement) {
  const auto& element = statement.target.element;
  const bool certain = std::all_of(element.begin(), element.end(), integral);
  const auto found = certain ? Rows(program, statement).digits() : std::nullopt;
  return found ? mixed_radix(*found, statement.indices.size()) : order(statement);
}

namespace {

bool is_single(const Affine& form) {
  return std::count_if(form.coefficients.begin(), form.coefficients.end(), [](const Size& c) { return !c.is(0); }) == 1;
}

// Each index that one of the forms is, but for its sign and a constant, over these forms.
std::vector<std::optional<Affine>> indices_over(const std::vector<Affine>& forms, std::size_t indices) {
  std::vector<std::optional<Affine>> map(indices);
  for (std::size_t k = 0; k < indices; ++k)
    for (std::size_t q = 0; q < forms.size(); ++q) {
      const auto times = Rows::ratio(forms[q], Affine::index(k, indices));
      if (times == 1 || times == -1)
        map[k] = Affine::index(q, forms.size()).plus(Affine::of(-forms[q].constant, forms.size())).times(*times);
    }
  return map;
}

Affine divided(const Size& constant, const Size& divisor, std::size_t count) {
  Affine form = Affine::of(constant, count);
  if (!constant.is(0)) form.divisor = divisor;
  return form;
}

// The form over others, where they say it.
std::optional<Affine> expressed(const Affine& form, const std::vector<Affine>& forms) {
  if (form.is_constant()) return divided(form.constant, form.divisor, forms.size());
  for (std::size_t q = 0; q < forms.size(); ++q)
    if (const auto times = Rows::ratio(form, forms[q]))
      return Affine::index(q, forms.size())
          .times(*times)
          .plus(divided(form.constant - *times * forms[q].constant, form.divisor, forms.size()));
  std::vector<Affine> map;
  for (std::size_t k = 0; const auto& index : indices_over(forms, form.coefficients.size())) {
    if (!index && !form.coefficients[k].is(0)) return std::nullopt;
    map.push_back(index.value_or(Affine::of(0, forms.size())));
    ++k;
  }
  return form.divisor.is(1) ? std::optional(form.compose(map, forms.size())) : std::nullopt;
}

}  // namespace

Coordinates coordinates(const Program& program, const Statement& statement) {
  const std::vector<Size>& shape = program.tensor(statement.target.tensor).shape;
  const std::vector<Affine>& element = statement.target.element;
  const Rows rows(program, statement);
  Coordinates found;
  for (const bool single : {true, false})
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (element[d].is_constant() || is_single(element[d]) != single || expressed(element[d], found.forms)) continue;
      const Range range = rows.along(element[d], shape[d]);
      found.forms.push_back(range.value);
      found.extents.push_back(length_of(*range.extent));
    }
  for (const Affine& form : element) found.element.push_back(expressed(form, found.forms).value());
  return found;
}

}  // namespace tilec::autodiff
