#include "codegen/rewrite/chunks.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "codegen/decay.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/chunk_frames.h"
#include "codegen/scan.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Statement;
using poly::TensorId;
using Indices = std::vector<std::size_t>;
using Mentions = std::vector<bool>;
using Role = ProductFactor::Role;

bool within(const Mentions& a, const Mentions& b) {
  for (std::size_t k = 0; k < a.size(); ++k) if (a[k] && !b[k]) return false;
  return true;
}

// But for `without`.
Mentions together(Mentions a, const Mentions& b, std::size_t without) {
  for (std::size_t k = 0; k < a.size(); ++k) a[k] = k != without && (a[k] || b[k]);
  return a;
}

Mentions mentioned(const Statement& s, const Expr& e) {
  Mentions found(s.indices.size(), false);
  mark(e, s.reads, found);
  return found;
}

Expr number(double value) { return poly::Number{DType::F64, 0, value}; }
Expr apply_to(Op op, const Expr& a, const Expr& b) { return poly::Apply{op, {a, b}, a.type()}; }
Expr exponential(const Expr& e) { return poly::Apply{Op::Exp, {e}, DType::F64}; }

// What a length has of one index, and of all else if `rest`.
Expr part_of(const Length& length, std::size_t index, bool rest) {
  const auto* e = length.index.as<poly::Index>();
  Affine own = e->value;
  for (std::size_t k = 0; k < own.coefficients.size(); ++k) if (k != index) own.coefficients[k] = poly::Size(0);
  if (!rest) own.constant = poly::Size(0);
  const Expr count = in_type(poly::Index{std::move(own), e->type}, DType::F64);
  return apply_to(Op::Add, apply_to(Op::Mul, number(length.times), count), number(rest ? length.plus : 0));
}

// Decays by a number for each step, as exponents on both sides of the triangle.
class Sloped {
 public:
  explicit Sloped(ChunkedTriangle& t) : t_(t) {}

  bool add(const Rate& rate) {
    if (!is_whole(rate.length, false)) return false;
    add(rate.rate, rate.length);
    return true;
  }
  bool add(const Power& power) {
    if (!is_whole(power.exponent, true)) return false;
    // 0 to the power of 0 is 1, and every other power of it less than any f32
    const Expr size = poly::Apply{Op::Abs, {power.base}, DType::F64},
               is_none = poly::Apply{Op::Lt, {size, number(1e-300)}, DType::Bool},
               some = poly::Apply{Op::Select, {is_none, number(1e-300), size}, DType::F64};
    add(poly::Apply{Op::Log, {some}, DType::F64}, power.exponent);
    const Expr is_negative = poly::Apply{Op::Lt, {power.base, number(0)}, DType::Bool},
               sign = poly::Apply{Op::Select, {is_negative, number(-1), number(1)}, DType::F64};
    join(t_.here_sign, Op::Mul, apply_to(Op::Pow, sign, part_of(power.exponent, t_.along, true)));
    join(t_.there_sign, Op::Mul, apply_to(Op::Pow, sign, part_of(power.exponent, t_.over, false)));
    return true;
  }

 private:
  static bool is_whole(const Length& length, bool steps) {
    const auto* e = length.index.as<poly::Index>();
    return e && e->value.divisor.is(1) &&
        (!steps || (std::floor(length.times) == length.times && std::floor(length.plus) == length.plus));
  }
  // Infinite ones would be NaN times 0.
  static Expr finite(const Expr& slope) {
    const double most = std::numeric_limits<double>::max() * 0x1p-40;  // that lengths can be multiplied with
    const auto beyond = [&](Op than, double end, const Expr& otherwise) {
      const Expr is_beyond = poly::Apply{than, {slope, number(end)}, DType::Bool};
      return Expr(poly::Apply{Op::Select, {is_beyond, number(end), otherwise}, DType::F64});
    };
    return beyond(Op::Gt, most, beyond(Op::Lt, -most, slope));
  }
  void add(const Expr& infinite, const Length& length) {
    const Expr slope = finite(infinite);
    join(t_.here, Op::Add, apply_to(Op::Mul, slope, part_of(length, t_.along, true)));
    join(t_.there, Op::Add, apply_to(Op::Mul, slope, part_of(length, t_.over, false)));
  }
  static void join(std::optional<Expr>& all, Op op, const Expr& e) { all = all ? apply_to(op, *all, e) : e; }

