// Counting: connected components of indices multiply; inside one the widest index is innermost and closed-form.
//
// For 0 <= q < 112, 0 <= z < 2, 0 <= q + 1 - z < 112 the two values of z are tried; each leaves an interval of q,
// 112 + 111. A divisor on the innermost index is a residue: such rows make the innermost index enumerated as well.
#include "poly/count.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tilec::poly {
namespace {

__extension__ using Wide = __int128;

struct Search {
  const std::vector<Row>& rows;
  std::vector<std::size_t> order;                      // of the indices to fix, outermost first
  bool closed;                                         // the innermost is an interval, no need to visit its values
  std::int64_t budget;
  const std::function<bool(const Point&)>* visit = nullptr;
  std::int64_t looks = INT64_MAX;
  Wide total = 0;
};

bool all_hold(const std::vector<Row>& rows, const Box& box) {
  Point point;
  for (const Interval& i : box.index) point.push_back(*i.lower);
  return std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return holds(row, point); });
}

// False when the budget ended or the visitor stopped.
bool descend(Search& search, Box box, std::size_t depth) {
  if (--search.budget < 0) return false;
  search.looks -= tighten(search.rows, box);
  if (search.looks < 0) return false;
  if (box.empty) return true;
  if (depth == search.order.size()) {
    if (!all_hold(search.rows, box)) return true;
    ++search.total;
    if (search.visit == nullptr) return true;
    Point point;
    for (const Interval& i : box.index) point.push_back(*i.lower);
    return (*search.visit)(point);
  }
  const std::size_t k = search.order[depth];
  const std::int64_t low = *box.index[k].lower, high = *box.index[k].upper;
  if (search.closed && depth + 1 == search.order.size()) {
    search.total += Wide{high} - low + 1;              // one free index: interval arithmetic is exact
    return true;
  }
  for (std::int64_t value = low; value <= high; ++value) {
    box.index[k] = {value, value};
    if (!descend(search, box, depth + 1)) return false;
  }
  return true;
}

// Which component each index belongs to: rows that mention two indices join them.
std::vector<std::size_t> components(const std::vector<Row>& rows, std::size_t n) {
  std::vector<std::size_t> of(n);
  std::iota(of.begin(), of.end(), std::size_t{0});
  for (const Row& row : rows) {
    std::optional<std::size_t> first;
    for (std::size_t k = 0; k < n; ++k) {
      if (row.coefficients[k] == 0) continue;
      if (!first) {
        first = of[k];
        continue;
      }
      const std::size_t from = of[k];
      std::replace(of.begin(), of.end(), from, *first);
    }
  }
  return of;
}

std::optional<Wide> count_component(
    const std::vector<Row>& rows, const Box& hull, std::vector<std::size_t> indices, std::int64_t& cap) {
  const auto width = [&](std::size_t k) { return Wide{*hull.index[k].upper} - *hull.index[k].lower; };
  std::stable_sort(indices.begin(), indices.end(), [&](std::size_t a, std::size_t b) { return width(a) < width(b); });
  std::vector<Row> own;
  for (const Row& row : rows)
    if (!implied(row, hull) &&
        std::any_of(indices.begin(), indices.end(), [&](std::size_t k) { return row.coefficients[k] != 0; }))
      own.push_back(row);
  if (own.empty()) {
    Wide product = 1;
    for (const std::size_t k : indices)
      if (__builtin_mul_overflow(product, width(k) + 1, &product)) return std::nullopt;
    return product;
  }
  const bool closed = std::all_of(own.begin(), own.end(), [](const Row& row) { return row.divisor == 1; });
  // Other components stand still at a value of their own; their rows are not asked.
  Box box = hull;
  for (std::size_t k = 0; k < box.index.size(); ++k)
    if (std::find(indices.begin(), indices.end(), k) == indices.end()) box.index[k].upper = box.index[k].lower;
  Search search{own, indices, closed, cap};
  if (!descend(search, box, 0)) return std::nullopt;
  cap = search.budget;
  return search.total;
}

}  // namespace

