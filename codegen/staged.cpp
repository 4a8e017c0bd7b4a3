// A block of threads: two stages in turn, the products of one, and the elements that are computed again.
#include "codegen/staged.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

constexpr std::int64_t widest = 16;                    // bytes of an access
constexpr std::int64_t neighbours = 4;                 // elements of an access, at most
constexpr std::int64_t warp_rows = 8, warp_columns = 4;  // threads of a warp: with 4x4 elements each, its accesses to either copy are of different banks

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
Uses uses(const Nest& nest, const poly::Expr& e, const std::vector<std::size_t>& m, std::size_t n) {
  Uses u;
  u.plain = each_read(e, [&](int r) {
    const Form& f = nest.reads[static_cast<std::size_t>(r)].offset;
    u.m = u.m || std::any_of(m.begin(), m.end(), [&](std::size_t d) { return f.coefficients[d] != 0; });
    u.n = u.n || f.coefficients[n] != 0;
  });
  return u;
}

// Whether a value is a multiple of w, as far as its spelling says so.
bool is_multiple(const Expr& e, std::int64_t w) {
  if (is_const(e)) return const_or(e, 0) % w == 0;
  const Operation* o = e.as<Operation>();
  if (!o) return w == 1;
  if (o->op == Op::Mul) return is_multiple(o->operands[0], w) || is_multiple(o->operands[1], w);
  const bool keeps = o->op == Op::Add || o->op == Op::Sub || o->op == Op::Min || o->op == Op::Max;
  return keeps && is_multiple(o->operands[0], w) && is_multiple(o->operands[1], w);
}

// What a thread copies by one access, in every stage.
struct Piece {
  Expr k, put;                                         // the first of its values of the staged reduction, from the stage's first; where it goes in a buffer
  std::optional<Expr> there;                           // whether the box ends behind it
  std::vector<Expr> at;                                // values of the dimensions of m, or of n
};

// One factor on its way to shared memory: a box of `depth` x `side`.
struct Copy {
  const poly::Expr& factor;
  std::vector<std::size_t> dims;                       // of m, or n
  bool masked;                                         // rows of the domain bound it
  std::int64_t side = 0, pitch = 0, width = 1;         // pitch: elements from one k to the next
  bool along_depth = false;                            // neighbours in memory follow the staged reduction
  std::string shared = {}, held = {}, aligned = {};        // aligned: whether its tensors begin where accesses of `width` may; empty: it has none
  std::vector<Piece> pieces = {};
  bool partial = false;                                // not all threads have the last piece
};

class Staged {
 public:
  Staged(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names, std::int64_t threads)
      : nest_(nest), leaf_(leaf), storage_(storage), names_(names), points_(nest), threads_(threads), type_(compute_type(nest.value->type())) {
    const auto roles = staging_of(nest, leaf.all_of_m(), leaf.n, leaf.k);
    if (!roles) throw InternalError("the plan stages a statement that is no contraction of two factors");
    roles_ = *roles;
    height_ = threads / leaf.lanes * leaf.rows;
    width_ = leaf.lanes * leaf.vectors;
  }

  Body spell() {
    block_ = names_.fresh("p");
    Body body = coordinates();
    range_ = points_.bounds(roles_.depth);
    Copy a{roles_.by_m, roles_.m, true}, b{roles_.by_n, {roles_.n}, false};
    describe(a, height_, "As"), describe(b, width_, "Bs");
    for (const Copy* copy : {&a, &b}) body.push_back(stmt(Allocate{copy->shared, type_, 2 * depth_ * copy->pitch, Memory::Shared}));
    thread_ = names_.fresh("l");
    body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, one_thread(a, b)}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  std::int64_t extent(std::size_t d) const { return nest_.dims[d].extent; }
  std::int64_t extent(const std::vector<std::size_t>& dims) const {
    return std::accumulate(dims.begin(), dims.end(), poly::Exact(1), [&](poly::Exact product, std::size_t d) { return product * extent(d); }).get();
  }

