// Phases of one scan, after both dimensions are counted so that partial results grow (scan.h):
//
//   Y[j] = +(X[k]), k <= j + 2       X has 10 elements, Y has 12
//     fill    elements that no value reaches            none here; of k < j the first
//     head    values before the first element's last    k in [0, 2)
//     main    one more value for each element           j in [0, 8), k = j + 2
//     tail    elements that the last value reaches      j in [8, 12)
//
// Additions wait for each other four cycles. So main adds up the values of a step among themselves first, which needs
// nothing from the step before, and then adds what came before to each: x0, x0 + x1, x0 + x1 + x2, …, one dependent
// addition a step.
//
// A block of threads does the same with a step of `rows` values to each thread, and adds up the threads' totals by
// doubling (Hillis, Steele 1986) in shared memory: total of 1, 2, 4, … threads up to this one.
#include "codegen/scan_leaf.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/core.h>

#include "codegen/product.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

Expr i64(std::int64_t value) { return Expr(value); }

void count_down(Nest& nest, std::size_t d) {
  const auto turn = [&](Form& form) {
    form.constant += form.coefficients[d] * (nest.dims[d].extent - 1);
    form.coefficients[d] = -form.coefficients[d];
  };
  turn(nest.target.offset);
  for (FlatAccess& read : nest.reads) turn(read.offset);
  for (Row& row : nest.rows) turn(row.form);
  for (auto& form : nest.forms) turn(form.second);
}

Scan known_scan(const Nest& nest) {
  const auto scan = scan_of(nest);
  if (!scan) throw InternalError("the plan scans a statement that is no scan");
  return *scan;
}

class ScanLeaf {
 public:
  ScanLeaf(const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names)
      : nest_(nest),
        leaf_(leaf),
        scan_(known_scan(nest)),
        storage_(storage),
        around_(around),
        names_(names),
        points_(nest_),
        type_(compute_type(nest.value->type())),
        target_type_(storage.plan.program.tensor(nest.target.tensor).dtype),
        along_(scan_.along),
        over_(scan_.over),
        scaled_(has_scale(nest.aggregation, type_)) {
    if (scan_.along_down) count_down(nest_, along_);
    if (scan_.over_down) count_down(nest_, over_);
    for (const auto& [d, value] : around.fixed) points_.fix(d, value);
    for (const auto& [d, interval] : around.limits) points_.limit(d, interval);
    if (!leaf.n.empty()) n_ = nest_.dim(leaf.n);
    views_.resize(nest_.reads.size());
  }

  Body spell() {
    if (nest_.empty()) return {};                      // a Fill stands before it
    const std::optional<Expr> condition = points_.fixed_rows();
    Body body = outer(0);
    if (!condition || body.empty()) return body;
    return {stmt(If{*condition, std::move(body), {}})};
  }

 private:
  // ---- loops around

  Body outer(std::size_t level) {
    if (level == leaf_.outer.size())
      return n_ ? tiles(points_.bounds(*n_)) : around_.threads && leaf_.lanes > 1 ? by_threads() : scalar();
    const std::size_t d = *nest_.dim(leaf_.outer[level]);
    return serial(names_, nest_.dims[d].name, points_.bounds(d), [&](const Expr& value) {
      points_.fix(d, value);
      Body body = outer(level + 1);
      points_.release(d);
      return body;
    });
  }

  Body scalar() {
    vectors_ = 1;
    return all();
  }

  Body all() {
    if (scan_.all_but_one) return all_but_one();
    if (scan_.decays) return decaying();
    name_accumulators();
    return registers(phases());
  }

  // Full tiles of n, then one vector at a time, the last one masked.
  Body tiles(const Interval& range) {
    const std::int64_t width = leaf_.lanes * leaf_.vectors;
    Body body;
    const Expr lo = named(body, "lo", range.lo), count = named(body, "n", range.hi - lo),
               full = named(body, "full", floor_divide(count, width));
    append(body, serial(names_, nest_.dims[*n_].name + "_v", {i64(0), full}, [&](const Expr& turn) {
      return tile(lo + turn * i64(width), leaf_.vectors, std::nullopt);
    }));
    const Expr rest = named(body, "rest", lo + full * i64(width)),
               left = named(body, "left", count - full * i64(width));
    append(body,
        serial(names_, nest_.dims[*n_].name + "_v", {i64(0), ceil_divide(left, leaf_.lanes)}, [&](const Expr& turn) {
          const Expr first = turn * i64(leaf_.lanes);
          const bool whole = is_const(left) && const_or(left, 0) % leaf_.lanes == 0;
          return tile(rest + first, 1, whole ? std::optional<Expr>() : std::optional<Expr>(left - first));
        }));
    return body;
  }

  Body tile(const Expr& first, std::int64_t vectors, const std::optional<Expr>& valid) {
    vectors_ = vectors;
    n0_ = first;
    lane_ = leaf_.lanes > 1 ? names_.fresh("l") : "";
    Body before;
    if (valid) {
      mask_ = Variable{names_.fresh("inside"), DType::Bool};
      before.push_back(stmt(Let{mask_->as<Variable>()->name, less(lane(), *valid)}));
    }
    append(before, all());
    mask_.reset();
    if (lane_.empty()) return before;
    Stmt loop = stmt(For{lane_, Kind::Vector, i64(leaf_.lanes), {}, std::move(before)});
    lane_.clear();
    return {std::move(loop)};
  }

  void name_accumulators() {
    acc_ = names_.fresh("acc");
    if (scaled_) product_ = {acc_, names_.fresh("exponent")};
  }

  Body registers(Body inside) {
    Body body{stmt(Allocate{acc_, type_, vectors_, Memory::Register})};
    if (scaled_) {
      body.push_back(stmt(Allocate{product_.exponent, DType::I32, vectors_, Memory::Register}));
      for (std::int64_t v = 0; v < vectors_; ++v) begin_product(body, product_, v, type_);
    } else {
      for (std::int64_t v = 0; v < vectors_; ++v)
        body.push_back(stmt(Store{acc_, i64(v), identity(nest_.aggregation, type_)}));
    }
    append(body, std::move(inside));
    return body;
  }

  Expr named(Body& body, const std::string& stem, const Expr& value) {
    if (is_const(value) || value.as<Variable>()) return value;
    const std::string name = names_.fresh(stem);
    body.push_back(stmt(Let{name, value}));
    return Variable{name, value.type()};
  }

  // ---- which elements

  // The values [k.lo, k.hi) that there are, the elements [j.lo, j.hi) to write; from `first` on they are reached, from
  // `full` on by all.
  struct Parts { Interval k, j; Expr first = i64(0), full = i64(0); };

  Expr clamped(const Expr& value, const Interval& range) const { return maximum(range.lo, minimum(value, range.hi)); }

  Parts parts(Body& body) {
    Parts p{points_.bounds(over_), points_.bounds(along_)};
    for (Expr* e : {&p.k.lo, &p.k.hi, &p.j.lo}) *e = named(body, "at", *e);
    p.j.hi = named(body, "at", maximum(p.j.lo, p.j.hi));
    p.first = named(body, "first", clamped(ceil_divide(p.k.lo * i64(scan_.q) - i64(scan_.c), scan_.p), p.j));
    p.full =
        named(body, "full", clamped(ceil_divide(p.k.hi * i64(scan_.q) - i64(scan_.c), scan_.p), {p.first, p.j.hi}));
    return p;
  }

