// A block of threads: two stages in turn, the products of one, and the elements that are computed again.
#include "codegen/staged.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "codegen/staged_values.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

// values of a side, and bytes of one, that are no product's
constexpr std::size_t most_joined = 3;
constexpr std::int64_t staged_word = 4;

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

// Takes a value apart into values of one side each, and reads of both that no reduction moves; false: it has others.
// What one side asks is asked where both are: there is no memory of truths.
bool join(const Nest& nest, const poly::Expr& e, const Staging& roles, Joined& joined) {
  bool reads = false;
  const Uses u = uses(nest, e, roles.m, roles.n);
  each_read(e, [&](int) { reads = true; });
  if (!u.plain) return false;
  if (!reads) return true;
  const auto take = [&](std::vector<poly::Expr>& list) {
    if (std::ranges::find(list, e) == list.end()) list.push_back(e);
    return lang::bytes(compute_type(e.type())) >= staged_word;
  };
  const auto* read = e.as<poly::Read>();
  if (!(u.m && u.n) && (read || e.type() != DType::Bool)) return take(u.n ? joined.of_n : joined.of_m);
  if (read) {
    const Form& form = nest.reads[static_cast<std::size_t>(read->read)].offset;
    for (std::size_t d = 0; d < nest.dims.size(); ++d)
      if (nest.dims[d].reduction && form.coefficients[d]) return false;
    return take(joined.own);
  }
  if (const auto* cast = e.as<poly::Cast>()) return join(nest, cast->operand, roles, joined);
  const auto& operands = e.as<poly::Apply>()->operands;
  return std::ranges::all_of(operands, [&](const poly::Expr& o) { return join(nest, o, roles, joined); });
}

// Only a range of the staged reduction, which all of a block have, may be bounded: nothing stands for no point.
std::optional<Staging> joined_of(const Nest& nest, std::vector<std::size_t> m, std::vector<std::size_t> n,
    std::size_t depth) {
  const bool folds = nest.aggregation == Aggregation::Sum || nest.aggregation == Aggregation::Max ||
      nest.aggregation == Aggregation::Min;
  if (!folds || nest.value->type() == DType::Bool || lang::bytes(compute_type(nest.value->type())) < staged_word)
    return std::nullopt;
  for (const poly::Expr& part : poly::parts(*nest.value))
    if (const auto* apply = part.as<poly::Apply>(); apply && apply->op == Op::Between) return std::nullopt;
  for (const Row& row : nest.rows)
    for (std::size_t d = 0; d < nest.dims.size(); ++d) {
      const bool fixed = !nest.dims[d].reduction && std::ranges::find(m, d) == m.end();
      if (row.form.coefficients[d] && d != depth && !fixed) return std::nullopt;
    }
  Staging roles{std::move(m), std::move(n), depth, *nest.value, *nest.value, {depth}};
  Joined joined;
  if (!join(nest, *nest.value, roles, joined)) return std::nullopt;
  const auto depends = [&](const std::vector<poly::Expr>& list, const std::vector<std::size_t>& on) {
    return std::ranges::all_of(on, [&](std::size_t d) {
      return std::ranges::any_of(list, [&](const poly::Expr& e) {
        const Uses u = uses(nest, e, {d}, {});
        return u.m;
      });
    });
  };
  const bool few = joined.of_m.size() <= most_joined && joined.of_n.size() <= most_joined &&
      joined.own.size() < most_joined;
  if (!few || !depends(joined.of_m, roles.m) || !depends(joined.of_n, roles.n)) return std::nullopt;
  roles.by_m = joined.of_m.front(), roles.by_n = joined.of_n.front();
  roles.joined = std::move(joined);
  return roles;
}

// c ? x * y : NaN, which is x * (c ? y : NaN); else null.
const poly::Apply* guarded_product(const poly::Expr& e) {
  const auto* asked = e.as<poly::Apply>();
  const auto* none = asked && asked->op == Op::Select ? asked->operands[2].as<poly::Number>() : nullptr;
  return none && std::isnan(none->real) ? asked : nullptr;
}

class Staged : StagedValues {
 public:
  Staged(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
      std::int64_t threads)
      : StagedValues(nests, leaf, storage, names, leaf.as<forms::Staged>()->depth, threads / leaf.lanes * leaf.rows,
            leaf.lanes * leaf.vectors, threads) {}