  // A name for a value, unless it is one.
  Expr let(Body& body, const std::string& stem, const Expr& value) {
    if (value.as<Constant>() || value.as<Variable>()) return value;
    const std::string name = names_.fresh(stem);
    body.push_back(stmt(Let{name, value}));
    return Variable{name, value.type()};
  }

  // p → the values of the outer dimensions, m0 and n0 of this block; n fastest.
  Body coordinates() {
    Body body;
    Expr rest = var(block_);
    blocks_ = 1;
    const auto digit = [&](const std::string& stem, std::int64_t count, std::int64_t step) {
      const Expr value = let(body, stem, remainder(rest, count) * i64(step));
      rest = quotient(rest, count);
      blocks_ = (poly::Exact(blocks_) * count).get();
      return value;
    };
    n0_ = digit(leaf_.n + "_0", (extent(roles_.n) + width_ - 1) / width_, width_);
    m0_ = digit(leaf_.m() + "_0", (extent(roles_.m) + height_ - 1) / height_, height_);
    for (std::size_t o = leaf_.outer.size(); o-- > 0;) {
      const std::size_t d = *nest_.dim(leaf_.outer[o]);
      points_.fix(d, digit(leaf_.outer[o], extent(d), 1));
    }
    return body;
  }

  // The part of a form that these dimensions have.
  static Expr part(const Form& form, const std::vector<std::size_t>& dims, const std::vector<Expr>& at) {
    Expr sum = i64(0);
    for (std::size_t d = 0; d < dims.size(); ++d) sum = sum + at[d] * i64(form.coefficients[dims[d]]);
    return sum;
  }

  // A value of m as one of each of its dimensions.
  std::vector<Expr> digits(Body& body, const std::vector<std::size_t>& dims, const Expr& value) {
    std::vector<Expr> at(dims.size(), value);
    for (std::size_t d = dims.size(); d-- > 1;) {
      const std::string& stem = nest_.dims[dims[d]].name;
      const Expr rest = let(body, stem, at[d]);
      at[d] = let(body, stem, remainder(rest, extent(dims[d])));
      at[d - 1] = quotient(rest, extent(dims[d]));
    }
    at[0] = let(body, nest_.dims[dims[0]].name, at[0]);
    return at;
  }

  // ---- copies

  // How many neighbours along d one access has.
  std::int64_t access_width(const FlatAccess& access, std::size_t d, std::int64_t most) const {
    if (std::any_of(nest_.rows.begin(), nest_.rows.end(), [&](const Row& row) { return is_asked(row) && row.form.coefficients[d] != 0; })) return 1;
    if (access.offset.coefficients[d] != 1) return 1;
    std::int64_t w = std::min(most, widest / lang::bytes(storage_.plan.program.tensor(access.tensor).dtype));
    const auto halve = [&](std::int64_t c) { while (c % w) w /= 2; };
    halve(access.offset.constant);
    for (std::size_t x = 0; x < nest_.dims.size(); ++x) if (x != d) halve(access.offset.coefficients[x]);
    return std::max<std::int64_t>(w, 1);
  }

  bool mentions_m(const Row& row) const {
    return std::any_of(roles_.m.begin(), roles_.m.end(), [&](std::size_t d) { return row.form.coefficients[d] != 0; });
  }

  void describe(Copy& copy, std::int64_t side, const std::string& stem) {
    copy.side = side;
    const auto& reads = nest_.reads;
    const auto runs = [&](std::size_t d) {
      bool found = false;
      each_read(copy.factor, [&](int r) { found = found || std::abs(reads[static_cast<std::size_t>(r)].offset.coefficients[d]) == 1; });
      return found;
    };
    copy.along_depth = runs(roles_.depth) && !runs(copy.dims.back());
    const std::size_t along = copy.along_depth ? roles_.depth : copy.dims.back();
    std::int64_t w = neighbours;
    while (copy.along_depth ? !is_multiple(range_.lo, w) || !is_multiple(range_.hi, w) || depth_ % w : extent(along) % w || side % w) w /= 2;
    each_read(copy.factor, [&](int r) {
      const FlatAccess& access = reads[static_cast<std::size_t>(r)];
      if (access.offset.coefficients[along]) w = access_width(access, along, w);
    });
    copy.width = w;
    copy.pitch = side + (copy.along_depth ? widest / std::min<std::int64_t>(widest, lang::bytes(type_)) : 0);
    copy.shared = names_.fresh(stem);
  }

