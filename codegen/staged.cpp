// A block of threads: two stages in turn, the products of one, and the elements that are computed again.
#include "codegen/staged.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "codegen/staged_copies.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

constexpr std::int64_t warp_rows = 8, warp_columns = 4;  // threads of a warp: with 4x4 elements each, its accesses to
                                                         // either copy are of different banks

struct Uses { bool m = false, n = false, plain = true; };
Uses uses(const Nest& nest, const poly::Expr& e, const std::vector<std::size_t>& m, const std::vector<std::size_t>& n) {
  Uses u;
  u.plain = each_read(e, [&](int r) {
    const Form& f = nest.reads[static_cast<std::size_t>(r)].offset;
    const auto mentions = [&](const std::vector<std::size_t>& dims) {
      return std::any_of(dims.begin(), dims.end(), [&](std::size_t d) { return f.coefficients[d] != 0; });
    };
    u.m = u.m || mentions(m);
    u.n = u.n || mentions(n);
  });
  return u;
}

// c ? x * y : NaN, which is x * (c ? y : NaN); else null.
const poly::Apply* guarded_product(const poly::Expr& e) {
  const auto* asked = e.as<poly::Apply>();
  const auto* none = asked && asked->op == Op::Select ? asked->operands[2].as<poly::Number>() : nullptr;
  return none && std::isnan(none->real) ? asked : nullptr;
}

class Staged : StagedCopies {
 public:
  Staged(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
      std::int64_t threads)
      : StagedCopies(nests, leaf, storage, names, leaf.as<forms::Staged>()->depth, threads / leaf.lanes * leaf.rows,
            leaf.lanes * leaf.vectors, threads) {}

  Body spell() {
    block_ = names_.fresh("p");
    Body body = coordinates();
    Copy a = described(roles_.by_m, roles_.m, true, height_, "As");
    Copy b = described(roles_.by_n, roles_.n, false, width_, "Bs");
    for (const Copy* copy : {&a, &b})
      body.push_back(stmt(Allocate{copy->shared, type_, 2 * depth_ * copy->pitch, Memory::Shared}));
    thread_ = names_.fresh("l");
    body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, one_thread(a, b)}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  // A stage of both operands to registers. `more`: whether there is one.
  Body load(const Expr& stage, const std::optional<Expr>& more, const Copy& a, const Copy& b) {
    Body body;
    const std::optional<Expr> there = more ? std::optional(let(body, "more", *more)) : std::nullopt;
    const Expr k0 = begin_stage(body, stage);
    for (const Copy* copy : {&a, &b}) append(body, StagedCopies::load(*copy, k0, there));
    end_stage();
    return body;
  }
  Expr buffer(const Copy& copy, const Expr& stage) const { return remainder(stage, 2) * i64(depth_ * copy.pitch); }

  // ---- one thread

  // Its row of threads, and its column: warps are 8 x 4 threads where there are so many.
  Body place_of_thread() {
    Body body;
    const std::int64_t rows = threads_ / leaf_.lanes;
    const std::int64_t tall = std::gcd(rows, warp_rows), wide = std::gcd(leaf_.lanes, warp_columns),
                       across = leaf_.lanes / wide;
    const Expr lane = let(body, "lane", remainder(var(thread_), tall * wide)),
               group = let(body, "warp", quotient(var(thread_), tall * wide));
    thread_row_ =
        let(body, "t_m", (quotient(group, across) * i64(tall) + quotient(lane, wide)) * i64(square(leaf_.rows)));
    thread_column_ =
        let(body, "t_n", (remainder(group, across) * i64(wide) + remainder(lane, wide)) * i64(square(leaf_.vectors)));
    return body;
  }
  static std::int64_t square(std::int64_t count) { return std::gcd(count, neighbours); }  // neighbours of one thread
  std::int64_t row_step() const { return threads_ / leaf_.lanes * square(leaf_.rows); }
  std::int64_t column_step() const { return leaf_.lanes * square(leaf_.vectors); }
  // within the block
  Expr row(std::int64_t i) const {
    return thread_row_ + i64(i / square(leaf_.rows) * row_step() + i % square(leaf_.rows));
  }
  Expr column(std::int64_t j) const {
    return thread_column_ + i64(j / square(leaf_.vectors) * column_step() + j % square(leaf_.vectors));
  }