  ChunkedTriangle& t_;
};

// Exponentials and powers of f32 over both indices of the triangle, and nothing else.
bool take_decay(const Statement& s, const FactoredProduct& product, ChunkedTriangle& t) {
  const auto is_f32 = [](const ProductFactor& f) {
    return f.role == Role::Times && std::ranges::all_of(poly::parts(f.value), [](const Expr& part) {
      const auto* apply = part.as<poly::Apply>();
      return !apply || (apply->op != Op::Exp && apply->op != Op::Pow) || apply->type == DType::F32;
    });
  };
  if (s.value.type() != DType::F32 || !std::ranges::all_of(t.weights, is_f32)) return false;
  const auto decay = decay_of(Aggregation::Sum, joined(product, t.weights, DType::F32), [&](const Expr& e) {
    const Mentions found = mentioned(s, e);
    return Reach{found[t.along], found[t.over]};
  });
  const auto* one = decay ? decay->term.as<poly::Number>() : nullptr;
  if (!one || one->real != 1 || !decay->gates.empty() || !decay->lengths.empty() || decay->rise ||
      !decay->runs.empty() || decay->term_if || decay->scale || decay->scale_if || decay->term_must ||
      decay->scale_must)
    return false;
  t.here = decay->here, t.there = decay->there;
  Sloped sloped(t);
  if (!std::ranges::all_of(decay->rates, [&](const Rate& rate) { return sloped.add(rate); }) ||
      !std::ranges::all_of(decay->powers, [&](const Power& power) { return sloped.add(power); }) || !t.here ||
      !t.there)
    return false;
  t.here_mentions = mentioned(s, *t.here), t.there_mentions = mentioned(s, *t.there);
  return true;
}

// Which factors are multiplied with the weight, and which are not.
struct Sides { std::vector<ProductFactor> weighed, others; Mentions mentions; };

Sides sides(const std::vector<ProductFactor>& factors, const Mentions& weight) {
  Sides found{{}, {}, weight};
  for (const ProductFactor& f : factors) (within(f.mentions, weight) ? found.weighed : found.others).push_back(f);
  if (found.others.size() < 2) return found;
  const auto larger = std::ranges::find_if(
      found.others, [&](const ProductFactor& f) { return f.role == Role::Times && within(weight, f.mentions); });
  if (larger == found.others.end()) return found;
  found.mentions = larger->mentions;
  found.weighed.push_back(*larger);
  found.others.erase(larger);
  return found;
}

class Chunks : ChunkParts {
 public:
  Chunks(const Program& program, const Statement& s, const FactoredProduct& product, const ChunkedTriangle& t,
      std::int64_t chunk, const Target& target, TensorId first)
      : ChunkParts(program, s, t, chunk, first), product_(product), converts_(!has_threads(target)) {}

  Halves parts() {
    const bool fades = t_.there.has_value();
    const TensorId largest = fades ? largest_in_chunks() : -1, reached = fades ? largest_up_to(largest) : -1,
                   weighed = fades ? weighed_values(largest) : -1, own = totals(weighed),
                   states = after_chunks(own, fades ? decays(largest, reached) : -1);
    read_states(states, reached);
    make_near();
    return sum_of_wholes();
  }

 private:
  Sides of_states() const { return sides(t_.before, t_.there_mentions); }

  // X[a, j, d] = K * exp(there - U[a, d])
  TensorId weighed_values(TensorId largest) {
    const Sides side = of_states();
    const Axes axes = axes_of(order_of(side.mentions), true);
    const std::size_t a = place_of(axes, before_);
    const Frame f = values_at(axes, a, a + 1);
    Statement part = of_values(f, Aggregation::Assign, t_.type, a, a + 1);
    const Expr factors = add(part, joined(product_, side.weighed, t_.type), f);
    const Expr there = add(part, *t_.there, f);
    part.value = apply_to(Op::Mul, factors, exponential(apply_to(Op::Sub, there, level(part, largest, a))));
    if (t_.there_sign) part.value = apply_to(Op::Mul, part.value, add(part, *t_.there_sign, f));
    return make(std::move(part), f, axes.size(), "_weighed");
  }