  // What does not change from stage to stage.
  Body prepare(Copy& copy, const Expr& first) {
    Body body;
    const std::int64_t inner = (copy.along_depth ? depth_ : copy.side) / copy.width, total = depth_ * copy.side / copy.width;
    const std::int64_t turns = (total + threads_ - 1) / threads_;
    copy.partial = total % threads_ != 0;
    for (std::int64_t u = 0; u < turns; ++u) {
      const bool steady = threads_ % inner == 0;
      const Expr e = steady ? var(thread_) : let(body, "e", var(thread_) + i64(u * threads_));
      const Expr within = let(body, "w", remainder(e, inner) * i64(copy.width));
      const Expr across = let(body, "a", quotient(e, inner) + i64(steady ? u * (threads_ / inner) : 0));
      const Expr &k = copy.along_depth ? within : across, &x = copy.along_depth ? across : within;
      Piece piece{k, let(body, "to", k * i64(copy.pitch) + x), std::nullopt, {}};
      const Expr value = let(body, "x", first + x);
      if (extent(copy.dims) % copy.side) piece.there = less(value, i64(extent(copy.dims)));
      if (copy.partial && u + 1 == turns) {
        const Expr mine = less(var(thread_) + i64(u * threads_), i64(total));
        piece.there = piece.there ? both(mine, *piece.there) : mine;
      }
      if (piece.there) piece.there = let(body, "in", *piece.there);
      piece.at = digits(body, copy.dims, value);
      copy.pieces.push_back(std::move(piece));
    }
    copy.held = names_.fresh("held");
    body.push_back(stmt(Allocate{copy.held, type_, turns * copy.width, Memory::Register}));
    if (copy.width > 1) append(body, look_at_addresses(copy));
    return body;
  }

  Body look_at_addresses(Copy& copy) {
    Body body;
    std::optional<Expr> all;
    each_read(copy.factor, [&](int r) {
      const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
      if (!access.offset.coefficients[copy.along_depth ? roles_.depth : copy.dims.back()]) return;
      const Expr one = aligned(body, access.tensor, copy.width);
      all = all ? both(*all, one) : one;
    });
    const std::string name = names_.fresh("aligned");
    body.push_back(stmt(Let{name, *all}));
    copy.aligned = name;
    return body;
  }

  Expr aligned(Body& body, TensorId tensor, std::int64_t width) {
    const std::string name = names_.fresh("aligned");
    body.push_back(stmt(Aligned{name, storage_.name(tensor), bytes_of(tensor, width)}));
    return Variable{name, DType::Bool};
  }
  std::int64_t bytes_of(TensorId tensor, std::int64_t width) const { return width * lang::bytes(storage_.plan.program.tensor(tensor).dtype); }

