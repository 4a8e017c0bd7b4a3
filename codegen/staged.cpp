// A block of threads: staging, the products of one turn, and the rows that take no part under a tap.
#include "codegen/staged.h"

#include <algorithm>
#include <functional>

#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

Expr i64(std::int64_t value) { return Expr(value); }
Expr quotient(const Expr& a, std::int64_t b) { return b == 1 ? a : Expr(Operation{Op::Div, {a, i64(b)}, DType::I64}); }
Expr remainder(const Expr& a, std::int64_t b) { return b == 1 ? i64(0) : Expr(Operation{Op::Mod, {a, i64(b)}, DType::I64}); }

// Calls f for every read of `e`; false when there is an Index node, whose value staging does not carry.
bool each_read(const poly::Expr& e, const std::function<void(int)>& f) {
  return e.match([](const poly::Number&) { return true; }, [](const poly::Index&) { return false; },
                 [&](const poly::Read& r) { f(r.read); return true; }, [&](const poly::Cast& c) { return each_read(c.operand, f); },
                 [&](const poly::Apply& a) { return std::all_of(a.operands.begin(), a.operands.end(), [&](const poly::Expr& o) { return each_read(o, f); }); });
}

struct Uses { bool m = false, n = false, plain = true; };
Uses uses(const Nest& nest, const poly::Expr& e, std::size_t m, std::size_t n) {
  Uses u;
  u.plain = each_read(e, [&](int r) {
    const Form& f = nest.reads[static_cast<std::size_t>(r)].offset;
    u.m = u.m || f.coefficients[m] != 0;
    u.n = u.n || f.coefficients[n] != 0;
  });
  return u;
}

class Staged {
 public:
  Staged(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names, std::int64_t threads)
      : nest_(nest), leaf_(leaf), storage_(storage), names_(names), points_(nest), threads_(threads), type_(compute_type(nest.value->type())) {
    const auto roles = staging_of(nest, leaf.m(), leaf.n, leaf.k);
    if (!roles) throw InternalError("the plan stages a statement that is no contraction of two factors");
    roles_ = *roles;
    height_ = threads / leaf.lanes * leaf.rows;
    width_ = leaf.lanes * leaf.vectors;
  }

  Body spell() {
    block_ = names_.fresh("p");
    Body body = coordinates();
    as_ = names_.fresh("As");
    bs_ = names_.fresh("Bs");
    body.push_back(stmt(Allocate{as_, type_, depth_ * height_, Memory::Shared}));
    body.push_back(stmt(Allocate{bs_, type_, depth_ * width_, Memory::Shared}));
    thread_ = names_.fresh("l");
    body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, one_thread()}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  std::int64_t extent(std::size_t d) const { return nest_.dims[d].extent; }

  // p → the values of the outer dimensions, m0 and n0 of this block; n fastest.
  Body coordinates() {
    Body body;
    Expr rest = var(block_);
    blocks_ = 1;
    const auto digit = [&](const std::string& stem, std::int64_t count, std::int64_t step) {
      const std::string name = names_.fresh(stem);
      body.push_back(stmt(Let{name, remainder(rest, count) * i64(step)}));
      rest = quotient(rest, count);
      blocks_ = (poly::Exact(blocks_) * count).get();
      return var(name);
    };
    n0_ = digit(leaf_.n + "_0", (extent(roles_.n) + width_ - 1) / width_, width_);
    m0_ = digit(leaf_.m() + "_0", (extent(roles_.m) + height_ - 1) / height_, height_);
    for (std::size_t o = leaf_.outer.size(); o-- > 0;) {
      const std::size_t d = *nest_.dim(leaf_.outer[o]);
      points_.fix(d, digit(leaf_.outer[o], extent(d), 1));
    }
    return body;
  }

  Expr thread_column() const { return remainder(var(thread_), leaf_.lanes); }
  Expr thread_row() const { return quotient(var(thread_), leaf_.lanes); }
  Expr row(std::int64_t i) const { return thread_row() * i64(leaf_.rows) + i64(i); }                // within the block
  Expr column(std::int64_t j) const { return thread_column() + i64(j * leaf_.lanes); }