  // Where a tensor over what is mentioned is read, whose dimensions in the place of `over` are these two.
  std::vector<std::size_t> at_values(
      const Axes& axes, const Mentions& mentions, std::size_t chunk, std::size_t place) const {
    std::vector<std::size_t> at;
    for (const std::size_t k : order_of(mentions)) {
      if (k == t_.over) at.push_back(chunk), at.push_back(place);
      else at.push_back(place_of(axes, s_.indices[k]));
    }
    return at;
  }

  // C[a, d, e] = +(X[a, j, d] * V[j, e])
  TensorId totals(TensorId weighed) {
    Axes axes = state_axes();
    const std::size_t rank = axes.size(), a = place_of(axes, of_chunk_);
    axes.push_back({s_.indices[t_.over], chunk_});
    const Frame f = values_at(axes, a, rank);
    Statement part = of_values(f, Aggregation::Sum, t_.type, a, rank);
    if (weighed < 0) {
      part.value = add(part, joined(product_, alike(s_, t_.before), t_.type), f);
    } else {
      const Sides side = of_states();
      part.value = read(part, weighed, t_.type, at_values(axes, side.mentions, a, rank));
      if (!side.others.empty())
        part.value =
            apply_to(Op::Mul, part.value, add(part, joined(product_, alike(s_, side.others), t_.type), f));
    }
    return make(std::move(part), f, rank, "_chunks");
  }

  // D[b, a, d] = exp(U[a, d] - R[b, d]), a <= b
  TensorId decays(TensorId largest, TensorId reached) {
    Axes axes;
    for (const Axis& axis : axes_of(order_of(t_.there_mentions), false)) {
      if (axis.name == before_) axes.push_back({of_chunk_, count_ - 1});
      axes.push_back(axis);
    }
    const Frame f = framed(axes);
    const std::size_t b = place_of(axes, of_chunk_);
    Statement part = empty(f, Aggregation::Assign, t_.type);
    part.domain.push_back(not_after(b, b + 1, axes.size()));
    const Expr own = level(part, largest, b + 1), after = level(part, reached, b);
    part.value = exponential(apply_to(Op::Sub, own, after));
    return make(std::move(part), f, axes.size(), "_decays");
  }

  // P[b, d, e] = +(C[a, d, e]), a <= b, each of them times D[b, a, d]
  TensorId after_chunks(TensorId totals, TensorId decays) {
    Axes axes = state_axes();
    const std::size_t rank = axes.size(), b = place_of(axes, of_chunk_);
    axes.push_back({before_, count_ - 1});
    const Frame f = framed(axes);
    Statement part = empty(f, Aggregation::Sum, t_.type);
    part.domain.push_back(not_after(b, rank, axes.size()));
    std::vector<std::size_t> at;
    for (std::size_t d = 0; d < rank; ++d) at.push_back(d == b ? rank : d);
    part.value = read(part, totals, t_.type, at);
    if (decays >= 0)
      part.value = apply_to(
          Op::Mul, read(part, decays, t_.type, at_values(axes, t_.there_mentions, b, rank)), part.value);
    return make(std::move(part), f, rank, "_states");
  }

  // U[a, d] = >(there): the weights of a chunk are exp(there - U), which no exponential leaves.
  TensorId largest_in_chunks() {
    Axes axes = axes_of(order_of(t_.there_mentions), false);
    const std::size_t rank = axes.size(), a = place_of(axes, before_);
    axes.push_back({s_.indices[t_.over], chunk_});
    const Frame f = values_at(axes, a, rank);
    Statement part = of_values(f, Aggregation::Max, DType::F64, a, rank);
    // finite where all of them are -inf
    part.value = apply_to(Op::Max, add(part, *t_.there, f), number(std::numeric_limits<double>::lowest()));
    return make(std::move(part), f, rank, "_largest");
  }

  // R[b, d] = >(U[a, d]), a <= b
  TensorId largest_up_to(TensorId largest) {
    Axes axes = axes_of(order_of(t_.there_mentions), false);
    const std::size_t rank = axes.size(), b = place_of(axes, before_);
    axes.push_back({fresh_index(s_, before_ + "_"), count_ - 1});
    const Frame f = framed(axes);
    Statement part = empty(f, Aggregation::Max, DType::F64);
    part.domain.push_back(not_after(b, rank, axes.size()));
    part.value = level(part, largest, rank);
    return make(std::move(part), f, rank, "_reached");
  }