  Body one_thread(Copy& a, Copy& b) {
    acc_ = names_.fresh("acc");
    Body body = place_of_thread();
    body.push_back(stmt(Allocate{acc_, type_, leaf_.rows * leaf_.vectors, Memory::Register}));
    for (std::int64_t x = 0; x < leaf_.rows * leaf_.vectors; ++x)
      body.push_back(stmt(Store{acc_, i64(x), identity(Aggregation::Sum, type_)}));
    append(body, prepare(a, m0_)), append(body, prepare(b, n0_));
    append(body, stages(a, b));
    append(body, write());
    if (has_zeros()) append(body, again());
    return body;
  }

  // All values of the other reductions, and for each the staged one by `depth`.
  Body stages(const Copy& a, const Copy& b) {
    Body body;
    const Expr count = count_stages(body);
    if (is_const(count) && const_or(count, 0) <= 0) return body;
    const std::string stage = names_.fresh("stage"), following = names_.fresh("next");
    const Expr next = var(following);
    Body turn{stmt(Let{following, var(stage) + i64(1)})};
    const bool several = !is_const(count) || const_or(count, 0) > 1;
    if (several) append(turn, load(next, less(next, count), a, b));
    append(turn, products(a, b, var(stage)));
    if (several) {
      append(turn, put(a, buffer(a, next))), append(turn, put(b, buffer(b, next)));
      turn.push_back(stmt(Barrier{}));
    }
    Body all = load(i64(0), std::nullopt, a, b);
    append(all, put(a, i64(0))), append(all, put(b, i64(0)));
    all.push_back(stmt(Barrier{}));
    all.push_back(stmt(For{stage, Kind::Serial, count, {}, std::move(turn)}));
    if (is_const(count)) append(body, std::move(all));
    else body.push_back(stmt(If{less(i64(0), count), std::move(all), {}}));
    return body;
  }

  Body products(const Copy& a, const Copy& b, const Expr& stage) {
    Body body;
    const std::string k = names_.fresh("k");
    const Expr from_a = let(body, "at_a", buffer(a, stage) + thread_row_),
               from_b = let(body, "at_b", buffer(b, stage) + thread_column_);
    Body one;
    std::vector<Expr> x, y;
    for (std::int64_t i = 0; i < leaf_.rows; ++i)
      x.push_back(let(one, "a", Load{a.shared, from_a + var(k) * i64(a.pitch) + (row(i) - thread_row_), type_}));
    for (std::int64_t j = 0; j < leaf_.vectors; ++j)
      y.push_back(let(one, "b", Load{b.shared, from_b + var(k) * i64(b.pitch) + (column(j) - thread_column_), type_}));
    for (std::int64_t i = 0; i < leaf_.rows; ++i)
      for (std::int64_t j = 0; j < leaf_.vectors; ++j)
        one.push_back(stmt(Store{acc_, slot(i, j),
            sum(Load{acc_, slot(i, j), type_}, x[static_cast<std::size_t>(i)], y[static_cast<std::size_t>(j)])}));
    body.push_back(stmt(For{k, Kind::Unroll, i64(depth_), {}, std::move(one)}));
    return body;
  }
  Expr slot(std::int64_t i, std::int64_t j) const { return i64(i * leaf_.vectors + j); }

  // ---- the result

  // The values of m, or of n, that a thread has.
  struct Side {
    const std::vector<std::size_t>& dims;
    Expr first;
    std::int64_t count;
    Expr (Staged::*within)(std::int64_t) const;        // of the block's, each of them
  };

