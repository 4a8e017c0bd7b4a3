// Reads rows of the tile, waits, and runs the leaf of one thread with views of the tile in the place of what it was
// filled from.
#include "codegen/turned.h"

#include <algorithm>
#include <cmath>

#include "codegen/leaf.h"
#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t columns = model::threads::warp;  // of n
constexpr std::int64_t bank_bytes = 4, sector_bytes = 32;  // CUDA C++ Programming Guide, "Shared Memory", "Device
                                                           // Memory Accesses"

std::int64_t rows_of(const Compute& leaf) { return leaf.rows * leaf.lanes / columns; }  // of m

// Elements from one row of the tile to the next.
std::int64_t pitch_of(const Compute& leaf, std::int64_t element_bytes) {
  return rows_of(leaf) + std::max<std::int64_t>(1, bank_bytes / element_bytes);
}

// The first of equal accesses has the tile.
std::vector<std::size_t> tiles_of(const poly::Program& program, const Nest& nest, const Compute& leaf) {
  const std::size_t m = *nest.dim(leaf.m()), n = *nest.dim(leaf.n);
  std::vector<std::size_t> first;
  for (std::size_t r = 0; r < nest.reads.size(); ++r) {
    const FlatAccess& read = nest.reads[r];
    const auto same = [&](std::size_t other) {
      return nest.reads[other].tensor == read.tensor && nest.reads[other].offset == read.offset;
    };
    if (lies_across(read, m, n, lang::bytes(program.tensor(read.tensor).dtype)) &&
        std::none_of(first.begin(), first.end(), same))
      first.push_back(r);
  }
  return first;
}

// Of the dimensions around: where n ends, what follows in the target.
std::optional<std::size_t> next_to(const Nest& nest, const Compute& leaf, std::size_t n) {
  if (nest.dims[n].extent % columns == 0) return std::nullopt;
  for (const std::string& name : leaf.outer) {
    const std::size_t d = *nest.dim(name);
    if (nest.target.offset.coefficients[n] == 1 && nest.target.offset.coefficients[d] == nest.dims[n].extent &&
        std::ranges::none_of(nest.rows, [&](const Row& row) { return row.form.coefficients[d] != 0; }))
      return d;
  }
  return std::nullopt;
}

class Turned {
 public:
  Turned(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names)
      : nest_(nest),
        leaf_(leaf),
        storage_(storage),
        names_(names),
        points_(nest),
        m_(*nest.dim(leaf.m())),
        n_(*nest.dim(leaf.n)),
        beside_(next_to(nest, leaf, n_)),
        inside_(nest) {}

  Body spell() {
    if (nest_.empty()) return {};
    const std::string block = names_.fresh("p");
    Body body = corner(var(block));
    for (const std::size_t r : tiles_of(storage_.plan.program, nest_, leaf_)) {
      const DType type = dtype(r);
      const std::int64_t pitch = pitch_of(leaf_, lang::bytes(type));
      const std::string tile = names_.fresh("tile");
      body.push_back(stmt(Allocate{tile, type, columns * pitch, Memory::Shared}));
      tiles_.push_back({r, tile, pitch});
      redirect(tiles_.back());
    }
    const std::string thread = names_.fresh("l");
    Body one = fill(var(thread));
    if (!tiles_.empty()) one.push_back(stmt(Barrier{}));
    append(one, compute(var(thread)));
    body.push_back(stmt(For{thread, Kind::Thread, Expr(leaf_.lanes), {}, std::move(one)}));
    return {stmt(For{block, Kind::Block, Expr(blocks_), {}, std::move(body)})};
  }

 private:
  struct Tile { std::size_t read; std::string name; std::int64_t pitch; };

  DType dtype(std::size_t read) const { return storage_.plan.program.tensor(nest_.reads[read].tensor).dtype; }
  std::int64_t extent(std::size_t d) const { return nest_.dims[d].extent; }
  // Columns are values of n, one after the other for all values of what is beside it.
  std::int64_t all_columns() const { return extent(n_) * (beside_ ? extent(*beside_) : 1); }
  // A column ⇒ f(dimension, its value)
  template <class F> void split(Body& body, const Expr& column, F fix) {
    const auto let = [&](std::size_t d, const Expr& value) {
      const std::string name = names_.fresh(nest_.dims[d].name);
      body.push_back(stmt(Let{name, value}));
      fix(d, var(name));
    };
    let(n_, beside_ ? remainder(column, extent(n_)) : column);
    if (beside_) let(*beside_, quotient(column, extent(n_)));
  }

  // p → the values of the outer dimensions and the first of m and n; n fastest.
  Body corner(Expr rest) {
    Body body;
    const auto digit = [&](const std::string& stem, std::int64_t count, std::int64_t step) {
      const std::string name = names_.fresh(stem);
      body.push_back(stmt(Let{name, remainder(rest, count) * Expr(step)}));
      rest = quotient(rest, count);
      blocks_ = (poly::Exact(blocks_) * count).get();
      return var(name);
    };
    n0_ = digit(leaf_.n + "_0", ceil_divide(all_columns(), columns), columns);
    m0_ = digit(leaf_.m() + "_0", ceil_divide(extent(m_), rows_of(leaf_)), rows_of(leaf_));
    for (std::size_t o = leaf_.outer.size(); o-- > 0;) {
      const std::size_t d = *nest_.dim(leaf_.outer[o]);
      if (d == beside_) continue;
      around_.fixed.insert_or_assign(d, digit(leaf_.outer[o], extent(d), 1));
      points_.fix(d, around_.fixed.at(d));
    }
    return body;
  }