  // How many values element j folds, as the end of a range that starts at k.lo.
  Expr end_at(const Expr& j, const Parts& p) const {
    return clamped(floor_divide(j * i64(scan_.p) + i64(scan_.c), scan_.q) + i64(1), p.k);
  }

  Body phases() {
    Body body;
    const Parts p = parts(body);
    const Expr some = less(p.k.lo, p.k.hi);
    const bool known = is_const(some), none = known && !some.as<Constant>()->integer;
    if (none) {
      append(body, fill(p.j));
      return body;
    }
    Body inside = fill({p.j.lo, p.first});
    append(inside, fold({p.k.lo, end_at(p.first - i64(1), p)}));
    append(inside, scan_.steady() ? steps(p) : strides(p));
    if (known) append(body, std::move(inside));
    else body.push_back(stmt(If{some, std::move(inside), fill(p.j)}));
    return body;
  }

  Body fill(const Interval& range) {
    if (!nest_.fill) return {};                        // the buffer holds it
    return each_element(range, [&](Body&, std::int64_t) { return constant_of(*nest_.fill); });
  }

  // Main and tail.
  Body steps(const Parts& p) {
    Body body;
    Expr from = p.first;
    if (knows_start(*nest_.value)) {                   // the first value apart: from there on the start is behind
      const Expr second = named(body, "second", minimum(p.first + i64(1), p.full));
      append(body, chunks({from, second}, 1));
      from = second;
      started_ = true;
    }
    append(body, chunks({from, p.full}, leaf_.rows));
    started_ = false;
    append(body, tail(p));
    return body;
  }

  Body tail(const Parts& p) {
    return each_element({p.full, p.j.hi}, [&](Body& body, std::int64_t v) { return stored_value(folded(body, v)); });
  }

  Body chunks(const Interval& j, std::int64_t unroll) {
    Body body;
    const Expr count = j.hi - j.lo, turns = named(body, "turns", floor_divide(count, unroll)),
               done = turns * i64(unroll);
    append(body, moving(j.lo, j.lo + i64(scan_.c), turns, unroll, unroll));
    if (unroll > 1)
      append(body, moving(j.lo + done, j.lo + done + i64(scan_.c), named(body, "rest", count - done), 1, 1));
    return body;
  }

  // Elements that take any number of values more than the one before.
  Body strides(const Parts& p) {
    Body body = serial(names_, nest_.dims[along_].name, {p.first, p.full}, [&](const Expr& j) {
      Body turn;
      const Expr from = named(turn, "from", end_at(j - i64(1), p));
      append(turn, fold({from, end_at(j, p)}));
      points_.fix(along_, j);
      view_of_target(turn);
      points_.release(along_);
      for (std::int64_t v = 0; v < vectors_; ++v) put(turn, v, 0, stored_value(folded(turn, v)));
      return turn;
    });
    const Expr left = less(p.full, p.j.hi);             // the last step may have skipped values
    if (is_const(left) && !left.as<Constant>()->integer) return body;
    Body after = fold({end_at(p.full - i64(1), p), p.k.hi});
    append(after, tail(p));
    if (is_const(left)) append(body, std::move(after));
    else body.push_back(stmt(If{left, std::move(after), {}}));
    return body;
  }

  // ---- all values but one

  // The product of all, then for each element that without its own value and with what stands in its place.
  Body all_but_one() {
    const auto* select = nest_.value->as<poly::Apply>();
    const poly::Expr own = select->operands[1], factor = select->operands[2];
    Body body;
    Divisible product;
    allocate_divisible(body, names_, product, vectors_, type_);
    append(body, walk({over_}, [&](Body& turn, std::int64_t v) {
      multiply_divisible(turn, names_, product, v, convert(value(turn, factor, v, 0), type_));
    }));
    append(body, walk({over_, along_}, [&](Body& turn, std::int64_t v) {
      const Expr x = convert(value(turn, factor, v, 0), type_), instead = convert(value(turn, own, v, 0), type_);
      put(turn, v, 0, stored_value(product_with(turn, names_, product, v, x, instead)));
    }));
    return body;
  }

  // One loop in which all of `dims` have the same value; views move with it.
  Body walk(const std::vector<std::size_t>& dims, const std::function<void(Body&, std::int64_t)>& each) {
    Body body;
    std::vector<Advance> moves;
    const auto view = [&](const std::string& name, const Form& offset) {
      std::int64_t step = 0;
      for (const std::size_t d : dims) step += offset.coefficients[d];
      if (step) moves.push_back({name, i64(step)});
    };
    const auto fix = [&](const Expr& at) { for (const std::size_t d : dims) points_.fix(d, at); };
    fix(i64(0));
    views_of_reads(body);
    for (std::size_t r = 0; r < views_.size(); ++r) view(views_[r], nest_.reads[r].offset);
    if (dims.size() > 1) view_of_target(body), view(target_, nest_.target.offset);
    append(body, loop(nest_.dims[over_].name, i64(nest_.dims[over_].extent), moves, [&](const Expr& index) {
      fix(index);
      Body turn;
      for (std::int64_t v = 0; v < vectors_; ++v) append(turn, masked_turn(v, each));
      return turn;
    }));
    for (const std::size_t d : dims) points_.release(d);
    return body;
  }

  Body masked_turn(std::int64_t v, const std::function<void(Body&, std::int64_t)>& each) {
    Body turn;
    values_.clear();
    const std::optional<Expr> all = mask_;
    if (masked(v)) mask_.reset();                      // the whole turn stands inside the mask
    const bool is_masked = all && !mask_;
    each(turn, v);
    mask_ = all;
    if (!is_masked) return turn;
    return {stmt(If{*mask_, std::move(turn), {}})};
  }

  // ---- a value that decays

  // What a scan with a decay keeps while it walks along a tile: names of registers, each with a value for every lane.
  struct Partial {
    std::vector<std::string> sums;                     // for each n, Σ w C(d, n) x over the elements so far: w an
                                                       // element's weight here, d how far back it lies
    std::string size;                                  // Σ |w| (|x| + 1): no term is larger
    std::string growth;                                // Σ |w| over the steps so far: how large an error of 1 at each
                                                       // of them has become
    std::string exponent;                              // of this element's weight; the next step subtracts it from its
                                                       // own
    std::vector<std::string> runs;                     // the value of each run at this element; the next step compares
                                                       // its own with it
    std::string rises, falls;                          // 1 until a run's value falls, or rises; where both are 0 it may
                                                       // return to a value that it left
    std::string wrong;                                 // 1 from the first element on where something holds that a decay
                                                       // cannot say
    // If anchored(), weights in the sums are those at an anchor, an element passed before, and `growth` counts terms
    // below least_kept() only.
    std::vector<std::string> lost, anchors;            // what additions to each sum rounded away; each level at the
                                                       // anchor
    std::string weight, steps;                         // of this element at the anchor; from the anchor to it
    std::string terms, moved;                          // Σ |w x|; the same, each term as often as its anchor has
                                                       // changed
  };

  // A step loses nothing while terms stay in the type that the text makes them in, and what was lost below f64 does not
  // grow into sight.
  double largest_term() const {
    return decay_->written == DType::F64 ? 0x1p1000 : decay_->written == DType::F16 ? 0x1p15 : 0x1p126;
  }
  double largest_growth() const { return decay_->written == DType::F64 ? 0x1p50 : 0x1p700; }

