#include "autodiff/factors.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "autodiff/graph.h"
#include "autodiff/term.h"

namespace tilec::autodiff {
namespace {

using namespace term;
using poly::Access;
using poly::Affine;
using poly::Aggregation;
using poly::Number;
using poly::Range;
using poly::Size;
using poly::Statement;
using poly::TensorId;

const poly::Read* only_read(const Expr& value) {
  const auto* cast = value.as<poly::Cast>();
  return cast ? cast->operand.as<poly::Read>() : value.as<poly::Read>();
}

bool single_indices(const Access& access) {
  return std::all_of(
      access.element.begin(), access.element.end(), [](const Affine& form) { return form.single_index().has_value(); });
}

// An index for each dimension of the target.
Coordinates coordinates_of_target(const Companion& companion) {
  const std::vector<Affine>& element = companion.forward.target.element;
  Coordinates all{element, companion.program.tensor(companion.forward.target.tensor).shape, {}};
  for (std::size_t d = 0; d < element.size(); ++d) all.element.push_back(Affine::index(d, element.size()));
  return all;
}

// The factors as they are: one read, every index a dimension of it, and as many of them for every element as there are
// ranks.
std::optional<Factors> in_place(const Companion& companion, const Order& order) {
  const Statement& forward = companion.forward;
  const auto* read = only_read(forward.value);
  const auto last = order.rank.single_index();
  if (!read || !last || !single_indices(forward.target)) return std::nullopt;
  const Access& access = forward.reads[static_cast<std::size_t>(read->read)];
  if (!single_indices(access)) return std::nullopt;

  const std::size_t rank = forward.target.element.size();
  std::vector<std::optional<std::size_t>> where(forward.indices.size());
  std::vector<Size> extents(forward.indices.size());
  where[*last] = rank, extents[*last] = *order.count;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t k = *forward.target.element[d].single_index();
    if (where[k]) return std::nullopt;
    where[k] = d, extents[k] = companion.program.tensor(forward.target.tensor).shape[d];
  }
  std::set<std::size_t> seen;
  for (const Affine& form : access.element) seen.insert(*form.single_index());
  if (seen.size() != forward.indices.size() || std::find(where.begin(), where.end(), std::nullopt) != where.end())
    return std::nullopt;
  for (const Range& row : forward.domain) {
    const auto k = row.value.single_index();
    if (!k || !row.extent || *row.extent != extents[*k]) return std::nullopt;
  }

  Factors factors{coordinates_of_target(companion), order, false, renumbered(forward.value, [](int) { return 0; }),
      {access.tensor, {}}, std::vector<std::string>(rank + 1), {}};
  for (const Affine& form : access.element)
    factors.read.element.push_back(Affine::index(*where[*form.single_index()], rank + 1));
  for (std::size_t k = 0; k < where.size(); ++k) {
    factors.names[*where[k]] = forward.indices[k];
    factors.where.push_back(*where[k]);
  }
  return factors;
}

void keep_inside(Statement& statement, const Affine& form, const Size& extent) {
  const Range row{form, extent};
  if (std::find(statement.domain.begin(), statement.domain.end(), row) == statement.domain.end())
    statement.domain.push_back(row);
}

// The place of a point in a tensor of rows, which the domain then keeps inside.
std::vector<Affine> place_of_point(const Coordinates& outer, const Order& order, Statement& statement) {
  std::vector<Affine> place = outer.forms;
  place.push_back(order.rank);
  for (std::size_t d = 0; d < outer.forms.size(); ++d) keep_inside(statement, outer.forms[d], outer.extents[d]);
  keep_inside(statement, order.rank, *order.count);
  return place;
}

std::vector<Size> shape_of(const Coordinates& outer, const Order& order) {
  std::vector<Size> shape = outer.extents;
  shape.push_back(*order.count);
  return shape;
}

// Name[outer, rank] = =(value) default fill: a row for each element, of what `statement` says at its points.
TensorId rows(const Companion& companion, const Coordinates& outer, const Order& order, Statement statement,
    std::string name, double fill) {
  const DType type = statement.value.type();
  const TensorId id = companion.helper(std::move(name), type, shape_of(outer, order));
  statement.aggregation = Aggregation::Assign;
  statement.target = {id, place_of_point(outer, order, statement)};
  statement.fill = *number(type, fill).as<Number>();
  tidy_reads(statement);
  companion.program.nodes.emplace_back(std::move(statement));
  return id;
}

Factors written_out(const Companion& companion, const Order& order) {
  const DType type = companion.forward.value.type();
  const Coordinates outer = coordinates(companion.program, companion.forward);
  const TensorId id = rows(companion, outer, order, companion.start(), "Fac", 1);
  const Statement names = over_shape(companion.program, companion.program.tensor(id).shape);
  return {outer, order, true, poly::Read{0, type}, {id, names.target.element}, names.indices, {}};
}

// What the product has at the point itself: a value over reads, among the indices of Others, the last of which is not
// mentioned.
struct Own { Expr value; std::vector<Access> reads; };

Own own_of(const Companion& companion, const Factors& factors, const Statement& statement, const Expr& value) {
  Statement own = statement;
  own.value = value;
  tidy_reads(own);
  const std::vector<Affine>& element = companion.forward.target.element;
  const std::size_t rank = factors.outer.forms.size(), indices = rank + 2;
  if (!factors.written) {
    Own moved{with_leaves(value, [&](const Expr& leaf) -> Expr {
      const auto* index = leaf.as<poly::Index>();
      return index ? Expr(poly::Index{index->value.renumber(factors.where, indices), index->type}) : leaf;
    }), statement.reads};
    for (Access& read : moved.reads)
      for (Affine& form : read.element) form = form.renumber(factors.where, indices);
    return moved;
  }
  std::vector<std::size_t> of_outer(rank);
  std::iota(of_outer.begin(), of_outer.end(), 0);
  const auto shape = [&](TensorId id) -> const std::vector<Size>& { return companion.program.tensor(id).shape; };
  const bool of_element = only_read(value) && own.reads[0].element == element &&
      shape(own.reads[0].tensor) == shape(companion.forward.target.tensor);
  Access at{-1, {}};
  if (of_element) {
    at.tensor = own.reads[0].tensor;
    for (const Affine& form : factors.outer.element) at.element.push_back(form.renumber(of_outer, indices));
    return {own.value, {at}};
  }
  at.tensor = rows(companion, factors.outer, factors.order, own, "Own", 0);
  for (std::size_t d = 0; d <= rank; ++d) at.element.push_back(Affine::index(d, indices));
  return {poly::Read{0, value.type()}, {at}};
}

// A read of a tensor of rows at the point itself.
Expr at_point(const Companion& companion, const Factors& factors, Statement& statement, TensorId id) {
  statement.reads.push_back({id, place_of_point(factors.outer, factors.order, statement)});
  return poly::Read{static_cast<int>(statement.reads.size()) - 1, companion.program.tensor(id).dtype};
}

}  // namespace

