// A block of threads: operands to shared memory, products to tiles, elements of tiles, sums in registers; rows that are
// told at the end.
#include <algorithm>
#include <numeric>

#include "codegen/online_pass.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

constexpr std::int64_t neighbours = 4;                 // elements of an access, at most
constexpr std::int64_t warp_rows = 8, warp_columns = 4;  // threads of a warp, as in staged.cpp
constexpr std::int64_t unrolled = 16;                  // values of a reduction, whose products stand side by side

std::int64_t square(std::int64_t count) { return std::gcd(count, neighbours); }  // neighbours of one thread

// How operands come to shared memory.
class OperandsByThreads : public OnlinePass {
 protected:
  using OnlinePass::OnlinePass;

  // The box of an operand whose side, or depth, begins at `first` of `extent` values: zeros beyond it. Threads lie side
  // by side over what lies so in shared memory; where elements follow one another along the other dimension, each reads
  // some of these. What lies there as in memory is copied as it is.
  Body load(const PassMember& m, const Operand& o, const Expr& first, std::int64_t extent) {
    const bool over_depth = m.part.role == OnlinePart::Sum;  // the box goes on along its depth, else along its side
    const std::vector<std::size_t> reads = reads_of(*o.factor);
    const auto runs = [&](std::size_t d) {
      return std::ranges::any_of(reads, [&](std::size_t r) { return m.nest.reads[r].offset.coefficients[d] == 1; });
    };
    const bool along_depth = runs(o.depth_dim) && !runs(o.side_dim);
    const std::size_t along = along_depth ? o.depth_dim : o.side_dim;
    const std::int64_t real_side = over_depth ? m.nest.dims[o.side_dim].extent : extent;
    const std::int64_t real_along = along_depth ? (over_depth ? extent : m.nest.dims[o.depth_dim].extent) : real_side;
    std::int64_t w = neighbours;
    while (w > 1 && ((along_depth ? o.depth : o.side) % w || real_along % w)) w /= 2;
    for (const std::size_t r : reads)
      if (m.nest.reads[r].offset.coefficients[along]) w = neighbours_of(storage_, m.nest.reads[r], along, w);
    Body body;
    std::string aligned;
    if (w > 1) aligned = look(body, m, reads, along, w);
    const bool across = along_depth && !o.as_stored;
    const std::int64_t inner = across ? o.side : (along_depth ? o.depth : o.side) / w, total = o.depth * o.side / w;
    const std::int64_t turns = (total + threads_ - 1) / threads_;
    const std::string held = allocate(body, "held", turns * w, Memory::Register);
    Body puts;
    for (std::int64_t u = 0; u < turns; ++u) {
      const Expr e = let(body, "e", var(thread_) + i64(u * threads_));
      const Expr first_x = o.as_stored ? quotient(e, inner) : remainder(e, inner) * i64(across ? 1 : w),
                 first_k = o.as_stored ? remainder(e, inner) * i64(w) : quotient(e, inner) * i64(across ? w : 1);
      const Expr x = let(body, "x", first_x), k = let(body, "k", first_k);
      const Expr side = over_depth ? x : let(body, "at", first + x),
                 depth = over_depth ? let(body, "at", first + k) : k;
      std::optional<Expr> there;
      const auto too = [&](const Expr& holds) { there = there ? both(*there, holds) : holds; };
      if (total % threads_ && u + 1 == turns) too(less(e, i64(total)));
      const std::int64_t steps = over_depth ? o.depth : o.side;
      if (extent % steps) too(less(over_depth ? depth : side, i64(extent)));
      if (over_depth && real_side < o.side) too(less(side, i64(real_side)));
      for (std::int64_t c = 0; c < w; ++c) body.push_back(stmt(Store{held, i64(u * w + c), zero()}));
      Body read = accesses(m, o, reads, along, side, depth, held, u * w, w, false);
      if (w > 1)
        read = {stmt(If{Variable{aligned, DType::Bool}, accesses(m, o, reads, along, side, depth, held, u * w, w, true),
            std::move(read)})};
      if (there) body.push_back(stmt(If{*there, std::move(read), {}}));
      else append(body, std::move(read));
      Body stores;
      for (std::int64_t c = 0; c < w; ++c)
        stores.push_back(stmt(Store{o.shared,
            o.as_stored ? x * i64(o.pitch) + (k + i64(c))
                : across ? (k + i64(c)) * i64(o.pitch) + x
                         : k * i64(o.pitch) + (x + i64(c)),
            Load{held, i64(u * w + c), type_}}));
      if (total % threads_ && u + 1 == turns) puts.push_back(stmt(If{less(e, i64(total)), std::move(stores), {}}));
      else append(puts, std::move(stores));
    }
    append(body, std::move(puts));
    return body;
  }