  Body one_thread() {
    acc_ = names_.fresh("acc");
    Body body{stmt(Allocate{acc_, type_, leaf_.rows * leaf_.vectors, Memory::Register})};
    for (std::int64_t a = 0; a < leaf_.rows * leaf_.vectors; ++a) body.push_back(stmt(Store{acc_, i64(a), identity(Aggregation::Sum, type_)}));
    append(body, taps(0));
    append(body, write());
    return body;
  }

  // Serial loops over all reductions but the staged one. Their bounds are the same for all threads: rows that mention m wait.
  Body taps(std::size_t level) {
    if (level == leaf_.k.size()) return staged_range();
    const std::size_t d = *nest_.dim(leaf_.k[level]);
    if (d == roles_.depth) return taps(level + 1);
    const Interval range = points_.bounds(d);
    const Expr count = range.hi - range.lo;
    if (is_const(count) && const_or(count, 0) <= 0) return {};
    const std::string index = names_.fresh(leaf_.k[level]), lo = names_.fresh(leaf_.k[level] + "_lo"), turns = names_.fresh(leaf_.k[level] + "_n");
    Body body{stmt(Let{lo, range.lo}), stmt(Let{turns, range.hi - var(lo)})};
    points_.fix(d, var(lo) + var(index));
    Body inside = taps(level + 1);
    points_.release(d);
    Stmt loop = stmt(For{index, Kind::Serial, var(turns), {}, std::move(inside)});
    body.push_back(stmt(If{less(i64(0), var(turns)), {std::move(loop)}, {}}));
    return body;
  }

  // Whether row `m` of the output takes part under the taps that are fixed now.
  std::optional<Expr> takes_part(const Expr& m) const {
    std::optional<Expr> all;
    for (const Row& row : nest_.rows) {
      const std::int64_t c = row.form.coefficients[roles_.m];
      if (!c) continue;
      const Expr holds = points_.holds(row, points_.known_part(row.form) + m * i64(c));
      all = all ? both(*all, holds) : holds;
    }
    return all;
  }

  Body staged_range() {
    const std::string& stem = nest_.dims[roles_.depth].name;
    const std::string index = names_.fresh(stem + "_b");
    const Interval range = points_.bounds(roles_.depth);
    const bool known = is_const(range.lo) && is_const(range.hi);
    Body before, inside;
    Expr lo = range.lo, turns = ceil_divide(range.hi - range.lo, depth_);
    k_end_ = range.hi;
    if (!known) {
      const std::string begin = names_.fresh(stem + "_lo"), end = names_.fresh(stem + "_end"), count = names_.fresh(stem + "_n");
      before = {stmt(Let{begin, range.lo}), stmt(Let{end, range.hi}), stmt(Let{count, ceil_divide(var(end) - var(begin), depth_)})};
      lo = var(begin), k_end_ = var(end), turns = var(count);
    }
    ragged_ = !known || (const_or(range.hi, 0) - const_or(range.lo, 0)) % depth_ != 0;
    k0_ = lo + var(index) * i64(depth_);
    append(inside, stage(as_, roles_.by_m, roles_.m, m0_, height_));
    append(inside, stage(bs_, roles_.by_n, roles_.n, n0_, width_));
    inside.push_back(stmt(Barrier{}));
    append(inside, multiply());
    inside.push_back(stmt(Barrier{}));
    Stmt loop = stmt(For{index, Kind::Serial, turns, {}, std::move(inside)});
    if (known) return {std::move(loop)};
    before.push_back(stmt(If{less(i64(0), turns), {std::move(loop)}, {}}));
    return before;
  }

