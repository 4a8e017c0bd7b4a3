// Products in fragments, packed fragments of sums.
#include "codegen/online_products.h"

#include <algorithm>

namespace tilec::codegen {

std::int64_t ProductsOnCores::result(
    std::int64_t slot, std::int64_t blocks, std::int64_t block, std::int64_t one) const {
  return (slot / 2 * blocks + block) * instruction_.registers_of_c() + slot % 2 * 2 + one;
}

std::int64_t ProductsOnCores::registers_of(const PassMember& sum) const {
  return tall_ * sum_blocks(sum) * instruction_.registers_of_c();
}

Stmt ProductsOnCores::fragment_of_rows(
    const Box& b, const std::string& to, std::int64_t first, std::int64_t step, std::int64_t i) const {
  return stmt(Fragment{to, first, b.shared,
      of_fragment(b, first_row_ + i64(i * instruction_.m) + low_ * i64(8), i64(step * 2) + high_), false});
}

Expr ProductsOnCores::of_fragment(const Box& b, const Expr& eight, const Expr& number) const {
  return b.piece(eight + r_, r_, number);
}

Body ProductsOnCores::product_of_shared(
    const PassMember& m, std::size_t number, const Box& b, const Expr& buffer, const Half& half) {
  Body body;
  const Box& rows = of_rows_boxes_[number];
  const Expr at = let(body, "at", buffer * i64(b.rows * b.width));
  MultiplyShared all{&instruction_, m.tile, half.columns, {rows.shared}, {b.shared}, {}, true};
  for (std::int64_t k = 0; k < rows.column_extent; k += instruction_.k)
    for (std::int64_t i = half.first; i < half.first + half.tall; ++i)
      all.products.push_back({result(i * 2, tile_blocks(), half.column / instruction_.n, 0),
          rows.begin(first_row_ + i64(i * instruction_.m), k), at + b.begin(i64(half.column), k)});
  body.push_back(stmt(std::move(all)));
  return body;
}

Body ProductsOnCores::product(const PassMember& m, std::size_t number, const Box& b, const Expr& buffer) {
  if (instruction_.from_shared()) return product_of_shared(m, number, b, buffer, whole());
  Body body;
  const Box& rows = of_rows_boxes_[number];
  const std::int64_t regs_a = instruction_.registers_of_a(), regs_b = instruction_.registers_of_b(),
                     blocks = tile_blocks();
  const Expr at = let(body, "at", buffer * i64(b.rows * b.width));
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

Body ProductsOnCores::sum(const PassMember& m, const Box& b, const Expr& buffer) {
  Body body;
  const std::int64_t regs_a = instruction_.registers_of_a(), regs_b = instruction_.registers_of_b(),
                     blocks = sum_blocks(m);
  const SplitFactors split = split_of(m);
  if (m.rescaled) append(body, rescaled(m, whole()));
  if (instruction_.from_shared()) {
    const std::string a = allocate_factors(body, m, whole());
    append(body, packed_factors(m, a, whole()));
    append(body, sum_of_shared(m, b, buffer, a, whole()));
    return body;
  }
  const Expr at = let(body, "at", buffer * i64(b.rows * b.width));
  for (std::int64_t s = 0; s < depth_ / instruction_.k; ++s) {
    const std::string a = allocate(body, "a", split.of_row * tall_ * regs_a, Memory::Register, DType::U32);
    const std::string y = allocate(body, "b", split.of_column * blocks * regs_b, Memory::Register, DType::U32);
    append(body, packed(m, a, 0, s, whole()));
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

SplitFactors ProductsOnCores::split_of(const PassMember& m) const {
  return split_factors(instruction_, math_, storage_.plan.program, m.nest, m.part);
}

Body ProductsOnCores::rescaled(const PassMember& m, const Half& half) {
  Body all;
  const std::int64_t blocks = sum_blocks(m);
  std::optional<Expr> none;
  for (std::int64_t slot = half.first * 2; slot < (half.first + half.tall) * 2; ++slot) {
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

Body ProductsOnCores::packed(
    const PassMember& m, const std::string& a, std::int64_t first, std::int64_t step, const Half& half) {
  Body body;
  const SplitFactors split = split_of(m);
  const std::int64_t regs_a = instruction_.registers_of_a();
  for (std::int64_t i = 0; i < half.tall; ++i)
    for (std::int64_t r = 0; r < regs_a; ++r) {
      const auto value = [&](std::int64_t one) {
        const std::int64_t slot = (half.first + i) * 2 + r % 2;
        return Expr(Load{m.tile, i64(result(slot, tile_blocks(), step * 2 + r / 2, one)), type_});
      };
      body.push_back(stmt(Pack{a, first + i * regs_a + r, split.instruction->operand, value(0), value(1),
          split.of_row, half.tall * regs_a}));
    }
  return body;
}

std::int64_t ProductsOnCores::of_step(const PassMember& m, const Half& half) const {
  return split_of(m).of_row * half.tall * instruction_.registers_of_a();
}

std::string ProductsOnCores::allocate_factors(Body& body, const PassMember& m, const Half& half) {
  return allocate(body, "a", half.columns / instruction_.k * of_step(m, half), Memory::Register, DType::U32);
}

Body ProductsOnCores::packed_factors(const PassMember& m, const std::string& a, const Half& half) {
  Body body;
  const std::int64_t first = half.column / instruction_.k;
  for (std::int64_t s = 0; s < half.columns / instruction_.k; ++s)
    append(body, packed(m, a, s * of_step(m, half), first + s, half));
  return body;
}

Body ProductsOnCores::sum_of_shared(
    const PassMember& m, const Box& b, const Expr& buffer, const std::string& a, const Half& half) {
  Body body;
  const SplitFactors split = split_of(m);
  const std::int64_t regs_a = instruction_.registers_of_a();
  const Expr at = let(body, "at", buffer * i64(b.rows * b.width));
  MultiplyShared all{split.instruction, m.registers, sum_blocks(m) * instruction_.n, {a},
      {b.shared, true, b.rows * panel_bytes}, {}};
  for (std::int64_t s = 0; s < half.columns / instruction_.k; ++s)
    for (std::int64_t p = 0; p < split.of_row; ++p)
      for (std::int64_t i = 0; i < half.tall; ++i)
        all.products.push_back({result((half.first + i) * 2, sum_blocks(m), 0, 0),
            i64(s * of_step(m, half) + (p * half.tall + i) * regs_a),
            at + b.begin(i64(half.column + s * instruction_.k), 0)});
  body.push_back(stmt(std::move(all)));
  return body;
}

Body ProductsOnCores::sum_of_points(const PassMember& m, const Box& b, const Expr& buffer) {
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

}  // namespace tilec::codegen