  // No type has more digits than the text's: weights are rounded once for an anchor instead of once for each step, and
  // sums keep what they lose.
  bool anchored() const {
    return decay_->written == DType::F64 && lang::is_float(decay_->type) && (weighed() || !decay_->lengths.empty());
  }
  static double farthest() { return 0x1p100; }          // weight of an element at its anchor
  static double least_kept() { return 0x1p-900; }       // smaller terms may lose digits before they have grown
  static double most_moved() { return 2; }              // of a term: a move rounds twice, and the text's term may be
                                                        // off by 12 roundings

  static Expr real(double value) { return Constant{DType::F64, 0, value}; }
  static Expr times(const Expr& a, const Expr& b) { return Operation{Op::Mul, {a, b}, a.type()}; }
  static Expr plus(const Expr& a, const Expr& b) {
    return a.type() == DType::I64 ? a + b : Expr(Operation{Op::Add, {a, b}, a.type()});
  }
  static Expr size_of(const Expr& a) { return Operation{Op::Abs, {a}, a.type()}; }
  static Expr chosen(const Expr& c, const Expr& a, const Expr& b) { return Operation{Op::Select, {c, a, b}, a.type()}; }
  static Expr logical(Op op, const Expr& a, const Expr& b) { return Operation{op, {a, b}, DType::Bool}; }
  static Expr below(const Expr& a, double b) { return Operation{Op::Lt, {a, real(b)}, DType::Bool}; }
  Expr ignored() const { return identity(nest_.aggregation, decay_->type); }
  Expr combined(const Expr& a, const Expr& b) const {
    return nest_.aggregation == Aggregation::Sum ? plus(a, b) : combine(nest_.aggregation, a, b);
  }

  bool weighed() const { return decay_->here || decay_->there || !decay_->powers.empty() || !decay_->rates.empty(); }
  bool bounded() const {
    return weighed() || !decay_->lengths.empty() || (decay_->scale && lang::is_float(decay_->type));
  }

  Expr held(const std::string& view, std::int64_t v, DType type) const { return Load{view, i64(v), type}; }
  static void hold(Body& body, const std::string& view, std::int64_t v, const Expr& value) {
    body.push_back(stmt(Store{view, i64(v), value}));
  }

  Line line(const Length& length) const {
    Scan counted = scan_;
    counted.along_down = counted.over_down = false;    // as the nest is by now
    const Line found = line_of(nest_.form(length.index.as<poly::Index>()->value), counted, nest_.dims).value();
    return {length.times * found.start + length.plus, length.times * found.slope};
  }

  // What the lengths multiply to, and the most that this is.
  void know_lengths() {
    std::vector<Line> lines;
    longest_ = 1;
    for (const Length& length : decay_->lengths) {
      const Line one = line(length);
      lines.push_back(one);
      longest_ *= std::max(
          {1.0, std::abs(one.start), std::abs(one.start + one.slope * static_cast<double>(nest_.dims[over_].extent))});
    }
    binomials_ = binomials(lines).value();
  }

  Body decaying() {
    decay_ = decay_of(nest_, scan_);
    know_lengths();
    Partial p;
    Body body;
    const auto allocated = [&](const char* stem, DType type, const Expr& start) {
      const std::string name = names_.fresh(stem);
      body.push_back(stmt(Allocate{name, type, vectors_, Memory::Register}));
      for (std::int64_t v = 0; v < vectors_; ++v) hold(body, name, v, start);
      return name;
    };
    const auto allocate = [&](const char* stem, DType type, double start) {
      return allocated(stem, type, Constant{type, static_cast<std::int64_t>(start), start});
    };
    for (std::size_t n = 0; n < binomials_.size(); ++n) p.sums.push_back(allocated("sum", decay_->type, ignored()));
    if (anchored()) {
      for (std::size_t n = 0; n < binomials_.size(); ++n) p.lost.push_back(allocate("lost", DType::F64, 0));
      for (std::size_t n = 0; n < decay_->levels_here.size(); ++n)
        p.anchors.push_back(allocate("anchor", DType::F64, 0));
      p.weight = allocate("weight", DType::F64, 1), p.steps = allocate("steps", DType::F64, -1);
      p.terms = allocate("terms", DType::F64, 0), p.moved = allocate("moved", DType::F64, 0);
    }
    p.wrong = allocate("wrong", DType::I32, 0);
    if (bounded()) p.size = allocate("size", DType::F64, 0);
    if (weighed()) p.growth = allocate("growth", DType::F64, anchored() ? 0 : 1);
    if (decay_->here && !anchored()) p.exponent = allocate("exponent", DType::F64, 0);
    if (!decay_->runs.empty()) p.rises = allocate("rises", DType::I32, 1), p.falls = allocate("falls", DType::I32, 1);
    for (const Run& run : decay_->runs) p.runs.push_back(allocate("run", compute_type(run.here.type()), 0));

    const Parts parts_here = parts(body);
    Body reached = fill({parts_here.j.lo, parts_here.first}), from_first;
    append(from_first, start(p, parts_here));
    append(from_first, decays(p, {parts_here.first, parts_here.full}, true));
    append(from_first, decays(p, {parts_here.full, parts_here.j.hi}, false));
    append(from_first, mended(p, parts_here));
    append(reached, where(less(parts_here.first, parts_here.j.hi), std::move(from_first), {}));
    append(body, where(less(parts_here.k.lo, parts_here.k.hi), std::move(reached), fill(parts_here.j)));
    return body;
  }

  static Body where(const Expr& condition, Body then, Body otherwise) {
    if (const auto* known = condition.as<Constant>()) return known->integer ? then : otherwise;
    if (then.empty() && otherwise.empty()) return {};
    return {stmt(If{condition, std::move(then), std::move(otherwise)})};
  }

  // What the step to the first element compares with is the first element; values before its last are summed.
  Body start(const Partial& p, const Parts& parts_here) {
    Body body;
    points_.fix(along_, parts_here.first);
    points_.fix(over_, parts_here.k.lo);
    views_of_reads(body);
    for (std::int64_t v = 0; v < vectors_; ++v)
      append(body, masked_turn(v, [&](Body& turn, std::int64_t) {
        if (!p.exponent.empty()) hold(turn, p.exponent, v, value(turn, *decay_->here, v, 0));
        for (std::size_t n = 0; n < p.anchors.size(); ++n)
          hold(turn, p.anchors[n], v, value(turn, decay_->levels_here[n].value, v, 0));
        for (std::size_t r = 0; r < p.runs.size(); ++r)
          hold(turn, p.runs[r], v, value(turn, decay_->runs[r].here, v, 0));
      }));
    points_.release(over_);
    const Expr turns = named(body, "turns", clamped(parts_here.first + i64(scan_.c), parts_here.k) - parts_here.k.lo);
    append(body, serial(names_, nest_.dims[over_].name, {i64(0), turns}, [&](const Expr& index) {
      Body turn;
      points_.fix(over_, parts_here.k.lo + index);
      views_of_reads(turn);
      for (std::int64_t v = 0; v < vectors_; ++v) append(turn, masked_turn(v, [&](Body& inside, std::int64_t) {
        add_term(inside, p, v);
        // the first element would take a step more
        if (!decay_->powers.empty() || !decay_->rates.empty() || !decay_->lengths.empty())
          demand(inside, p, v, Expr(Constant{DType::Bool, 0, 0}));
      }));
      points_.release(over_);
      return turn;
    }));
    points_.release(along_);
    return body;
  }

