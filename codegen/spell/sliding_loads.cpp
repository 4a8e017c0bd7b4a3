#include "codegen/spell/sliding_loads.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

// Where the step's rows and inner steps read, from the view on.
std::set<std::int64_t> offsets_of(
    const BlockPlace& at, const Form& read, const Inside& inside, const SlidingLoads::Has& has) {
  std::set<std::int64_t> offsets;
  for (std::int64_t i = 0; i < at.tile.rows; ++i)
    for (std::int64_t u = 0; u < inside.count(); ++u)
      if (has(i, u))
        offsets.insert(
            (at.in_m(read) ? at.of_row(read, i) : 0) + (inside.dim ? u * read.coefficients[*inside.dim] : 0));
  return offsets;
}

// Those that are few steps apart, with what lies between them.
std::vector<std::vector<std::int64_t>> chains_of(const std::set<std::int64_t>& offsets, std::int64_t step) {
  std::vector<std::vector<std::int64_t>> chains;
  std::map<std::int64_t, std::size_t> last;            // chain of each remainder
  const std::int64_t apart = std::abs(step);
  for (const std::int64_t offset : offsets) {
    const std::int64_t rest = (offset % apart + apart) % apart;
    const auto known = last.find(rest);
    if (known == last.end() || offset - chains[known->second].back() > model::threads::most_dilated * apart) {
      last[rest] = chains.size();
      chains.push_back({offset});
      continue;
    }
    std::vector<std::int64_t>& chain = chains[known->second];
    while (chain.back() < offset) chain.push_back(chain.back() + apart);
  }
  if (step < 0)
    for (auto& chain : chains) std::ranges::reverse(chain);
  return chains;
}

}  // namespace

std::optional<SlidingLoads> SlidingLoads::of(
    const BlockPlace& at, std::size_t d, const Inside& inside, const Has& has) {
  SpelledLeaf& l = at.leaf;
  if (!l.around.threads || at.tile.blocked_n || at.tile.border || at.tile.guarded || !l.conditions.empty())
    return std::nullopt;
  SlidingLoads made(l, d, inside);
  std::size_t registers = 0;
  for (std::size_t r = 0; r < l.nest.reads.size(); ++r) {
    const Form& read = l.nest.reads[r].offset;
    if (!read.coefficients[d]) continue;
    for (auto& chain : chains_of(offsets_of(at, read, inside, has), read.coefficients[d])) {
      made.steps_ = std::max(made.steps_, static_cast<std::int64_t>(chain.size()));
      registers += chain.size();
      made.chains_.push_back({r, std::move(chain)});
    }
  }
  if (made.steps_ < 2 || registers > static_cast<std::size_t>(model::threads::most_loaded)) return std::nullopt;
  return made;
}

Expr SlidingLoads::value(Body& body, const Chain& chain, std::int64_t offset) const {
  const DType type = l_.storage.plan.program.tensor(l_.nest.reads[chain.read].tensor).dtype;
  const std::string name = l_.names.fresh("t");
  const Expr loaded = convert(Load{views_[chain.read], Expr(offset), type}, compute_type(type));
  body.push_back(stmt(Let{name, loaded}));
  return Variable{name, loaded.type()};
}

Body SlidingLoads::begin(const Views& views) {
  Body body;
  views_ = views;
  for (const Chain& chain : chains_) {
    registers_.push_back("");
    if (chain.offsets.size() < 2) continue;
    registers_.back() = l_.names.fresh("held");
    const DType held = compute_type(l_.storage.plan.program.tensor(l_.nest.reads[chain.read].tensor).dtype);
    body.push_back(stmt(
        Allocate{registers_.back(), held, static_cast<std::int64_t>(chain.offsets.size()) - 1, Memory::Register}));
    for (std::size_t k = 0; k + 1 < chain.offsets.size(); ++k)
      body.push_back(stmt(Store{registers_.back(), Expr(static_cast<std::int64_t>(k)),
          value(body, chain, chain.offsets[k])}));
  }
  return body;
}

