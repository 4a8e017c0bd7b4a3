#include "codegen/spell/side_by_side.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "codegen/model/side_by_side.h"
#include "codegen/scalar.h"
#include "codegen/spell/step_values.h"

namespace tilec::codegen {

namespace {

// A step: how far it lies behind the first one along each dimension, and what its rows have.
struct Step {
  std::vector<std::int64_t> behind;
  std::vector<Expr> has = {};                          // of each row at the border, whether it has a point
  LoadedValues loaded = {};
};

DType type_of(const SpelledLeaf& l, std::size_t read) {
  return l.storage.plan.program.tensor(l.nest.reads[read].tensor).dtype;
}

std::int64_t extent_of(const SpelledLeaf& l, std::size_t d) {
  const Interval range = l.points.bounds(d);
  return is_const(range.lo) && is_const(range.hi) ? const_or(range.hi, 0) - const_or(range.lo, 0) : 0;
}

// The largest part that is as long as an access or a few steps, and divides all.
std::int64_t part_of(std::int64_t count, std::int64_t width) {
  const std::int64_t most = std::max(width, model::side_by_side::steps_of_part);
  std::int64_t best = 1;
  for (std::int64_t part = 1; part <= std::min(most, count); ++part)
    if (count % part == 0 && (part % width == 0 || best % width != 0)) best = part;
  return best;
}

class Spelled {
 public:
  Spelled(const BlockPlace& at, const SideBySide& steps, const Accumulators& sums)
      : at_(at), l_(at.leaf), steps_(steps), sums_(sums) {}

  // All steps of a part, from where the dimensions stand.
  Body spell(const std::vector<Expr>& first) {
    Body body;
    views_ = views_of(body, at_);
    std::vector<Step> all = each_step();
    if (at_.tile.border)
      for (Step& step : all)
        in_step(first, step, [&] {
          StepValues values(at_, views_);
          values.ask_rows(body, edges_);
          step.has = values.rows_asked();
          return Body();
        });
    for (const Step& step : all) for (std::size_t r = 0; r < views_.size(); ++r) note(step, r);
    for (Step& step : all) {
      for (std::size_t r = 0; r < views_.size(); ++r) load(body, step, r);
      append(body, in_step(first, step, [&] { return fold(step); }));
    }
    return body;
  }

 private:
  // Elements that one access brings, from `first` on: their values, and which rows ask for them.
  struct Group { std::vector<Expr> values = {}, asked = {}; };

  std::vector<Step> each_step() const {
    std::vector<Step> all{{{}}};
    for (std::size_t k = 0; k < steps_.dims.size(); ++k) {
      const bool last = k + 1 == steps_.dims.size();
      const std::int64_t count = last ? steps_.part : extent_of(l_, steps_.dims[k]);
      std::vector<Step> longer;
      for (const Step& step : all)
        for (std::int64_t u = 0; u < count; ++u) longer.push_back(step), longer.back().behind.push_back(u);
      all = std::move(longer);
    }
    return all;
  }

  Body in_step(const std::vector<Expr>& first, const Step& step, const std::function<Body()>& inside,
      std::size_t k = 0) {
    if (k == steps_.dims.size()) return inside();
    return l_.with(
        steps_.dims[k], first[k] + Expr(step.behind[k]), [&] { return in_step(first, step, inside, k + 1); });
  }

  // Where row i of the step reads, from the view on; where its access begins.
  struct Place { std::int64_t element, access; };
  Place place(const Step& step, std::size_t r, std::int64_t i) const {
    const Form& f = l_.nest.reads[r].offset;
    std::int64_t at = at_.in_m(f) ? at_.of_row(f, i) : 0;
    for (std::size_t k = 0; k < steps_.dims.size(); ++k) at += step.behind[k] * f.coefficients[steps_.dims[k]];
    const auto along = neighbours_in_rows(at_, l_.nest.reads[r], steps_.dims.back(), steps_.part).along;
    if (!along || steps_.widths[r] == 1) return {at, at};
    std::int64_t value = *along == steps_.dims.back() ? step.behind.back() : 0;
    for (const auto& [d, of] : l_.values_of_row(i, at_.tile.rows)) if (d == *along) value = of;
    return {at, at - value % steps_.widths[r]};
  }

