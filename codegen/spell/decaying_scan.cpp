#include "codegen/spell/decaying_scan.h"

#include <utility>

#include "codegen/scalar.h"
#include "codegen/spell/anchored_sums.h"
#include "codegen/spell/decay_state.h"
#include "codegen/spell/products_between.h"
#include "codegen/spell/steps_ahead.h"

namespace tilec::codegen {

namespace {

using namespace doubles;

// Notes whether a value goes on as it went so far. `also`: what counts as going on.
void follow(const DecayState& d, Body& body, const DecayNames& p, std::int64_t v, const Expr& now, const Expr& before,
    const std::optional<Expr>& also) {
  const auto follows = [&](const std::string& view, Op op) {
    const Expr zero = Constant{DType::I32, 0, 0}, goes_on = logical(op, now, before);
    hold(body, view, v,
        chosen(also ? logical(Op::Or, goes_on, *also) : goes_on, d.held(view, v, DType::I32), zero));
  };
  follows(p.rises, Op::Ge);
  follows(p.falls, Op::Le);
}

// Each term is weighed by how far the value has risen since: in a step that weight grows by the step's rise, so the sum
// grows by that times the sum of the terms.
void rise_on(ScanTile& s, const DecayState& d, Body& body, const DecayNames& p, std::int64_t v) {
  const Expr now = s.named(body, "now", s.value(body, d.decay.rise->here, v, 0)),
             before = s.named(body, "before", d.held(p.rise, v, DType::F64));
  const Expr more = times(minus(now, before), d.held(p.sums[0], v, DType::F64));
  hold(body, p.sums[1], v, plus(d.held(p.sums[1], v, DType::F64), more));
  follow(d, body, p, v, now, before, std::nullopt);
  hold(body, p.rise, v, now);
}

// Terms count while a value stays equal: where it is not what it was an element before, the sums begin at 0.
void runs_on(ScanTile& s, const DecayState& d, Body& body, const DecayNames& p, std::int64_t v) {
  const DType type = d.decay.type;
  for (std::size_t r = 0; r < p.runs.size(); ++r) {
    const Expr now = s.value(body, d.decay.runs[r].here, v, 0),
               before = s.named(body, "before", d.held(p.runs[r], v, now.type()));
    const Expr same = s.named(body, "same", logical(Op::Eq, now, before));
    if (d.decay.runs[r].must) {
      d.demand(body, p, v, same);
      hold(body, p.runs[r], v, now);
      continue;
    }
    for (const std::string& sum : p.sums) hold(body, sum, v, chosen(same, d.held(sum, v, type), d.ignored()));
    if (d.bounded()) hold(body, p.size, v, chosen(same, d.held(p.size, v, DType::F64), real(0)));
    for (const std::string& lost : p.lost) hold(body, lost, v, chosen(same, d.held(lost, v, DType::F64), real(0)));
    if (d.anchored())
      for (const std::string& view : {p.terms, p.moved})
        hold(body, view, v, chosen(same, d.held(view, v, DType::F64), real(0)));
    // NaN is equal to nothing, and what follows it is NaN
    const Expr none = lang::is_float(now.type()) ? Expr(Operation{Op::IsNan, {now}, DType::Bool})
                                                 : Expr(Constant{DType::Bool, 0, 0});
    follow(d, body, p, v, now, before, none);
    hold(body, p.runs[r], v, now);
  }
}

// What an element's weights are of those of the one before.
std::optional<Expr> weight_step(ScanTile& s, const DecayState& d, Body& body, const DecayNames& p, std::int64_t v) {
  std::optional<Expr> exponent, step;
  if (d.decay.here) {
    const Expr now = s.value(body, *d.decay.here, v, 0);
    // before what it compares with is another
    exponent = s.named(body, "moved", Operation{Op::Sub, {now, d.held(p.exponent, v, DType::F64)}, DType::F64});
    hold(body, p.exponent, v, now);
  }
  for (const Rate& rate : d.decay.rates) {
    const Expr moved = times(real(d.line(rate.length).slope), s.value(body, rate.rate, v, 0));
    exponent = exponent ? plus(*exponent, moved) : moved;
  }
  if (exponent) step = Operation{Op::Exp, {*exponent}, DType::F64};
  for (const Power& power : d.decay.powers) {
    const Expr base = s.value(body, power.base, v, 0);
    const double slope = d.line(power.exponent).slope;
    const Expr one = slope == 1 ? base : Expr(Operation{Op::Pow, {base, real(slope)}, DType::F64});
    step = step ? times(*step, one) : one;
  }
  if (const auto gates = step_of_gates(d, body, p, v)) step = step ? times(*step, *gates) : *gates;
  return step ? std::optional<Expr>(s.named(body, "step", *step)) : std::nullopt;
}

// The weight of one value, where its runs are equal.
std::optional<Expr> weight_of_value(ScanTile& s, const DecayState& d, Body& body, std::int64_t v) {
  std::optional<Expr> exponent;
  for (const auto& part : {d.decay.here, d.decay.there})
    if (part) exponent = exponent ? plus(*exponent, s.value(body, *part, v, 0)) : s.value(body, *part, v, 0);
  for (const Rate& rate : d.decay.rates)
    exponent = exponent ? plus(*exponent, s.value(body, rate.exponent, v, 0)) : s.value(body, rate.exponent, v, 0);
  std::optional<Expr> weight;
  if (exponent) weight = Operation{Op::Exp, {*exponent}, DType::F64};
  for (const Power& power : d.decay.powers)
    weight = weight ? times(*weight, s.value(body, power.weight, v, 0)) : s.value(body, power.weight, v, 0);
  if (const auto gates = weight_of_gates(d, body, v)) weight = weight ? times(*weight, *gates) : *gates;
  return weight ? std::optional<Expr>(s.named(body, "weight", *weight)) : std::nullopt;
}

// Scans with something out of bounds once more, each element by its definition.
Body mended(ScanTile& s, const DecayState& d, const DecayNames& p, const ScanParts& parts_here) {
  Body body, again;
  if (!d.bounded() && p.runs.empty()) return {};
  ProductsBetween products(s, d);
  append(body, products.allocate());
  const Expr none = Constant{DType::I32, 0, 0};
  Expr some = d.held(p.wrong, 0, DType::I32);
  for (std::int64_t v = 1; v < s.vectors; ++v)
    some = Operation{Op::Max, {some, d.held(p.wrong, v, DType::I32)}, DType::I32};
  if (!s.lane_name.empty()) {
    const std::string any = s.names.fresh("any");
    body.push_back(stmt(Fold{any, Aggregation::Max, some, s.lane_name}));
    some = Variable{any, DType::I32};
  }
  again = serial(s.names, s.nest.dims[s.along].name, {parts_here.first, parts_here.j.hi}, [&](const Expr& j) {
    Body turn;
    s.points.fix(s.along, j);
    s.view_of_target(turn);
    for (std::int64_t v = 0; v < s.vectors; ++v) hold(turn, p.sums[0], v, d.ignored());
    append(turn, products.begin(j));
    const Interval values{parts_here.k.lo, s.end_at(j, parts_here)};
    append(turn, products.each(j, values, [&](Body& inside, std::int64_t v) {
      const Expr x = convert(convert(s.value(inside, *s.nest.value, v, 0), s.fold_type), d.decay.type);
      hold(inside, p.sums[0], v, d.combined(d.held(p.sums[0], v, d.decay.type), x));
    }));
    for (std::int64_t v = 0; v < s.vectors; ++v)
      append(turn, s.masked_turn(v, [&](Body& inside, std::int64_t) {
        Body stores;
        s.put(stores, v, 0, s.stored_value(convert(d.held(p.sums[0], v, d.decay.type), s.fold_type)));
        inside.push_back(stmt(If{logical(Op::Gt, d.held(p.wrong, v, DType::I32), none), std::move(stores), {}}));
      }));
    s.points.release(s.along);
    return turn;
  });
  body.push_back(stmt(If{logical(Op::Gt, some, none), std::move(again), {}}));
  return body;
}

class DecayingScan {
 public:
  explicit DecayingScan(ScanTile& tile) : s_(tile), d_(tile), anchored_(d_) {}

