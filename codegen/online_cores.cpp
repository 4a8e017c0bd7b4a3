// Passes on tensor cores: products in fragments, elements where they lie, packed fragments of sums.
//
// Thread 4 g + t of a warp has rows g and g + 8 of each 16 x 8 results, columns 2 t and 2 t + 1
// (docs/decisions/tensor_cores.md), which are the places of the first operand too: two results side by side are its 16
// columns.
#include "codegen/online_cores.h"

#include <algorithm>

#include "codegen/online_boxes.h"
#include "codegen/target.h"
#include "codegen/tensor_cores.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t warp = 32, of_quad = 4;
constexpr std::int64_t held_fragments = 32;            // registers of rows that stay, at most

// A read of the instruction's type, or a cast of one that keeps every value.
bool is_operand(
    const MatrixInstruction& instruction, const poly::Program& program, const Nest& nest, const poly::Expr& factor) {
  const poly::Read* read = read_of(factor);
  return read && program.tensor(nest.reads[static_cast<std::size_t>(read->read)].tensor).dtype == instruction.operand &&
      keeps_values(factor, instruction.operand);
}

// What a warp multiplies, of its rows: products out of two operands in shared memory, sums out of their elements.
class ProductsOnCores : public OnlineBoxes {
 protected:
  ProductsOnCores(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
      Names& names, std::int64_t threads)
      : OnlineBoxes(nests, leaves, storage, names, threads),
        tall_(height_ / (threads / instruction_.threads() * instruction_.m)) {}

  // Of the results of a warp: register of a row of the thread, block of columns, and which of two.
  std::int64_t result(std::int64_t slot, std::int64_t blocks, std::int64_t block, std::int64_t one) const {
    return (slot / 2 * blocks + block) * instruction_.registers_of_c() + slot % 2 * 2 + one;
  }
  std::int64_t tile_blocks() const { return depth_ / instruction_.n; }
  std::int64_t sum_blocks(const PassMember& sum) const { return sum.leaf.vectors; }
  std::int64_t registers_of(const PassMember& sum) const override {
    return tall_ * sum_blocks(sum) * instruction_.registers_of_c();
  }

  // m 0 .. 7 and 8 .. 15 of the first half of k, then of the second.
  Stmt fragment_of_rows(
      const Box& b, const std::string& to, std::int64_t first, std::int64_t step, std::int64_t i) const {
    return stmt(Fragment{to, first, b.shared,
        of_fragment(b, first_row_ + i64(i * instruction_.m) + low_ * i64(8), i64(step * 2) + high_), false});
  }

  // Of 8 rows from `eight` on, this thread's.
  Expr of_fragment(const Box& b, const Expr& eight, const Expr& number) const {
    return b.piece(eight + r_, r_, number);
  }

  Body product(const PassMember& m, std::size_t number, const Box& b, const Expr& buffer) {
    Body body;
    const Box& rows = of_rows_boxes_[number];
    const std::int64_t regs_a = instruction_.registers_of_a(), regs_b = instruction_.registers_of_b(),
                       blocks = tile_blocks();
    const Expr at = let(body, "at", buffer * i64(b.rows * b.width));
    if (instruction_.from_shared()) {
      MultiplyShared all{&instruction_, m.tile, depth_, {rows.shared}, {b.shared}, {}, true};
      for (std::int64_t k = 0; k < rows.column_extent; k += instruction_.k)
        for (std::int64_t i = 0; i < tall_; ++i)
          all.products.push_back({i * blocks * instruction_.registers_of_c(),
              rows.begin(first_row_ + i64(i * instruction_.m), k), at + b.begin(i64(0), k)});
      body.push_back(stmt(std::move(all)));
      return body;
    }
    for (std::int64_t x = 0; x < tall_ * blocks * instruction_.registers_of_c(); ++x)
      body.push_back(stmt(Store{m.tile, i64(x), zero()}));
    const std::string& held = fragments_of_rows_[number];
    for (std::int64_t s = 0; s < b.width / instruction_.k; ++s) {
      std::string a = held;
      if (held.empty()) {
        a = allocate(body, "a", tall_ * regs_a, Memory::Register, DType::U32);
        for (std::int64_t i = 0; i < tall_; ++i) body.push_back(fragment_of_rows(rows, a, i * regs_a, s, i));
      }
      const std::string y = allocate(body, "b", blocks * regs_b, Memory::Register, DType::U32);
      for (std::int64_t j = 0; j < blocks; j += 2)
        body.push_back(stmt(Fragment{y, j * regs_b, b.shared,
            at + of_fragment(b, i64(j * instruction_.n) + high_ * i64(8), i64(s * 2) + low_), false}));
      for (std::int64_t i = 0; i < tall_; ++i)
        for (std::int64_t j = 0; j < blocks; ++j)
          body.push_back(stmt(Multiply{&instruction_, m.tile, (i * blocks + j) * instruction_.registers_of_c(), a,
              ((held.empty() ? 0 : s * tall_) + i) * regs_a, y, j * regs_b}));
    }
    return body;
  }