Factors factors_of(const Companion& companion) {
  const auto factors = in_place(companion, autodiff::order(companion.forward).value());
  return factors ? *factors : written_out(companion, narrow_order(companion.program, companion.forward).value());
}

// Others[o, k] = *(k == b ? own : factor b)
Expr Factors::times_others(const Companion& companion, Statement& statement, const Expr& own) const {
  const std::size_t rank = outer.forms.size(), k = rank, b = rank + 1, indices = rank + 2;
  const Own at = own_of(companion, *this, statement, own);

  Statement product = over_shape(companion.program, std::vector<Size>(indices, *order.count));
  const std::vector<std::string> spare = product.indices;
  std::copy(names.begin(), names.end(), product.indices.begin());
  product.indices[b] = *std::find_if(spare.begin(), spare.end(),
      [&](const std::string& s) { return std::find(names.begin(), names.end(), s) == names.end(); });
  product.target.element.pop_back();
  for (std::size_t d = 0; d < rank; ++d) product.domain[d].extent = outer.extents[d];

  std::vector<std::size_t> of_factor(rank + 1);        // the rank of the factor is b
  for (std::size_t d = 0; d < rank; ++d) of_factor[d] = d;
  of_factor[rank] = b;
  product.reads = at.reads;
  for (const Access& access : at.reads) {
    const std::vector<Size> shape = companion.program.tensor(access.tensor).shape;
    for (std::size_t d = 0; written && d < shape.size(); ++d) keep_inside(product, access.element[d], shape[d]);
  }
  const int factor = static_cast<int>(product.reads.size());
  product.reads.push_back({read.tensor, {}});
  for (const Affine& form : read.element) product.reads.back().element.push_back(form.renumber(of_factor, indices));
  const Expr here = compare(
      Op::Eq, poly::Index{Affine::index(k, indices), DType::I64}, poly::Index{Affine::index(b, indices), DType::I64});
  product.value = select(here, at.value, cast(renumbered(value, [&](int) { return factor; }), own.type()));
  product.aggregation = Aggregation::Product;
  const TensorId id = companion.helper("Others", own.type(), shape_of(outer, order));
  product.target.tensor = id;
  product.fill = *number(own.type(), 0).as<Number>();
  product.span = companion.forward.span;
  tidy_reads(product);
  companion.program.nodes.emplace_back(std::move(product));
  return at_point(companion, *this, statement, id);
}

}  // namespace tilec::autodiff
