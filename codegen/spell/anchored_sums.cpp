#include "codegen/spell/anchored_sums.h"

#include "codegen/scalar.h"

namespace tilec::codegen {

using namespace doubles;

namespace {

double farthest() { return 0x1p100; }                  // weight of an element at its anchor
double least_kept() { return 0x1p-900; }               // smaller terms may lose digits before they have grown

}  // namespace

void AnchoredSums::go_on(Body& body, const DecayNames& p, std::int64_t v) {
  const auto all = [&](const std::string& view) { return d_.held(view, v, DType::F64); };
  for (std::size_t n = p.sums.size(); --n > 0;)
    add_exactly(body, p, n, v, {s_.named(body, "one", all(p.sums[n - 1])), s_.named(body, "rest", all(p.lost[n - 1]))});
  const Expr steps = s_.named(body, "steps", plus(all(p.steps), real(1)));
  hold(body, p.steps, v, steps);
  const auto weight = weight_at_anchor(body, p, v, steps);
  if (!weight) return;
  const Expr size = s_.named(body, "size", size_of(*weight));
  const Expr stays =
      s_.named(body, "stays", logical(Op::And, below(size, farthest()), logical(Op::Lt, real(1 / farthest()), size)));
  // Another anchor: this element.
  const auto moves = [&](const std::string& view, const Expr& to) {
    hold(body, view, v, chosen(stays, all(view), to));
  };
  for (const std::string& sum : p.sums) moves(sum, times(all(sum), *weight));
  for (const std::string& lost : p.lost) moves(lost, times(all(lost), *weight));
  moves(p.size, times(all(p.size), size));
  moves(p.moved, times(plus(all(p.moved), all(p.terms)), size));
  moves(p.terms, times(all(p.terms), size));
  const Expr terms = s_.named(body, "terms", all(p.terms));
  const Expr small = logical(Op::And, below(terms, least_kept()), logical(Op::Lt, real(0), terms));
  moves(p.growth, plus(times(all(p.growth), size), chosen(small, real(1), real(0))));
  for (std::size_t n = 0; n < p.anchors.size(); ++n)
    moves(p.anchors[n], s_.value(body, d_.decay.levels_here[n].value, v, 0));
  moves(p.steps, real(0));
  hold(body, p.weight, v, chosen(stays, *weight, real(1)));
}

void AnchoredSums::add(
    Body& body, const DecayNames& p, std::int64_t v, const Expr& x, const std::optional<Expr>& counts) {
  const auto all = [&](const std::string& view) { return d_.held(view, v, DType::F64); };
  const auto if_it_counts = [&](const Expr& e) { return counts ? chosen(*counts, e, real(0)) : e; };
  const auto w = exact_weight(body, v);
  const auto over = [&](const Expr& e, const Expr& by) {
    return w ? Expr(Operation{Op::Div, {e, by}, DType::F64}) : e;
  };
  const Expr term = s_.named(body, "term", if_it_counts(over(w ? times(*w, x) : x, all(p.weight))));
  add_exactly(body, p, 0, v, {term, real(0)});
  hold(body, p.terms, v, plus(all(p.terms), size_of(term)));
  const Expr size = plus(size_of(x), real(1)), weight = w ? size_of(*w) : real(1);
  hold(body, p.size, v, plus(all(p.size), if_it_counts(over(times(weight, size), size_of(all(p.weight))))));
  if (!w) return;
  const Expr least = Operation{Op::Min, {weight, size_of(times(*w, x))}, DType::F64};
  const Expr small = logical(Op::And, below(least, least_kept()), logical(Op::Lt, real(0), size_of(x)));
  hold(body, p.growth, v, plus(all(p.growth), if_it_counts(chosen(small, real(1), real(0)))));
}

AnchoredSums::Exact AnchoredSums::exact_sum(Body& body, const Expr& a, const Expr& b) {
  const Expr sum = s_.named(body, "high", plus(a, b)), other = s_.named(body, "other", minus(sum, a));
  return {sum, s_.named(body, "low", plus(minus(a, minus(sum, other)), minus(b, other)))};
}

AnchoredSums::Exact AnchoredSums::exact_product(Body& body, const Expr& a, const Expr& b) {
  const Expr product = s_.named(body, "high", times(a, b));
  return {product, s_.named(body, "low", Operation{Op::Fma, {a, b, negated(product)}, DType::F64})};
}

AnchoredSums::Exact AnchoredSums::exact_sum(Body& body, const std::optional<Exact>& a, const Exact& b) {
  if (!a) return b;
  const Exact sum = exact_sum(body, a->high, b.high);
  return {sum.high, s_.named(body, "low", plus(sum.low, plus(a->low, b.low)))};
}

AnchoredSums::Exact AnchoredSums::scaled(Body& body, const Level& level, std::int64_t v, Exact e) {
  if (level.times) {
    const Expr by = s_.value(body, *level.times, v, 0);
    const Exact product = exact_product(body, e.high, by);
    e = {product.high, plus(product.low, times(e.low, by))};
  }
  return level.minus ? Exact{negated(e.high), negated(e.low)} : e;
}

Expr AnchoredSums::exponential(Body& body, const Exact& e) {
  const Expr high = s_.named(body, "power", Operation{Op::Exp, {e.high}, DType::F64});
  return plus(high, times(high, e.low));
}

std::optional<Expr> AnchoredSums::weight_at_anchor(Body& body, const DecayNames& p, std::int64_t v, const Expr& steps) {
  std::optional<Exact> exponent;
  for (std::size_t n = 0; n < p.anchors.size(); ++n) {
    const Level& level = d_.decay.levels_here[n];
    const Exact moved =
        exact_sum(body, s_.value(body, level.value, v, 0), negated(d_.held(p.anchors[n], v, DType::F64)));
    exponent = exact_sum(body, exponent, scaled(body, level, v, moved));
  }
  for (const Rate& rate : d_.decay.rates)
    exponent = exact_sum(body, exponent,
        exact_product(body, s_.value(body, rate.rate, v, 0), times(real(d_.line(rate.length).slope), steps)));
  std::optional<Expr> weight;
  if (exponent) weight = exponential(body, *exponent);
  for (const Power& power : d_.decay.powers) {
    const Expr one = Operation{
        Op::Pow, {s_.value(body, power.base, v, 0), times(real(d_.line(power.exponent).slope), steps)}, DType::F64};
    weight = weight ? times(*weight, one) : one;
  }
  return weight ? std::optional<Expr>(s_.named(body, "at_anchor", *weight)) : std::nullopt;
}

std::optional<Expr> AnchoredSums::exact_weight(Body& body, std::int64_t v) {
  std::optional<Exact> exponent;
  for (const auto* levels : {&d_.decay.levels_here, &d_.decay.levels_there})
    for (const Level& level : *levels)
      exponent = exact_sum(body, exponent, scaled(body, level, v, {s_.value(body, level.value, v, 0), real(0)}));
  for (const Rate& rate : d_.decay.rates)
    exponent = exact_sum(body, exponent, {s_.value(body, rate.exponent, v, 0), real(0)});
  std::optional<Expr> weight;
  if (exponent) weight = exponential(body, *exponent);
  for (const Power& power : d_.decay.powers)
    weight = weight ? times(*weight, s_.value(body, power.weight, v, 0)) : s_.value(body, power.weight, v, 0);
  return weight ? std::optional<Expr>(s_.named(body, "weight", *weight)) : std::nullopt;
}

void AnchoredSums::add_exactly(Body& body, const DecayNames& p, std::size_t n, std::int64_t v, const Exact& x) {
  const Exact sum = exact_sum(body, d_.held(p.sums[n], v, DType::F64), x.high);
  hold(body, p.sums[n], v, sum.high);
  hold(body, p.lost[n], v, plus(d_.held(p.lost[n], v, DType::F64), plus(sum.low, x.low)));
}

}  // namespace tilec::codegen