  // Elements that take one more value each, or none.
  Body decays(const Partial& p, const Interval& j, bool takes) {
    return serial(names_, nest_.dims[along_].name, {i64(0), j.hi - j.lo}, [&](const Expr& index) {
      Body turn;
      const Expr at = named(turn, "j", j.lo + index);
      points_.fix(along_, at);
      points_.fix(over_, takes ? at + i64(scan_.c) : i64(0));
      views_of_reads(turn);
      view_of_target(turn);
      for (std::int64_t v = 0; v < vectors_; ++v)
        append(turn, masked_turn(v, [&](Body& inside, std::int64_t) {
          go_on(inside, p, v);
          if (takes) add_term(inside, p, v);
          put(inside, v, 0, scaled_sum(inside, p, v));
        }));
      points_.release(over_);
      points_.release(along_);
      return turn;
    });
  }

  // What an element's weights are of those of the one before.
  std::optional<Expr> weight_step(Body& body, const Partial& p, std::int64_t v) {
    std::optional<Expr> exponent, step;
    if (decay_->here) {
      const Expr now = value(body, *decay_->here, v, 0);
      // before what it compares with is another
      exponent = named(body, "moved", Operation{Op::Sub, {now, held(p.exponent, v, DType::F64)}, DType::F64});
      hold(body, p.exponent, v, now);
    }
    for (const Rate& rate : decay_->rates) {
      const Expr moved = times(real(line(rate.length).slope), value(body, rate.rate, v, 0));
      exponent = exponent ? plus(*exponent, moved) : moved;
    }
    if (exponent) step = Operation{Op::Exp, {*exponent}, DType::F64};
    for (const Power& power : decay_->powers) {
      const Expr base = value(body, power.base, v, 0);
      const double slope = line(power.exponent).slope;
      const Expr one = slope == 1 ? base : Expr(Operation{Op::Pow, {base, real(slope)}, DType::F64});
      step = step ? times(*step, one) : one;
    }
    return step ? std::optional<Expr>(named(body, "step", *step)) : std::nullopt;
  }

  // A number as the sum of two, the second of which is what rounding left of the first.
  struct Exact { Expr high, low; };

  static Expr minus(const Expr& a, const Expr& b) { return Operation{Op::Sub, {a, b}, DType::F64}; }
  static Expr negated(const Expr& a) { return Operation{Op::Neg, {a}, DType::F64}; }

  // (Knuth 1969; Dekker 1971)
  Exact exact_sum(Body& body, const Expr& a, const Expr& b) {
    const Expr sum = named(body, "high", plus(a, b)), other = named(body, "other", minus(sum, a));
    return {sum, named(body, "low", plus(minus(a, minus(sum, other)), minus(b, other)))};
  }
  Exact exact_product(Body& body, const Expr& a, const Expr& b) {
    const Expr product = named(body, "high", times(a, b));
    return {product, named(body, "low", Operation{Op::Fma, {a, b, negated(product)}, DType::F64})};
  }
  Exact exact_sum(Body& body, const std::optional<Exact>& a, const Exact& b) {
    if (!a) return b;
    const Exact sum = exact_sum(body, a->high, b.high);
    return {sum.high, named(body, "low", plus(sum.low, plus(a->low, b.low)))};
  }
  Exact scaled(Body& body, const Level& level, std::int64_t v, Exact e) {
    if (level.times) {
      const Expr by = value(body, *level.times, v, 0);
      const Exact product = exact_product(body, e.high, by);
      e = {product.high, plus(product.low, times(e.low, by))};
    }
    return level.minus ? Exact{negated(e.high), negated(e.low)} : e;
  }
  Expr exponential(Body& body, const Exact& e) {
    const Expr high = named(body, "power", Operation{Op::Exp, {e.high}, DType::F64});
    return plus(high, times(high, e.low));
  }

  // The weight of this element at the anchor, `steps` after it.
  std::optional<Expr> weight_at_anchor(Body& body, const Partial& p, std::int64_t v, const Expr& steps) {
    std::optional<Exact> exponent;
    for (std::size_t n = 0; n < p.anchors.size(); ++n) {
      const Level& level = decay_->levels_here[n];
      const Exact moved = exact_sum(body, value(body, level.value, v, 0), negated(held(p.anchors[n], v, DType::F64)));
      exponent = exact_sum(body, exponent, scaled(body, level, v, moved));
    }
    for (const Rate& rate : decay_->rates)
      exponent = exact_sum(body, exponent,
          exact_product(body, value(body, rate.rate, v, 0), times(real(line(rate.length).slope), steps)));
    std::optional<Expr> weight;
    if (exponent) weight = exponential(body, *exponent);
    for (const Power& power : decay_->powers) {
      const Expr one = Operation{
          Op::Pow, {value(body, power.base, v, 0), times(real(line(power.exponent).slope), steps)}, DType::F64};
      weight = weight ? times(*weight, one) : one;
    }
    return weight ? std::optional<Expr>(named(body, "at_anchor", *weight)) : std::nullopt;
  }

  void add_exactly(Body& body, const Partial& p, std::size_t n, std::int64_t v, const Exact& x) {
    const Exact sum = exact_sum(body, held(p.sums[n], v, DType::F64), x.high);
    hold(body, p.sums[n], v, sum.high);
    hold(body, p.lost[n], v, plus(held(p.lost[n], v, DType::F64), plus(sum.low, x.low)));
  }

  void go_on_anchored(Body& body, const Partial& p, std::int64_t v) {
    const auto all = [&](const std::string& view) { return held(view, v, DType::F64); };
    for (std::size_t n = p.sums.size(); --n > 0;)
      add_exactly(body, p, n, v, {named(body, "one", all(p.sums[n - 1])), named(body, "rest", all(p.lost[n - 1]))});
    const Expr steps = named(body, "steps", plus(all(p.steps), real(1)));
    hold(body, p.steps, v, steps);
    const auto weight = weight_at_anchor(body, p, v, steps);
    if (!weight) return;
    const Expr size = named(body, "size", size_of(*weight));
    const Expr stays =
        named(body, "stays", logical(Op::And, below(size, farthest()), logical(Op::Lt, real(1 / farthest()), size)));
    // Another anchor: this element.
    const auto moves = [&](const std::string& view, const Expr& to) {
      hold(body, view, v, chosen(stays, all(view), to));
    };
    for (const std::string& sum : p.sums) moves(sum, times(all(sum), *weight));
    for (const std::string& lost : p.lost) moves(lost, times(all(lost), *weight));
    moves(p.size, times(all(p.size), size));
    moves(p.moved, times(plus(all(p.moved), all(p.terms)), size));
    moves(p.terms, times(all(p.terms), size));
    const Expr terms = named(body, "terms", all(p.terms));
    const Expr small = logical(Op::And, below(terms, least_kept()), logical(Op::Lt, real(0), terms));
    moves(p.growth, plus(times(all(p.growth), size), chosen(small, real(1), real(0))));
    for (std::size_t n = 0; n < p.anchors.size(); ++n)
      moves(p.anchors[n], value(body, decay_->levels_here[n].value, v, 0));
    moves(p.steps, real(0));
    hold(body, p.weight, v, chosen(stays, *weight, real(1)));
  }