  // What this stage of the reductions adds to offsets and rows, then every piece to registers: zeros where there is none.
  // `more`: whether there is such a stage. Its pieces are loaded on no branch, lest the compiler moves the loads down to their stores.
  Body load(const Expr& stage, const std::optional<Expr>& more, const Copy& a, const Copy& b) {
    Body body;
    more_ = more ? std::optional(let(body, "more", *more)) : std::nullopt;
    Expr rest = stage;
    const Expr k0 = let(body, nest_.dims[roles_.depth].name, range_.lo + (leaf_.k.size() > 1 ? remainder_of(rest) : rest) * i64(depth_));
    if (leaf_.k.size() > 1) {
      rest = let(body, "tap", quotient_of(rest));
      std::int64_t left = taps_;
      for (std::size_t level = leaf_.k.size(); level-- > 0;) {
        const std::size_t d = *nest_.dim(leaf_.k[level]);
        if (d == roles_.depth) continue;
        left /= std::max<std::int64_t>(extent(d), 1);
        points_.fix(d, let(body, nest_.dims[d].name, left > 1 ? remainder(rest, extent(d)) : rest));
        rest = quotient(rest, extent(d));
      }
    }
    rows_.clear();
    for (const Row& row : nest_.rows) rows_.push_back(is_asked(row) ? let(body, "row", points_.known_part(row.form)) : i64(0));
    for (const Copy* copy : {&a, &b}) append(body, load(*copy, k0));
    for (const std::string& name : leaf_.k) points_.release(*nest_.dim(name));
    return body;
  }
  bool mentions_taps(const Row& row) const {
    return std::any_of(leaf_.k.begin(), leaf_.k.end(), [&](const std::string& name) { const std::size_t d = *nest_.dim(name); return d != roles_.depth && row.form.coefficients[d] != 0; });
  }
  Expr remainder_of(const Expr& stage) const { return is_const(turns_) ? remainder(stage, const_or(turns_, 1)) : Expr(Operation{Op::Mod, {stage, turns_}, DType::I64}); }
  Expr quotient_of(const Expr& stage) const { return is_const(turns_) ? quotient(stage, const_or(turns_, 1)) : Expr(Operation{Op::Div, {stage, turns_}, DType::I64}); }

  Body load(const Copy& copy, const Expr& k0) {
    Body body;
    std::map<int, Expr> from;                          // read → the part of its offset that all threads share
    each_read(copy.factor, [&](int r) {
      const Form& form = nest_.reads[static_cast<std::size_t>(r)].offset;
      from.emplace(r, let(body, "from", points_.known_part(form) + k0 * i64(form.coefficients[roles_.depth])));
    });
    for (std::size_t u = 0; u < copy.pieces.size(); ++u) {
      const Piece& piece = copy.pieces[u];
      const std::int64_t slot = static_cast<std::int64_t>(u) * copy.width;
      for (std::int64_t c = 0; c < copy.width; ++c) body.push_back(stmt(Store{copy.held, i64(slot + c), Constant{type_, 0, 0.0}}));
      Body read = accesses(copy, piece, slot, from, false);
      if (!copy.aligned.empty()) read = {stmt(If{Variable{copy.aligned, DType::Bool}, accesses(copy, piece, slot, from, true), std::move(read)})};
      if (const auto there = takes_part(copy, piece, k0)) body.push_back(stmt(If{*there, std::move(read), {}}));
      else append(body, std::move(read));
    }
    return body;
  }

  std::optional<Expr> takes_part(const Copy& copy, const Piece& piece, const Expr& k0) const {
    std::optional<Expr> all = more_;
    const auto too = [&](const Expr& holds) { all = all ? both(*all, holds) : holds; };
    if (piece.there) too(*piece.there);
    if (ragged_) too(less(k0 + piece.k, range_.hi));
    for (std::size_t r = 0; r < nest_.rows.size(); ++r) {
      const Row& row = nest_.rows[r];
      if (!is_asked(row) || (!copy.masked && mentions_m(row))) continue;
      Expr value = rows_[r] + (k0 + piece.k) * i64(row.form.coefficients[roles_.depth]);
      if (copy.masked) value = value + part(row.form, copy.dims, piece.at);
      too(points_.holds(row, value));
    }
    return all;
  }
  // Rows over the staged reduction and what is fixed around the block are its range.
  bool is_asked(const Row& row) const { return !row.form.coefficients[roles_.depth] || mentions_m(row) || mentions_taps(row); }