 private:
  std::string look(
      Body& body, const PassMember& m, const std::vector<std::size_t>& reads, std::size_t along, std::int64_t w) {
    std::optional<Expr> all;
    for (const std::size_t r : reads) {
      const FlatAccess& access = m.nest.reads[r];
      if (!access.offset.coefficients[along]) continue;
      const Expr one = aligned(storage_, names_, body, access.tensor, w);
      all = all ? both(*all, one) : one;
    }
    const std::string name = names_.fresh("aligned");
    body.push_back(stmt(Let{name, *all}));
    return name;
  }

  Body accesses(const PassMember& m, const Operand& o, const std::vector<std::size_t>& reads, std::size_t along,
      const Expr& side, const Expr& depth, const std::string& held, std::int64_t slot, std::int64_t w, bool together) {
    Body body;
    Ranges points = points_[o.leaf];
    points.fix(o.side_dim, side), points.fix(o.depth_dim, depth);
    std::map<std::size_t, std::string> views;
    for (const std::size_t r : reads) {
      const FlatAccess& access = m.nest.reads[r];
      const bool wide = together && access.offset.coefficients[along] != 0;
      views[r] = names_.fresh("v");
      body.push_back(stmt(View{views[r], storage_.name(access.tensor), points.known_part(access.offset),
          wide        ? w * lang::bytes(storage_.plan.program.tensor(access.tensor).dtype)
              : w > 1 ? 1
                      : 0}));
    }
    for (std::int64_t c = 0; c < w; ++c) {
      const auto read = [&](std::size_t r) {
        const FlatAccess& access = m.nest.reads[r];
        return Expr(Load{views.at(r), i64(c * access.offset.coefficients[along]),
            storage_.plan.program.tensor(access.tensor).dtype});
      };
      const auto index = [&](const Form&) -> Expr { throw InternalError("an operand has no value of an index"); };
      body.push_back(stmt(Store{held, i64(slot + c), convert(spelled(m.nest, *o.factor, read, index), type_)}));
    }
    return body;
  }
};

// Products and sums of threads, out of shared memory.
class ProductsByThreads : public OperandsByThreads {
 protected:
  using OperandsByThreads::OperandsByThreads;

  // Where a thread's block begins; its elements are squares of 4 x 4, as in staged.cpp. Of columns that lie as in
  // memory threads side by side have neighbours, whose accesses fall on different banks.
  struct Place {
    Expr row, column;
    std::int64_t row_step, column_step, rows, columns;   // rows, columns: of a square
    std::int64_t row_of(std::int64_t i) const { return i / rows * row_step + i % rows; }
    std::int64_t column_of(std::int64_t j) const { return j / columns * column_step + j % columns; }
  };
  Place place(Body& body, const Compute& leaf, bool neighbours = false) {
    const std::int64_t rows = threads_ / leaf.lanes, tall = std::gcd(rows, warp_rows),
                       wide = std::gcd(leaf.lanes, warp_columns), across = leaf.lanes / wide;
    const Expr lane = let(body, "lane", remainder(var(thread_), tall * wide)),
               group = let(body, "warp", quotient(var(thread_), tall * wide));
    const std::int64_t high = square(leaf.rows), broad = neighbours ? 1 : square(leaf.vectors);
    const Expr row = let(body, "t_m", (quotient(group, across) * i64(tall) + quotient(lane, wide)) * i64(high));
    const Expr column =
        let(body, "t_n", (remainder(group, across) * i64(wide) + remainder(lane, wide)) * i64(broad));
    return {row, column, rows * high, leaf.lanes * broad, high, broad};
  }

  Body product(const PassMember& m) {
    Body body;
    const Place at = place(body, m.leaf, m.by_column.as_stored);
    const std::string acc = allocate(body, "s", m.leaf.rows * m.leaf.vectors, Memory::Register);
    for (std::int64_t x = 0; x < m.leaf.rows * m.leaf.vectors; ++x) body.push_back(stmt(Store{acc, i64(x), zero()}));
    append(body, products(acc, m.leaf, at, m.by_row.shared, m.by_row.pitch, m.by_column, m.by_row.depth));
    for (std::int64_t j = 0; j < m.leaf.vectors; ++j)
      for (std::int64_t i = 0; i < m.leaf.rows; ++i)
        body.push_back(stmt(Store{m.tile,
            (at.column + i64(at.column_of(j))) * i64(tile_pitch_) + at.row + i64(at.row_of(i)),
            Load{acc, i64(i * m.leaf.vectors + j), type_}}));
    return body;
  }