  // Where an access lies for the elements of a thread: of some neighbours on a line, and of the line.
  struct Spot { const Form* form; std::vector<Expr> along; Expr base; };

  // Neighbours along the side that is side by side in memory are written together.
  Body write() {
    const Form& f = finishing_.targets().front()->offset;
    const Side rows{roles_.m, m0_, leaf_.rows, &Staged::row}, columns{roles_.n, n0_, leaf_.vectors, &Staged::column};
    const bool along_m = f.coefficients[roles_.n.back()] != 1 && f.coefficients[roles_.m.back()] == 1;
    const Side &line = along_m ? rows : columns, &lines = along_m ? columns : rows;
    const std::size_t last = line.dims.back();
    Body body;
    const std::vector<Finishing::Together> together = finishing_.side_by_side(body, last, square(line.count));
    std::int64_t w = 1;
    for (const auto& one : together) w = std::max(w, one.width);
    std::vector<Spot> spots = along(body, line, w);
    for (std::int64_t y = 0; y < lines.count; ++y) {
      Body one;
      const std::vector<Expr> at = digits(one, lines.dims, at_side(lines, y));
      for (Spot& spot : spots)
        spot.base = let(one, "to",
            points_.known_part(*spot.form) + part(*spot.form, lines.dims, at) +
                (line.dims.size() == 1 ? at_side(line, 0) * i64(spot.form->coefficients[last]) : i64(0)));
      for (std::int64_t x = 0; x < line.count; x += w) {
        std::vector<Expr> sums;
        for (std::int64_t c = 0; c < w; ++c)
          sums.push_back(Load{acc_, along_m ? slot(x + c, y) : slot(y, x + c), type_});
        const auto place = [&](const Form& form, std::size_t c) {
          const Spot& spot = *std::ranges::find(spots, &form, &Spot::form);
          return spot.base + spot.along[static_cast<std::size_t>(x / w)] +
              i64(static_cast<std::int64_t>(c) * form.coefficients[last]);
        };
        one.push_back(stmt(If{less(at_side(line, x), end_of(line)), finishing_.stores(sums, place, together), {}}));
      }
      body.push_back(stmt(If{less(at_side(lines, y), end_of(lines)), std::move(one), {}}));
    }
    return body;
  }
  Expr at_side(const Side& side, std::int64_t x) const { return side.first + (this->*side.within)(x); }
  Expr end_of(const Side& side) const { return i64(extent(side.dims)); }

  // Of one dimension, each is a constant from the first.
  std::vector<Spot> along(Body& body, const Side& line, std::int64_t w) {
    const bool linear = line.dims.size() == 1;
    std::vector<Spot> spots;
    for (const Form* form : finishing_.forms()) spots.push_back({form, {}, i64(0)});
    for (std::int64_t x = 0; x < line.count; x += w) {
      const std::vector<Expr> at = linear ? std::vector{(this->*line.within)(x) - (this->*line.within)(0)}
                                          : digits(body, line.dims, at_side(line, x));
      for (Spot& spot : spots) {
        const Expr offset = part(*spot.form, line.dims, at);
        spot.along.push_back(linear ? offset : let(body, "of", offset));
      }
    }
    return spots;
  }

  Body again() {
    const std::int64_t rows = square(leaf_.rows), columns = square(leaf_.vectors);
    const auto each = [&](const std::string& stem, std::int64_t count, const std::function<Body(const Expr&)>& inside) {
      return serial(names_, stem, {i64(0), i64(count)}, inside);
    };
    Body elements = each("i", leaf_.rows / rows, [&](const Expr& i) {
      return each("i", rows, [&](const Expr& within_i) {
        return each("j", leaf_.vectors / columns, [&](const Expr& j) {
          return each("j", columns, [&](const Expr& within_j) {
            return element(m0_ + thread_row_ + i * i64(row_step()) + within_i,
                n0_ + thread_column_ + j * i64(column_step()) + within_j);
          });
        });
      });
    });
    return unless_finite(acc_, leaf_.rows * leaf_.vectors, std::move(elements));
  }