  void note(const Step& step, std::size_t r) {
    for (std::int64_t i = 0; i < at_.tile.rows; ++i) {
      Group& group = groups_[{views_[r], place(step, r, i).access}];
      if (step.has.empty()) continue;
      const Expr& asked = step.has[static_cast<std::size_t>(i)];
      if (std::ranges::find(group.asked, asked) == group.asked.end()) group.asked.push_back(asked);
    }
  }

  void load(Body& body, Step& step, std::size_t r) {
    const Form& f = l_.nest.reads[r].offset;
    for (std::int64_t i = 0; i < at_.tile.rows; ++i) {
      const Place at = place(step, r, i);
      Group& group = groups_[{views_[r], at.access}];
      if (group.values.empty()) group.values = loaded(body, r, at.access, group.asked);
      step.loaded.emplace(std::pair(views_[r], at_.in_m(f) ? at_.of_row(f, i) : 0),
          group.values[static_cast<std::size_t>(at.element - at.access)]);
      if (!at_.in_m(f)) break;
    }
  }

  std::vector<Expr> loaded(Body& body, std::size_t r, std::int64_t offset, const std::vector<Expr>& asked) const {
    const DType type = type_of(l_, r), held = compute_type(type);
    const std::int64_t width = steps_.widths[r];
    const std::string view = l_.names.fresh("p");
    Body loads{stmt(View{view, views_[r], Expr(offset), width > 1 ? width * lang::bytes(type) : 0})};
    std::vector<Expr> values;
    const std::string edge = asked.empty() ? "" : l_.names.fresh("edge");
    if (!asked.empty()) body.push_back(stmt(Allocate{edge, held, width, Memory::Register}));
    for (std::int64_t u = 0; u < width; ++u) {
      const Expr value = convert(Load{view, Expr(u), type}, held);
      if (asked.empty()) {
        const std::string name = l_.names.fresh("t");
        loads.push_back(stmt(Let{name, value}));
        values.push_back(Variable{name, held});
      } else {
        body.push_back(stmt(Store{edge, Expr(u), Constant{held, 0, 0.0}}));
        loads.push_back(stmt(Store{edge, Expr(u), value}));
        values.push_back(Load{edge, Expr(u), held});
      }
    }
    if (asked.empty()) append(body, std::move(loads));
    else body.push_back(stmt(If{any(asked), std::move(loads), {}}));
    return values;
  }

  static Expr any(const std::vector<Expr>& asked) {
    Expr some = asked.front();
    for (std::size_t a = 1; a < asked.size(); ++a) some = Operation{Op::Or, {some, asked[a]}, DType::Bool};
    return some;
  }

  // Rows that have the same question stand under it together.
  Body fold(const Step& step) {
    StepValues values(at_, views_);
    values.use(step.loaded);
    Body body;
    std::vector<std::pair<Expr, Body>> asked;
    for (std::int64_t i = 0; i < at_.tile.rows; ++i) {
      if (step.has.empty()) {
        values.fold(body, body, sums_, i, 0);
        continue;
      }
      const Expr& has = step.has[static_cast<std::size_t>(i)];
      auto known = std::ranges::find(asked, has, &std::pair<Expr, Body>::first);
      if (known == asked.end()) known = asked.insert(asked.end(), {has, {}});
      StepValues own(at_, views_);                     // what is computed here is known nowhere else
      own.use(step.loaded);
      own.fold(known->second, known->second, sums_, i, 0);
    }
    for (auto& [has, added] : asked) body.push_back(stmt(If{has, std::move(added), {}}));
    return body;
  }