  Body sum(const PassMember& m, const Box& b, const Expr& buffer) {
    Body body;
    const std::int64_t regs_a = instruction_.registers_of_a(), regs_b = instruction_.registers_of_b(),
                       blocks = sum_blocks(m);
    const SplitFactors split = split_factors(instruction_, math_, storage_.plan.program, m.nest, m.part);
    if (m.rescaled) append(body, rescaled(m, blocks));
    const Expr at = let(body, "at", buffer * i64(b.rows * b.width));
    if (instruction_.from_shared()) return append(body, sum_of_shared(m, b, at, split)), body;
    for (std::int64_t s = 0; s < depth_ / instruction_.k; ++s) {
      const std::string a = allocate(body, "a", split.of_row * tall_ * regs_a, Memory::Register, DType::U32);
      const std::string y = allocate(body, "b", split.of_column * blocks * regs_b, Memory::Register, DType::U32);
      append(body, packed(m, a, 0, s, split));
      for (std::int64_t j = 0; j < blocks && split.of_column == 1; j += 2)
        body.push_back(stmt(Fragment{y, j * regs_b, b.shared,
            at + of_fragment(b, i64(s * instruction_.k) + low_ * i64(8), i64(j) + high_), true}));
      for (std::int64_t r = 0; r < blocks * regs_b && split.of_column > 1; ++r) {
        const auto value = [&](std::int64_t one) {
          return convert(Load{b.shared,
                             at +
                                 b.place(i64(s * instruction_.k + r % regs_b * 8 + one) + t_ * i64(2),
                                     i64(r / regs_b * instruction_.n) + g_),
                             instruction_.operand},
              type_);
        };
        body.push_back(
            stmt(Pack{y, r, split.instruction->operand, value(0), value(1), split.of_column, blocks * regs_b}));
      }
      for (std::int64_t p = 0; p < split.of_row; ++p)
        for (std::int64_t q = 0; q < split.of_column && split.multiplied(p, q); ++q)
          for (std::int64_t i = 0; i < tall_; ++i)
            for (std::int64_t j = 0; j < blocks; ++j)
              body.push_back(
                  stmt(Multiply{split.instruction, m.registers, (i * blocks + j) * instruction_.registers_of_c(), a,
                      (p * tall_ + i) * regs_a, y, (q * blocks + j) * regs_b}));
    }
    return body;
  }

  // Maxima seldom grow, so it is asked whether one of the thread's did.
  Body rescaled(const PassMember& m, std::int64_t blocks) {
    Body all;
    std::optional<Expr> none;
    for (std::int64_t slot = 0; slot < rows_of_thread(); ++slot) {
      const Expr scale = Load{scale_, i64(slot), type_}, same = equal(scale, one());
      none = none ? both(*none, same) : same;
      for (std::int64_t j = 0; j < blocks; ++j)
        for (std::int64_t c = 0; c < 2; ++c) {
          const Expr at = i64(result(slot, blocks, j, c));
          all.push_back(stmt(Store{m.registers, at, Operation{Op::Mul, {Load{m.registers, at, type_}, scale}, type_}}));
        }
    }
    return {stmt(If{*none, {}, std::move(all)})};
  }

