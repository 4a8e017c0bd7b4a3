// `v == O` compares v rounded to O's type with what was stored: comparing with a recomputed maximum would miss it by one
// contraction, and lose the gradient.
#include "autodiff/share.h"

#include <algorithm>

#include "autodiff/covers.h"
#include "autodiff/factors.h"
#include "autodiff/term.h"
#include "lang/messages.h"

namespace tilec::autodiff {
namespace {

using namespace term;
using poly::Affine;
using poly::Aggregation;
using poly::Index;
using poly::Number;
using poly::Statement;
using poly::TensorId;
using poly::Ties;

// Of one point it is that point.
bool is_extreme(const Statement& statement) {
  return (statement.aggregation == Aggregation::Max || statement.aggregation == Aggregation::Min) && !one_point_each(statement);
}

// v == O, as stored.
Expr hit(const Companion& companion, Statement& statement) {
  const TensorId target = companion.forward.target.tensor;
  return compare(Op::Eq, cast(companion.forward.value, companion.program.tensor(target).dtype), companion.at_target(statement, target));
}

// Cnt[F i + f] = +(v == O ? 1 : 0)
TensorId count_ties(const Companion& companion) {
  Statement statement = companion.start();
  const TensorId id = companion.helper("Cnt", DType::I32);
  statement.value = select(hit(companion, statement), number(DType::I32, 1), number(DType::I32, 0));
  companion.add(std::move(statement), id, companion.forward.target.element);
  return id;
}

// First[F i + f] = <(v == O ? rank : none)
TensorId first_tie(const Companion& companion, const Affine& rank) {
  Statement statement = companion.start();
  statement.aggregation = Aggregation::Min;
  const TensorId id = companion.helper("First", DType::I64);
  statement.value = select(hit(companion, statement), Index{rank, DType::I64}, Number{DType::I64, INT64_MAX});
  companion.add(std::move(statement), id, companion.forward.target.element);
  return id;
}

// A read of an exclusive product at the point itself, whose rank the domain then keeps inside.
Expr at_point(const Companion& companion, const Factors& factors, Statement& statement, TensorId id) {
  poly::Access access{id, companion.forward.target.element};
  access.element.push_back(factors.order.rank);
  const poly::Range row{factors.order.rank, factors.order.count};
  if (std::find(statement.domain.begin(), statement.domain.end(), row) == statement.domain.end()) statement.domain.push_back(row);
  statement.reads.push_back(std::move(access));
  return poly::Read{static_cast<int>(statement.reads.size()) - 1, companion.program.tensor(id).dtype};
}

}  // namespace

Expr Share::weighed(const Companion& companion, Statement& statement, const Expr& c) const {
  if (count) return div(c, cast(companion.at_target(statement, *count), c.type()));
  if (!factors) return c;
  const Expr others = mul(at_point(companion, *factors, statement, factors->before), at_point(companion, *factors, statement, factors->after));
  return mul(c, cast(others, c.type()));
}

Expr Share::bracketed(const Companion& companion, Statement& statement, const Expr& value) const {
  if (!is_extreme(companion.forward)) return value;
  const Expr wins = first ? compare(Op::Eq, companion.at_target(statement, *first), Index{*rank, DType::I64}) : hit(companion, statement);
  return select(wins, value, number(value.type(), 0));
}

Share share_of(const Companion& companion) {
  const Statement& forward = companion.forward;
  Share share;
  if (forward.aggregation == Aggregation::Product && !one_point_each(forward)) share.factors = factors_of(companion);
  if (is_extreme(forward) && forward.ties == Ties::Split) share.count = count_ties(companion);
  if (is_extreme(forward) && forward.ties == Ties::First) {
    share.rank = order(forward).value().rank;
    share.first = first_tie(companion, *share.rank);
  }
  return share;
}

bool has_rule(const poly::Program& program, const Statement& statement, lang::Diagnostics& diagnostics) {
  const bool product = statement.aggregation == Aggregation::Product, first = is_extreme(statement) && statement.ties == Ties::First;
  if (!product && !first) return true;
  const auto found = order(statement);
  if (found && (first || found->count)) return true;
  const std::string& name = program.tensor(statement.target.tensor).name;
  if (first) diagnostics.report(statement.span, lang::messages::unordered_ties, name).hint("write `[[ties(split)]]`, or bound the indices on both sides");
  else diagnostics.report(statement.span, lang::messages::unordered_product, name).hint("bound the indices on both sides: `0 <= i < 3`");
  return false;
}

}  // namespace tilec::autodiff