  Body spell() {
    DecayNames p;
    Body body;
    const auto allocated = [&](const char* stem, DType type, const Expr& start) {
      const std::string name = s_.names.fresh(stem);
      body.push_back(stmt(Allocate{name, type, s_.vectors, Memory::Register}));
      for (std::int64_t v = 0; v < s_.vectors; ++v) hold(body, name, v, start);
      return name;
    };
    const auto allocate = [&](const char* stem, DType type, double start) {
      return allocated(stem, type, Constant{type, static_cast<std::int64_t>(start), start});
    };
    for (std::size_t n = 0; n < d_.binomials.size(); ++n)
      p.sums.push_back(allocated("sum", d_.decay.type, d_.ignored()));
    if (d_.anchored()) {
      for (std::size_t n = 0; n < d_.binomials.size(); ++n) p.lost.push_back(allocate("lost", DType::F64, 0));
      for (std::size_t n = 0; n < d_.decay.levels_here.size(); ++n)
        p.anchors.push_back(allocate("anchor", DType::F64, 0));
      p.weight = allocate("weight", DType::F64, 1), p.steps = allocate("steps", DType::F64, -1);
      p.terms = allocate("terms", DType::F64, 0), p.moved = allocate("moved", DType::F64, 0);
    }
    p.wrong = allocate("wrong", DType::I32, 0);
    if (d_.bounded()) p.size = allocate("size", DType::F64, 0);
    if (d_.weighed()) p.growth = allocate("growth", DType::F64, d_.anchored() ? 0 : 1);
    if (d_.decay.here && !d_.anchored()) p.exponent = allocate("exponent", DType::F64, 0);
    for (std::size_t n = 0; n < d_.decay.gates.size(); ++n) p.gates.push_back(allocate("gate", DType::F64, 1));
    if (d_.decay.rise) p.rise = allocate("rise", DType::F64, 0), p.first = allocate("first", DType::F64, 0);
    if (d_.monotonic()) p.rises = allocate("rises", DType::I32, 1), p.falls = allocate("falls", DType::I32, 1);
    for (const Run& run : d_.decay.runs) p.runs.push_back(allocate("run", compute_type(run.here.type()), 0));

    const ScanParts parts_here = s_.parts(body);
    Body reached = s_.fill({parts_here.j.lo, parts_here.first}), from_first;
    append(from_first, start(p, parts_here));
    append(from_first, decays(p, {parts_here.first, parts_here.full}, true));
    append(from_first, decays(p, {parts_here.full, parts_here.j.hi}, false));
    append(from_first, mended(s_, d_, p, parts_here));
    append(reached, where(less(parts_here.first, parts_here.j.hi), std::move(from_first), {}));
    append(body, where(less(parts_here.k.lo, parts_here.k.hi), std::move(reached), s_.fill(parts_here.j)));
    return body;
  }