  // exp(here + R[b, d]); NaN where an exponential of the text is infinite.
  Expr weight_after(Statement& part, const Frame& f, std::size_t b, TensorId reached) const {
    const double largest = std::log(static_cast<double>(std::numeric_limits<float>::max()));
    const Expr exponent = apply_to(Op::Add, add(part, *t_.here, f), level(part, reached, b)),
               fits = poly::Apply{Op::Le, {exponent, number(largest)}, DType::Bool};
    const Expr weight = poly::Apply{Op::Select,
        {fits, exponential(exponent), number(std::numeric_limits<double>::quiet_NaN())}, DType::F64};
    return t_.here_sign ? apply_to(Op::Mul, weight, add(part, *t_.here_sign, f)) : weight;
  }

  Expr guarded(const std::vector<ProductFactor>& factors) const {
    return joined(product_, lang::is_float(t_.type) ? each_finite(factors, t_.type) : factors, t_.type);
  }

  // W[b, i, d] = Q * exp(here + R[b, d])
  TensorId weighed_reader(const Sides& side, TensorId reached) {
    const Axes axes = axes_of(order_of(side.mentions), true);
    const Frame f = places_at(axes);
    Statement part = of_places(f, Aggregation::Assign, t_.type);
    part.value = add(part, guarded(side.weighed), f);
    if (t_.here) part.value = apply_to(Op::Mul, part.value, weight_after(part, f, place_of(axes, of_chunk_), reached));
    return make(std::move(part), f, axes.size(), "_reader");
  }

  // F[32*b + 32 + i, e] = +(W[b, i, d] * P[b, d, e]). A weight that is one for a whole sum is multiplied with that.
  void read_states(TensorId states, TensorId reached) {
    Sides side = of_readers();
    const TensorId reader = side.weighed.empty() && !t_.here ? -1 : weighed_reader(side, reached);
    Indices outputs, sums;
    for (std::size_t k = 0; k < s_.indices.size(); ++k)
      if (k != t_.over) (is_output_index(s_, k) ? outputs : sums).push_back(k);
    const bool of_sums = reader >= 0 && !sums.empty() &&
        std::ranges::none_of(sums, [&](std::size_t k) { return bool(side.mentions[k]); });
    Axes axes = axes_of(outputs, true);
    const std::size_t rank = axes.size();
    std::ranges::copy(axes_of(sums, true), std::back_inserter(axes));
    const Frame f = places_at(axes);
    Statement part = of_places(f, sums.empty() ? Aggregation::Assign : Aggregation::Sum, t_.type);
    std::vector<std::size_t> at;
    for (const std::size_t k : t_.state) at.push_back(place_of(axes, k == t_.along ? of_chunk_ : s_.indices[k]));
    part.value = read(part, states, t_.type, at);
    const auto weigh = [&](Statement& by) {
      by.value = apply_to(Op::Mul, read(by, reader, t_.type, places(by, order_of(side.mentions))), by.value);
    };
    if (reader >= 0 && !of_sums) weigh(part);
    if (!side.others.empty()) part.value = apply_to(Op::Mul, add(part, guarded(side.others), f), part.value);
    if (product_.negative) part.value = poly::Apply{Op::Neg, {part.value}, t_.type};
    if (!of_sums) return make_whole_after_first(std::move(part), f, "_before");

    const TensorId whole_sums = make(std::move(part), f, rank, "_unweighed");
    axes.resize(rank);
    const Frame g = places_at(axes);
    Statement weighed = of_places(g, Aggregation::Assign, t_.type);
    weighed.value = read(weighed, whole_sums, t_.type, in_order(rank));
    weigh(weighed);
    make_whole_after_first(std::move(weighed), g, "_before");
  }