  // Copies `leaf.depth` x `side` values of one factor: element e of the box in the order of the factor's unit stride.
  Body stage(const std::string& shared, const poly::Expr& factor, std::size_t d, const Expr& first, std::int64_t side) {
    bool depth_first = false;                          // the staged reduction has the unit stride
    each_read(factor, [&](int r) { depth_first = depth_first || std::abs(nest_.reads[static_cast<std::size_t>(r)].offset.coefficients[roles_.depth]) == 1; });
    const std::int64_t total = depth_ * side;
    const std::string turn = names_.fresh("u"), e = names_.fresh("e"), k = names_.fresh("kk"), x = names_.fresh("x"), value = names_.fresh("s");
    Body inside{stmt(Let{e, var(thread_) + var(turn) * i64(threads_)})};
    inside.push_back(stmt(Let{k, depth_first ? remainder(var(e), depth_) : quotient(var(e), side)}));
    inside.push_back(stmt(Let{x, depth_first ? quotient(var(e), depth_) : remainder(var(e), side)}));
    Expr there = less(first + var(x), i64(extent(d)));
    if (ragged_) there = both(there, less(k0_ + var(k), k_end_));
    if (d == roles_.m) if (const auto part = takes_part(first + var(x))) there = both(there, *part);
    if (total % threads_) there = both(less(var(e), i64(total)), there);
    inside.push_back(stmt(Allocate{value, type_, 1, Memory::Register}));
    inside.push_back(stmt(Store{value, i64(0), Constant{type_, 0, 0.0}}));
    Stmt read = stmt(Store{value, i64(0), convert(factor_value(factor, d, first + var(x), k0_ + var(k)), type_)});
    inside.push_back(stmt(If{there, {std::move(read)}, {}}));
    Stmt put = stmt(Store{shared, var(k) * i64(side) + var(x), Load{value, i64(0), type_}});
    if (total % threads_) put = stmt(If{less(var(e), i64(total)), {std::move(put)}, {}});
    inside.push_back(std::move(put));
    return {stmt(For{turn, Kind::Unroll, i64((total + threads_ - 1) / threads_), {}, std::move(inside)})};
  }

  Expr factor_value(const poly::Expr& e, std::size_t d, const Expr& x, const Expr& k) const {
    return e.match([&](const poly::Number& n) { return constant_of(n); },
                   [&](const poly::Index&) -> Expr { throw InternalError("an index value is not staged"); },
                   [&](const poly::Read& r) {
                     const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r.read)];
                     const Expr offset = points_.known_part(access.offset) + x * i64(access.offset.coefficients[d]) + k * i64(access.offset.coefficients[roles_.depth]);
                     const DType type = storage_.plan.program.tensor(access.tensor).dtype;
                     return convert(Expr(Load{storage_.name(access.tensor), offset, type}), compute_type(r.type));
                   },
                   [&](const poly::Cast& c) { return cast(factor_value(c.operand, d, x, k), c.operand, c.type); },
                   [&](const poly::Apply& a) {
                     std::vector<Expr> operands;
                     for (const poly::Expr& o : a.operands) operands.push_back(factor_value(o, d, x, k));
                     return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
                   });
  }

  Body multiply() {
    // Rows take part or not for the whole staged range: where all of a block's rows do, none is asked.
    const std::optional<Expr> first = takes_part(m0_ + row(0));
    const std::string k = names_.fresh("k");
    const auto loop = [&](bool ask) { return stmt(For{k, Kind::Serial, i64(depth_), {}, products(k, ask)}); };
    if (!first) return {loop(false)};
    Body body;
    parts_.clear();
    Expr all = Constant{DType::Bool, 1, 0};
    for (std::int64_t i = 0; i < leaf_.rows; ++i) {
      const std::string name = names_.fresh("in");
      body.push_back(stmt(Let{name, *takes_part(m0_ + row(i))}));
      parts_.push_back(Variable{name, DType::Bool});
      all = i == 0 ? parts_.back() : both(all, parts_.back());
    }
    body.push_back(stmt(If{all, {loop(false)}, {loop(true)}}));
    return body;
  }

  Body products(const std::string& k, bool ask) {
    Body body;
    std::vector<Expr> b;
    for (std::int64_t j = 0; j < leaf_.vectors; ++j) b.push_back(named(body, "b", Load{bs_, var(k) * i64(width_) + column(j), type_}));
    for (std::int64_t i = 0; i < leaf_.rows; ++i) {
      const Expr a = named(body, "a", Load{as_, var(k) * i64(height_) + row(i), type_});
      Body products;
      for (std::int64_t j = 0; j < leaf_.vectors; ++j) {
        const Expr slot = i64(i * leaf_.vectors + j);
        const Expr acc = Load{acc_, slot, type_};
        products.push_back(stmt(Store{acc_, slot, lang::is_float(type_) ? Expr(Operation{Op::Fma, {a, b[static_cast<std::size_t>(j)], acc}, type_})
                                                                       : Expr(Operation{Op::Add, {acc, Operation{Op::Mul, {a, b[static_cast<std::size_t>(j)]}, type_}}, type_})}));
      }
      if (ask) body.push_back(stmt(If{parts_[static_cast<std::size_t>(i)], std::move(products), {}}));
      else append(body, std::move(products));
    }
    return body;
  }

  Expr named(Body& body, const std::string& stem, Expr value) {
    const std::string name = names_.fresh(stem);
    body.push_back(stmt(Let{name, std::move(value)}));
    return Variable{name, type_};
  }

  Body write() {
    const DType target = storage_.plan.program.tensor(nest_.target.tensor).dtype;
    const Form& f = nest_.target.offset;
    Body body;
    for (std::int64_t i = 0; i < leaf_.rows; ++i)
      for (std::int64_t j = 0; j < leaf_.vectors; ++j) {
        const Expr m = m0_ + row(i), n = n0_ + column(j);
        const Expr offset = points_.known_part(f) + m * i64(f.coefficients[roles_.m]) + n * i64(f.coefficients[roles_.n]);
        const Expr value = convert(convert(Load{acc_, i64(i * leaf_.vectors + j), type_}, compute_type(target)), target);
        body.push_back(stmt(If{both(less(m, i64(extent(roles_.m))), less(n, i64(extent(roles_.n)))), {stmt(Store{storage_.name(nest_.target.tensor), offset, value})}, {}}));
      }
    return body;
  }

  const Nest& nest_;
  const Compute& leaf_;
  const std::int64_t depth_ = leaf_.as<forms::Staged>()->depth;
  const Storage& storage_;
  Names& names_;
  Ranges points_;
  std::int64_t threads_, height_ = 0, width_ = 0, blocks_ = 1;
  DType type_;
  Staging roles_{0, 0, 0, poly::Expr(poly::Number{}), poly::Expr(poly::Number{})};
  Expr m0_ = Expr(std::int64_t{0}), n0_ = Expr(std::int64_t{0}), k0_ = Expr(std::int64_t{0}), k_end_ = Expr(std::int64_t{0});
  bool ragged_ = false;                                // the last turn of the staged reduction is not full
  std::string block_, as_, bs_, thread_, acc_;
  std::vector<Expr> parts_;                            // per row of the thread: takes part under these taps
};