  Body sum(const PassMember& m, bool again) {
    Body body;
    const Place at = place(body, m.leaf);
    if (m.rescaled && !again)
      for (std::int64_t i = 0; i < m.leaf.rows; ++i) {
        const Expr by = let(body, "by", Load{scale_, at.row + i64(at.row_of(i)), type_});
        for (std::int64_t j = 0; j < m.leaf.vectors; ++j)
          body.push_back(stmt(Store{m.registers, i64(i * m.leaf.vectors + j),
              Operation{Op::Mul, {Load{m.registers, i64(i * m.leaf.vectors + j), type_}, by}, type_}}));
      }
    append(body, products(m.registers, m.leaf, at, m.tile, tile_pitch_, m.by_column, depth_));
    return body;
  }

  // Each element from its own points: what is no point may be multiplied by something that is not finite.
  Body sum_of_points(const PassMember& m) {
    const std::size_t l = static_cast<std::size_t>(&m - members_.data());
    Body body;
    const Place at = place(body, m.leaf);
    const std::string k = names_.fresh("k");
    Body one;
    for (std::int64_t i = 0; i < m.leaf.rows; ++i) {
      const Expr row = let(one, "row", at.row + i64(at.row_of(i)));
      Body adds;
      const Expr a = let(adds, "a", Load{m.tile, var(k) * i64(tile_pitch_) + row, type_});
      for (std::int64_t j = 0; j < m.leaf.vectors; ++j)
        adds.push_back(stmt(Store{m.registers, i64(i * m.leaf.vectors + j),
            Operation{Op::Fma,
                {a,
                    Load{m.by_column.shared,
                        at.column + var(k) * i64(m.by_column.pitch) + i64(at.column_of(j)),
                        type_},
                    Load{m.registers, i64(i * m.leaf.vectors + j), type_}},
                type_}}));
      one.push_back(at_point(l, i0_ + row, j0_ + var(k), std::move(adds)));
    }
    body.push_back(stmt(For{k, Kind::Serial, i64(depth_), {}, std::move(one)}));
    return body;
  }

  std::string scale_;                                  // of each row, by which a growing maximum makes sums smaller
  std::int64_t tile_pitch_ = 0;                        // elements of a tile from one column to the next

 private:
  // acc += a b, over `depth` values. Where b lies along them, a thread reads as many as an access brings.
  Body products(const std::string& acc, const Compute& leaf, const Place& at, const std::string& a,
      std::int64_t pitch_a, const Operand& b, std::int64_t depth) {
    const std::int64_t together = b.as_stored && at.columns == 1 ? neighbours : 1;
    const auto some = [&](const Expr& k) {
      Body one;
      std::vector<Expr> y;
      for (std::int64_t j = 0; j < leaf.vectors; ++j)
        for (std::int64_t c = 0; c < together; ++c)
          y.push_back(let(one, "b",
              Load{b.shared,
                  together > 1 ? (at.column + i64(at.column_of(j))) * i64(b.pitch) + (k + i64(c))
                               : at.column + k * i64(b.pitch) + i64(at.column_of(j)),
                  type_}));
      for (std::int64_t c = 0; c < together; ++c) {
        std::vector<Expr> x;
        for (std::int64_t i = 0; i < leaf.rows; ++i)
          x.push_back(let(one, "a", Load{a, at.row + (k + i64(c)) * i64(pitch_a) + i64(at.row_of(i)), type_}));
        for (std::int64_t i = 0; i < leaf.rows; ++i)
          for (std::int64_t j = 0; j < leaf.vectors; ++j)
            one.push_back(stmt(Store{acc, i64(i * leaf.vectors + j),
                Operation{Op::Fma,
                    {x[static_cast<std::size_t>(i)], y[static_cast<std::size_t>(j * together + c)],
                        Load{acc, i64(i * leaf.vectors + j), type_}},
                    type_}}));
      }
      return one;
    };
    Body body;
    const std::string outer = names_.fresh("k_0"), inner = names_.fresh("k");
    if (const std::int64_t whole = depth / unrolled; whole > 0) {
      Body turn{stmt(For{inner, Kind::Unroll, i64(unrolled / together), {},
          some(var(outer) * i64(unrolled) + var(inner) * i64(together))})};
      body.push_back(stmt(For{outer, Kind::Serial, i64(whole), {}, std::move(turn)}));
    }
    if (const std::int64_t rest = depth % unrolled; rest > 0)
      body.push_back(stmt(For{inner, Kind::Unroll, i64(rest / together), {},
          some(i64(depth - rest) + var(inner) * i64(together))}));
    return body;
  }
};