  // The factor of rows for a step, in fragments from `first` on: each part of all its results, then the next part.
  Body packed(
      const PassMember& m, const std::string& a, std::int64_t first, std::int64_t step, const SplitFactors& split) {
    Body body;
    const std::int64_t regs_a = instruction_.registers_of_a();
    for (std::int64_t i = 0; i < tall_; ++i)
      for (std::int64_t r = 0; r < regs_a; ++r) {
        const auto value = [&](std::int64_t one) {
          return Expr(Load{m.tile, i64(result(i * 2 + r % 2, tile_blocks(), step * 2 + r / 2, one)), type_});
        };
        body.push_back(stmt(Pack{
            a, first + i * regs_a + r, split.instruction->operand, value(0), value(1), split.of_row, tall_ * regs_a}));
      }
    return body;
  }

  // The fragments of all steps stay until the products are there.
  Body sum_of_shared(const PassMember& m, const Box& b, const Expr& at, const SplitFactors& split) {
    const std::int64_t regs_a = instruction_.registers_of_a(), steps = depth_ / instruction_.k,
                       of_step = split.of_row * tall_ * regs_a;
    Body body;
    const std::string a = allocate(body, "a", steps * of_step, Memory::Register, DType::U32);
    MultiplyShared all{split.instruction, m.registers, sum_blocks(m) * instruction_.n, {a},
        {b.shared, true, b.rows * panel_bytes}, {}};
    for (std::int64_t s = 0; s < steps; ++s) {
      append(body, packed(m, a, s * of_step, s, split));
      for (std::int64_t p = 0; p < split.of_row; ++p)
        for (std::int64_t i = 0; i < tall_; ++i)
          all.products.push_back({i * sum_blocks(m) * instruction_.registers_of_c(),
              i64(s * of_step + (p * tall_ + i) * regs_a), at + b.begin(i64(s * instruction_.k), 0)});
    }
    body.push_back(stmt(std::move(all)));
    return body;
  }

  // Each element from its own points, as f32.
  Body sum_of_points(const PassMember& m, const Box& b, const Expr& buffer) {
    const std::size_t l = static_cast<std::size_t>(&m - members_.data());
    const std::string k = names_.fresh("k");
    Body one;
    append(one, each_row([&] {
      Body adds;
      const Expr a = let(adds, "a", Load{m.shared, var(k) * i64(height_) + row_, type_});
      for (std::int64_t j = 0; j < sum_blocks(m); ++j)
        for (std::int64_t c = 0; c < 2; ++c) {
          const Expr slot = i64(result(slot_, sum_blocks(m), j, c));
          const Expr y =
              convert(Load{b.shared,
                          buffer * i64(b.rows * b.width) + b.place(var(k), t_ * i64(2) + i64(j * instruction_.n + c)),
                          instruction_.operand},
                  type_);
          adds.push_back(
              stmt(Store{m.registers, slot, Operation{Op::Fma, {a, y, Load{m.registers, slot, type_}}, type_}}));
        }
      return Body{at_point(l, row_value_, j0_ + var(k), std::move(adds))};
    }));
    return {stmt(For{k, Kind::Serial, i64(depth_), {}, std::move(one)})};
  }

  std::int64_t tall_;                                  // results of a warp above one another
  std::vector<std::string> fragments_of_rows_;         // that stay in registers; empty: they are read each turn
  std::string scale_;
  // of this thread
  Expr first_row_ = i64(0), of_warp_ = i64(0), g_ = i64(0), t_ = i64(0), r_ = i64(0), low_ = i64(0), high_ = i64(0);
};

// What passes ask: a thread has two rows of each result of its warp.
class OnCores : public ProductsOnCores {
 public:
  OnCores(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage, Names& names,
      std::int64_t threads)
      : ProductsOnCores(nests, leaves, storage, names, threads) {
    each_ = depth_ / of_quad;
  }