  // The weight of the value that is added now.
  std::optional<Expr> exact_weight(Body& body, std::int64_t v) {
    std::optional<Exact> exponent;
    for (const auto* levels : {&decay_->levels_here, &decay_->levels_there})
      for (const Level& level : *levels)
        exponent = exact_sum(body, exponent, scaled(body, level, v, {value(body, level.value, v, 0), real(0)}));
    for (const Rate& rate : decay_->rates)
      exponent = exact_sum(body, exponent, {value(body, rate.exponent, v, 0), real(0)});
    std::optional<Expr> weight;
    if (exponent) weight = exponential(body, *exponent);
    for (const Power& power : decay_->powers)
      weight = weight ? times(*weight, value(body, power.weight, v, 0)) : value(body, power.weight, v, 0);
    return weight ? std::optional<Expr>(named(body, "weight", *weight)) : std::nullopt;
  }

  void add_anchored(Body& body, const Partial& p, std::int64_t v, const Expr& x, const std::optional<Expr>& counts) {
    const auto all = [&](const std::string& view) { return held(view, v, DType::F64); };
    const auto if_it_counts = [&](const Expr& e) { return counts ? chosen(*counts, e, real(0)) : e; };
    const auto w = exact_weight(body, v);
    const auto over = [&](const Expr& e, const Expr& by) {
      return w ? Expr(Operation{Op::Div, {e, by}, DType::F64}) : e;
    };
    const Expr term = named(body, "term", if_it_counts(over(w ? times(*w, x) : x, all(p.weight))));
    add_exactly(body, p, 0, v, {term, real(0)});
    hold(body, p.terms, v, plus(all(p.terms), size_of(term)));
    const Expr size = plus(size_of(x), real(1)), weight = w ? size_of(*w) : real(1);
    hold(body, p.size, v, plus(all(p.size), if_it_counts(over(times(weight, size), size_of(all(p.weight))))));
    if (!w) return;
    const Expr least = Operation{Op::Min, {weight, size_of(times(*w, x))}, DType::F64};
    const Expr small = logical(Op::And, below(least, least_kept()), logical(Op::Lt, real(0), size_of(x)));
    hold(body, p.growth, v, plus(all(p.growth), if_it_counts(chosen(small, real(1), real(0)))));
  }

  // From one element to the next.
  void go_on(Body& body, const Partial& p, std::int64_t v) {
    anchored() ? go_on_anchored(body, p, v) : step_on(body, p, v);
    runs_on(body, p, v);
  }

  void step_on(Body& body, const Partial& p, std::int64_t v) {
    const DType type = decay_->type;
    for (std::size_t n = p.sums.size(); --n > 0;)
      hold(body, p.sums[n], v, plus(held(p.sums[n], v, type), held(p.sums[n - 1], v, type)));
    if (const auto by = weight_step(body, p, v)) {
      for (const std::string& sum : p.sums) hold(body, sum, v, times(held(sum, v, type), *by));
      const Expr size = named(body, "size", size_of(*by));
      hold(body, p.size, v, times(held(p.size, v, DType::F64), size));
      hold(body, p.growth, v, plus(times(held(p.growth, v, DType::F64), size), real(1)));
    }
  }

  // Of values that are not equal at this element nothing stays.
  void runs_on(Body& body, const Partial& p, std::int64_t v) {
    const DType type = decay_->type;
    for (std::size_t r = 0; r < p.runs.size(); ++r) {
      const Expr now = value(body, decay_->runs[r].here, v, 0),
                 before = named(body, "before", held(p.runs[r], v, now.type()));
      const Expr same = named(body, "same", logical(Op::Eq, now, before));
      if (decay_->runs[r].must) {
        demand(body, p, v, same);
        hold(body, p.runs[r], v, now);
        continue;
      }
      for (const std::string& sum : p.sums) hold(body, sum, v, chosen(same, held(sum, v, type), ignored()));
      if (bounded()) hold(body, p.size, v, chosen(same, held(p.size, v, DType::F64), real(0)));
      for (const std::string& lost : p.lost) hold(body, lost, v, chosen(same, held(lost, v, DType::F64), real(0)));
      if (anchored())
        for (const std::string& view : {p.terms, p.moved})
          hold(body, view, v, chosen(same, held(view, v, DType::F64), real(0)));
      // NaN is equal to nothing, and what follows it is NaN
      const Expr none = lang::is_float(now.type()) ? Expr(Operation{Op::IsNan, {now}, DType::Bool})
                                                   : Expr(Constant{DType::Bool, 0, 0});
      const auto follows = [&](const std::string& view, Op op) {
        const Expr zero = Constant{DType::I32, 0, 0};
        hold(body, view, v, chosen(logical(Op::Or, logical(op, now, before), none), held(view, v, DType::I32), zero));
      };
      follows(p.rises, Op::Ge);
      follows(p.falls, Op::Le);
      hold(body, p.runs[r], v, now);
    }
  }

  void demand(Body& body, const Partial& p, std::int64_t v, const Expr& condition) {
    hold(body, p.wrong, v, chosen(condition, held(p.wrong, v, DType::I32), Expr(Constant{DType::I32, 1, 0})));
  }

  // The weight of one value, where its runs are equal.
  std::optional<Expr> weight(Body& body, std::int64_t v) {
    std::optional<Expr> exponent;
    for (const auto& part : {decay_->here, decay_->there})
      if (part) exponent = exponent ? plus(*exponent, value(body, *part, v, 0)) : value(body, *part, v, 0);
    for (const Rate& rate : decay_->rates)
      exponent = exponent ? plus(*exponent, value(body, rate.exponent, v, 0)) : value(body, rate.exponent, v, 0);
    std::optional<Expr> weight;
    if (exponent) weight = Operation{Op::Exp, {*exponent}, DType::F64};
    for (const Power& power : decay_->powers)
      weight = weight ? times(*weight, value(body, power.weight, v, 0)) : value(body, power.weight, v, 0);
    return weight ? std::optional<Expr>(named(body, "weight", *weight)) : std::nullopt;
  }

  void add_term(Body& body, const Partial& p, std::int64_t v) {
    const DType type = decay_->type;
    const Expr x = named(body, "x", value(body, decay_->term, v, 0));
    std::optional<Expr> counts;
    const auto asks = [&](const Expr& condition) {
      counts = counts ? logical(Op::And, *counts, condition) : condition;
    };
    for (const Run& run : decay_->runs) {
      const Expr same = logical(Op::Eq, value(body, run.here, v, 0), value(body, run.there, v, 0));
      run.must ? demand(body, p, v, same) : asks(same);
    }
    if (decay_->term_must) demand(body, p, v, value(body, *decay_->term_must, v, 0));
    if (decay_->term_if) asks(value(body, *decay_->term_if, v, 0));
    if (counts) counts = named(body, "counts", *counts);
    if (anchored()) return add_anchored(body, p, v, x, counts);
    const std::optional<Expr> w = weight(body, v);
    const auto if_it_counts = [&](const Expr& e, const Expr& otherwise) {
      return counts ? chosen(*counts, e, otherwise) : e;
    };
    hold(body, p.sums[0], v, combined(held(p.sums[0], v, type), if_it_counts(w ? times(*w, x) : x, ignored())));
    if (!bounded()) return;
    const Expr size = plus(size_of(x), real(1));
    hold(
        body, p.size, v, plus(held(p.size, v, DType::F64), if_it_counts(w ? times(size_of(*w), size) : size, real(0))));
  }