 private:
  // What the step to the first element compares with is the first element; values before its last are summed.
  Body start(const DecayNames& p, const ScanParts& parts_here) {
    Body body;
    s_.points.fix(s_.along, parts_here.first);
    s_.points.fix(s_.over, parts_here.k.lo);
    s_.views_of_reads(body);
    for (std::int64_t v = 0; v < s_.vectors; ++v)
      append(body, s_.masked_turn(v, [&](Body& turn, std::int64_t) {
        if (!p.exponent.empty()) hold(turn, p.exponent, v, s_.value(turn, *d_.decay.here, v, 0));
        for (std::size_t n = 0; n < p.anchors.size(); ++n)
          hold(turn, p.anchors[n], v, s_.value(turn, d_.decay.levels_here[n].value, v, 0));
        for (std::size_t r = 0; r < p.runs.size(); ++r)
          hold(turn, p.runs[r], v, s_.value(turn, d_.decay.runs[r].here, v, 0));
        start_gates(d_, turn, p, v);
        if (d_.decay.rise)
          for (const std::string& view : {p.rise, p.first})
            hold(turn, view, v, s_.value(turn, d_.decay.rise->here, v, 0));
      }));
    s_.points.release(s_.over);
    const Expr turns =
        s_.named(body, "turns", clamped(parts_here.first + i64(s_.scan.c), parts_here.k) - parts_here.k.lo);
    append(body, serial(s_.names, s_.nest.dims[s_.over].name, {i64(0), turns}, [&](const Expr& index) {
      Body turn;
      s_.points.fix(s_.over, parts_here.k.lo + index);
      s_.views_of_reads(turn);
      for (std::int64_t v = 0; v < s_.vectors; ++v) append(turn, s_.masked_turn(v, [&](Body& inside, std::int64_t) {
        add_term(inside, p, v);
        // the first element would take a step more
        if (!d_.decay.powers.empty() || !d_.decay.rates.empty() || !d_.decay.gates.empty() || !d_.decay.lengths.empty())
          d_.demand(inside, p, v, Expr(Constant{DType::Bool, 0, 0}));
      }));
      s_.points.release(s_.over);
      return turn;
    }));
    s_.points.release(s_.along);
    return body;
  }