 private:
  std::int64_t rows_of_thread() const override { return 2 * tall_; }
  Expr row_of_thread(Body& body, std::int64_t slot) override {
    if (slot == 0) {
      const Expr lane = let(body, "lane", remainder(var(thread_), warp));
      const std::int64_t together = instruction_.threads();
      first_row_ = let(body, "first_row", quotient(var(thread_), together) * i64(tall_ * instruction_.m));
      of_warp_ = together == warp ? i64(0)
                                  : let(body, "of_warp", quotient(remainder(var(thread_), together), warp) * i64(16));
      g_ = let(body, "g", quotient(lane, of_quad)), t_ = let(body, "t", remainder(lane, of_quad));
      r_ = let(body, "r8", remainder(lane, 8)), low_ = let(body, "low", remainder(quotient(lane, 8), 2)),
      high_ = let(body, "high", quotient(lane, 16));
    }
    return let(body, "r", first_row_ + of_warp_ + g_ + i64(slot / 2 * instruction_.m + slot % 2 * 8));
  }
  Element element(Body& body, std::int64_t x, bool asked) override {
    const Expr local = t_ * i64(2) + i64(x / 2 * instruction_.n + x % 2);
    return {x, local, let(body, "j", j0_ + local), asked, {}};
  }
  Expr in_tile(const PassMember& m, const Element& at) const {
    return Load{m.tile, i64(result(slot_, tile_blocks(), at.x / 2, at.x % 2)), type_};
  }
  Expr product_at(const PassMember& product, const Element& at) const override { return in_tile(product, at); }
  Body put_factor(const PassMember& sum, const Element& at, const Expr& factor) override {
    if (again_) return {stmt(Store{sum.shared, at.local * i64(height_) + row_, factor})};
    return {stmt(Store{sum.tile, i64(result(slot_, tile_blocks(), at.x / 2, at.x % 2)), factor})};
  }
  Expr highest_of(Body& body, const Expr& found) override {
    const std::string name = names_.fresh("found");
    body.push_back(stmt(Fold{name, Aggregation::Max, found, thread_, of_quad}));
    return Variable{name, type_};
  }
  Body put_scale(const Expr& scale) override { return {stmt(Store{scale_, i64(slot_), scale})}; }
  bool begins_again() const override { return true; }  // parts of what is infinite, and zeros beside it, are no numbers

  Body first_operands() override {
    Body body;
    std::vector<std::string> tiles;
    const auto tile = [&](std::size_t number) {
      while (tiles.size() <= number)
        tiles.push_back(
            allocate(body, "tile", tall_ * tile_blocks() * instruction_.registers_of_c(), Memory::Register));
      return tiles[number];
    };
    std::size_t products = 0, sums = 0;
    for (PassMember& m : members_) {
      if (m.part.role == OnlinePart::Product) m.tile = tile(products++);
      if (m.part.role == OnlinePart::Sum)
        m.tile = tile(sums++), m.registers = allocate(body, "acc", registers_of(m), Memory::Register);
    }
    if (maximum_) scale_ = allocate(body, "scale", rows_of_thread(), Memory::Register);
    append(body, look_at_addresses());
    for (const Box& b : of_rows_boxes_) append(body, bring(b, i0_, i64(0)));
    body.push_back(stmt(Commit{}));
    body.push_back(stmt(Barrier{}));
    for (const Box& b : of_rows_boxes_) {
      const std::int64_t steps = b.width / instruction_.k, count = steps * tall_ * instruction_.registers_of_a();
      if (instruction_.from_shared() || count > held_fragments) {
        fragments_of_rows_.emplace_back();
        continue;
      }
      fragments_of_rows_.push_back(allocate(body, "q", count, Memory::Register, DType::U32));
      for (std::int64_t s = 0; s < steps; ++s)
        for (std::int64_t i = 0; i < tall_; ++i)
          body.push_back(
              fragment_of_rows(b, fragments_of_rows_.back(), (s * tall_ + i) * instruction_.registers_of_a(), s, i));
    }
    return body;
  }
  // ---- turns