bool in_rows(const Nest& nest, std::size_t d) {
  return std::any_of(nest.rows.begin(), nest.rows.end(), [&](const Row& row) { return row.form.coefficients[d] != 0; });
}

bool share_row(const Nest& nest, std::size_t a, std::size_t b) {
  return std::any_of(nest.rows.begin(), nest.rows.end(), [&](const Row& row) { return row.form.coefficients[a] && row.form.coefficients[b]; });
}

}  // namespace

std::optional<Staging> staging_of(const Nest& nest, const std::string& m, const std::string& n, const std::vector<std::string>& k) {
  const auto* product = nest.value->as<poly::Apply>();
  const auto dm = nest.dim(m), dn = nest.dim(n);
  if (nest.aggregation != Aggregation::Sum || !product || product->op != Op::Mul || product->type == DType::Bool || !dm || !dn || nest.empty()) return std::nullopt;
  if (nest.dims[*dm].reduction || nest.dims[*dn].reduction || in_rows(nest, *dn) || !(identity_is_fill(nest) || always_reached(nest))) return std::nullopt;
  std::optional<std::size_t> depth;
  for (const std::string& name : k) {
    const std::size_t d = *nest.dim(name);
    if (!share_row(nest, d, *dm) && (!depth || nest.dims[d].extent > nest.dims[*depth].extent)) depth = d;
  }
  if (!depth) return std::nullopt;
  poly::Expr x = product->operands[0], y = product->operands[1];
  if (uses(nest, x, *dm, *dn).n) std::swap(x, y);
  const Uses ux = uses(nest, x, *dm, *dn), uy = uses(nest, y, *dm, *dn);
  if (!ux.plain || !uy.plain || !ux.m || ux.n || uy.m || !uy.n) return std::nullopt;
  return Staging{*dm, *dn, *depth, x, y};
}

Body spell_staged(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names, std::int64_t threads) {
  return Staged(nest, leaf, storage, names, threads).spell();
}

}  // namespace tilec::codegen
