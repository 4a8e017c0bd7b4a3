// `v == O` compares v rounded to O's type with what was stored: comparing with a recomputed maximum would miss it by
// one contraction, and lose the gradient.
#include "autodiff/share.h"

#include <algorithm>
#include <unordered_map>

#include "autodiff/factors.h"
#include "autodiff/order.h"
#include "autodiff/term.h"
#include "lang/messages.h"
#include "poly/fold.h"
#include "poly/intern.h"

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
  return (statement.aggregation == Aggregation::Max || statement.aggregation == Aggregation::Min) &&
      !one_point_each(statement);
}

// v == O, as stored.
Expr hit(const Companion& companion, Statement& statement) {
  const TensorId target = companion.forward.target.tensor;
  return compare(Op::Eq, poly::as_stored(companion.forward.value, companion.program.tensor(target).dtype),
      companion.at_target(statement, target));
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

// Where the value is not 0 by its conditions: always, never, or as an expression says.
struct Reached {
  std::unordered_map<const void*, Expr> known = {};    // by node: each is looked into once

  static Expr always(bool is) { return number(DType::Bool, is); }

  Expr operator()(const Expr& e) {
    if (const auto found = known.find(poly::address(e)); found != known.end()) return found->second;
    const Expr result = of(e);
    known.emplace(poly::address(e), result);
    return result;
  }

  Expr of(const Expr& e) {
    if (is_number(e, 0)) return always(false);
    if (const auto* inner = e.as<poly::Cast>()) return (*this)(inner->operand);
    const auto* apply = e.as<poly::Apply>();
    if (apply && apply->op == Op::Add) return either((*this)(apply->operands[0]), (*this)(apply->operands[1]));
    if (!apply || apply->op != Op::Select) return always(true);
    const Expr a = (*this)(apply->operands[1]), b = (*this)(apply->operands[2]);
    return a == b ? a : either(both(apply->operands[0], a), both(call(Op::Not, apply->operands[0]), b));
  }

  static Expr both(const Expr& a, const Expr& b) {
    if (is_number(a, 0) || is_number(b, 1)) return a;
    return is_number(b, 0) || is_number(a, 1) ? b : term::both(a, b);
  }
  static Expr either(const Expr& a, const Expr& b) {
    if (is_number(a, 1) || is_number(b, 0)) return a;
    return is_number(b, 1) || is_number(a, 0) ? b : Expr(poly::Apply{Op::Or, {a, b}, DType::Bool});
  }
};

// The value times the other factors, within its conditions: what they exclude stays 0 where another factor is infinite.
Expr times_others(const Companion& companion, const Factors& factors, Statement& statement, const Expr& value) {
  if (const auto* apply = value.as<poly::Apply>(); apply && apply->op == Op::Select) {
    const auto& x = apply->operands;
    if (is_number(x[2], 0)) return select(x[0], times_others(companion, factors, statement, x[1]), x[2]);
    if (is_number(x[1], 0)) return select(x[0], x[1], times_others(companion, factors, statement, x[2]));
  }
  const Expr reached = Reached{}(value), product = factors.times_others(companion, statement, value);
  return is_number(reached, 1) ? product : select(reached, product, number(product.type(), 0));
}

}  // namespace

Expr Share::weighed(const Companion& companion, Statement& statement, const Expr& c) const {
  return count ? div(c, cast(companion.at_target(statement, *count), c.type())) : c;
}

Expr Share::bracketed(const Companion& companion, Statement& statement, const Expr& value) const {
  if (factors) return times_others(companion, *factors, statement, value);
  if (!is_extreme(companion.forward)) return value;
  const Expr wins = first ? compare(Op::Eq, companion.at_target(statement, *first), Index{*rank, DType::I64})
                          : hit(companion, statement);
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
  const bool product = statement.aggregation == Aggregation::Product,
             first = is_extreme(statement) && statement.ties == Ties::First;
  if (!product && !first) return true;
  const auto found = order(statement);
  if (found && (first || found->count)) return true;
  const std::string& name = program.tensor(statement.target.tensor).name;
  if (first)
    diagnostics.report(statement.span, lang::messages::unordered_ties, name)
        .hint("write `[[ties(split)]]`, or bound the indices on both sides");
  else
    diagnostics.report(statement.span, lang::messages::unordered_product, name)
        .hint("bound the indices on both sides: `0 <= i < 3`");
  return false;
}

}  // namespace tilec::autodiff
