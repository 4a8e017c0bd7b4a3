// What a thread of a pass computes at each of its elements: products, then tiles up to where the maximum is wanted; the
// maximum so far; then the tiles that wait for it, folds, and the factors of sums.
#include <algorithm>
#include <utility>

#include "codegen/model/thresholds.h"
#include "codegen/online_pass.h"
#include "codegen/rewrite.h"
#include "poly/intern.h"

namespace tilec::codegen {

std::optional<Expr> OnlinePass::is_point(std::size_t l, const Expr& row, const Expr& column, bool all) {
  const PassMember& m = members_[l];
  Ranges points = points_[l];
  points.fix(m.part.row, row), points.fix(m.part.over, column);
  std::optional<Expr> holds = points.fixed_rows();
  const auto too = [&](const Expr& e) { holds = holds ? both(*holds, e) : e; };
  if (rows_ % height_ || all) too(less(row, i64(rows_)));
  if (over_ % depth_ || all) too(less(column, i64(over_)));
  return holds;
}

std::optional<Expr> OnlinePass::whole_tile() {
  std::optional<Expr> all;
  const auto too = [&](const Expr& e) { all = all ? both(*all, e) : e; };
  if (rows_ % height_) too(less(i0_ + i64(height_ - 1), i64(rows_)));
  if (over_ % depth_) too(less(j0_ + i64(depth_ - 1), i64(over_)));
  for (std::size_t l = 0; l < members_.size(); ++l) {
    const PassMember& m = members_[l];
    for (const Row& row : m.nest.rows) {               // of products too: what reads one may have points it has not
      Ranges points = points_[l];
      const std::int64_t a = row.form.coefficients[m.part.over], c = row.form.coefficients[m.part.row];
      const auto at = [&](std::int64_t coefficient, const Expr& first, std::int64_t count, bool low) {
        return (coefficient > 0) == low ? first : first + i64(count - 1);
      };
      points.fix(m.part.row, at(c, i0_, height_, true)), points.fix(m.part.over, at(a, j0_, depth_, true));
      too(at_least(points.known_part(row.form), i64(0)));
      if (!row.extent) continue;
      points.fix(m.part.row, at(c, i0_, height_, false)), points.fix(m.part.over, at(a, j0_, depth_, false));
      too(less(points.known_part(row.form), i64(*row.extent)));
    }
  }
  return all;
}

Body OnlinePass::elements(bool again) {
  Body body;
  const std::optional<Expr> whole_condition = whole_tile();
  const std::optional<Expr> whole =
      whole_condition ? std::optional(let(body, "whole", *whole_condition)) : std::nullopt;
  append(body, each_row([&] { return elements_of_row(again, whole); }));
  return body;
}

Body OnlinePass::elements_of_row(bool again, const std::optional<Expr>& whole) {
  Body body;
  const auto both_ways = [&](const std::function<Body(bool)>& step) {
    if (!whole) return append(body, step(false));
    body.push_back(stmt(If{*whole, step(false), step(true)}));
  };
  if (maximum_) {
    Expr highest = Load{highest_, i64(slot_), type_};
    if (!again) {
      const std::string here = allocate(body, "here", 1, Memory::Register);
      body.push_back(stmt(Store{here, i64(0), lowest()}));
      if (!maximum_of_product_) hold(body);
      both_ways([&](bool asked) { return before_maximum(here, asked); });
      Expr found = highest_of(body, Load{here, i64(0), type_});
      if (maximum_of_product_) found = of_product(body, *maximum_of_product_, found);
      highest = grown(body, found);
    }
    maximum_now_ = let(body, "highest", highest);
  }
  both_ways([&](bool asked) { return with_maximum(again, asked); });
  held_.clear();
  return body;
}

Expr OnlinePass::grown(Body& body, const Expr& found) {
  const Expr so_far = let(body, "before", Load{highest_, i64(slot_), type_});
  const Expr highest = let(body, "now", Operation{Op::Max, {so_far, found}, type_});
  body.push_back(stmt(Store{highest_, i64(slot_), highest}));
  const auto shrinks = [&](const Expr& before, const Expr& now) {
    return Expr(Operation{Op::Exp, {Operation{Op::Sub, {before, now}, type_}}, type_});
  };
  Expr now = highest, scale = one();
  // As long as it is -inf, all that was added is 0 or no number.
  if (reference_.empty()) {
    scale = choose(Operation{Op::Or, {equal(so_far, now), equal(so_far, lowest())}, DType::Bool}, one(),
        shrinks(so_far, now));
  } else {
    // exp(d) has an error of d / 2^24, which the maximum's own term has as well.
    const double most = math_ == Math::F32 ? model::pass::most_growth / 2 : model::pass::most_growth;
    const Expr before = let(body, "reference", Load{reference_, i64(slot_), type_});
    const Expr grows = let(body, "grows",
        Operation{Op::Gt, {Operation{Op::Sub, {highest, before}, type_}, Constant{type_, 0, most}},
            DType::Bool});
    now = let(body, "now", choose(grows, highest, before));
    body.push_back(stmt(Store{reference_, i64(slot_), now}));
    scale = choose(grows, choose(equal(before, lowest()), one(), shrinks(before, now)), one());
  }
  append(body, put_scale_of(let(body, "grown", scale)));
  return choose(equal(now, lowest()), zero(), now);
}

Body OnlinePass::put_scale_of(const Expr& scale) {
  Body body = put_scale(scale);
  for (const PassMember& m : members_)
    if (m.part.role == OnlinePart::Fold && m.rescaled)
      body.push_back(stmt(
          Store{m.registers, i64(slot_), Operation{Op::Mul, {Load{m.registers, i64(slot_), type_}, scale}, type_}}));
  return body;
}

Body OnlinePass::settled() {
  if (reference_.empty()) return {};
  Body body = each_row([&] {
    Body one_row;
    const Expr before = Load{reference_, i64(slot_), type_}, now = Load{highest_, i64(slot_), type_};
    const Expr scale = choose(
        equal(before, now), one(), Operation{Op::Exp, {Operation{Op::Sub, {before, now}, type_}}, type_});
    append(one_row, put_scale_of(let(one_row, "grown", scale)));
    return one_row;
  });
  append(body, scale_sums());
  return body;
}

void OnlinePass::hold(Body& body) {
  held_.clear();
  for (std::size_t l = 0; l < members_.size(); ++l) {
    if (members_[l].part.role != OnlinePart::Tile || members_[l].follows) continue;
    held_.emplace(l, allocate(body, "held", each_, Memory::Register));
  }
}

Expr OnlinePass::rounded(const PassMember& m, const Expr& value) const {
  return convert(convert(convert(value, compute_type(m.dtype)), m.dtype), compute_type(m.dtype));
}

Expr OnlinePass::spelled_value(std::size_t l, const poly::Expr& e, Element& at, Known& known) {
  const PassMember& m = members_[l];
  Ranges& points = points_[l];
  points.fix(m.part.row, row_value_), points.fix(m.part.over, at.column);
  const auto read = [&](std::size_t r) -> Expr {
    const FlatAccess& access = m.nest.reads[r];
    const auto made = by_tensor_.find(access.tensor);
    if (made != by_tensor_.end() && !members_[made->second].known) {
      if (maximum_ && made->second == *maximum_) return known.maxima.emplace_back(maximum_now_);
      const Expr value = at.values.at(made->second);
      if (const auto own = scaled_.find(made->second); own != scaled_.end())
        if (const auto product = at.values.find(own->second.product); product != at.values.end())
          known.scaled.push_back({value, product->second, own->second.by});
      return value;
    }
    const auto ready = known_read(l, r, at, known);
    const Expr value = ready ? *ready
                             : Load{storage_.name(access.tensor), points.known_part(access.offset),
                                   storage_.plan.program.tensor(access.tensor).dtype};
    if (maxima_.contains(access.tensor)) known.maxima.push_back(value);
    return value;
  };
  const Expr result = spelled(m.nest, e, read, [&](const Form& f) { return points.known_part(f); });
  points.release(m.part.row), points.release(m.part.over);
  return result;
}

Expr OnlinePass::value(std::size_t l, const poly::Expr& e, Element& at) {
  Known known;
  const Expr result = spelled_value(l, e, at, known);
  return by_known(result, known);
}

std::optional<Expr> OnlinePass::conditions(std::size_t l, Element& at) {
  std::optional<Expr> all;
  for (const auto& [condition, holds] : members_[l].part.when) {
    const Expr own = value(l, condition, at), as_said = holds ? own : Expr(Operation{Op::Not, {own}, DType::Bool});
    all = all ? both(*all, as_said) : as_said;
  }
  return all;
}

Expr OnlinePass::where_not_0(std::size_t l, Element& at, const Expr& product) {
  const auto condition = conditions(l, at);
  return condition ? choose(*condition, product, zero()) : product;
}

Expr OnlinePass::scaled(std::size_t l, Element& at) {
  Expr product = product_at(members_[l], at);
  for (const poly::Expr& factor : members_[l].part.times)
    product = Operation{Op::Mul, {product, value(l, factor, at)}, type_};
  for (const poly::Expr& divisor : members_[l].part.divisors) {
    Known known;
    const Expr by = spelled_value(l, divisor, at, known);
    product = by_known(Operation{Op::Div, {product, by}, type_}, known);
  }
  return where_not_0(l, at, product);
}

Expr OnlinePass::product_value(Body& body, std::size_t l, Element& at) {
  const PassMember& m = members_[l];
  const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
  // what may not exist where there is no point
  const bool reads = !m.part.times.empty() || !m.part.divisors.empty() || !m.part.when.empty();
  const Expr fill = point && m.nest.fill ? convert(constant_of(*m.nest.fill), type_) : zero();
  if (point && reads) {
    const std::string name = allocate(body, "s", 1, Memory::Register);
    body.push_back(stmt(Store{name, i64(0), fill}));
    body.push_back(stmt(If{*point, {stmt(Store{name, i64(0), convert(rounded(m, scaled(l, at)), type_)})}, {}}));
    return let(body, "s", Load{name, i64(0), type_});
  }
  const Expr value = rounded(m, scaled(l, at));
  return let(body, "s",
      point && m.nest.fill && m.nest.rows.size() > 0 ? choose(*point, value, convert(fill, value.type())) : value);
}

Expr OnlinePass::tile_value(Body& body, std::size_t l, Element& at) {
  const PassMember& m = members_[l];
  const poly::Expr& wanted = m.late ? m.late->numerator : *m.nest.value;
  const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
  if (!point) return let(body, "t", rounded(m, value(l, wanted, at)));
  const std::string name = allocate(body, "t", 1, Memory::Register);
  body.push_back(stmt(Store{name, i64(0), convert(constant_of(*m.nest.fill), type_)}));
  Body there;
  const Expr own = let(there, "t", rounded(m, value(l, wanted, at)));
  there.push_back(stmt(Store{name, i64(0), convert(own, type_)}));
  body.push_back(stmt(If{*point, std::move(there), {}}));
  return let(body, "t", Load{name, i64(0), type_});
}

void OnlinePass::tiles(Body& body, Element& at, bool before, bool after) {
  for (std::size_t l = 0; l < members_.size(); ++l) {
    const PassMember& m = members_[l];
    if (m.part.role == OnlinePart::Product) {
      if (before || held_.empty() || wanted_behind(l)) at.values.insert_or_assign(l, product_value(body, l, at));
      continue;
    }
    if (m.part.role != OnlinePart::Tile) continue;
    if (m.follows ? !after : !before) {
      if (!m.follows) at.values.insert_or_assign(l, Load{held_.at(l), i64(at.x), type_});
      continue;
    }
    at.values.insert_or_assign(l, tile_value(body, l, at));
    if (const auto held = held_.find(l); held != held_.end())
      body.push_back(stmt(Store{held->second, i64(at.x), convert(at.values.at(l), type_)}));
  }
}

bool OnlinePass::wanted_behind(std::size_t product) const {
  return std::ranges::any_of(members_, [&](const PassMember& m) {
    if (m.part.role == OnlinePart::Product || is_maximum(m) || (m.part.role == OnlinePart::Tile && !m.follows))
      return false;
    return std::ranges::any_of(
        m.nest.reads, [&](const FlatAccess& read) { return read.tensor == members_[product].nest.target.tensor; });
  });
}

Body OnlinePass::each(const std::function<Body(Element&)>& f, bool asked) {
  Body body;
  const std::int64_t first = some_ ? some_->first : 0, count = some_ ? some_->count : each_;
  for (std::int64_t x = first; x < first + count; ++x) {
    Body one;
    Element at = element(one, x, asked);
    append(one, f(at));
    append(body, std::move(one));
  }
  return body;
}

Expr OnlinePass::of_product(Body& body, std::size_t tile, const Expr& product) {
  Element at{0, i64(0), j0_, false, {{scaled_.at(tile).product, product}}};
  return tile_value(body, tile, at);
}

void OnlinePass::fold(Body& body, std::size_t l, const std::string& to, std::int64_t slot, Element& at) {
  const PassMember& m = members_[l];
  const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
  Body one;
  const auto tile = extreme_of_product_.find(l);
  const Expr own = tile == extreme_of_product_.end() ? value(l, *m.nest.value, at)
                                                     : at.values.at(scaled_.at(tile->second).product);
  one.push_back(stmt(
      Store{to, i64(slot), combine(m.nest.aggregation, Load{to, i64(slot), type_of(m)}, convert(own, type_of(m)))}));
  if (point) body.push_back(stmt(If{*point, std::move(one), {}}));
  else append(body, std::move(one));
}

Body OnlinePass::before_maximum(const std::string& here, bool asked) {
  return each([&](Element& at) {
    Body body;
    if (maximum_of_product_) {
      const std::size_t product = scaled_.at(*maximum_of_product_).product;
      at.values.insert_or_assign(*maximum_of_product_, product_value(body, product, at));
    } else {
      tiles(body, at, true, false);
    }
    fold(body, *maximum_, here, 0, at);
    return body;
  }, asked);
}

Body OnlinePass::with_maximum(bool again, bool asked) {
  const bool all = !maximum_ || again || maximum_of_product_;
  return each([&](Element& at) {
    Body body;
    tiles(body, at, all, true);
    for (std::size_t l = 0; l < members_.size(); ++l)
      if (members_[l].part.role == OnlinePart::Fold && !is_maximum(members_[l]) && !members_[l].known)
        fold(body, l, members_[l].registers, slot_, at);
    std::vector<std::pair<std::size_t, Expr>> factors;  // all are read before one takes the place of a product
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const PassMember& m = members_[l];
      if (m.part.role != OnlinePart::Sum) continue;
      const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
      const std::string name = point ? allocate(body, "f", 1, Memory::Register) : std::string();
      Body there;
      const Expr own = let(there, "f", where_not_0(l, at, convert(value(l, factor_of_row(m), at), type_)));
      if (!point) {
        append(body, std::move(there));
        factors.emplace_back(l, own);
        continue;
      }
      there.push_back(stmt(Store{name, i64(0), own}));
      body.push_back(stmt(Store{name, i64(0), zero()}));
      body.push_back(stmt(If{*point, std::move(there), {}}));
      factors.emplace_back(l, Load{name, i64(0), type_});
    }
    for (const auto& [l, factor] : factors) append(body, put_factor(members_[l], at, factor));
    return body;
  }, asked);
}

}  // namespace tilec::codegen