  std::int64_t turns_at_once() const override { return 2; }
  Body before_turns() override {
    Body body = columns(first_, i64(0));
    if (!again_) append(body, load_columns(first_)), append(body, put_columns(i64(0)));
    if (!is_const(turns_)) body = {stmt(If{less(i64(0), turns_), std::move(body), {}})};
    body.push_back(stmt(Commit{}));
    return body;
  }

  Body turn(const Expr& number, bool again) override {
    Body body{stmt(Barrier{})};                        // this turn's columns are there, and nobody reads those of the
                                                       // turn before
    const Expr next = let(body, "next", number + i64(1));
    Body ahead = columns(j0_ + i64(depth_), remainder(next, 2)), known;
    if (!again) append(ahead, load_columns(j0_ + i64(depth_))), known = put_columns(remainder(next, 2));
    body.push_back(stmt(If{less(next, turns_), std::move(ahead), {}}));
    body.push_back(stmt(Commit{}));
    const Expr buffer = let(body, "buffer", remainder(number, 2));
    buffer_ = buffer;
    std::size_t rows = 0;
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Product) append(body, product(m, rows++, columns_of(m), buffer));
    append(body, await(OnlinePart::Product));
    append(body, elements(again));
    if (again) body.push_back(stmt(Barrier{}));
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Sum)
        append(body, again ? sum_of_points(m, columns_of(m), buffer) : sum(m, columns_of(m), buffer));
    if (!again) append(body, await(OnlinePart::Sum));
    if (!known.empty()) body.push_back(stmt(If{less(next, turns_), std::move(known), {}}));
    return body;
  }

  // What instructions that read shared memory have multiplied is there.
  Body await(OnlinePart::Role role) const {
    Body body;
    for (const PassMember& m : members_)
      if (instruction_.from_shared() && m.part.role == role)
        body.push_back(stmt(Await{0, role == OnlinePart::Product ? m.tile : m.registers}));
    return body;
  }

  // ---- results

  Body before_writes() override {
    Body body;
    for (const PassMember& m : members_) {
      if (m.part.role != OnlinePart::Fold) continue;
      for (std::int64_t slot = 0; slot < rows_of_thread(); ++slot) {
        const std::string name = names_.fresh("all");
        body.push_back(
            stmt(Fold{name, m.nest.aggregation, Load{m.registers, i64(slot), type_of(m)}, thread_, of_quad}));
        body.push_back(stmt(Store{m.registers, i64(slot), Variable{name, type_of(m)}}));
      }
    }
    return body;
  }
  Expr total(const PassMember& fold) const override { return Load{fold.registers, i64(slot_), type_of(fold)}; }
  Expr writes_rows() const override { return equal_i64(t_, 0); }

  Body write_sum(std::size_t l) override {
    const PassMember& m = members_[l];
    const Finishing finishing = this->finishing(l);
    const std::int64_t columns = m.nest.dims[m.part.column].extent, blocks = sum_blocks(m);
    Body body;
    const std::vector<Finishing::Together> together = finishing.side_by_side(body, m.part.column, 2);
    const std::int64_t w = columns % 2 ? 1 : 2;
    append(body, each_row([&] {
      Body line;
      Ranges points = points_[l];
      points.fix(m.part.row, row_value_);
      const auto total_of = [&](const PassMember& fold) { return total(fold); };
      const auto by = divisor(line, m, total_of);
      const Finishing::Known known = known_folds(line, l, total_of);
      for (std::int64_t j = 0; j < blocks; ++j)
        for (std::int64_t c = 0; c < 2; c += w) {
          const Expr column = t_ * i64(2) + i64(j * instruction_.n + c);
          std::vector<Expr> sums;
          for (std::int64_t one = 0; one < w; ++one)
            sums.push_back(divided(m, Load{m.registers, i64(result(slot_, blocks, j, c + one)), type_}, by));
          const auto place = [&](const Form& form, std::size_t one) {
            points.fix(m.part.column, column + i64(static_cast<std::int64_t>(one)));
            return points.known_part(form);
          };
          Body some = finishing.stores(sums, place, together, known);
          if ((j + 1) * instruction_.n > columns)
            some = {stmt(If{less(column, i64(columns)), std::move(some), {}})};
          append(line, std::move(some));
        }
      if (rows_ % height_) return Body{stmt(If{less(row_value_, i64(rows_)), std::move(line), {}})};
      return line;
    }));
    return body;
  }
};

}  // namespace