  Body spell() {
    block_ = names_.fresh("p");
    Body body = coordinates();
    const auto side = [&](const poly::Expr& factor, bool by_m) {
      copies_.push_back(by_m ? described(factor, roles_.m, true, height_, "As")
                             : described(factor, roles_.n, false, width_, "Bs"));
    };
    if (!roles_.joined) side(roles_.by_m, true), side(roles_.by_n, false);
    else {
      for (const poly::Expr& value : roles_.joined->of_m) side(value, true);
      for (const poly::Expr& value : roles_.joined->of_n) side(value, false);
    }
    for (const Copy& copy : copies_)
      body.push_back(stmt(Allocate{copy.shared, copy.type, 2 * depth_ * copy.pitch, Memory::Shared}));
    thread_ = names_.fresh("l");
    body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, one_thread()}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  // A stage of all operands to registers. `more`: whether there is one.
  Body load(const Expr& stage, const std::optional<Expr>& more) {
    Body body;
    const std::optional<Expr> there = more ? std::optional(let(body, "more", *more)) : std::nullopt;
    const Expr k0 = begin_stage(body, stage);
    for (const Copy& copy : copies_) append(body, StagedCopies::load(copy, k0, there));
    end_stage();
    return body;
  }
  Body one_thread() {
    acc_ = names_.fresh("acc");
    Body body = place_of_thread();
    body.push_back(stmt(Allocate{acc_, type_, leaf_.rows * leaf_.vectors, Memory::Register}));
    for (std::int64_t x = 0; x < leaf_.rows * leaf_.vectors; ++x)
      body.push_back(stmt(Store{acc_, i64(x), identity(nest_.aggregation, type_)}));
    if (roles_.joined) for (const poly::Expr& e : roles_.joined->own) append(body, hold(*e.as<poly::Read>()));
    for (Copy& copy : copies_) append(body, prepare(copy, copy.masked ? m0_ : n0_));
    append(body, stages());
    append(body, write());
    if (has_zeros()) append(body, again());
    return body;
  }

  // All values of the other reductions, and for each the staged one by `depth`.
  Body stages() {
    Body body;
    const Expr count = count_stages(body);
    if (is_const(count) && const_or(count, 0) <= 0) return body;
    const std::string stage = names_.fresh("stage"), following = names_.fresh("next");
    const Expr next = var(following);
    Body turn{stmt(Let{following, var(stage) + i64(1)})};
    const bool several = !is_const(count) || const_or(count, 0) > 1;
    if (several) append(turn, load(next, less(next, count)));
    append(turn, values(var(stage)));
    if (several) {
      append(turn, put_all(next));
      turn.push_back(stmt(Barrier{}));
    }
    Body all = load(i64(0), std::nullopt);
    append(all, put_all(i64(0)));
    all.push_back(stmt(Barrier{}));
    all.push_back(stmt(For{stage, Kind::Serial, count, {}, std::move(turn)}));
    if (is_const(count)) append(body, std::move(all));
    else body.push_back(stmt(If{less(i64(0), count), std::move(all), {}}));
    return body;
  }

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
};

}  // namespace

std::optional<Staging> staging_of(const Nest& nest, const std::vector<std::string>& m,
    const std::vector<std::string>& n, const std::vector<std::string>& k, bool across) {
  if (nest.empty()) return std::nullopt;
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
  const auto other = [&] { return across ? std::nullopt : joined_of(nest, std::move(dm), std::move(dn), *depth); };
  const auto* asked = guarded_product(*nest.value);
  const auto* product = (asked ? asked->operands[1] : *nest.value).as<poly::Apply>();
  if (nest.aggregation != Aggregation::Sum || !product || product->op != Op::Mul || product->type == DType::Bool)
    return other();
  poly::Expr x = product->operands[0], y = product->operands[1];
  if (uses(nest, x, dm, dn).n) std::swap(x, y);
  if (asked) {
    poly::Expr& factor = uses(nest, asked->operands[0], dm, dn).n ? y : x;
    factor = poly::Apply{Op::Select, {asked->operands[0], factor, asked->operands[2]}, product->type};
  }
  const Uses ux = uses(nest, x, dm, dn), uy = uses(nest, y, dm, dn);
  if (!ux.plain || !uy.plain || !ux.m || ux.n || uy.m || !uy.n) return other();
  return Staging{std::move(dm), std::move(dn), *depth, x, y, std::move(staged)};
}

std::optional<Staging> staging_of(const Nest& nest, const Compute& leaf) {
  return staging_of(nest, leaf.all_of_m(), leaf.all_of_n(), leaf.k, leaf.across());
}

// All copies as if they were turned.
std::int64_t staged_bytes(
    const Compute& leaf, std::int64_t threads, std::int64_t depth, const Staging& roles, DType type) {
  std::int64_t bytes = 0;
  const auto add = [&](std::int64_t side, DType of) { bytes += side * lang::bytes(of) + most_access_bytes; };
  const std::int64_t height = threads / leaf.lanes * leaf.rows, width = leaf.lanes * leaf.vectors;
  if (!roles.joined) add(height, type), add(width, type);
  else {
    for (const poly::Expr& value : roles.joined->of_m) add(height, compute_type(value.type()));
    for (const poly::Expr& value : roles.joined->of_n) add(width, compute_type(value.type()));
  }
  return 2 * depth * bytes;
}

Body spell_staged(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
    std::int64_t threads) {
  return Staged(nests, leaf, storage, names, threads).spell();
}

}  // namespace tilec::codegen