  Body accesses(const Copy& copy, const Piece& piece, std::int64_t slot, const std::map<int, Expr>& from, bool together) {
    Body body;
    std::map<int, std::string> views;
    const std::size_t along = copy.along_depth ? roles_.depth : copy.dims.back();
    for (const auto& [r, offset] : from) {
      const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
      const Expr own = part(access.offset, copy.dims, piece.at) + piece.k * i64(access.offset.coefficients[roles_.depth]);
      views[r] = names_.fresh("v");
      const bool wide = together && access.offset.coefficients[along] != 0;
      body.push_back(stmt(View{views[r], storage_.name(access.tensor), offset + own, wide ? bytes_of(access.tensor, copy.width) : copy.width > 1 ? 1 : 0}));
    }
    for (std::int64_t c = 0; c < copy.width; ++c) {
      const auto read = [&](int r) {
        const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
        return Expr(Load{views.at(r), i64(c * access.offset.coefficients[along]), storage_.plan.program.tensor(access.tensor).dtype});
      };
      body.push_back(stmt(Store{copy.held, i64(slot + c), convert(factor_value(copy.factor, read), type_)}));
    }
    return body;
  }

  static Expr factor_value(const poly::Expr& e, const std::function<Expr(int)>& read) {
    return e.match([&](const poly::Number& n) { return constant_of(n); },
                   [&](const poly::Index&) -> Expr { throw InternalError("an index value is not staged"); },
                   [&](const poly::Read& r) { return convert(read(r.read), compute_type(r.type)); },
                   [&](const poly::Cast& c) { return cast(factor_value(c.operand, read), c.operand, c.type); },
                   [&](const poly::Apply& a) {
                     std::vector<Expr> operands;
                     for (const poly::Expr& o : a.operands) operands.push_back(factor_value(o, read));
                     return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
                   });
  }

  // From registers to the buffer that begins there.
  Body put(const Copy& copy, const Expr& buffer) {
    Body body;
    for (std::size_t u = 0; u < copy.pieces.size(); ++u) {
      Body stores;
      for (std::int64_t c = 0; c < copy.width; ++c)
        stores.push_back(stmt(Store{copy.shared, buffer + copy.pieces[u].put + i64(c * (copy.along_depth ? copy.pitch : 1)), Load{copy.held, i64(static_cast<std::int64_t>(u) * copy.width + c), type_}}));
      if (!copy.partial || u + 1 < copy.pieces.size()) { append(body, std::move(stores)); continue; }
      const Expr mine = less(var(thread_), i64(depth_ * copy.side / copy.width - static_cast<std::int64_t>(u) * threads_));
      body.push_back(stmt(If{mine, std::move(stores), {}}));
    }
    return body;
  }
  Expr buffer(const Copy& copy, const Expr& stage) const { return remainder(stage, 2) * i64(depth_ * copy.pitch); }

  // ---- one thread

  // Its row of threads, and its column: warps are 8 x 4 threads where there are so many.
  Body place_of_thread() {
    Body body;
    const std::int64_t rows = threads_ / leaf_.lanes;
    const std::int64_t tall = std::gcd(rows, warp_rows), wide = std::gcd(leaf_.lanes, warp_columns), across = leaf_.lanes / wide;
    const Expr lane = let(body, "lane", remainder(var(thread_), tall * wide)), group = let(body, "warp", quotient(var(thread_), tall * wide));
    thread_row_ = let(body, "t_m", (quotient(group, across) * i64(tall) + quotient(lane, wide)) * i64(square(leaf_.rows)));
    thread_column_ = let(body, "t_n", (remainder(group, across) * i64(wide) + remainder(lane, wide)) * i64(square(leaf_.vectors)));
    return body;
  }
  static std::int64_t square(std::int64_t count) { return std::gcd(count, neighbours); }  // neighbours of one thread
  std::int64_t row_step() const { return threads_ / leaf_.lanes * square(leaf_.rows); }
  std::int64_t column_step() const { return leaf_.lanes * square(leaf_.vectors); }
  Expr row(std::int64_t i) const { return thread_row_ + i64(i / square(leaf_.rows) * row_step() + i % square(leaf_.rows)); }  // within the block
  Expr column(std::int64_t j) const { return thread_column_ + i64(j / square(leaf_.vectors) * column_step() + j % square(leaf_.vectors)); }

