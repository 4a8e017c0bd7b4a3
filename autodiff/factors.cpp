#include "autodiff/factors.h"

#include <algorithm>
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

// The factors by element and rank: a value over one read, whose indices are those of the element, then the rank.
struct Rows {
  Expr value;
  Access read;
  std::vector<std::string> names;                      // of those indices
};

const poly::Read* only_read(const Expr& value) {
  const auto* cast = value.as<poly::Cast>();
  return cast ? cast->operand.as<poly::Read>() : value.as<poly::Read>();
}

bool single_indices(const Access& access) {
  return std::all_of(access.element.begin(), access.element.end(), [](const Affine& form) { return form.single_index().has_value(); });
}

// The factors as they are: one read, every index a dimension of it, and as many of them for every element as there are ranks.
std::optional<Rows> in_place(const Companion& companion, const Order& order) {
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
  if (seen.size() != forward.indices.size() || std::find(where.begin(), where.end(), std::nullopt) != where.end()) return std::nullopt;
  for (const Range& row : forward.domain) {
    const auto k = row.value.single_index();
    if (!k || !row.extent || *row.extent != extents[*k]) return std::nullopt;
  }

  Rows rows{forward.value, {access.tensor, {}}, std::vector<std::string>(rank + 1)};
  for (const Affine& form : access.element) rows.read.element.push_back(Affine::index(*where[*form.single_index()], rank + 1));
  for (std::size_t k = 0; k < where.size(); ++k) rows.names[*where[k]] = forward.indices[k];
  rows.value = renumbered(rows.value, [](int) { return 0; });
  return rows;
}

// Fac[F i + f, rank] = =(value) default 1
Rows written_out(const Companion& companion, const Order& order) {
  const Statement& forward = companion.forward;
  std::vector<Size> shape = companion.program.tensor(forward.target.tensor).shape;
  shape.push_back(*order.count);
  const DType type = forward.value.type();
  const TensorId id = companion.helper("Fac", type, shape);
  Statement statement = companion.start();
  statement.aggregation = Aggregation::Assign;
  statement.target = {id, forward.target.element};
  statement.target.element.push_back(order.rank);
  statement.domain.push_back({order.rank, order.count});
  statement.fill = *number(type, 1).as<Number>();
  tidy_reads(statement);
  companion.program.nodes.emplace_back(std::move(statement));

  const Statement names = over_shape(companion.program, shape);
  return {poly::Read{0, type}, {id, names.target.element}, names.indices};
}

// Product over the ranks b that `side` says: 0 <= side(k, b).
TensorId exclusive(const Companion& companion, const Rows& rows, const Size& count, std::string name, int sign) {
  const std::vector<Size>& outer = companion.program.tensor(companion.forward.target.tensor).shape;
  const std::size_t rank = outer.size(), k = rank, b = rank + 1, indices = rank + 2;
  std::vector<Size> shape = outer;
  shape.push_back(count);

  Statement statement = over_shape(companion.program, std::vector<Size>(indices, count));
  const std::vector<std::string> spare = statement.indices;
  std::copy(rows.names.begin(), rows.names.end(), statement.indices.begin());
  statement.indices[b] = *std::find_if(spare.begin(), spare.end(), [&](const std::string& s) { return std::find(rows.names.begin(), rows.names.end(), s) == rows.names.end(); });
  statement.target.element.pop_back();
  for (std::size_t d = 0; d < rank; ++d) statement.domain[d].extent = outer[d];
  // Pre: k - b - 1 >= 0; Suf: b - k - 1 >= 0.
  statement.domain.push_back({Affine::index(k, indices).times(sign).plus(Affine::index(b, indices).times(-sign)).plus(Affine::of(-1, indices)), std::nullopt});

  std::vector<std::size_t> where(rank + 1);            // the rank of the factor is b
  for (std::size_t d = 0; d < rank; ++d) where[d] = d;
  where[rank] = b;
  Access read{rows.read.tensor, {}};
  for (const Affine& form : rows.read.element) read.element.push_back(form.renumber(where, indices));
  statement.reads = {read};
  statement.value = rows.value;
  statement.aggregation = Aggregation::Product;
  const TensorId id = companion.helper(std::move(name), rows.value.type(), shape);
  statement.target.tensor = id;
  statement.fill = *number(rows.value.type(), 1).as<Number>();
  statement.span = companion.forward.span;
  companion.program.nodes.emplace_back(std::move(statement));
  return id;
}

}  // namespace

Factors factors_of(const Companion& companion) {
  const Order order = autodiff::order(companion.forward).value();
  auto rows = in_place(companion, order);
  if (!rows) rows = written_out(companion, order);
  const TensorId before = exclusive(companion, *rows, *order.count, "Pre", 1), after = exclusive(companion, *rows, *order.count, "Suf", -1);
  return {order, before, after};
}

}  // namespace tilec::autodiff