  // The element, of the type of the fold; notes whether something may be wrong with it.
  Expr scaled_sum(Body& body, const Partial& p, std::int64_t v) {
    const DType type = decay_->type;
    const auto whole = [&](std::size_t n) {
      return p.lost.empty() ? held(p.sums[n], v, type) : plus(held(p.sums[n], v, type), held(p.lost[n], v, type));
    };
    Expr sum = whole(0), right = Constant{DType::Bool, 1, 0};
    if (p.sums.size() > 1) {
      const auto part = [&](std::size_t n) { return times(real(binomials_[n]), whole(n)); };
      sum = part(0);
      for (std::size_t n = 1; n < p.sums.size(); ++n) sum = plus(sum, part(n));
    }
    Expr size = real(longest_);
    if (anchored()) {
      if (weighed()) {
        const Expr weight = held(p.weight, v, type);
        sum = times(sum, weight), size = times(size, size_of(weight));
      }
      right = logical(Op::Le, held(p.moved, v, type), times(real(most_moved()), held(p.terms, v, type)));
    }
    if (decay_->scale) {
      const Expr scale = named(body, "scale", value(body, *decay_->scale, v, 0));
      sum = times(sum, scale);
      if (bounded()) size = times(size, plus(size_of(scale), real(1)));
    }
    if (bounded()) right = logical(Op::And, right, below(times(size, held(p.size, v, DType::F64)), largest_term()));
    if (weighed()) right = logical(Op::And, right, below(times(size, held(p.growth, v, DType::F64)), largest_growth()));
    if (!p.runs.empty()) {
      const Expr none = Constant{DType::I32, 0, 0};
      right = logical(
          Op::And, right, logical(Op::Gt, plus(held(p.rises, v, DType::I32), held(p.falls, v, DType::I32)), none));
    }
    if (decay_->scale_must) right = logical(Op::And, right, value(body, *decay_->scale_must, v, 0));
    if (decay_->scale_if) {
      const Expr counts = named(body, "counts", value(body, *decay_->scale_if, v, 0));
      sum = chosen(counts, sum, ignored());
    }
    demand(body, p, v, right);
    return stored_value(convert(sum, type_));
  }

  // Scans with something out of bounds once more, each element by its definition.
  Body mended(const Partial& p, const Parts& parts_here) {
    Body body, again;
    if (!bounded() && p.runs.empty()) return {};
    const Expr none = Constant{DType::I32, 0, 0};
    Expr some = held(p.wrong, 0, DType::I32);
    for (std::int64_t v = 1; v < vectors_; ++v)
      some = Operation{Op::Max, {some, held(p.wrong, v, DType::I32)}, DType::I32};
    if (!lane_.empty()) {
      const std::string any = names_.fresh("any");
      body.push_back(stmt(Fold{any, Aggregation::Max, some, lane_}));
      some = Variable{any, DType::I32};
    }
    again = serial(names_, nest_.dims[along_].name, {parts_here.first, parts_here.j.hi}, [&](const Expr& j) {
      Body turn;
      points_.fix(along_, j);
      view_of_target(turn);
      for (std::int64_t v = 0; v < vectors_; ++v) hold(turn, p.sums[0], v, ignored());
      append(turn, serial(names_, nest_.dims[over_].name, {parts_here.k.lo, end_at(j, parts_here)}, [&](const Expr& k) {
        Body inner;
        points_.fix(over_, k);
        views_of_reads(inner);
        for (std::int64_t v = 0; v < vectors_; ++v)
          append(inner, masked_turn(v, [&](Body& inside, std::int64_t) {
            const Expr x = convert(convert(value(inside, *nest_.value, v, 0), type_), decay_->type);
            hold(inside, p.sums[0], v, combined(held(p.sums[0], v, decay_->type), x));
          }));
        points_.release(over_);
        return inner;
      }));
      for (std::int64_t v = 0; v < vectors_; ++v)
        append(turn, masked_turn(v, [&](Body& inside, std::int64_t) {
          Body stores;
          put(stores, v, 0, stored_value(convert(held(p.sums[0], v, decay_->type), type_)));
          inside.push_back(stmt(If{logical(Op::Gt, held(p.wrong, v, DType::I32), none), std::move(stores), {}}));
        }));
      points_.release(along_);
      return turn;
    });
    body.push_back(stmt(If{logical(Op::Gt, some, none), std::move(again), {}}));
    return body;
  }

  // ---- pieces

  Expr lane() const { return lane_.empty() ? i64(0) : var(lane_); }
  bool masked(std::int64_t v) const { return mask_ && v == vectors_ - 1; }
  Expr accumulator(std::int64_t v) const { return Load{acc_, i64(v), type_}; }
  Expr folded(Body& body, std::int64_t v) {
    return scaled_ ? product_of(body, names_, product_, v, type_) : accumulator(v);
  }
  Expr stored_value(const Expr& x) const { return convert(x, compute_type(target_type_)); }

  Expr corner(std::size_t access, const Form& offset) const {
    Expr sum = points_.known_part(offset);
    if (n_) sum = sum + n0_ * i64(offset.coefficients[*n_]);
    const auto base = around_.base.find(access);
    return base == around_.base.end() ? sum : sum - base->second;
  }

  Expr aside(const Form& offset, std::int64_t v) const {
    return n_ && offset.coefficients[*n_] ? (i64(v * leaf_.lanes) + lane()) * i64(offset.coefficients[*n_]) : i64(0);
  }

  void view_of_target(Body& body) {
    target_ = names_.fresh("o");
    body.push_back(stmt(View{target_, storage_.name(nest_.target.tensor), corner(target_access, nest_.target.offset)}));
  }

  void views_of_reads(Body& body) {
    for (std::size_t r = 0; r < nest_.reads.size(); ++r) {
      views_[r] = names_.fresh(fmt::format("p{}", r));
      body.push_back(stmt(View{views_[r], storage_.name(nest_.reads[r].tensor), corner(r, nest_.reads[r].offset)}));
    }
  }

  std::vector<Advance> advance(std::int64_t steps, bool reads, bool target) const {
    std::vector<Advance> moves;
    const auto add = [&](const std::string& view, std::int64_t stride) {
      if (stride) moves.push_back({view, i64(stride * steps)});
    };
    for (std::size_t r = 0; reads && r < nest_.reads.size(); ++r)
      add(views_[r], nest_.reads[r].offset.coefficients[over_]);
    if (target) add(target_, nest_.target.offset.coefficients[along_]);
    return moves;
  }

  // A loop of `turns` whose views move; `inside` gets its index.
  Body loop(const std::string& stem, const Expr& turns, const std::vector<Advance>& moves,
      const std::function<Body(const Expr&)>& inside) {
    if (is_const(turns) && const_or(turns, 0) <= 0) return {};
    if (is_const(turns) && const_or(turns, 0) == 1) return inside(i64(0));
    const std::string index = names_.fresh(stem);
    Stmt loop = stmt(For{index, Kind::Serial, turns, moves, inside(var(index))});
    if (is_const(turns)) return {std::move(loop)};
    return {stmt(If{less(i64(0), turns), {std::move(loop)}, {}})};
  }