  Body one_thread(Copy& a, Copy& b) {
    acc_ = names_.fresh("acc");
    Body body = place_of_thread();
    body.push_back(stmt(Allocate{acc_, type_, leaf_.rows * leaf_.vectors, Memory::Register}));
    for (std::int64_t x = 0; x < leaf_.rows * leaf_.vectors; ++x) body.push_back(stmt(Store{acc_, i64(x), identity(Aggregation::Sum, type_)}));
    append(body, prepare(a, m0_)), append(body, prepare(b, n0_));
    append(body, stages(a, b));
    append(body, write());
    if (lang::is_float(type_) && std::any_of(nest_.rows.begin(), nest_.rows.end(), [&](const Row& row) { return mentions_m(row); })) append(body, again());
    return body;
  }

  // All values of the other reductions, and for each the staged one by `depth`.
  Body stages(const Copy& a, const Copy& b) {
    Body body;
    ragged_ = !is_const(range_.lo) || !is_const(range_.hi) || (const_or(range_.hi, 0) - const_or(range_.lo, 0)) % depth_ != 0;
    const std::string& stem = nest_.dims[roles_.depth].name;
    range_.lo = let(body, stem + "_lo", range_.lo), range_.hi = let(body, stem + "_end", range_.hi);
    turns_ = let(body, stem + "_n", maximum(i64(0), ceil_divide(range_.hi - range_.lo, depth_)));
    std::vector<std::size_t> taps;
    for (const std::string& name : leaf_.k) if (*nest_.dim(name) != roles_.depth) taps.push_back(*nest_.dim(name));
    taps_ = extent(taps);
    const Expr count = let(body, "stages", turns_ * i64(taps_));
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
    const Expr from_a = let(body, "at_a", buffer(a, stage) + thread_row_), from_b = let(body, "at_b", buffer(b, stage) + thread_column_);
    Body one;
    std::vector<Expr> x, y;
    for (std::int64_t i = 0; i < leaf_.rows; ++i) x.push_back(let(one, "a", Load{a.shared, from_a + var(k) * i64(a.pitch) + (row(i) - thread_row_), type_}));
    for (std::int64_t j = 0; j < leaf_.vectors; ++j) y.push_back(let(one, "b", Load{b.shared, from_b + var(k) * i64(b.pitch) + (column(j) - thread_column_), type_}));
    for (std::int64_t i = 0; i < leaf_.rows; ++i)
      for (std::int64_t j = 0; j < leaf_.vectors; ++j) one.push_back(stmt(Store{acc_, slot(i, j), sum(Load{acc_, slot(i, j), type_}, x[static_cast<std::size_t>(i)], y[static_cast<std::size_t>(j)])}));
    body.push_back(stmt(For{k, Kind::Unroll, i64(depth_), {}, std::move(one)}));
    return body;
  }
  Expr slot(std::int64_t i, std::int64_t j) const { return i64(i * leaf_.vectors + j); }
  Expr sum(const Expr& acc, const Expr& a, const Expr& b) const {
    if (lang::is_float(type_)) return Operation{Op::Fma, {a, b, acc}, type_};
    return Operation{Op::Add, {acc, Operation{Op::Mul, {a, b}, type_}}, type_};
  }

  // ---- the result

  Expr result(const Expr& sum) const {
    const DType target = storage_.plan.program.tensor(nest_.target.tensor).dtype;
    return convert(convert(sum, compute_type(target)), target);
  }

