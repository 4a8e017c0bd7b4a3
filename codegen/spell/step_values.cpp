#include "codegen/spell/step_values.h"

#include <algorithm>

#include "codegen/scalar.h"

namespace tilec::codegen {

StepValues::StepValues(
    BlockPlace at, const Views& views, KnownValues known, std::optional<std::size_t> unrolled, Expr u)
    : at_(std::move(at)),
      l_(at_.leaf),
      views_(views),
      known_(std::move(known)),
      unrolled_(unrolled),
      u_(std::move(u)) {}

void StepValues::ask_rows(Body& body, EdgeValues& edges) {
  edges_ = &edges;
  const auto m = static_cast<std::size_t>(l_.m);
  for (std::int64_t i = 0; i < at_.tile.rows; ++i) {
    std::optional<Expr> all;
    const auto too = [&](const Expr& e) { all = all ? both(*all, e) : e; };
    if (at_.tile.end) too(less(at_.tile.m0 + Expr(i % l_.values_of_m(at_.tile.rows)), *at_.tile.end));
    for (const Row& row : l_.nest.rows) {
      if (!l_.moves_along_rows(row.form)) continue;
      Expr value = l_.points.known_part(row.form) + at_.tile.m0 * Expr(row.form.coefficients[m]) +
          Expr(at_.of_row(row.form, i));
      if (at_.in_n(row.form))
        value = value + (at_.tile.n0 + at_.lane()) * Expr(row.form.coefficients[static_cast<std::size_t>(l_.n)]);
      too(l_.points.holds(row, value));
    }
    inside_.push_back(edge(body, *all, [&] {
      const std::string name = l_.names.fresh("inside");
      return std::pair(Body{stmt(Let{name, *all})}, Expr(Variable{name, DType::Bool}));
    }));
  }
}

void StepValues::fold(Body& body, Body& added, const Accumulators& sums, std::int64_t i, std::int64_t v) {
  const std::int64_t slot = sums.slot(i, v);
  const poly::Expr& folded = l_.value();
  const auto* product = folded.as<poly::Apply>();
  if (l_.nest.aggregation == Aggregation::Sum && product && product->op == Op::Mul && lang::is_float(l_.type)) {
    const Expr a = value(body, product->operands[0], i, v), b = value(body, product->operands[1], i, v);
    return append(added, sums.add_product(slot, convert(a, l_.type), convert(b, l_.type)));
  }
  append(added, sums.add(slot, convert(value(body, folded, i, v), l_.type)));
}

Body StepValues::of_row(std::int64_t i, Body added) const {
  return {stmt(If{inside_[static_cast<std::size_t>(i)], std::move(added), {}})};
}

Expr StepValues::value(Body& body, const poly::Expr& e, std::int64_t i, std::int64_t v) {
  if (const auto* number = e.as<poly::Number>()) return constant_of(*number);
  if (const std::optional<bool> answer = l_.answer(e)) return Constant{DType::Bool, *answer, 0};
  const Depends d = depends(e);
  const void* node = e.match([](const auto& n) { return static_cast<const void*>(&n); });
  const auto key = std::make_tuple(node, d.m ? i : -1, d.n ? v : -1);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  Expr result = fresh_value(body, e, i, v);
  if (!result.as<Constant>() && !result.as<Variable>()) {
    const std::string name = l_.names.fresh("t");
    const DType type = result.type();
    body.push_back(stmt(Let{name, std::move(result)}));
    result = Variable{name, type};
  }
  known_.emplace(key, result);
  return result;
}

StepValues::Depends StepValues::depends(const poly::Expr& e) {
  const void* node = e.match([](const auto& n) { return static_cast<const void*>(&n); });
  if (const auto found = depends_.find(node); found != depends_.end()) return found->second;
  Depends d;
  e.match(
      [&](const poly::Read& r) {
        const Form& f = l_.nest.reads[static_cast<std::size_t>(r.read)].offset;
        d = {at_.in_m(f), at_.in_n(f)};
      },
      [&](const poly::Index& x) {
        const Form& f = l_.nest.form(x.value);
        d = {at_.in_m(f), at_.in_n(f)};
      },
      [&](const poly::Apply& a) {
        for (const poly::Expr& o : a.operands) {
          const Depends q = depends(o);
          d.m = d.m || q.m;
          d.n = d.n || q.n;
        }
      },
      [&](const poly::Cast& c) { d = depends(c.operand); }, [](const poly::Number&) {});
  depends_.emplace(node, d);
  return d;
}

Expr StepValues::fresh_value(Body& body, const poly::Expr& e, std::int64_t i, std::int64_t v) {
  return e.match([&](const poly::Number& n) { return constant_of(n); },
      [&](const poly::Read& r) {
        return convert(load(body, static_cast<std::size_t>(r.read), i, v), compute_type(r.type));
      },
      [&](const poly::Index& x) { return convert(at_.index_value(l_.nest.form(x.value), i, v), compute_type(x.type)); },
      [&](const poly::Cast& c) { return cast(value(body, c.operand, i, v), c.operand, c.type); },
      [&](const poly::Apply& a) {
        if (const std::optional<bool> met = a.op == Op::Select ? l_.answer(a.operands[0]) : std::nullopt)
          return value(body, a.operands[*met ? 1 : 2], i, v);
        if (a.op == Op::And && a.type == DType::Bool)  // of a conjunction, what is left to ask
          for (const std::size_t o : {0, 1})
            if (l_.answer(a.operands[o]) == true) return value(body, a.operands[1 - o], i, v);
        std::vector<Expr> operands;
        for (const poly::Expr& o : a.operands) operands.push_back(value(body, o, i, v));
        return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
      });
}

Expr StepValues::load(Body& body, std::size_t r, std::int64_t i, std::int64_t v) {
  const Form& f = l_.nest.reads[r].offset;
  const DType type = l_.storage.plan.program.tensor(l_.nest.reads[r].tensor).dtype;
  if (!at_.tile.guarded && at_.turns(f)) return Load{square(body, r, v), Expr(i), compute_type(type)};
  const Load plain{views_[r], unrolled(at_.inside_tile(f, i, v), f), type};
  if (loaded_ && is_const(plain.offset))
    if (const auto known = loaded_->find({plain.view, const_or(plain.offset, 0)}); known != loaded_->end())
      return known->second;
  if (at_.tile.border) return load_inside(body, f, plain, i, v);
  if (!at_.in_n(f) || !at_.masked(v)) return plain;
  auto [loads, value] = load_under(at_.mask(v), plain, compute_type(type));
  append(body, std::move(loads));
  return value;
}

Expr StepValues::unrolled(const Expr& offset, const Form& f) const {
  return unrolled_ ? offset + u_ * Expr(f.coefficients[*unrolled_]) : offset;
}

// Of a block at the border, where some row has this element.
Expr StepValues::load_inside(Body& body, const Form& f, const Load& plain, std::int64_t i, std::int64_t v) {
  Expr there = at_.in_m(f) ? inside_[static_cast<std::size_t>(i)] : inside_.front();
  if (!at_.in_m(f))
    for (const Expr& row : inside_)
      if (!(row == there)) there = Operation{Op::Or, {there, row}, DType::Bool};
  if (at_.in_n(f) && at_.masked(v)) there = both(there, at_.mask(v));
  const DType held = compute_type(plain.type);
  return edge(
      body, Operation{Op::Select, {there, plain, plain}, held}, [&] { return load_under(there, plain, held); });
}

std::pair<Body, Expr> StepValues::load_under(const Expr& there, const Load& plain, DType held) {
  const std::string name = l_.names.fresh("edge");
  return {Body{stmt(Allocate{name, held, 1, Memory::Register}),
              stmt(Store{name, Expr(std::int64_t{0}), Constant{held, 0, 0.0}}),
              stmt(If{there, {stmt(Store{name, Expr(std::int64_t{0}), convert(plain, held)})}, {}})},
      Load{name, Expr(std::int64_t{0}), held}};
}

// What blocks at the border have computed already.
Expr StepValues::edge(Body& body, const Expr& key, const std::function<std::pair<Body, Expr>()>& make) {
  if (const auto known = std::ranges::find(*edges_, key, &std::pair<Expr, Expr>::first); known != edges_->end())
    return known->second;
  auto [made, value] = make();
  append(body, std::move(made));
  edges_->emplace_back(key, value);
  return value;
}

// Vector v of all rows of read r: register i, once transposed or taken apart, is row i.
std::string StepValues::square(Body& body, std::size_t r, std::int64_t v) {
  const Form& f = l_.nest.reads[r].offset;
  const DType type = l_.storage.plan.program.tensor(l_.nest.reads[r].tensor).dtype, held = compute_type(type);
  const auto [known, fresh] = squares_.try_emplace({views_[r], v}, l_.names.fresh("square"));
  if (!fresh) return known->second;
  const bool whole = at_.strip(f);
  const std::int64_t vectors = whole ? at_.tile.rows : l_.compute.lanes;
  body.push_back(stmt(Allocate{known->second, held, vectors, Memory::Register}));
  for (std::int64_t l = 0; l < vectors; ++l) {
    const Expr offset = unrolled(whole ? at_.along_strip(v, l) : at_.along_m(f, v, l), f);
    const Store store{known->second, Expr(l), convert(Load{views_[r], offset, type}, held)};
    body.push_back(whole ? at_.of_strip(stmt(store), v, l) : at_.of_square(stmt(store), v, l));
  }
  body.push_back(whole ? stmt(Interleave{known->second, true}) : stmt(Transpose{known->second}));
  return known->second;
}

namespace {

// Whether e has one value while d and all dimensions without a value run.
bool steady(const SpelledLeaf& l, const poly::Expr& e, std::optional<std::size_t> d) {
  const auto known = [&](const Form& form) {
    for (std::size_t k = 0; k < form.coefficients.size(); ++k)
      if (form.coefficients[k] && (k == d || !l.points.at(k))) return false;
    return true;
  };
  return e.match([&](const poly::Read& r) { return known(l.nest.reads[static_cast<std::size_t>(r.read)].offset); },
      [&](const poly::Index& x) { return known(l.nest.form(x.value)); },
      [&](const poly::Apply& a) {
        return std::all_of(a.operands.begin(), a.operands.end(), [&](const poly::Expr& o) { return steady(l, o, d); });
      },
      [&](const poly::Cast& c) { return steady(l, c.operand, d); }, [](const poly::Number&) { return true; });
}

void hoist(Body& body, StepValues& values, const SpelledLeaf& l, const poly::Expr& e, std::optional<std::size_t> d) {
  if (e.as<poly::Apply>() && steady(l, e, d)) {
    values.value(body, e, 0, 0);
    return;
  }
  e.match(
      [&](const poly::Apply& a) {
        for (const poly::Expr& o : a.operands) hoist(body, values, l, o, d);
      },
      [&](const poly::Cast& c) { hoist(body, values, l, c.operand, d); }, [](const auto&) {});
}

}  // namespace

KnownValues hoisted(Body& body, const BlockPlace& at, const Views& views, std::optional<std::size_t> d) {
  StepValues values(BlockPlace{at.leaf}, views);       // which are the same for all rows and vectors
  hoist(body, values, at.leaf, at.leaf.value(), d);
  return values.known();
}

}  // namespace tilec::codegen