  void put(Body& body, std::int64_t v, std::int64_t place, const Expr& value) {
    const Form& f = nest_.target.offset;
    Stmt store = stmt(Store{target_, i64(place * f.coefficients[along_]) + aside(f, v), convert(value, target_type_)});
    if (masked(v)) body.push_back(stmt(If{*mask_, {std::move(store)}, {}}));
    else body.push_back(std::move(store));
  }

  Body each_element(const Interval& range, const std::function<Expr(Body&, std::int64_t)>& value) {
    Body body;
    const Expr turns = named(body, "turns", range.hi - range.lo);
    if (is_const(turns) && const_or(turns, 0) <= 0) return {};
    points_.fix(along_, range.lo);
    view_of_target(body);
    points_.release(along_);
    append(body, loop(nest_.dims[along_].name, turns, advance(1, false, true), [&](const Expr&) {
      Body turn;
      for (std::int64_t v = 0; v < vectors_; ++v) put(turn, v, 0, value(turn, v));
      return turn;
    }));
    return body;
  }

  // Values that no element stops at.
  Body fold(const Interval& k) {
    Body body;
    const Expr turns = named(body, "turns", k.hi - k.lo);
    if (is_const(turns) && const_or(turns, 0) <= 0) return {};
    points_.fix(over_, k.lo);
    views_of_reads(body);
    append(body, loop(nest_.dims[over_].name, turns, advance(1, true, false), [&](const Expr& index) {
      points_.fix(over_, k.lo + index);
      Body turn;
      for (std::int64_t v = 0; v < vectors_; ++v) step(turn, v, 1, false);
      return turn;
    }));
    points_.release(over_);
    return body;
  }

  // `turns` steps of `unroll` elements from j, whose last value is k.
  Body moving(const Expr& j, const Expr& k, const Expr& turns, std::int64_t unroll, std::int64_t stride) {
    if (is_const(turns) && const_or(turns, 0) <= 0) return {};
    Body body;
    points_.fix(along_, j);
    view_of_target(body);
    points_.release(along_);
    points_.fix(over_, k);
    views_of_reads(body);
    append(body, loop(nest_.dims[along_].name, turns, advance(stride, true, true), [&](const Expr& index) {
      points_.fix(over_, k + index * i64(stride));
      Body turn;
      for (std::int64_t v = 0; v < vectors_; ++v) step(turn, v, unroll, true);
      return turn;
    }));
    points_.release(over_);
    return body;
  }

  // `count` values folded, each into an element of its own if `stores`.
  void step(Body& body, std::int64_t v, std::int64_t count, bool stores) {
    Body inside;
    if (scaled_) {
      const std::optional<Expr> all = mask_;
      if (masked(v)) mask_.reset();
      for (std::int64_t u = 0; u < count; ++u) {
        values_.clear();
        multiply(inside, names_, product_, v, convert(value(inside, *nest_.value, v, u), type_));
        if (stores) put(inside, v, u, stored_value(folded(inside, v)));
      }
      mask_ = all;
      return masked(v) ? body.push_back(stmt(If{*mask_, std::move(inside), {}})) : append(body, std::move(inside));
    }
    std::vector<Expr> sums;
    for (std::int64_t u = 0; u < count; ++u) {
      values_.clear();
      const Expr x = convert(value(inside, *nest_.value, v, u), type_);
      sums.push_back(named(inside, "s", u == 0 ? x : combine(nest_.aggregation, sums.back(), x)));
    }
    const Expr before = count > 1 ? named(inside, "before", accumulator(v)) : accumulator(v);
    const std::optional<Expr> all = mask_;
    if (masked(v)) mask_.reset();                      // the whole step stands inside the mask
    for (std::int64_t u = 0; u < count; ++u) {
      const Expr sum = combine(nest_.aggregation, before, sums[static_cast<std::size_t>(u)]);
      if (u + 1 < count) {
        put(inside, v, u, stored_value(sum));
        continue;
      }
      inside.push_back(stmt(Store{acc_, i64(v), sum}));
      if (stores) put(inside, v, u, stored_value(accumulator(v)));
    }
    mask_ = all;
    if (masked(v)) body.push_back(stmt(If{*mask_, std::move(inside), {}}));
    else append(body, std::move(inside));
  }

  // ---- values

  // `index == number` on the scanned index alone.
  std::optional<std::int64_t> start_of(const poly::Expr& condition) const {
    const auto* apply = condition.as<poly::Apply>();
    if (!apply || apply->op != Op::Eq) return std::nullopt;
    const auto* index = apply->operands[0].as<poly::Index>();
    const auto* number = apply->operands[1].as<poly::Number>();
    if (!index || !number || lang::is_float(number->type)) return std::nullopt;
    const Form& f = nest_.form(index->value);
    for (std::size_t d = 0; d < f.coefficients.size(); ++d)
      if ((f.coefficients[d] != 0) != (d == over_)) return std::nullopt;
    const std::int64_t a = f.coefficients[over_], rest = number->integer - f.constant;
    return rest % a ? -1 : rest / a;
  }

  // A select that takes one arm at the first value only.
  bool starts(const poly::Expr& e) const {
    const auto* apply = e.as<poly::Apply>();
    if (!apply || apply->op != Op::Select) return false;
    const auto start = start_of(apply->operands[0]);
    return start && *start <= 0;
  }
  bool knows_start(const poly::Expr& e) const {
    return starts(e) ||
        e.match(
            [&](const poly::Apply& a) {
              return std::any_of(
                  a.operands.begin(), a.operands.end(), [&](const poly::Expr& o) { return knows_start(o); });
            },
            [&](const poly::Cast& c) { return knows_start(c.operand); }, [](const auto&) { return false; });
  }

  // The value of `e` for vector v, u values further than the views.
  Expr value(Body& body, const poly::Expr& e, std::int64_t v, std::int64_t u) {
    if (const auto* number = e.as<poly::Number>()) return constant_of(*number);
    if (started_ && starts(e)) return value(body, e.as<poly::Apply>()->operands[2], v, u);
    const void* node = e.match([](const auto& x) { return static_cast<const void*>(&x); });
    if (const auto found = values_.find(node); found != values_.end()) return found->second;
    const Expr result = named(body, "t", e.match(
        [](const poly::Number& x) { return constant_of(x); }, [&](const poly::Read& r) { return load(r, v, u); },
        [&](const poly::Index& x) { return convert(index_value(nest_.form(x.value), v, u), compute_type(x.type)); },
        [&](const poly::Cast& c) { return cast(value(body, c.operand, v, u), c.operand, c.type); },
        [&](const poly::Apply& a) {
          std::vector<Expr> operands;
          for (const poly::Expr& o : a.operands) operands.push_back(value(body, o, v, u));
          return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
        }));
    values_.emplace(node, result);
    return result;
  }

