// A block of threads: two stages in turn, the products of one, and the elements that are computed again.
#include "codegen/staged.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "codegen/staged_block.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

constexpr std::int64_t widest = 16;                    // bytes of an access
constexpr std::int64_t neighbours = 4;                 // elements of an access, at most
constexpr std::int64_t warp_rows = 8, warp_columns = 4;  // threads of a warp: with 4x4 elements each, its accesses to
                                                         // either copy are of different banks

// Calls f for every read of `e`; false when there is an Index node, whose value staging does not carry.
bool each_read(const poly::Expr& e, const std::function<void(int)>& f) {
  return e.match([](const poly::Number&) { return true; }, [](const poly::Index&) { return false; },
      [&](const poly::Read& r) {
        f(r.read);
        return true;
      },
      [&](const poly::Cast& c) { return each_read(c.operand, f); },
      [&](const poly::Apply& a) {
        return std::all_of(a.operands.begin(), a.operands.end(), [&](const poly::Expr& o) { return each_read(o, f); });
      });
}

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
  Expr k, put;                                         // the first of its values of the staged reduction, from the
                                                       // stage's first; where it goes in a buffer
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
  std::string shared = {}, held = {}, aligned = {};        // aligned: whether its tensors begin where accesses of
                                                           // `width` may; empty: it has none
  std::vector<Piece> pieces = {};
  bool partial = false;                                // not all threads have the last piece
};

class Staged : StagedBlock {
 public:
  Staged(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names, std::int64_t threads)
      : StagedBlock(nest, leaf, storage, names, leaf.as<forms::Staged>()->depth, threads / leaf.lanes * leaf.rows,
            leaf.lanes * leaf.vectors),
        threads_(threads) {}

  Body spell() {
    block_ = names_.fresh("p");
    Body body = coordinates();
    Copy a{roles_.by_m, roles_.m, true}, b{roles_.by_n, roles_.n, false};
    describe(a, height_, "As"), describe(b, width_, "Bs");
    for (const Copy* copy : {&a, &b})
      body.push_back(stmt(Allocate{copy->shared, type_, 2 * depth_ * copy->pitch, Memory::Shared}));
    thread_ = names_.fresh("l");
    body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, one_thread(a, b)}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  // ---- copies

  // How many neighbours along d one access has.
  std::int64_t access_width(const FlatAccess& access, std::size_t d, std::int64_t most) const {
    return std::any_of(nest_.rows.begin(), nest_.rows.end(),
               [&](const Row& row) { return is_asked(row) && row.form.coefficients[d] != 0; })
        ? 1
        : neighbours_of(access, d, most);
  }
  // Those whose offset is a multiple of their number.
  std::int64_t neighbours_of(const FlatAccess& access, std::size_t d, std::int64_t most) const {
    if (access.offset.coefficients[d] != 1) return 1;
    std::int64_t w = std::min(most, widest / lang::bytes(storage_.plan.program.tensor(access.tensor).dtype));
    const auto halve = [&](std::int64_t c) { while (c % w) w /= 2; };
    halve(access.offset.constant);
    for (std::size_t x = 0; x < nest_.dims.size(); ++x) if (x != d) halve(access.offset.coefficients[x]);
    return std::max<std::int64_t>(w, 1);
  }