Body SlidingLoads::loads() {
  Body body;
  loads_.resize(chains_.size());
  for (std::int64_t u = 0; u < steps_; ++u)
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      const std::int64_t moved = u * l_.nest.reads[chains_[c].read].offset.coefficients[d_];
      loads_[c].push_back(value(body, chains_[c], chains_[c].offsets.back() + moved));
    }
  return body;
}

void SlidingLoads::step(std::int64_t u) {
  LoadedValues now;
  for (std::size_t c = 0; c < chains_.size(); ++c) {
    const Chain& chain = chains_[c];
    const DType held = compute_type(l_.storage.plan.program.tensor(l_.nest.reads[chain.read].tensor).dtype);
    const auto key = [&](std::size_t k) { return std::pair(views_[chain.read], chain.offsets[k]); };
    for (std::size_t k = 0; k + 1 < chain.offsets.size(); ++k)
      now.emplace(
          key(k), u ? values_.at(key(k + 1)) : Expr(Load{registers_[c], Expr(static_cast<std::int64_t>(k)), held}));
    now.emplace(key(chain.offsets.size() - 1), loads_[c][static_cast<std::size_t>(u)]);
  }
  values_ = std::move(now);
}

Body SlidingLoads::end() const {
  Body body;
  for (std::size_t c = 0; c < chains_.size(); ++c)
    for (std::size_t k = 0; k + 1 < chains_[c].offsets.size(); ++k)
      body.push_back(stmt(Store{registers_[c], Expr(static_cast<std::int64_t>(k)),
          values_.at({views_[chains_[c].read], chains_[c].offsets[k + 1]})}));
  return body;
}

namespace {

Body turns_of_steps(
    const BlockPlace& at, SlidingLoads& slides, const SlidingStep& step, const Expr& lo, const Expr& turns) {
  SpelledLeaf& l = at.leaf;
  const Inside& inside = slides.inside();
  const std::string turn = l.names.fresh(l.nest.dims[slides.dim()].name + "_t");
  const auto at_inner = [&](std::int64_t v, const std::function<Body()>& body) {
    return inside.dim ? l.with(*inside.dim, inside.values.lo + Expr(v), body) : body();
  };
  Body body, steps;
  Views views;
  at_inner(0, [&] { return views = views_of(body, at), Body(); });
  append(body, slides.begin(views));
  append(steps, slides.loads());
  for (std::int64_t u = 0; u < slides.steps(); ++u) {
    slides.step(u);
    append(steps, l.with(slides.dim(), lo + var(turn) * Expr(slides.steps()) + Expr(u), [&] {
      Body all;
      for (std::int64_t v = 0; v < inside.count(); ++v)
        append(all, at_inner(v, [&] { return step(views, slides.values(), v); }));
      return all;
    }));
  }
  append(steps, slides.end());
  body.push_back(stmt(
      For{turn, Kind::Serial, turns, advance(at, views, slides.dim(), slides.steps()), std::move(steps)}));
  return body;
}

}  // namespace

Body spell_sliding(
    const BlockPlace& at, SlidingLoads slides, const SlidingStep& step, const std::function<Body()>& rest) {
  SpelledLeaf& l = at.leaf;
  const Interval range = l.points.bounds(slides.dim());
  const std::string& stem = l.nest.dims[slides.dim()].name;
  const Expr zero(std::int64_t{0});
  Body body;
  const Expr lo = named(l.names, body, stem + "_lo", range.lo), count = maximum(zero, range.hi - lo),
             turns = named(l.names, body, stem + "_n", floor_divide(count, slides.steps()));
  Body loop = l.with(slides.dim(), lo, [&] { return turns_of_steps(at, slides, step, lo, turns); });
  append(body, where(less(zero, turns), std::move(loop)));
  if (is_const(count) && const_or(count, 0) % slides.steps() == 0) return body;
  append(body, l.within(slides.dim(), {lo + turns * Expr(slides.steps()), range.hi}, rest));
  return body;
}

}  // namespace tilec::codegen