  Expr load(const poly::Read& r, std::int64_t v, std::int64_t u) const {
    const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r.read)];
    const DType type = storage_.plan.program.tensor(access.tensor).dtype;
    const Expr offset = i64(u * access.offset.coefficients[over_]) + aside(access.offset, v);
    return convert(Expr(Load{views_[static_cast<std::size_t>(r.read)], offset, type}), compute_type(r.type));
  }

  Expr index_value(const Form& f, std::int64_t v, std::int64_t u) const {
    Expr sum = points_.known_part(f) + i64(u * f.coefficients[over_]);
    return n_ ? sum + n0_ * i64(f.coefficients[*n_]) + aside(f, v) : sum;
  }

  // ---- a block of threads

  Body by_threads() {
    if (!scan_.steady())
      throw InternalError("the plan gives threads parts of a scan whose elements take different numbers of values");
    if (scaled_) throw InternalError("the plan gives threads parts of a running product");
    vectors_ = 1;
    thread_ = names_.fresh("l");
    acc_ = names_.fresh("acc");
    shared_ = names_.fresh("totals");
    Body inside;
    const Parts p = parts(inside);
    Body reached = spread({p.j.lo, p.first}, nest_.fill ? std::optional<Expr>(constant_of(*nest_.fill)) : std::nullopt);
    append(reached, rounds(p));
    append(reached, spread({p.full, p.j.hi}, stored_value(accumulator(0))));
    const Expr some = less(p.k.lo, p.k.hi);
    if (is_const(some))
      append(inside,
          some.as<Constant>()->integer
              ? std::move(reached)
              : spread(p.j, nest_.fill ? std::optional<Expr>(constant_of(*nest_.fill)) : std::nullopt));
    else
      inside.push_back(stmt(If{some, std::move(reached),
          spread(p.j, nest_.fill ? std::optional<Expr>(constant_of(*nest_.fill)) : std::nullopt)}));
    return {stmt(Allocate{shared_, type_, 2 * leaf_.lanes, Memory::Shared}),
        stmt(For{thread_, Kind::Thread, i64(leaf_.lanes), {}, registers(std::move(inside))})};
  }

  // One value for all elements of a range, a thread each.
  Body spread(const Interval& range, const std::optional<Expr>& value) {
    if (!value) return {};
    return serial(names_, nest_.dims[along_].name, {i64(0), ceil_divide(range.hi - range.lo, leaf_.lanes)},
        [&](const Expr& turn) {
          const std::string j = names_.fresh("j");
          Body body{stmt(Let{j, range.lo + turn * i64(leaf_.lanes) + var(thread_)})};
          body.push_back(stmt(If{less(var(j), range.hi), {store_at(var(j), *value)}, {}}));
          return body;
        });
  }

  Stmt store_at(const Expr& j, const Expr& value) {
    points_.fix(along_, j);
    Stmt store = stmt(Store{
        storage_.name(nest_.target.tensor), corner(target_access, nest_.target.offset), convert(value, target_type_)});
    points_.release(along_);
    return store;
  }

  // A round is `rows` values to each thread.
  Body rounds(const Parts& p) {
    Body body;
    const std::int64_t each = leaf_.rows;
    const Expr end = named(body, "end", clamped(p.full + i64(scan_.c), p.k)),
               first = named(body, "first", p.first + i64(scan_.c));
    append(body,
        serial(names_, nest_.dims[over_].name + "_b", {i64(0), ceil_divide(end - p.k.lo, each * leaf_.lanes)},
            [&](const Expr& turn) {
              Body round;
              const Expr k = named(round, "k", p.k.lo + (turn * i64(leaf_.lanes) + var(thread_)) * i64(each));
              const std::vector<Expr> sums = own_sums(round, k, end);
              const auto [before, all] = totals(round, sums.back());
              for (std::int64_t u = 0; u < each; ++u) {
                const Expr at = k + i64(u), sum = combine(nest_.aggregation, before, sums[static_cast<std::size_t>(u)]);
                round.push_back(stmt(If{
                    both(at_least(at, first), less(at, end)), {store_at(at - i64(scan_.c), stored_value(sum))}, {}}));
              }
              round.push_back(stmt(Store{acc_, i64(0), combine(nest_.aggregation, accumulator(0), all)}));
              round.push_back(stmt(Barrier{}));
              return round;
            }));
    return body;
  }

  std::vector<Expr> own_sums(Body& round, const Expr& k, const Expr& end) {
    const std::string x = names_.fresh("x");
    round.push_back(stmt(Allocate{x, type_, leaf_.rows, Memory::Register}));
    points_.fix(over_, k);
    std::vector<Expr> sums;
    for (std::int64_t u = 0; u < leaf_.rows; ++u) {
      round.push_back(stmt(Store{x, i64(u), identity(nest_.aggregation, type_)}));
      Body there;
      values_.clear();
      if (u == 0) views_of_reads(round);
      const Expr value_here = convert(value(there, *nest_.value, 0, u), type_);
      there.push_back(stmt(Store{x, i64(u), value_here}));
      round.push_back(stmt(If{less(k + i64(u), end), std::move(there), {}}));
      const Expr one = Load{x, i64(u), type_};
      sums.push_back(named(round, "s", u == 0 ? one : combine(nest_.aggregation, sums.back(), one)));
    }
    points_.release(over_);
    return sums;
  }

  // What all threads before this one, and rounds before this one, make; and what all threads of this round make.
  std::pair<Expr, Expr> totals(Body& round, const Expr& own) {
    const std::int64_t T = leaf_.lanes;
    const Expr thread = var(thread_);
    round.push_back(stmt(Store{shared_, thread, own}));
    round.push_back(stmt(Barrier{}));
    std::int64_t from = 0;
    const auto at = [&](const Expr& t) { return Expr(Load{shared_, i64(from) + t, type_}); };
    const auto select = [&](std::int64_t distance, const Expr& there, const Expr& otherwise) {
      const std::string r = names_.fresh("r");
      round.push_back(stmt(Allocate{r, type_, 1, Memory::Register}));
      round.push_back(stmt(Store{r, i64(0), otherwise}));
      round.push_back(stmt(If{at_least(thread, i64(distance)), {stmt(Store{r, i64(0), there})}, {}}));
      return Expr(Load{r, i64(0), type_});
    };
    for (std::int64_t distance = 1; distance < T; distance *= 2) {
      const Expr sum = select(distance, combine(nest_.aggregation, at(thread - i64(distance)), at(thread)), at(thread));
      from = T - from;
      round.push_back(stmt(Store{shared_, i64(from) + thread, sum}));
      round.push_back(stmt(Barrier{}));
    }
    const Expr before = named(round, "before",
        combine(nest_.aggregation, accumulator(0), select(1, at(thread - i64(1)), identity(nest_.aggregation, type_))));
    return {before, named(round, "all", at(i64(T - 1)))};
  }

  Nest nest_;                                          // counted so that partial results grow
  const Compute& leaf_;
  Scan scan_;
  const Storage& storage_;
  const Surroundings& around_;
  Names& names_;
  Ranges points_;
  DType type_, target_type_;
  std::size_t along_, over_;
  std::optional<std::size_t> n_;
  Expr n0_ = i64(0);
  std::int64_t vectors_ = 1;
  std::optional<Expr> mask_;                           // of the last vector of the tile
  bool started_ = false;                               // the first value is behind
  bool scaled_;                                        // the fold is a product of floats: `product_`
  Scaled product_;
  std::optional<Decay> decay_;                         // of a value that decays
  std::vector<double> binomials_;                      // of its lengths
  double longest_ = 1;
  std::string acc_, lane_, thread_, shared_, target_;
  std::vector<std::string> views_;
  std::map<const void*, Expr> values_;                 // of one point
};

}  // namespace

Body spell_scan(
    const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names) {
  return ScanLeaf(nest, leaf, storage, around, names).spell();
}

}  // namespace tilec::codegen