  const BlockPlace& at_;
  SpelledLeaf& l_;
  const SideBySide& steps_;
  const Accumulators& sums_;
  Views views_ = {};
  EdgeValues edges_ = {};
  std::map<std::pair<std::string, std::int64_t>, Group> groups_ = {};  // by view and offset
};

// Whether memory begins where all accesses may be wide.
std::optional<Expr> may_be_wide(Body& body, const SpelledLeaf& l, const std::vector<std::int64_t>& of) {
  std::map<TensorId, std::int64_t> widths;
  for (std::size_t r = 0; r < of.size(); ++r) {
    std::int64_t& widest = widths[l.nest.reads[r].tensor];
    widest = std::max(widest, of[r]);
  }
  std::optional<Expr> all;
  for (const auto& [tensor, width] : widths) {
    if (width < 2) continue;
    const Expr one = aligned(l.storage, l.names, body, tensor, width);
    all = all ? both(*all, one) : one;
  }
  return all;
}

}  // namespace

Neighbours neighbours_in_rows(
    const BlockPlace& at, const FlatAccess& access, std::optional<std::size_t> last, std::int64_t part) {
  const SpelledLeaf& l = at.leaf;
  Neighbours best;
  const auto weigh = [&](std::size_t d, std::int64_t values) {
    std::int64_t width = neighbours_of(l.storage, access, d, model::side_by_side::most_neighbours);
    while (width > 1 && values % width) width /= 2;
    if (width > best.width) best = {d, width};
  };
  for (const std::size_t d : l.outside) weigh(d, l.nest.dims[d].extent);
  if (last) {
    const std::int64_t first = const_or(l.points.bounds(*last).lo, 0);
    weigh(*last, first % part ? 1 : part);
  }
  return best;
}

std::optional<SideBySide> side_by_side(const BlockPlace& at, std::size_t level) {
  const SpelledLeaf& l = at.leaf;
  if (!l.has_part_of_m() || !l.around.threads || level >= l.k.size() || at.tile.blocked_n || at.tile.guarded ||
      at.tile.staggered || at.tile.valid || !l.conditions.empty() || l.flag)
    return std::nullopt;
  for (std::size_t r = 0; r < l.nest.reads.size(); ++r)
    if (l.around.base.contains(r) || l.around.views.contains(r) || l.around.held.contains(r)) return std::nullopt;
  SideBySide made{{l.k.begin() + static_cast<std::ptrdiff_t>(level), l.k.end()}};
  std::int64_t count = at.tile.rows;
  for (const std::size_t d : made.dims) {
    const std::int64_t extent = extent_of(l, d);
    if (extent < 1) return std::nullopt;
    if (d != made.dims.back()) count *= extent;
  }
  const std::size_t last = made.dims.back();
  const std::int64_t extent = extent_of(l, last);
  std::int64_t widest = 1;
  for (const FlatAccess& read : l.nest.reads)
    if (read.offset.coefficients[last] == 1)
      widest = std::max(widest, neighbours_in_rows(at, read, last, extent).width);
  made.part = part_of(extent, widest);
  if (count * made.part > model::side_by_side::most_folds) return std::nullopt;
  for (const FlatAccess& read : l.nest.reads)
    made.widths.push_back(neighbours_in_rows(at, read, last, made.part).width);
  return made;
}

Body spell_side_by_side(
    const BlockPlace& at, const SideBySide& steps, const Accumulators& sums, const std::function<Body()>& plainly) {
  SpelledLeaf& l = at.leaf;
  std::vector<Expr> first;
  for (const std::size_t d : steps.dims) first.push_back(l.points.bounds(d).lo);
  const std::size_t last = steps.dims.back();
  const std::int64_t parts = extent_of(l, last) / steps.part;
  Body body;
  const std::optional<Expr> may = may_be_wide(body, l, steps.widths);
  Body wide = serial(l.names, l.nest.dims[last].name + "_w", {Expr(std::int64_t{0}), Expr(parts)}, [&](const Expr& turn) {
    std::vector<Expr> here = first;
    here.back() = here.back() + turn * Expr(steps.part);
    const std::function<Body(std::size_t)> at_first = [&](std::size_t k) -> Body {
      if (k < steps.dims.size()) return l.with(steps.dims[k], here[k], [&] { return at_first(k + 1); });
      return Spelled(at, steps, sums).spell(here);
    };
    return at_first(0);
  });
  if (may) body.push_back(stmt(If{*may, std::move(wide), plainly()}));
  else append(body, std::move(wide));
  return body;
}

}  // namespace tilec::codegen