// What passes ask: a thread has a part of one row.
class Online : public ProductsByThreads {
 public:
  using ProductsByThreads::ProductsByThreads;

 private:
  Body shared_memory() override {
    Body body;
    std::size_t products = 0, sums = 0;
    std::vector<std::string> tiles;
    tile_pitch_ = height_ + (std::ranges::any_of(members_, as_stored) ? tile_padding : 0);
    const auto tile = [&](std::size_t number) {
      while (tiles.size() <= number)
        tiles.push_back(allocate(body, "tile", depth_ * tile_pitch_, Memory::Shared));
      return tiles[number];
    };
    for (std::size_t l = 0; l < members_.size(); ++l) {
      PassMember& m = members_[l];
      const bool product = m.part.role == OnlinePart::Product;
      if (product) {
        const std::int64_t depth = m.nest.dims[m.part.depth].extent;
        const bool stored = as_stored(m);
        const std::int64_t pitch = stored ? depth + column_padding : depth_, count = (stored ? depth_ : depth) * pitch;
        m.by_row = {l, m.part.depth, m.part.row, &*m.part.by_row, depth, height_, height_,
            allocate(body, "rows", depth * height_, Memory::Shared)};
        m.by_column = {l, m.part.depth, m.part.over, &*m.part.by_column, depth, depth_, pitch,
            allocate(body, "columns", count, Memory::Shared), stored};
        m.tile = tile(products++);
      }
      if (m.part.role == OnlinePart::Fold && (parts_ > 1 || asks_folds_))
        m.shared = allocate(body, "parts", parts_ * height_, Memory::Shared, type_of(m));
    }
    for (std::size_t l = 0; l < members_.size(); ++l) {
      PassMember& m = members_[l];
      if (m.part.role != OnlinePart::Sum) continue;
      const std::int64_t side = m.leaf.lanes * m.leaf.vectors;
      m.by_column = {l, m.part.over, m.part.column, &*m.part.by_column, depth_, side, side, {}};
      const auto has_them = std::ranges::find_if(members_, [&](const PassMember& other) {
        return has_columns_of(other.nest, other.part, m.nest, m.part, side);
      });
      if (has_them == members_.end()) m.by_column.shared = allocate(body, "columns", depth_ * side, Memory::Shared);
      else m.by_column.shared = has_them->by_column.shared, m.by_column.pitch = has_them->by_column.pitch;
      m.by_column.copied = has_them == members_.end();
      m.tile = tile(sums++);
    }
    if (maximum_) scale_ = allocate(body, "scale", height_, Memory::Shared);
    return body;
  }

  Body first_operands() override {
    Body body;
    for (PassMember& m : members_) {
      if (m.part.role == OnlinePart::Sum)
        m.registers = allocate(body, "acc", m.leaf.rows * m.leaf.vectors, Memory::Register);
      if (m.part.role == OnlinePart::Product) append(body, load(m, m.by_row, i0_, rows_));
    }
    return body;
  }