  void describe(Copy& copy, std::int64_t side, const std::string& stem) {
    copy.side = side;
    const auto& reads = nest_.reads;
    const auto runs = [&](std::size_t d) {
      bool found = false;
      each_read(copy.factor,
          [&](int r) { found = found || std::abs(reads[static_cast<std::size_t>(r)].offset.coefficients[d]) == 1; });
      return found;
    };
    copy.along_depth = runs(roles_.depth) && !runs(copy.dims.back());
    const std::size_t along = copy.along_depth ? roles_.depth : copy.dims.back();
    std::int64_t w = neighbours;
    while (copy.along_depth ? !is_multiple(range_.lo, w) || !is_multiple(range_.hi, w) || depth_ % w
                            : extent(along) % w || side % w)
      w /= 2;
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
    const std::int64_t inner = (copy.along_depth ? depth_ : copy.side) / copy.width,
                       total = depth_ * copy.side / copy.width;
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
  std::int64_t bytes_of(TensorId tensor, std::int64_t width) const {
    return width * lang::bytes(storage_.plan.program.tensor(tensor).dtype);
  }

  // What this stage of the reductions adds to offsets and rows, then every piece to registers: zeros where there is
  // none. `more`: whether there is such a stage. Its pieces are loaded on no branch, lest the compiler moves the loads
  // down to their stores.
  Body load(const Expr& stage, const std::optional<Expr>& more, const Copy& a, const Copy& b) {
    Body body;
    more_ = more ? std::optional(let(body, "more", *more)) : std::nullopt;
    const Expr k0 = begin_stage(body, stage);
    for (const Copy* copy : {&a, &b}) append(body, load(*copy, k0));
    end_stage();
    return body;
  }

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
      for (std::int64_t c = 0; c < copy.width; ++c)
        body.push_back(stmt(Store{copy.held, i64(slot + c), Constant{type_, 0, 0.0}}));
      Body read = accesses(copy, piece, slot, from, false);
      if (!copy.aligned.empty())
        read = {
            stmt(If{Variable{copy.aligned, DType::Bool}, accesses(copy, piece, slot, from, true), std::move(read)})};
      std::optional<Expr> all = more_;
      if (piece.there) all = all ? both(*all, *piece.there) : *piece.there;
      if (const auto there = takes_part(std::move(all), copy.masked, k0 + piece.k, piece.at))
        body.push_back(stmt(If{*there, std::move(read), {}}));
      else append(body, std::move(read));
    }
    return body;
  }

  Body accesses(
      const Copy& copy, const Piece& piece, std::int64_t slot, const std::map<int, Expr>& from, bool together) {
    Body body;
    std::map<int, std::string> views;
    const std::size_t along = copy.along_depth ? roles_.depth : copy.dims.back();
    for (const auto& [r, offset] : from) {
      const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
      const Expr own =
          part(access.offset, copy.dims, piece.at) + piece.k * i64(access.offset.coefficients[roles_.depth]);
      views[r] = names_.fresh("v");
      const bool wide = together && access.offset.coefficients[along] != 0;
      body.push_back(stmt(View{views[r], storage_.name(access.tensor), offset + own,
          wide                 ? bytes_of(access.tensor, copy.width)
              : copy.width > 1 ? 1
                               : 0}));
    }
    for (std::int64_t c = 0; c < copy.width; ++c) {
      const auto read = [&](int r) {
        const FlatAccess& access = nest_.reads[static_cast<std::size_t>(r)];
        return Expr(Load{views.at(r), i64(c * access.offset.coefficients[along]),
            storage_.plan.program.tensor(access.tensor).dtype});
      };
      body.push_back(stmt(Store{copy.held, i64(slot + c), convert(factor_value(copy.factor, read), type_)}));
    }
    return body;
  }

  // From registers to the buffer that begins there.
  Body put(const Copy& copy, const Expr& buffer) {
    Body body;
    for (std::size_t u = 0; u < copy.pieces.size(); ++u) {
      Body stores;
      for (std::int64_t c = 0; c < copy.width; ++c)
        stores.push_back(
            stmt(Store{copy.shared, buffer + copy.pieces[u].put + i64(c * (copy.along_depth ? copy.pitch : 1)),
                Load{copy.held, i64(static_cast<std::int64_t>(u) * copy.width + c), type_}}));
      if (!copy.partial || u + 1 < copy.pieces.size()) {
        append(body, std::move(stores));
        continue;
      }
      const Expr mine =
          less(var(thread_), i64(depth_ * copy.side / copy.width - static_cast<std::int64_t>(u) * threads_));
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

  // Neighbours along the side that is side by side in memory are written together.
  Body write() {
    const Form& f = nest_.target.offset;
    const Side rows{roles_.m, m0_, leaf_.rows, &Staged::row}, columns{roles_.n, n0_, leaf_.vectors, &Staged::column};
    const bool along_m = f.coefficients[roles_.n.back()] != 1 && f.coefficients[roles_.m.back()] == 1;
    const Side &line = along_m ? rows : columns, &lines = along_m ? columns : rows;
    const std::int64_t together = square(line.count),
                       w = extent(line.dims.back()) % together
        ? 1
        : neighbours_of(nest_.target, line.dims.back(), together);
    Body body;
    std::optional<Expr> wide;
    if (w > 1) wide = aligned(body, nest_.target.tensor, w);
    const auto at = [&](const Side& side, std::int64_t x) { return side.first + (this->*side.within)(x); };
    const auto end = [&](const Side& side) { return i64(extent(side.dims)); };
    const auto part_of = [&](Body& here, const Side& side, std::int64_t x) {
      return part(f, side.dims, digits(here, side.dims, at(side, x)));
    };
    // Of one dimension, each is a constant from the first.
    const bool linear = line.dims.size() == 1;
    const Expr first = linear ? at(line, 0) * i64(f.coefficients[line.dims.back()]) : i64(0);
    std::vector<Expr> offsets;
    for (std::int64_t x = 0; x < line.count; x += w)
      offsets.push_back(linear
              ? ((this->*line.within)(x) - (this->*line.within)(0)) * i64(f.coefficients[line.dims.back()])
              : let(body, "of", part_of(body, line, x)));
    for (std::int64_t y = 0; y < lines.count; ++y) {
      Body one;
      const Expr base = let(one, "to", points_.known_part(f) + part_of(one, lines, y) + first);
      for (std::int64_t x = 0; x < line.count; x += w) {
        const auto stores = [&](std::int64_t alignment) {
          const std::string view = names_.fresh("v");
          Body some{stmt(View{
              view, storage_.name(nest_.target.tensor), base + offsets[static_cast<std::size_t>(x / w)], alignment})};
          for (std::int64_t c = 0; c < w; ++c)
            some.push_back(stmt(Store{view, i64(c * f.coefficients[line.dims.back()]),
                result(Load{acc_, along_m ? slot(x + c, y) : slot(y, x + c), type_})}));
          return some;
        };
        Body all = stores(wide ? 1 : 0);
        if (wide) all = {stmt(If{*wide, stores(bytes_of(nest_.target.tensor, w)), std::move(all)})};
        one.push_back(stmt(If{less(at(line, x), end(line)), std::move(all), {}}));
      }
      body.push_back(stmt(If{less(at(lines, y), end(lines)), std::move(one), {}}));
    }
    return body;
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

  std::int64_t threads_;
  std::optional<Expr> more_;                           // whether there is the stage that is loaded; none: it is known
  Expr thread_row_ = i64(0), thread_column_ = i64(0);
  std::string thread_, acc_;
};

bool in_rows(const Nest& nest, std::size_t d) {
  return std::any_of(nest.rows.begin(), nest.rows.end(), [&](const Row& row) { return row.form.coefficients[d] != 0; });
}

}  // namespace

std::optional<Staging> staging_of(const Nest& nest, const std::vector<std::string>& m,
    const std::vector<std::string>& n, const std::vector<std::string>& k) {
  const auto* product = nest.value->as<poly::Apply>();
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
  // What is side by side in most reads, if there is a stage of it, else the longest.
  const auto worth = [&](std::size_t d) {
    const std::int64_t length = nest.dims[d].extent;
    const auto side_by_side = std::ranges::count_if(
        nest.reads, [&](const FlatAccess& read) { return std::abs(read.offset.coefficients[d]) == 1; });
    return std::pair(length >= model::threads::least_of_depth ? side_by_side : 0, length);
  };
  std::optional<std::size_t> depth;
  for (const std::string& name : k) {
    const std::size_t d = *nest.dim(name);
    const bool bounded = std::any_of(dm.begin(), dm.end(), [&](std::size_t x) { return share_row(nest, d, x); });
    if (!bounded && (!depth || worth(d) > worth(*depth))) depth = d;
  }
  if (!depth) return std::nullopt;
  poly::Expr x = product->operands[0], y = product->operands[1];
  if (uses(nest, x, dm, dn).n) std::swap(x, y);
  const Uses ux = uses(nest, x, dm, dn), uy = uses(nest, y, dm, dn);
  if (!ux.plain || !uy.plain || !ux.m || ux.n || uy.m || !uy.n) return std::nullopt;
  return Staging{std::move(dm), std::move(dn), *depth, x, y};
}

// Both copies as if they were turned.
std::int64_t staged_bytes(const Compute& leaf, std::int64_t threads, std::int64_t depth, std::int64_t element) {
  return 2 * depth * ((threads / leaf.lanes * leaf.rows + leaf.lanes * leaf.vectors) * element + 2 * widest);
}

Body spell_staged(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names, std::int64_t threads) {
  return Staged(nest, leaf, storage, names, threads).spell();
}

}  // namespace tilec::codegen