std::int64_t SplitFactors::products() const {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < of_row; ++row)
    for (std::int64_t column = 0; column < of_column; ++column) count += multiplied(row, column);
  return count;
}

SplitFactors split_factors(const MatrixInstruction& instruction, Math math, const poly::Program& program,
    const Nest& nest, const OnlinePart& part) {
  if (is_operand(instruction, program, nest, *part.by_row)) return {&instruction};
  const auto bf16 = std::ranges::find_if(matrix_instructions(), [&](const MatrixInstruction& i) {
    return i.operand == DType::BF16 && i.m == instruction.m && i.k == instruction.k && i.warps == instruction.warps;
  });
  if (instruction.operand != DType::BF16) return {&*bf16, math == Math::F32 ? 3 : 2, 2};
  return {&*bf16, math == Math::F32 ? 3 : math == Math::Tf32 ? 2 : 1, 1};
}

std::string refuses_cores(const MatrixInstruction& instruction, const poly::Program& program,
    const std::vector<Nest>& nests, const std::vector<OnlinePart>& parts) {
  if (lang::bytes(instruction.operand) != 2) return std::string("a pass has instructions for f16 or bf16");
  if (compares_computed(program))
    return std::string("something asks whether computed values are equal, and other passes add up in another order");
  bool any = false;
  for (std::size_t l = 0; l < nests.size(); ++l) {
    const OnlinePart& part = parts[l];
    const std::string& name = program.tensor(nests[l].target.tensor).name;
    if (part.role == OnlinePart::Fold) continue;
    if (compute_type(nests[l].value->type()) != DType::F32) return fmt::format("`{}` is not computed as f32", name);
    if (part.role == OnlinePart::Tile) continue;
    any = true;
    if (!is_operand(instruction, program, nests[l], *part.by_column) ||
        (part.role == OnlinePart::Product && !is_operand(instruction, program, nests[l], *part.by_row)))
      return fmt::format("the factors of `{}` are no reads of {}", name, lang::name(instruction.operand));
    if (instruction.from_shared() && part.role == OnlinePart::Sum &&
        split_factors(instruction, Math::F32, program, nests[l], part).of_column > 1)
      return fmt::format("the factor of columns of `{}` is several, which `{}` does not read", name, instruction.name);
  }
  return any ? std::string() : std::string("nothing is multiplied");
}

std::int64_t cores_bytes(const MatrixInstruction& instruction, const std::vector<Nest>& nests,
    const std::vector<OnlinePart>& parts, std::int64_t rows, std::int64_t depth) {
  const std::int64_t bytes = lang::bytes(instruction.operand);
  const auto width = [&](const Nest& nest, std::size_t d) { return row_width(nest.dims[d].extent, instruction); };
  std::int64_t all = 0;
  std::vector<std::size_t> columns;                    // that bring their own
  for (std::size_t l = 0; l < nests.size(); ++l) {
    // Twice, and reciprocals.
    all += 4 * 4 * depth * static_cast<std::int64_t>(column_reads(nests[l], parts[l]).size());
    if (parts[l].role == OnlinePart::Product) all += width(nests[l], parts[l].depth) * rows * bytes;
    if (parts[l].role == OnlinePart::Sum) all += depth * rows * 4;
    if (parts[l].role != OnlinePart::Product && parts[l].role != OnlinePart::Sum) continue;
    if (std::ranges::any_of(
            columns, [&](std::size_t c) { return same_columns(nests[c], parts[c], nests[l], parts[l]); }))
      continue;
    all += width(nests[l], wide_dim(parts[l])) * 2 * depth * bytes;
    columns.push_back(l);
  }
  return all;
}

Body spell_online_on_cores(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
    Names& names, std::int64_t threads) {
  return OnCores(nests, leaves, storage, names, threads).spell();
}

}  // namespace tilec::codegen