  // Element (m, n) of the read is element (m - m0) + (n - n0) · pitch of the tile.
  void redirect(const Tile& tile) {
    const FlatAccess was = nest_.reads[tile.read];
    Form within{std::vector<std::int64_t>(nest_.dims.size(), 0), 0};
    within.coefficients[m_] = 1;
    within.coefficients[n_] = tile.pitch;
    if (beside_) within.coefficients[*beside_] = tile.pitch * extent(n_);
    for (std::size_t r = 0; r < nest_.reads.size(); ++r) {
      if (nest_.reads[r].tensor != was.tensor || nest_.reads[r].offset != was.offset) continue;
      inside_.reads[r].offset = within;
      around_.views.emplace(r, tile.name);
      around_.base.emplace(r, m0_ + n0_ * Expr(tile.pitch));
    }
  }

  // All loads go out before the first of them is waited for.
  Body fill(const Expr& thread) {
    Body loads, stores;
    for (const Tile& tile : tiles_) {
      const FlatAccess& read = nest_.reads[tile.read];
      const DType type = dtype(tile.read), held = compute_type(type);
      const std::string registers = names_.fresh("held");
      loads.push_back(stmt(Allocate{registers, held, leaf_.rows, Memory::Register}));
      for (std::int64_t i = 0; i < leaf_.rows; ++i) {
        const std::string m = names_.fresh(leaf_.m()), n = names_.fresh("column");
        const Expr element = thread + Expr(i * leaf_.lanes);
        loads.push_back(stmt(Let{m, remainder(element, rows_of(leaf_))}));
        loads.push_back(stmt(Let{n, quotient(element, rows_of(leaf_))}));
        points_.fix(m_, m0_ + var(m));
        split(loads, n0_ + var(n), [&](std::size_t d, const Expr& value) { points_.fix(d, value); });
        Expr there = both(less(m0_ + var(m), Expr(extent(m_))), less(n0_ + var(n), Expr(all_columns())));
        if (const auto rows = points_.fixed_rows()) there = both(there, *rows);
        loads.push_back(stmt(Store{registers, Expr(i), Constant{held, 0, 0.0}}));
        loads.push_back(stmt(If{there,
            {stmt(Store{registers, Expr(i),
                convert(Load{storage_.name(read.tensor), points_.known_part(read.offset), type}, held)})},
            {}}));
        stores.push_back(
            stmt(Store{tile.name, var(m) + var(n) * Expr(tile.pitch), convert(Load{registers, Expr(i), held}, type)}));
      }
    }
    append(loads, std::move(stores));
    return loads;
  }

  // Each thread has `rows` of m at one value of n; a warp has them at values side by side.
  Body compute(const Expr& thread) {
    const std::string n = names_.fresh("column"), m = names_.fresh(leaf_.m());
    Body body{stmt(Let{n, n0_ + remainder(thread, columns)}),
        stmt(Let{m, m0_ + quotient(thread, columns) * Expr(leaf_.rows)})};
    split(body, var(n), [&](std::size_t d, const Expr& value) { around_.fixed.insert_or_assign(d, value); });
    const Expr end = var(m) + Expr(leaf_.rows);
    if (leaf_.rows == 1) around_.fixed.insert_or_assign(m_, var(m));
    else
      around_.limits.insert_or_assign(
          m_, Interval{var(m), extent(m_) % leaf_.rows ? minimum(end, Expr(extent(m_))) : end});
    Compute one = leaf_;
    one.outer.clear();
    one.n.clear();
    one.block()->turned = false;
    if (leaf_.rows == 1) one.set_m("");
    const Expr there = both(less(var(n), Expr(all_columns())), less(var(m), Expr(extent(m_))));
    body.push_back(stmt(If{there, spell_leaf(inside_, one, storage_, around_, names_), {}}));
    return body;
  }

  const Nest& nest_;
  const Compute& leaf_;
  const Storage& storage_;
  Names& names_;
  Ranges points_;
  std::size_t m_, n_;
  std::optional<std::size_t> beside_;
  Nest inside_;                                        // reads of tiles, in the place of what they hold
  Surroundings around_;
  std::vector<Tile> tiles_;
  std::int64_t blocks_ = 1;
  Expr m0_ = Expr(std::int64_t{0}), n0_ = Expr(std::int64_t{0});
};

}  // namespace

bool lies_across(const FlatAccess& access, std::size_t m, std::size_t n, std::int64_t element_bytes) {
  return std::abs(access.offset.coefficients[m]) == 1 &&
      std::abs(access.offset.coefficients[n]) * element_bytes >= sector_bytes;
}

std::int64_t tile_bytes(const poly::Program& program, const Nest& nest, const Compute& leaf) {
  std::int64_t bytes = 0;
  for (const std::size_t r : tiles_of(program, nest, leaf)) {
    const std::int64_t each = lang::bytes(program.tensor(nest.reads[r].tensor).dtype);
    bytes += columns * pitch_of(leaf, each) * each;
  }
  return bytes;
}

Body spell_turned(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names) {
  return Turned(nest, leaf, storage, names).spell();
}

}  // namespace tilec::codegen