  Body turn(const Expr&, bool again) override {
    Body body;
    body.push_back(stmt(Barrier{}));                   // nobody reads the turn before
    bool products = false, sums = false;
    if (!again) append(body, load_columns(j0_));
    for (const PassMember& m : members_)
      if ((m.part.role == OnlinePart::Product || m.part.role == OnlinePart::Sum) && m.by_column.copied)
        append(body, load(m, m.by_column, j0_, over_));
    if (!again) append(body, put_columns(buffer_));
    body.push_back(stmt(Barrier{}));
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Product) append(body, product(m)), products = true;
    if (products) body.push_back(stmt(Barrier{}));
    append(body, elements(again));
    for (const PassMember& m : members_) sums = sums || m.part.role == OnlinePart::Sum;
    if (sums) body.push_back(stmt(Barrier{}));
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Sum) append(body, again && bounded(m) ? sum_of_points(m) : sum(m, again));
    return body;
  }

  std::int64_t rows_of_thread() const override { return 1; }
  Expr row_of_thread(Body& body, std::int64_t) override {
    const Expr row = let(body, "r", remainder(var(thread_), height_));
    part_ = let(body, "part", quotient(var(thread_), height_));
    return row;
  }
  Element element(Body& body, std::int64_t x, bool asked) override {
    const Expr local = part_ * i64(each_) + i64(x);
    return {x, local, let(body, "j", j0_ + local), asked, {}};
  }
  Expr product_at(const PassMember& product, const Element& at) const override {
    return Load{product.tile, place_of(at), type_};
  }
  Body put_factor(const PassMember& sum, const Element& at, const Expr& factor) override {
    return {stmt(Store{sum.tile, place_of(at), factor})};
  }
  Expr place_of(const Element& at) const { return at.local * i64(tile_pitch_) + row_; }
  static bool as_stored(const PassMember& m) { return columns_as_stored(m.nest, m.part); }

  Expr highest_of(Body& body, const Expr& found) override {
    if (parts_ == 1) return found;
    const PassMember& max = members_[*maximum_];
    body.push_back(stmt(Store{max.shared, part_ * i64(height_) + row_, found}));
    body.push_back(stmt(Barrier{}));
    Expr highest = Load{max.shared, row_, type_};
    for (std::int64_t p = 1; p < parts_; ++p)
      highest = Operation{Op::Max, {highest, Load{max.shared, i64(p * height_) + row_, type_}}, type_};
    return highest;
  }
  Body put_scale(const Expr& scale) override {
    return {stmt(If{equal_i64(part_, 0), {stmt(Store{scale_, row_, scale})}, {}})};
  }

  Body before_writes() override {
    Body body, stores;
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Fold && !m.shared.empty())
        stores.push_back(stmt(Store{m.shared, part_ * i64(height_) + row_, Load{m.registers, i64(0), type_of(m)}}));
    if (stores.empty()) return body;
    body.push_back(stmt(Barrier{}));
    append(body, std::move(stores));
    body.push_back(stmt(Barrier{}));
    return body;
  }
  Expr total(const PassMember& fold) const override { return total(fold, row_); }
  Expr writes_rows() const override { return equal_i64(part_, 0); }

  // Of all parts of a row.
  Expr total(const PassMember& m, const Expr& row) const {
    const DType type = type_of(m);
    if (m.shared.empty()) return Load{m.registers, i64(0), type};
    Expr all = Load{m.shared, row, type};
    for (std::int64_t p = 1; p < parts_; ++p)
      all = combine(m.nest.aggregation, all, Load{m.shared, i64(p * height_) + row, type});
    return all;
  }

  Body write_sum(std::size_t l) override {
    const PassMember& m = members_[l];
    const Finishing finishing = this->finishing(l);
    Body body;
    const Place at = place(body, m.leaf);
    std::int64_t w = 1;
    std::vector<Finishing::Together> together = finishing.side_by_side(body, m.part.column, square(m.leaf.vectors));
    for (const auto& one : together) w = std::max(w, one.width);
    for (std::int64_t i = 0; i < m.leaf.rows; ++i) {
      const Expr in_block = at.row + i64(at.row_of(i)), row = let(body, "row", i0_ + in_block);
      Ranges points = points_[l];
      points.fix(m.part.row, row);
      Body line;
      std::map<const Form*, Expr> to;
      for (const Form* form : finishing.forms()) to.emplace(form, let(line, "to", points.known_part(*form)));
      const auto total_of = [&](const PassMember& fold) { return total(fold, in_block); };
      const auto by = divisor(line, m, total_of);
      const Finishing::Known known = known_folds(line, l, total_of);
      for (std::int64_t j = 0; j < m.leaf.vectors; j += w) {
        const Expr column = at.column + i64(at.column_of(j));
        std::vector<Expr> sums;
        for (std::int64_t c = 0; c < w; ++c)
          sums.push_back(divided(m, Load{m.registers, i64(i * m.leaf.vectors + j + c), type_}, by));
        const auto place = [&](const Form& form, std::size_t c) {
          return to.at(&form) + column * i64(form.coefficients[m.part.column]) +
              i64(static_cast<std::int64_t>(c) * form.coefficients[m.part.column]);
        };
        Body some = finishing.stores(sums, place, together, known);
        if (m.nest.dims[m.part.column].extent < m.by_column.side)
          some = {stmt(If{less(column, i64(m.nest.dims[m.part.column].extent)), std::move(some), {}})};
        append(line, std::move(some));
      }
      if (rows_ % height_) body.push_back(stmt(If{less(row, i64(rows_)), std::move(line), {}}));
      else append(body, std::move(line));
    }
    return body;
  }

  Expr part_ = i64(0);
};

}  // namespace

Body spell_online(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
    Names& names, std::int64_t threads) {
  return Online(nests, leaves, storage, names, threads).spell();
}

}  // namespace tilec::codegen
