// What statements are to a pass, and how large its block is.
#include "codegen/online_leaf.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/online_boxes.h"
#include "codegen/online_cores.h"
#include "codegen/online_pass.h"
#include "codegen/scalar.h"
#include "poly/intern.h"

namespace tilec::codegen {

Nest online_nest(const poly::Statement& s, const Strides& strides) {
  return nest_of(s, strides, {s.indices.begin(), s.indices.end()});
}

namespace {

bool depends(const Nest& nest, const poly::Expr& e, std::size_t d) {
  return std::ranges::any_of(poly::parts(e), [&](const poly::Expr& part) {
    if (const auto* r = part.as<poly::Read>())
      return nest.reads[static_cast<std::size_t>(r->read)].offset.coefficients[d] != 0;
    if (const auto* x = part.as<poly::Index>()) return nest.form(x->value).coefficients[d] != 0;
    return false;
  });
}
bool has_index(const poly::Expr& e) {
  return std::ranges::any_of(poly::parts(e), [](const poly::Expr& part) { return part.as<poly::Index>() != nullptr; });
}


bool is_zero(const poly::Expr& e) {
  const auto* n = e.as<poly::Number>();
  return n && n->real == 0 && n->integer == 0;
}

// Factors and divisors of a product, as it is written, and when it is not 0.
struct Factors { std::vector<poly::Expr> times, over; std::vector<OnlinePart::When> when = {}; };
// `may_wait`: whether a condition of this factor may be one of the product.
void take_apart(const poly::Expr& e, bool divides,
    const std::function<bool(const poly::Expr&, const poly::Expr&)>& may_wait, Factors& all) {
  const auto* apply = e.as<poly::Apply>();
  if (apply && apply->op == Op::Select && !divides && lang::is_float(apply->type) && may_wait(e, apply->operands[0]))
    for (const std::size_t zero : {std::size_t{1}, std::size_t{2}})
      if (is_zero(apply->operands[zero])) {
        all.when.push_back({apply->operands[0], zero == 2});
        return take_apart(apply->operands[3 - zero], divides, may_wait, all);
      }
  if (!apply || !lang::is_float(apply->type) || (apply->op != Op::Mul && apply->op != Op::Div))
    return (divides ? all.over : all.times).push_back(e);
  take_apart(apply->operands[0], divides, may_wait, all);
  take_apart(apply->operands[1], divides != (apply->op == Op::Div), may_wait, all);
}
// None where nothing is multiplied.
std::optional<poly::Expr> product_of(const Factors& all) {
  if (all.times.empty()) return std::nullopt;
  poly::Expr product = all.times.front();
  for (std::size_t k = 1; k < all.times.size(); ++k)
    product = poly::Apply{Op::Mul, {product, all.times[k]}, product.type()};
  for (const poly::Expr& divisor : all.over) product = poly::Apply{Op::Div, {product, divisor}, product.type()};
  return product;
}

// A product of two factors, of which one does not depend on `column` and the other not on `row`. What depends on
// neither belongs to the first one: P (dO / Z) is (P / Z) dO, where rows go on over what Z has, and dO stays as narrow
// as it is. What does not depend on what a Product sums over waits for the sum.
bool take_factors(const Nest& nest, OnlinePart& part) {
  const auto* product = nest.value->as<poly::Apply>();
  if (nest.aggregation != Aggregation::Sum || !product || !lang::is_float(product->type) ||
      in_rows(nest, part.depth == part.over ? part.column : part.depth))
    return false;
  Factors all, of_row, of_column, of_sum;
  const bool sums_points = part.role == OnlinePart::Sum;
  const std::size_t wide = sums_points ? part.column : part.depth;
  take_apart(
      *nest.value, false,
      [&](const poly::Expr& e, const poly::Expr& condition) {
        return depends(nest, e, wide) && !depends(nest, condition, wide) && !has_index(condition) &&
            (!sums_points || (!depends(nest, condition, part.row) && depends(nest, condition, part.over)));
      },
      all);
  for (const bool divides : {false, true})
    for (const poly::Expr& factor : divides ? all.over : all.times) {
      const bool waits = part.role == OnlinePart::Product && !depends(nest, factor, part.depth);
      Factors& own = waits ? of_sum : depends(nest, factor, part.column) ? of_column : of_row;
      (divides ? own.over : own.times).push_back(factor);
    }
  const auto x = product_of(of_row), y = product_of(of_column);
  if (!x || !y || depends(nest, *y, part.row) || has_index(*y)) return false;
  if (part.role == OnlinePart::Product && has_index(*x)) return false;
  part.by_row = x, part.by_column = y, part.times = of_sum.times, part.divisors = of_sum.over, part.when = all.when;
  return true;
}

}  // namespace

std::variant<OnlinePart, std::string> online_part(const Nest& nest, const std::string& row, const std::string& over) {
  const auto i = nest.dim(row), j = nest.dim(over);
  if (!i || !j || nest.dims[*i].reduction) return fmt::format("it has no row `{}` and no `{}`", row, over);
  std::vector<std::size_t> sums;
  for (std::size_t d = 0; d < nest.dims.size(); ++d) if (nest.dims[d].reduction) sums.push_back(d);
  OnlinePart part{OnlinePart::Tile, *i, *j, *j, *j, {}, {}};
  if (sums.empty()) {
    if (nest.aggregation != Aggregation::Assign) return std::string("it folds over nothing");
    return part;
  }
  if (sums.size() > 1) return std::string("it folds over several indices");
  if (sums.front() != *j) {
    part.role = OnlinePart::Product, part.depth = sums.front();
    if (!take_factors(nest, part))
      return fmt::format("it is no sum of products of one factor of `{}` and one of `{}`", row, over);
    return part;
  }
  part.role = OnlinePart::Sum;
  for (std::size_t d = nest.dims.size(); d-- > 0;) {
    if (nest.dims[d].reduction || d == *i) continue;
    part.column = d;
    if (take_factors(nest, part) && depends(nest, *part.by_row, *i)) return part;
  }
  part.role = OnlinePart::Fold, part.column = *j, part.by_row.reset(), part.by_column.reset();
  if (nest.aggregation == Aggregation::Assign || nest.aggregation == Aggregation::Product ||
      nest.value->type() == DType::Bool)
    return std::string("it is no maximum, minimum or sum of numbers");
  return part;
}

bool staged(const OnlinePart& part, std::size_t read) {
  const auto in = [&](const std::optional<poly::Expr>& factor) {
    return factor && std::ranges::any_of(poly::parts(*factor), [&](const poly::Expr& e) {
      const auto* r = e.as<poly::Read>();
      return r && static_cast<std::size_t>(r->read) == read;
    });
  };
  return in(part.by_column) || (part.role == OnlinePart::Product && in(part.by_row));
}

std::vector<std::size_t> column_reads(const Nest& nest, const OnlinePart& part) {
  std::vector<std::size_t> reads;
  for (std::size_t r = 0; r < nest.reads.size(); ++r) {
    const std::vector<std::int64_t>& c = nest.reads[r].offset.coefficients;
    if (c[part.over] != 0 && c[part.row] == 0 && !staged(part, r)) reads.push_back(r);
  }
  return reads;
}

bool columns_as_stored(const Nest& nest, const OnlinePart& part) {
  const auto* read = part.role == OnlinePart::Product ? part.by_column->as<poly::Read>() : nullptr;
  if (!read || compute_type(nest.value->type()) != DType::F32) return false;
  const FlatAccess& access = nest.reads[static_cast<std::size_t>(read->read)];
  constexpr std::int64_t of_access = 4;                // elements
  return access.offset.coefficients[part.depth] == 1 && access.offset.coefficients[part.over] != 1 &&
      nest.dims[part.depth].extent % of_access == 0;
}

bool has_columns_of(
    const Nest& nest, const OnlinePart& product, const Nest& other, const OnlinePart& sum, std::int64_t columns) {
  return columns_as_stored(nest, product) && sum.role == OnlinePart::Sum && sum.by_column->as<poly::Read>() &&
      other.dims[sum.column].extent == columns && same_columns(nest, product, other, sum);
}

std::optional<LateDivision> late_division(const poly::Expr& value) {
  const auto* apply = value.as<poly::Apply>();
  const auto zero = [](const poly::Expr& e) {
    const auto* n = e.as<poly::Number>();
    return n && n->real == 0 && n->integer == 0;
  };
  const auto mentions = [](const poly::Expr& e, int read, bool others) {
    return std::ranges::any_of(poly::parts(e), [&](const poly::Expr& p) {
      const auto* r = p.as<poly::Read>();
      return (r && (r->read == read) != others) || (others && p.as<poly::Index>());
    });
  };
  if (!apply) return std::nullopt;
  if (apply->op == Op::Div) {
    const auto* by = apply->operands[1].as<poly::Read>();
    if (!by || mentions(apply->operands[0], by->read, false)) return std::nullopt;
    return LateDivision{apply->operands[0], static_cast<std::size_t>(by->read)};
  }
  if (apply->op != Op::Select || (!zero(apply->operands[1]) && !zero(apply->operands[2]))) return std::nullopt;
  auto found = late_division(apply->operands[zero(apply->operands[1]) ? 2 : 1]);
  if (!found || mentions(apply->operands[0], static_cast<int>(found->divisor), true)) return std::nullopt;
  return found;
}

FirstSweep first_sweep(const std::vector<Nest>& nests, const std::vector<OnlinePart>& parts) {
  FirstSweep found;
  const auto made_by = [&](TensorId id) {
    const auto at = std::ranges::find(nests, id, [](const Nest& nest) { return nest.target.tensor; });
    return static_cast<std::size_t>(at - nests.begin());
  };
  std::set<std::size_t> all;
  std::vector<std::size_t> open;
  const auto add = [&](std::size_t l) { if (l < parts.size() && all.insert(l).second) open.push_back(l); };
  for (std::size_t reader = 0; reader < parts.size(); ++reader)  // behind them stands what finishes sums
    for (const FlatAccess& read : nests[reader].reads)
      if (const std::size_t l = made_by(read.tensor); l < parts.size() && parts[l].role == OnlinePart::Fold)
        found.known.insert(l), add(l);
  while (!open.empty()) {
    const std::size_t l = open.back();
    open.pop_back();
    for (const FlatAccess& read : nests[l].reads) add(made_by(read.tensor));
  }
  found.members.assign(all.begin(), all.end());
  return found;
}

bool compares_computed(const poly::Program& program) {
  const auto computed = [](const poly::Expr& side) {
    return std::ranges::any_of(poly::parts(side), [](const poly::Expr& p) { return p.as<poly::Read>() != nullptr; });
  };
  return std::ranges::any_of(program.nodes, [&](const poly::Node& node) {
    const auto* s = std::get_if<poly::Statement>(&node);
    return s && std::ranges::any_of(poly::parts(s->value), [&](const poly::Expr& e) {
      const auto* apply = e.as<poly::Apply>();
      return apply && (apply->op == lang::Op::Eq || apply->op == lang::Op::Ne) && computed(apply->operands[0]) &&
          computed(apply->operands[1]);
    });
  });
}

std::int64_t online_rows(const Compute& leaf, std::int64_t threads) {
  const MatrixInstruction* i = matrix_instruction(leaf.as<forms::Online>()->instruction);
  return threads / leaf.lanes * leaf.rows * (i && leaf.lanes == i->threads() ? i->m : 1);
}

std::int64_t online_bytes(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, std::int64_t threads) {
  const std::int64_t rows = online_rows(leaves.front(), threads), depth = leaves.front().as<forms::Online>()->depth;
  std::int64_t elements = 2 * rows, products = 0, sums = 0;
  std::vector<OnlinePart> parts;
  for (std::size_t l = 0; l < leaves.size(); ++l)
    parts.push_back(std::get<OnlinePart>(online_part(nests[l], leaves[l].m(), leaves.front().n)));
  if (const auto* i = matrix_instruction(leaves.front().as<forms::Online>()->instruction))
    return cores_bytes(*i, nests, parts, threads, rows / (threads / i->threads() * i->m), depth,
        leaves.front().as<forms::Online>()->twice);
  bool any_stored = false;
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const OnlinePart& part = parts[l];
    const bool stored = columns_as_stored(nests[l], part);
    any_stored = any_stored || stored;
    if (part.role == OnlinePart::Product)
      elements += nests[l].dims[part.depth].extent * (rows + depth) + (stored ? column_padding * depth : 0), ++products;
    if (part.role == OnlinePart::Sum) {
      const std::int64_t side = leaves[l].lanes * leaves[l].vectors;
      bool there = false;
      for (std::size_t p = 0; p < leaves.size(); ++p)
        there = there || has_columns_of(nests[p], parts[p], nests[l], part, side);
      elements += there ? 0 : depth * side, ++sums;
    }
    if (part.role == OnlinePart::Fold) elements += threads;
    elements += 2 * depth * static_cast<std::int64_t>(column_reads(nests[l], part).size());  // and reciprocals
  }
  std::int64_t bytes = 0;
  for (const Nest& nest : nests) bytes = std::max<std::int64_t>(bytes, lang::bytes(compute_type(nest.value->type())));
  return (elements + std::max(products, sums) * depth * (rows + (any_stored ? tile_padding : 0))) * bytes;
}

}  // namespace tilec::codegen