std::optional<std::int64_t> count_points(const std::vector<Row>& rows, const Box& hull, std::int64_t cap) {
  if (hull.empty) return 0;
  const std::size_t n = hull.index.size();
  for (const Row& row : rows)
    if (std::all_of(row.coefficients.begin(), row.coefficients.end(), [](auto c) { return c == 0; }) &&
        !holds(row, Point(n, 0)))
      return 0;
  std::vector<Row> coupling;
  for (const Row& row : rows)
    if (!implied(row, hull)) coupling.push_back(row);
  const std::vector<std::size_t> component = components(coupling, n);
  Wide product = 1;
  for (std::size_t c = 0; c < n; ++c) {
    std::vector<std::size_t> indices;
    for (std::size_t k = 0; k < n; ++k)
      if (component[k] == c) indices.push_back(k);
    if (indices.empty()) continue;
    const std::optional<Wide> count = count_component(coupling, hull, indices, cap);
    if (!count) return std::nullopt;
    if (__builtin_mul_overflow(product, *count, &product) || product > (Wide{1} << 62)) return std::nullopt;
  }
  return static_cast<std::int64_t>(product);
}

std::optional<std::int64_t> points(const Statement& statement, std::int64_t cap) {
  const std::vector<Row> rows = rows_of(statement);
  const std::size_t n = statement.indices.size();
  Box box{false, std::vector<Interval>(n)};
  for (std::size_t k = 0; k < n; ++k) {                // the first rows are the hull (bounds.h)
    box.index[k].lower = -rows[k].constant;
    box.index[k].upper = (Exact(*rows[k].extent) - 1 - rows[k].constant).get();
    box.empty = box.empty || *rows[k].extent == 0;
  }
  return count_points(rows, box, cap);
}

namespace {

// Counts beyond any machine stay comparable.
constexpr std::int64_t countless = std::int64_t{1} << 50;
std::int64_t capped(Wide value) { return value < countless ? static_cast<std::int64_t>(value) : countless; }

// What a unit of the machine does in a step; all else is a division or a polynomial.
bool is_simple(Op op) {
  using enum Op;
  switch (op) {
    case Div: case Mod: case Recip: case Sqrt: case Pow: case Sigmoid: case Exp: case Log: case Erf:
    case Sin: case Cos: case Tan: case Asin: case Acos: case Atan: case Atan2:
    case Sinh: case Cosh: case Tanh: case Asinh: case Acosh: case Atanh: return false;
    case Add: case Sub: case Mul: case Neg: case Fma: case Abs: case Max: case Min: case Relu: case Sign:
    case Eq: case Ne: case Lt: case Le: case Gt: case Ge: case Select: case IsNan: case IsFinite: case Between:
    case Tf32:
    case And: case Or: case Xor: case Not: case Shl: case Shr:
    case Ceil: case Floor: case Round: case Trunc: break;
  }
  return true;
}

std::int64_t elements(const Tensor& tensor) {
  Wide count = 1;
  for (const Size& extent : tensor.shape) count = capped(count * extent.get());
  return static_cast<std::int64_t>(count);
}

}  // namespace

std::int64_t bytes(const Tensor& tensor) { return capped(Wide{elements(tensor)} * lang::bytes(tensor.dtype)); }

std::int64_t scalar_operations(const Expr& value, std::int64_t weight) {
  if (const auto* cast = value.as<Cast>()) return scalar_operations(cast->operand, weight);
  const auto* apply = value.as<Apply>();
  if (!apply) return 0;
  std::int64_t count = apply->op == Op::Fma ? 2 : is_simple(apply->op) ? 1 : weight;
  for (const Expr& operand : apply->operands) count += scalar_operations(operand, weight);
  return count;
}

Operations operations(const Program& program, const Node& node, std::int64_t weight) {
  if (const auto* i = std::get_if<Intrinsic>(&node)) {
    const auto n = elements(program.tensor(i->operands.at(0)));
    const Wide logarithm = std::bit_width(static_cast<std::uint64_t>(n));
    return {i->op == IntrinsicOp::Sort ? capped(n * logarithm * weight) : i->op == IntrinsicOp::Scatter ? n : 0, true};
  }
  const auto& s = std::get<Statement>(node);
  const auto exact = points(s);
  Wide count = exact.value_or(0);
  if (!exact) {
    count = 1;
    for (std::size_t k = 0; k < s.indices.size(); ++k) count = capped(count * s.domain[k].extent->get());
  }
  return {
      capped(count * (scalar_operations(s.value, weight) + (s.aggregation != Aggregation::Assign))), exact.has_value()};
}

bool for_each_point(const std::vector<Row>& rows, const Box& hull, std::int64_t cap,
    const std::function<bool(const Point&)>& visit, std::int64_t looks) {
  if (hull.empty) return true;
  std::vector<std::size_t> order(hull.index.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Search search{rows, order, false, cap, &visit, looks};
  return descend(search, hull, 0);
}

}  // namespace tilec::poly