  Body write() {
    const Form& f = nest_.target.offset;
    const std::int64_t w = extent(roles_.n) % square(leaf_.vectors) ? 1 : access_width(nest_.target, roles_.n, square(leaf_.vectors));
    Body body;
    std::optional<Expr> wide;
    if (w > 1) wide = aligned(body, nest_.target.tensor, w);
    for (std::int64_t i = 0; i < leaf_.rows; ++i) {
      Body line;
      const Expr m = let(line, "m", m0_ + row(i));
      const Expr base = let(line, "to", points_.known_part(f) + part(f, roles_.m, digits(line, roles_.m, m)) + (n0_ + thread_column_) * i64(f.coefficients[roles_.n]));
      for (std::int64_t j = 0; j < leaf_.vectors; j += w) {
        const auto stores = [&](std::int64_t alignment) {
          const std::string view = names_.fresh("v");
          Body some{stmt(View{view, storage_.name(nest_.target.tensor), base + (column(j) - thread_column_) * i64(f.coefficients[roles_.n]), alignment})};
          for (std::int64_t c = 0; c < w; ++c) some.push_back(stmt(Store{view, i64(c * f.coefficients[roles_.n]), result(Load{acc_, slot(i, j + c), type_})}));
          return some;
        };
        Body all = stores(wide ? 1 : 0);
        if (wide) all = {stmt(If{*wide, stores(bytes_of(nest_.target.tensor, w)), std::move(all)})};
        line.push_back(stmt(If{less(n0_ + column(j), i64(extent(roles_.n))), std::move(all), {}}));
      }
      body.push_back(stmt(If{less(m0_ + row(i), i64(extent(roles_.m))), std::move(line), {}}));
    }
    return body;
  }

  // The sum of a thread's sums is finite only if all of them are.
  Body again() {
    Expr all = Load{acc_, i64(0), type_};
    for (std::int64_t x = 1; x < leaf_.rows * leaf_.vectors; ++x) all = Operation{Op::Add, {all, Load{acc_, i64(x), type_}}, type_};
    Body body;
    all = let(body, "all", all);
    const std::int64_t rows = square(leaf_.rows), columns = square(leaf_.vectors);
    const auto each = [&](const std::string& stem, std::int64_t count, const std::function<Body(const Expr&)>& inside) { return serial(names_, stem, {i64(0), i64(count)}, inside); };
    Body elements = each("i", leaf_.rows / rows, [&](const Expr& i) {
      return each("i", rows, [&](const Expr& within_i) {
        return each("j", leaf_.vectors / columns, [&](const Expr& j) {
          return each("j", columns, [&](const Expr& within_j) {
            return element(m0_ + thread_row_ + i * i64(row_step()) + within_i, n0_ + thread_column_ + j * i64(column_step()) + within_j);
          });
        });
      });
    });
    const Expr finite = Operation{Op::Eq, {Operation{Op::Sub, {all, all}, type_}, identity(Aggregation::Sum, type_)}, DType::Bool};
    body.push_back(stmt(If{finite, {}, std::move(elements)}));
    return body;
  }

  // One element from its own points, in the order of the stages.
  Body element(const Expr& m, const Expr& n) {
    Body body;
    const std::vector<Expr> at = digits(body, roles_.m, m);
    for (std::size_t d = 0; d < at.size(); ++d) points_.fix(roles_.m[d], at[d]);
    points_.fix(roles_.n, let(body, "n", n));
    const std::string total = names_.fresh("sum");
    body.push_back(stmt(Allocate{total, type_, 1, Memory::Register}));
    body.push_back(stmt(Store{total, i64(0), identity(Aggregation::Sum, type_)}));
    std::vector<std::size_t> order;
    for (const std::string& name : leaf_.k) if (*nest_.dim(name) != roles_.depth) order.push_back(*nest_.dim(name));
    order.push_back(roles_.depth);
    Body points = through(order, 0, total);
    if (const auto rows = points_.fixed_rows()) points = {stmt(If{*rows, std::move(points), {}})};
    append(body, std::move(points));
    body.push_back(stmt(Store{storage_.name(nest_.target.tensor), points_.known_part(nest_.target.offset), result(Load{total, i64(0), type_})}));
    for (const std::size_t d : roles_.m) points_.release(d);
    points_.release(roles_.n);
    return {stmt(If{both(less(m, i64(extent(roles_.m))), less(n, i64(extent(roles_.n)))), std::move(body), {}})};
  }