  // Elements that take one more value each, or none.
  Body decays(const DecayNames& p, const Interval& j, bool takes) {
    if (takes && s_.around.threads && s_.leaf.rows > 1) return decays_ahead(p, j);
    return serial(s_.names, s_.nest.dims[s_.along].name, {i64(0), j.hi - j.lo},
        [&](const Expr& index) { return element(p, j.lo + index, takes); });
  }

  // `rows` steps of a thread at once.
  Body decays_ahead(const DecayNames& p, const Interval& j) {
    const Expr rows = i64(s_.leaf.rows);
    const std::string& name = s_.nest.dims[s_.along].name;
    StepsAhead ahead(s_, s_.leaf.rows);
    Body body = ahead.allocate();
    const Expr count = s_.named(body, "count", j.hi - j.lo), turns = floor_divide(count, s_.leaf.rows);
    append(body, where(less(i64(0), turns), ahead.read(j.lo, false)));
    append(body, serial(s_.names, name + "_b", {i64(0), turns}, [&](const Expr& turn) {
      Body steps = ahead.read(j.lo + minimum(turn + i64(1), turns - i64(1)) * rows, true);
      const std::string u = s_.names.fresh(name);
      ahead.begin(var(u));
      steps.push_back(stmt(For{u, Kind::Unroll, rows, {}, element(p, j.lo + turn * rows + var(u), true)}));
      ahead.end();
      append(steps, ahead.take_next());
      return steps;
    }));
    append(body, serial(s_.names, name, {turns * rows, count},
        [&](const Expr& index) { return element(p, j.lo + index, true); }));
    return body;
  }

  Body element(const DecayNames& p, const Expr& j, bool takes) {
    Body turn;
    const Expr at = s_.named(turn, "j", j);
    s_.points.fix(s_.along, at);
    s_.points.fix(s_.over, takes ? at + i64(s_.scan.c) : i64(0));
    s_.views_of_reads(turn);
    s_.view_of_target(turn);
    for (std::int64_t v = 0; v < s_.vectors; ++v)
      append(turn, s_.masked_turn(v, [&](Body& inside, std::int64_t) {
        go_on(inside, p, v);
        if (takes) add_term(inside, p, v);
        s_.put(inside, v, 0, scaled_sum(inside, p, v));
      }));
    s_.points.release(s_.over);
    s_.points.release(s_.along);
    return turn;
  }

  // From one element to the next.
  void go_on(Body& body, const DecayNames& p, std::int64_t v) {
    d_.anchored() ? anchored_.go_on(body, p, v) : step_on(body, p, v);
    runs_on(s_, d_, body, p, v);
  }

  void step_on(Body& body, const DecayNames& p, std::int64_t v) {
    const DType type = d_.decay.type;
    if (d_.decay.rise) {
      rise_on(s_, d_, body, p, v);
    } else {
      for (std::size_t n = p.sums.size(); --n > 0;)
        hold(body, p.sums[n], v, plus(d_.held(p.sums[n], v, type), d_.held(p.sums[n - 1], v, type)));
    }
    if (const auto by = weight_step(s_, d_, body, p, v)) {
      for (const std::string& sum : p.sums) hold(body, sum, v, times(d_.held(sum, v, type), *by));
      const Expr size = s_.named(body, "size", size_of(*by));
      hold(body, p.size, v, times(d_.held(p.size, v, DType::F64), size));
      hold(body, p.growth, v, plus(times(d_.held(p.growth, v, DType::F64), size), real(1)));
    }
  }