  // The sum within chunks. Weights that it would compute again for each element side by side come first.
  void make_near() {
    const Frame f = within_at(within_axes(in_order(s_.indices.size())));
    Statement part = within_chunks();
    if (weighs_again()) {
      Mentions mentions(s_.indices.size(), false);
      for (std::size_t k = 0; k < mentions.size(); ++k) mentions[k] = t_.here_mentions[k] || t_.there_mentions[k];
      Indices order = order_of(mentions);
      std::ranges::stable_partition(order, [&](std::size_t k) { return k != t_.over; });  // side by side
      const Frame of_weights = within_at(within_axes(order));
      Statement weights = of_within(of_weights, empty(of_weights, Aggregation::Assign, DType::F32));
      weights.value = add(weights, joined(product_, t_.weights, DType::F32), of_weights);
      const TensorId made = make(std::move(weights), of_weights, of_weights.count(), "_weights");
      std::vector<ProductFactor> others;
      for (const ProductFactor& factor : product_.factors)
        if (!factor.mentions[t_.over] || !factor.mentions[t_.along]) others.push_back(factor);
      part.reads.clear();
      part.value = apply_to(Op::Mul, read(part, made, DType::F32, places(part, order)),
          add(part, joined(product_, others, DType::F32), f));
      if (product_.negative) part.value = poly::Apply{Op::Neg, {part.value}, DType::F32};
    }
    make_whole(std::move(part), f, "_near");
  }

  // Whether a weight is one for several elements side by side, and leaves the sums other than that over values.
  bool weighs_again() const {
    if (!t_.here) return false;
    bool again = false;
    for (std::size_t k = 0; k < s_.indices.size(); ++k) {
      const bool weighs = t_.here_mentions[k] || t_.there_mentions[k], output = is_output_index(s_, k);
      if (weighs && k != t_.over && !output) return false;
      again = again || (!weighs && output && extent(s_, k) >= model::least_side_of_product);
    }
    return again;
  }

  // Factors that a product of matrices reads from a tensor of their own: all in f64, and told to be finite once. Blocks
  // of threads do that on the way to shared memory.
  Sides of_readers() const {
    if (t_.here) return sides(t_.after, together(t_.here_mentions, t_.there_mentions, t_.over));
    if (t_.after.size() == 1 && t_.after[0].mentions[t_.along] && converts_)
      return {t_.after, {}, t_.after[0].mentions};
    return {{}, t_.after, {}};
  }

  const FactoredProduct& product_;
  bool converts_;                                      // a factor is in a tensor of its own, in the states' type
};

}  // namespace

std::optional<ChunkedTriangle> chunked_triangle(
    const Program& program, const Statement& s, const FactoredProduct& product, std::size_t over) {
  if (s.aggregation != Aggregation::Sum || product.op != Op::Mul || s.domain.size() != s.indices.size() + 1)
    return std::nullopt;
  if (const auto* fill = std::get_if<poly::Number>(&s.fill); !fill || !is_zero(Expr(*fill))) return std::nullopt;
  const auto halves = halves_of_sum(program, s, product, static_cast<TensorId>(program.tensors.size()), {over});
  if (!halves || halves->inner.size() != 1 || halves->as_many_points) return std::nullopt;
  const Statement& state = halves->inner[0].statement;
  const auto scan = scan_of(state);
  if (!scan || !scan->steady() || scan->further || scan->all_but_one || scan->c > 0) return std::nullopt;
  const auto of = [&](std::size_t k) {
    return static_cast<std::size_t>(std::ranges::find(s.indices, state.indices[k]) - s.indices.begin());
  };
  ChunkedTriangle t;
  t.along = of(scan->along), t.over = over, t.along_down = scan->along_down, t.over_down = scan->over_down;
  t.c = scan->c;
  if (extent(s, t.along) + t.c > extent(s, over)) return std::nullopt;
  for (const ProductFactor& f : product.factors) {
    if (f.role == Role::When) return std::nullopt;
    if (!f.mentions[over]) t.after.push_back(f);
    else (f.mentions[t.along] ? t.weights : t.before).push_back(f);
  }
  t.type = t.weights.empty() ? halves->inner[0].temporary.dtype : DType::F64;
  for (const Affine& e : state.target.element) {
    const auto k = e.single_index();
    if (!k) return std::nullopt;
    t.state.push_back(of(*k));
  }
  if (!t.weights.empty() && !take_decay(s, product, t)) return std::nullopt;
  return t;
}

Statement sum_in_chunks(const Statement& s, const ChunkedTriangle& triangle, std::int64_t chunk) {
  return ChunkFrames(s, triangle, chunk).within_chunks();
}

Halves chunks_of(const Program& program, const Statement& s, const FactoredProduct& product,
    const ChunkedTriangle& triangle, std::int64_t chunk, const Target& target, TensorId first) {
  return Chunks(program, s, product, triangle, chunk, target, first).parts();
}

}  // namespace tilec::codegen
