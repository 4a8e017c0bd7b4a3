#include "codegen/spell/asked.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/scalar.h"
#include "codegen/spell/step_values.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

bool by_rows(const BlockPlace& at, const Condition& one) {
  return at.tile.blocked_m && one.dims[static_cast<std::size_t>(at.leaf.m)];
}

bool reads(const Condition& one) {
  return std::ranges::any_of(poly::parts(one.asked), [](const poly::Expr& part) { return part.as<poly::Read>(); });
}

// Whether all that it depends on but `without` is known, and read without a border: there, rows of a block, or all of
// them, may have nothing to read.
bool may_ask(const BlockPlace& at, const Condition& one, std::optional<std::size_t> without = std::nullopt) {
  const SpelledLeaf& l = at.leaf;
  if (l.answers.contains(poly::address(one.asked)) || !asks_alone(l.nest, one)) return false;
  if (at.tile.border && (by_rows(at, one) || reads(one))) return false;
  for (std::size_t d = 0; d < one.dims.size(); ++d)
    if (one.dims[d] && d != without && !l.points.at(d) && !(by_rows(at, one) && static_cast<int>(d) == l.m))
      return false;
  return true;
}

// Vector operations of a step of the block and of the reductions inside it.
double operations_inside(const BlockPlace& at) {
  const SpelledLeaf& l = at.leaf;
  double count = static_cast<double>(at.tile.rows * (l.compute.is<forms::Reduce>() ? 1 : at.tile.vectors));
  double each = 0;
  for (const poly::Expr& part : poly::parts(l.value())) each += part.as<poly::Apply>() != nullptr;
  for (std::size_t d = 0; d < l.nest.dims.size(); ++d) {
    if (!l.nest.dims[d].reduction || l.points.at(d)) continue;
    const auto extent = static_cast<double>(l.nest.dims[d].extent);
    count *= static_cast<int>(d) == l.n ? std::max(1.0, extent / static_cast<double>(l.compute.lanes)) : extent;
  }
  return count * each;
}

Body under_answer(
    SpelledLeaf& l, const Condition& one, std::optional<bool> answer, const std::function<Body()>& inside) {
  l.answers.emplace(poly::address(one.asked), answer);
  Body body = inside();
  l.answers.erase(poly::address(one.asked));
  return body;
}

Body ask(const BlockPlace& at, const Condition& one, const std::optional<KnownStep>& step,
    const std::function<Body()>& inside) {
  Body body;
  const Views views = step ? step->views : views_of(body, at);
  StepValues values(at, views, step ? step->values : KnownValues());
  std::optional<Expr> any;
  for (std::int64_t i = 0; i < (by_rows(at, one) ? at.tile.rows : 1); ++i) {
    Expr holds = values.value(body, one.asked, i, 0);
    if (!one.met) holds = Operation{Op::Not, {holds}, DType::Bool};
    any = any ? Operation{Op::Or, {*any, holds}, DType::Bool} : holds;
  }
  const bool of_rows = by_rows(at, one) && at.tile.rows > 1;
  Body then = under_answer(at.leaf, one, of_rows ? std::nullopt : std::optional(one.met), inside);
  if (then.empty()) return {};
  body.push_back(stmt(If{*any, std::move(then), {}}));
  return body;
}

const Condition* that_tells(const BlockPlace& at, std::size_t d) {
  for (const Condition& one : at.leaf.conditions)
    if (one.told && one.told->dim == d && !by_rows(at, one) && may_ask(at, one, d)) return &one;
  return nullptr;
}

Body asked_from(const BlockPlace& at, std::size_t first, const std::optional<KnownStep>& step,
    const std::function<Body()>& inside) {
  const std::vector<Condition>& all = at.leaf.conditions;
  for (std::size_t c = first; c < all.size(); ++c)
    if (may_ask(at, all[c])) return ask(at, all[c], step, [&] { return asked_from(at, c + 1, step, inside); });
  return inside();
}

}  // namespace

Body asked(const BlockPlace& at, const std::function<Body()>& inside, const std::optional<KnownStep>& step) {
  if (at.leaf.conditions.empty() || !worth_asking(operations_inside(at))) return inside();
  return asked_from(at, 0, step, inside);
}

bool is_asked_by(const BlockPlace& at, std::size_t d) {
  const auto asks = [&](const Condition& one) { return one.dims[d] && may_ask(at, one, d); };
  return std::ranges::any_of(at.leaf.conditions, asks) &&
      worth_asking(operations_inside(at) / static_cast<double>(at.leaf.nest.dims[d].extent));
}

bool is_told(const BlockPlace& at, std::size_t d) { return that_tells(at, d) != nullptr; }

Body told_loop(const BlockPlace& at, std::size_t d, const std::function<Body()>& inside) {
  SpelledLeaf& l = at.leaf;
  const Condition& one = *that_tells(at, d);
  const Interval range = l.points.bounds(d);
  Body body;
  const Views views = views_of(body, at);
  StepValues values(at, views);
  const Expr more(one.told->less), told = named(l.names, body, l.nest.dims[d].name,
                                       convert(values.value(body, one.told->value, 0, 0), DType::I64));
  Body then = l.with(d, told - more, [&] { return under_answer(l, one, one.met, inside); });
  if (then.empty()) return {};
  // Any number may stand there: what is less is taken off where it is known to be one of d.
  const Expr is_one = both(at_least(told, range.lo + more), less(told, range.hi + more));
  body.push_back(stmt(If{is_one, std::move(then), {}}));
  return body;
}

}  // namespace tilec::codegen
