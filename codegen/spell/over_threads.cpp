#include "codegen/spell/over_threads.h"

#include <string>
#include <utility>

#include "poly/exact.h"

namespace tilec::codegen {

Interval values_from(const Expr& begin, std::int64_t step, std::int64_t extent) {
  const Expr end = begin + Expr(step);
  return {begin, extent % step ? minimum(end, Expr(extent)) : end};
}

namespace {

// What surrounds the element with this number, and where its last turn may have fewer values.
struct Element {
  Surroundings around;
  std::vector<Expr> inside = {};
};

Element element_at(Body& body, const Nest& nest, const std::vector<Digit>& digits, std::int64_t total,
    const Surroundings& around, const Expr& number, Names& names) {
  Element element{around};
  Expr rest = number;
  std::int64_t inner = total;
  for (const Digit& digit : digits) {
    inner = digit.count ? inner / digit.count : 0;
    const std::string name = names.fresh(nest.dims[digit.dim].name);
    const Expr index = quotient(rest, inner);
    rest = remainder(rest, inner);
    const auto limit = around.limits.find(digit.dim);
    const bool limited = limit != around.limits.end();
    body.push_back(
        stmt(Let{name, limited ? limit->second.lo + index * Expr(digit.step) : index * Expr(digit.step)}));
    if (limited && digit.ragged) element.inside.push_back(less(var(name), limit->second.hi));
    if (digit.step == 1)
      element.around.fixed.insert_or_assign(digit.dim, var(name));
    else if (limited)
      element.around.limits.insert_or_assign(
          digit.dim, Interval{var(name), minimum(var(name) + Expr(digit.step), limit->second.hi)});
    else
      element.around.limits.insert_or_assign(
          digit.dim, values_from(var(name), digit.step, nest.dims[digit.dim].extent));
  }
  return element;
}

}  // namespace

Body spell_over_threads(const Nest& nest, const Compute& leaf, const std::vector<Digit>& digits,
    const Surroundings& around, std::int64_t threads, Kind turns, Names& names,
    const std::function<Body(const Compute&, const Surroundings&)>& spell) {
  std::int64_t total = 1;
  for (const Digit& digit : digits) total = (poly::Exact(total) * digit.count).get();
  if (total == 0) return {};
  Compute one = leaf;
  one.outer.clear();
  one.n.clear();
  one.vectors = 1;
  if (leaf.rows == 1) one.set_m("");
  const auto at_element = [&](const Expr& number) {
    const std::string name = names.fresh("e");
    Body body{stmt(Let{name, number})};
    const Element element = element_at(body, nest, digits, total, around, var(name), names);
    Body all = spell(one, element.around);
    for (std::size_t at = element.inside.size(); at-- > 0;) all = {stmt(If{element.inside[at], std::move(all), {}})};
    append(body, std::move(all));
    return body;
  };
  const auto guarded = [&](const Expr& number) { return stmt(If{less(number, Expr(total)), at_element(number), {}}); };
  const std::string turn = names.fresh("turn"), thread = names.fresh("l");
  const std::int64_t span = threads * leaf.vectors;
  const Expr first = var(turn) * Expr(span), number = first + var(thread);
  Body elements;
  if (leaf.vectors > 1) {
    const std::string v = names.fresh("v");
    const Expr next = number + var(v) * Expr(threads);
    const auto all = [&](Body body) { return stmt(For{v, Kind::Unroll, Expr(leaf.vectors), {}, std::move(body)}); };
    elements.push_back(
        stmt(If{at_least(Expr(total), first + Expr(span)), {all(at_element(next))}, {all({guarded(next)})}}));
  } else {
    elements.push_back(guarded(number));
  }
  Stmt all = stmt(For{thread, Kind::Thread, Expr(threads), {}, std::move(elements)});
  return {stmt(For{turn, turns, Expr(ceil_divide(total, span)), {}, {std::move(all)}})};
}

}  // namespace tilec::codegen