  Expr thread_row_ = i64(0), thread_column_ = i64(0);
  std::string acc_;
};

}  // namespace

std::optional<Staging> staging_of(const Nest& nest, const std::vector<std::string>& m,
    const std::vector<std::string>& n, const std::vector<std::string>& k, bool across) {
  const auto* asked = guarded_product(*nest.value);
  const auto* product = (asked ? asked->operands[1] : *nest.value).as<poly::Apply>();
  if (nest.aggregation != Aggregation::Sum || !product || product->op != Op::Mul || product->type == DType::Bool ||
      nest.empty())
    return std::nullopt;
  std::vector<std::size_t> dm, dn;
  for (const auto& [names, dims] : {std::pair(&m, &dm), std::pair(&n, &dn)})
    for (const std::string& name : *names) {
      const auto d = nest.dim(name);
      if (!d || nest.dims[*d].reduction) return std::nullopt;
      dims->push_back(*d);
    }
  if (dm.empty() || dn.empty() || std::ranges::any_of(dn, [&](std::size_t d) { return in_rows(nest, d); }) ||
      bounds_elements(nest) || !(identity_is_fill(nest) || always_reached(nest)))
    return std::nullopt;
  // What is side by side in most reads, if there is a stage of it, else the longest. What m bounds is the last choice:
  // each of its values is asked.
  const auto worth = [&](std::size_t d) {
    const std::int64_t length = nest.dims[d].extent;
    const auto side_by_side = std::ranges::count_if(
        nest.reads, [&](const FlatAccess& read) { return std::abs(read.offset.coefficients[d]) == 1; });
    return std::pair(length >= model::threads::least_of_depth ? side_by_side : 0, length);
  };
  const auto is_bounded = [&](std::size_t d) {
    return std::ranges::any_of(dm, [&](std::size_t x) { return share_row(nest, d, x); });
  };
  std::optional<std::size_t> depth;
  for (const std::string& name : k) {
    const std::size_t d = *nest.dim(name);
    const auto rank = [&](std::size_t x) { return std::tuple(!is_bounded(x), worth(x)); };
    if (!depth || rank(d) > rank(*depth)) depth = d;
  }
  if (!depth) return std::nullopt;
  std::vector<std::size_t> staged{*depth};
  if (across) {
    staged.clear();
    for (const std::string& name : k) staged.push_back(*nest.dim(name));
    depth = staged.back();
  }
  poly::Expr x = product->operands[0], y = product->operands[1];
  if (uses(nest, x, dm, dn).n) std::swap(x, y);
  if (asked) {
    poly::Expr& factor = uses(nest, asked->operands[0], dm, dn).n ? y : x;
    factor = poly::Apply{Op::Select, {asked->operands[0], factor, asked->operands[2]}, product->type};
  }
  const Uses ux = uses(nest, x, dm, dn), uy = uses(nest, y, dm, dn);
  if (!ux.plain || !uy.plain || !ux.m || ux.n || uy.m || !uy.n) return std::nullopt;
  return Staging{std::move(dm), std::move(dn), *depth, x, y, std::move(staged)};
}

std::optional<Staging> staging_of(const Nest& nest, const Compute& leaf) {
  return staging_of(nest, leaf.all_of_m(), leaf.all_of_n(), leaf.k, leaf.across());
}

// Both copies as if they were turned.
std::int64_t staged_bytes(const Compute& leaf, std::int64_t threads, std::int64_t depth, std::int64_t element) {
  const std::int64_t sides = threads / leaf.lanes * leaf.rows + leaf.lanes * leaf.vectors;
  return 2 * depth * (sides * element + 2 * most_access_bytes);
}

Body spell_staged(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
    std::int64_t threads) {
  return Staged(nests, leaf, storage, names, threads).spell();
}

}  // namespace tilec::codegen