  void add_term(Body& body, const DecayNames& p, std::int64_t v) {
    const DType type = d_.decay.type;
    const Expr x = s_.named(body, "x", s_.value(body, d_.decay.term, v, 0));
    std::optional<Expr> counts;
    const auto asks = [&](const Expr& condition) {
      counts = counts ? logical(Op::And, *counts, condition) : condition;
    };
    for (const Run& run : d_.decay.runs) {
      const Expr same = logical(Op::Eq, s_.value(body, run.here, v, 0), s_.value(body, run.there, v, 0));
      run.must ? d_.demand(body, p, v, same) : asks(same);
    }
    if (d_.decay.term_must) d_.demand(body, p, v, s_.value(body, *d_.decay.term_must, v, 0));
    if (d_.decay.term_if) asks(s_.value(body, *d_.decay.term_if, v, 0));
    if (counts) counts = s_.named(body, "counts", *counts);
    if (d_.anchored()) return anchored_.add(body, p, v, x, counts);
    const std::optional<Expr> w = weight_of_value(s_, d_, body, v);
    const auto if_it_counts = [&](const Expr& e, const Expr& otherwise) {
      return counts ? chosen(*counts, e, otherwise) : e;
    };
    Expr weighted = w ? times(*w, x) : x;
    if (d_.decay.rise) weighted = s_.named(body, "term", weighted);
    hold(body, p.sums[0], v, d_.combined(d_.held(p.sums[0], v, type), if_it_counts(weighted, d_.ignored())));
    if (const auto& rise = d_.decay.rise) {
      const Expr risen = minus(s_.value(body, rise->here, v, 0), s_.value(body, rise->there, v, 0));
      hold(body, p.sums[1], v, plus(d_.held(p.sums[1], v, type), if_it_counts(times(weighted, risen), real(0))));
    }
    if (!d_.bounded()) return;
    const Expr size = plus(size_of(x), real(1));
    hold(body, p.size, v,
        plus(d_.held(p.size, v, DType::F64), if_it_counts(w ? times(size_of(*w), size) : size, real(0))));
  }

  // The element, of the type of the fold; notes whether something may be wrong with it.
  Expr scaled_sum(Body& body, const DecayNames& p, std::int64_t v) {
    const DType type = d_.decay.type;
    const auto whole = [&](std::size_t n) {
      return p.lost.empty() ? d_.held(p.sums[n], v, type)
                            : plus(d_.held(p.sums[n], v, type), d_.held(p.lost[n], v, type));
    };
    Expr sum = whole(0), right = Constant{DType::Bool, 1, 0};
    if (p.sums.size() > 1) {
      const auto part = [&](std::size_t n) { return times(real(d_.binomials[n]), whole(n)); };
      sum = part(0);
      for (std::size_t n = 1; n < p.sums.size(); ++n) sum = plus(sum, part(n));
    }
    Expr size = real(d_.longest);
    if (d_.decay.rise)
      size = plus(size, size_of(minus(d_.held(p.rise, v, DType::F64), d_.held(p.first, v, DType::F64))));
    if (d_.anchored()) {
      if (d_.weighed()) {
        const Expr weight = d_.held(p.weight, v, type);
        sum = times(sum, weight), size = times(size, size_of(weight));
      }
      right =
          logical(Op::Le, d_.held(p.moved, v, type), times(real(AnchoredSums::most_moved), d_.held(p.terms, v, type)));
    }
    if (d_.decay.scale) {
      const Expr scale = s_.named(body, "scale", s_.value(body, *d_.decay.scale, v, 0));
      sum = times(sum, scale);
      if (d_.bounded()) size = times(size, plus(size_of(scale), real(1)));
    }
    if (d_.bounded())
      right = logical(Op::And, right, below(times(size, d_.held(p.size, v, DType::F64)), d_.largest_term()));
    if (d_.weighed())
      right = logical(Op::And, right, below(times(size, d_.held(p.growth, v, DType::F64)), d_.largest_growth()));
    if (d_.monotonic()) {
      const Expr none = Constant{DType::I32, 0, 0};
      right = logical(Op::And, right,
          logical(Op::Gt, plus(d_.held(p.rises, v, DType::I32), d_.held(p.falls, v, DType::I32)), none));
    }
    if (d_.decay.scale_must) right = logical(Op::And, right, s_.value(body, *d_.decay.scale_must, v, 0));
    if (d_.decay.scale_if) {
      const Expr counts = s_.named(body, "counts", s_.value(body, *d_.decay.scale_if, v, 0));
      sum = chosen(counts, sum, d_.ignored());
    }
    d_.demand(body, p, v, right);
    return s_.stored_value(convert(sum, s_.fold_type));
  }

  ScanTile& s_;
  DecayState d_;
  AnchoredSums anchored_;
};

}  // namespace

Body decaying_scan(ScanTile& tile) { return DecayingScan(tile).spell(); }

}  // namespace tilec::codegen