  Body through(const std::vector<std::size_t>& order, std::size_t level, const std::string& total) {
    if (level == order.size()) {
      const auto read = [&](int r) {
        const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
        return Expr(Load{storage_.name(access.tensor), points_.known_part(access.offset), storage_.plan.program.tensor(access.tensor).dtype});
      };
      const Expr a = convert(factor_value(roles_.by_m, read), type_), b = convert(factor_value(roles_.by_n, read), type_);
      return {stmt(Store{total, i64(0), sum(Load{total, i64(0), type_}, a, b)})};
    }
    const std::size_t d = order[level];
    return serial(names_, nest_.dims[d].name, points_.bounds(d), [&](const Expr& value) {
      points_.fix(d, value);
      Body body = through(order, level + 1, total);
      points_.release(d);
      return body;
    });
  }

  const Nest& nest_;
  const Compute& leaf_;
  const std::int64_t depth_ = leaf_.as<forms::Staged>()->depth;
  const Storage& storage_;
  Names& names_;
  Ranges points_;
  std::int64_t threads_, height_ = 0, width_ = 0, blocks_ = 1;
  DType type_;
  Staging roles_{{}, 0, 0, poly::Expr(poly::Number{}), poly::Expr(poly::Number{})};
  Expr m0_ = i64(0), n0_ = i64(0), thread_row_ = i64(0), thread_column_ = i64(0);
  Interval range_{i64(0), i64(0)};                     // of the staged reduction
  Expr turns_ = i64(0);                                // stages for each value of the other reductions
  std::int64_t taps_ = 1;                              // how many those are
  bool ragged_ = false;                                // the last stage is not full
  std::optional<Expr> more_;                           // whether there is the stage that is loaded; none: it is known
  std::vector<Expr> rows_;                             // of each row of the domain, what this stage has of it
  std::string block_, thread_, acc_;
};

bool in_rows(const Nest& nest, std::size_t d) {
  return std::any_of(nest.rows.begin(), nest.rows.end(), [&](const Row& row) { return row.form.coefficients[d] != 0; });
}

bool share_row(const Nest& nest, std::size_t a, std::size_t b) {
  return std::any_of(nest.rows.begin(), nest.rows.end(), [&](const Row& row) { return row.form.coefficients[a] && row.form.coefficients[b]; });
}

}  // namespace

std::optional<Staging> staging_of(const Nest& nest, const std::vector<std::string>& m, const std::string& n, const std::vector<std::string>& k) {
  const auto* product = nest.value->as<poly::Apply>();
  if (nest.aggregation != Aggregation::Sum || !product || product->op != Op::Mul || product->type == DType::Bool || nest.empty()) return std::nullopt;
  const auto dn = nest.dim(n);
  std::vector<std::size_t> dm;
  for (const std::string& name : m) {
    const auto d = nest.dim(name);
    if (!d || nest.dims[*d].reduction) return std::nullopt;
    dm.push_back(*d);
  }
  if (dm.empty() || !dn || nest.dims[*dn].reduction || in_rows(nest, *dn) || !(identity_is_fill(nest) || always_reached(nest))) return std::nullopt;
  std::optional<std::size_t> depth;
  for (const std::string& name : k) {
    const std::size_t d = *nest.dim(name);
    const bool bounded = std::any_of(dm.begin(), dm.end(), [&](std::size_t x) { return share_row(nest, d, x); });
    if (!bounded && (!depth || nest.dims[d].extent > nest.dims[*depth].extent)) depth = d;
  }
  if (!depth) return std::nullopt;
  poly::Expr x = product->operands[0], y = product->operands[1];
  if (uses(nest, x, dm, *dn).n) std::swap(x, y);
  const Uses ux = uses(nest, x, dm, *dn), uy = uses(nest, y, dm, *dn);
  if (!ux.plain || !uy.plain || !ux.m || ux.n || uy.m || !uy.n) return std::nullopt;
  return Staging{std::move(dm), *dn, *depth, x, y};
}

// Both copies as if they were turned.
std::int64_t staged_bytes(const Compute& leaf, std::int64_t threads, std::int64_t depth, std::int64_t element) {
  return 2 * depth * ((threads / leaf.lanes * leaf.rows + leaf.lanes * leaf.vectors) * element + 2 * widest);
}

Body spell_staged(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names, std::int64_t threads) {
  return Staged(nest, leaf, storage, names, threads).spell();
}

}  // namespace tilec::codegen
