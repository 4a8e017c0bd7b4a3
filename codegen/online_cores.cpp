// Passes on tensor cores: which rows a thread has, elements where their products lie, turns.
#include "codegen/online_cores.h"

#include <algorithm>

#include "codegen/online_products.h"
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

// What passes ask: a thread has two rows of each result of its warp.
class OnCores : public ProductsOnCores {
 public:
  OnCores(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage, Names& names,
      std::int64_t threads, Sweep sweep)
      : ProductsOnCores(nests, leaves, storage, names, threads, sweep) {
    each_ = depth_ / of_quad;
  }

 protected:
  std::int64_t rows_of_thread() const override { return 2 * tall_; }
  Expr row_of_thread(Body& body, std::int64_t slot) override {
    if (slot == 0) {
      const Expr lane = let(body, "lane", remainder(var(thread_), warp));
      const std::int64_t together = instruction_.threads();
      if (threads_ > together)
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
  // What the text rounds to the type of the instruction, packing rounds.
  const poly::Expr& factor_of_row(const PassMember& sum) const override {
    const poly::Expr& factor = OnlinePass::factor_of_row(sum);
    const poly::Expr* wide = again_ ? nullptr : rounded_in(factor, split_of(sum).instruction->operand);
    return wide && wide->type() == DType::F32 && split_of(sum).of_row == 1 ? *wide : factor;
  }
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
  bool in_registers() const override { return true; }
  Body scale_sums() override {
    Body body;
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Sum && m.rescaled) append(body, rescaled(m, whole()));
    return body;
  }
  // Parts of what is infinite, and zeros beside it, are no numbers.
  bool begins_again() const override {
    return std::ranges::any_of(members_, [](const PassMember& m) {
      return m.part.role == OnlinePart::Sum ||
          (m.part.role == OnlinePart::Fold && m.nest.aggregation == Aggregation::Sum && !m.known);
    });
  }

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
    for (const Box& b : of_rows_boxes_) if (!b.there) append(body, bring(b, i0_, i64(0)));
    body.push_back(stmt(Commit{}));
    if (!instruction_.from_shared()) body.push_back(stmt(Barrier{}));  // else turns wait for them
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
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const PassMember& m = members_[l];
      if (m.part.role != OnlinePart::Fold || m.known) continue;
      const auto tile = extreme_of_product_.find(l);
      for (std::int64_t slot = 0; slot < rows_of_thread(); ++slot) {
        const std::string name = names_.fresh("all");
        body.push_back(
            stmt(Fold{name, m.nest.aggregation, Load{m.registers, i64(slot), type_of(m)}, thread_, of_quad}));
        const Expr all = Variable{name, type_of(m)};
        body.push_back(stmt(Store{m.registers, i64(slot),
            tile == extreme_of_product_.end() ? all : of_product(body, tile->second, all)}));
      }
    }
    return body;
  }
  Expr total(const PassMember& fold) const override { return Load{fold.registers, i64(slot_), type_of(fold)}; }
  Expr writes_rows() const override { return equal_i64(t_, 0); }

  Body write_sum(std::size_t l) override {
    return finishing(l).in_pairs(members_[l].part.column,
        [&](const std::vector<Finishing::Together>& together) { return write_sum(l, together); });
  }

 private:
  Body write_sum(std::size_t l, const std::vector<Finishing::Together>& together) {
    const PassMember& m = members_[l];
    const Finishing finishing = this->finishing(l);
    const std::int64_t columns = m.nest.dims[m.part.column].extent, blocks = sum_blocks(m);
    Body body;
    const bool exchanges = Finishing::exchanges(together);
    const Expr four = exchanges
        ? let(body, "of_four", remainder(t_, 2) * i64(instruction_.n) + quotient(t_, 2) * i64(4))
        : i64(0);
    const std::int64_t w = columns % 2 ? 1 : 2;
    append(body, each_row([&] {
      Body all, line, later;
      const std::vector<Finishing::Together> mine = finishing.with_registers(all, together, blocks);
      Ranges points = points_[l];
      points.fix(m.part.row, row_value_);
      const auto place = [&](const Expr& column) {
        return [&points, &m, column](const Form& form, std::size_t one) {
          points.fix(m.part.column, column + i64(static_cast<std::int64_t>(one)));
          return points.known_part(form);
        };
      };
      const auto total_of = [&](const PassMember& fold) { return total(fold); };
      const auto by = divisor(line, m, total_of);
      const Finishing::Known known = known_folds(line, l, total_of);
      for (std::int64_t j = 0; j < blocks; ++j)
        for (std::int64_t c = 0; c < 2; c += w) {
          const Expr column = t_ * i64(2) + i64(j * instruction_.n + c);
          const auto within = [&](std::int64_t end) { return end > columns ? less(column, i64(columns)) : always(); };
          std::vector<Expr> sums;
          for (std::int64_t one = 0; one < w; ++one)
            sums.push_back(divided(m, Load{m.registers, i64(result(slot_, blocks, j, c + one)), type_}, by));
          Body some = finishing.stores(sums, place(column), mine, known, j);
          append(line, where(within((j + 1) * instruction_.n), std::move(some)));
        }
      const Expr there = rows_ % height_ ? less(row_value_, i64(rows_)) : always();
      append(all, where(there, std::move(line)));
      for (std::int64_t j = 0; j < blocks && exchanges; j += 2) {
        append(all, finishing.exchange(mine, j));
        const Expr column = four + i64(j * instruction_.n);
        Body some = finishing.exchanged(mine, j, [&](const Form& form) { return place(column)(form, 0); });
        const Expr within = (j + 2) * instruction_.n > columns ? less(column, i64(columns)) : always();
        append(later, where(within, std::move(some)));
      }
      append(all, where(there, std::move(later)));
      return all;
    }));
    return body;
  }
  static Expr always() { return Constant{DType::Bool, 1}; }
};

// A turn in two halves. While a thread computes the elements of one, tensor cores multiply the scores of the other and
// add up what was computed of it before:
//
//   multiplied                                            computed
//   sums of half 0 of turn j, products of it of turn j+1  elements of half 1 of turn j
//   sums of half 1 of turn j, products of it of turn j+1  elements of half 0 of turn j+1
//
// Elements are packed, which frees the registers of their products. Between the lines all that was asked for is waited
// for, or, where no sum is scaled, all but the second line, which is asked for before. In front of the first one all
// is, and all threads are there: the columns of products of turn j+1 and of sums of turn j have come, and those of the
// turn before each are read no more. In flight are registers of the other half alone, and sums that queue up.
class InHalves : public OnCores {
 public:
  using OnCores::OnCores;

  // All of a pass that goes over its index twice: the first sweep leaves what it finds in registers, and rows and
  // columns where both have them.
  Body spell_behind(InHalves& first) {
    first.block_ = block_ = names_.fresh("p"), first.thread_ = thread_ = names_.fresh("l");
    Body body, thread;
    for (InHalves* one : {&first, this}) {
      append(body, one->coordinates());
      one->find_quotients(), one->find_scaled();
    }
    append(body, shared_memory());
    first.share_boxes(*this);
    for (InHalves* one : {&first, this}) {
      if (one == &first) append(body, one->shared_memory());
      append(body, one->known_columns());
    }
    append(thread, first.swept());
    append(thread, first.before_writes());
    take_known(first);
    thread.push_back(stmt(Barrier{}));                 // nobody reads what comes to the places of columns
    append(thread, one_thread());
    body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, std::move(thread)}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  void take_known(const InHalves& first) {
    for (PassMember& m : members_)
      if (m.known) m.registers = first.members_[first.by_tensor_.at(m.nest.target.tensor)].registers;
  }

  std::int64_t turns_at_once() const override { return halves_ ? 3 : OnCores::turns_at_once(); }
  Half half(int which) const {
    if (tall_ % 2 == 0) return {which * tall_ / 2, tall_ / 2, 0, depth_};
    return {0, tall_, which * depth_ / 2, depth_ / 2};
  }

  Body pass(bool again) override {
    if (again || !halves_) return OnCores::pass(again);
    again_ = false;
    Body body = nothing_so_far(false);
    if (const_or(turns_, 1) <= 0) return body;
    Body all = first_turn();
    const std::string number = names_.fresh("turn");
    Stmt turns = stmt(For{number, Kind::Serial, turns_ - i64(1), {}, turn_to_next(var(number))});
    append(all, where(less(i64(1), turns_), {std::move(turns)}));
    append(all, last_turn());
    append(body, where(less(i64(0), turns_), std::move(all)));
    append(body, settled());
    return body;
  }

  Body first_turn() {
    Body body = columns_of_turn(i64(0), false);
    append(body, known_of_turn(i64(0)));
    body.push_back(stmt(Commit{}));
    append(body, columns_of_turn(i64(0), true));
    Body next = columns_of_turn(i64(1), false);
    append(next, known_of_turn(i64(1)));
    append(body, where(less(i64(1), turns_), std::move(next)));
    body.push_back(stmt(Commit{}));
    body.push_back(stmt(Barrier{1}));
    for (int which : {0, 1})
      for (PassMember& m : members_)
        if (m.part.role == OnlinePart::Sum) factors_[which].push_back(allocate_factors(body, m, half(which)));
    // ptxas does one product after the other where registers of sums are set while others are under way: they are zeros
    // before the first ones.
    append(body, await_sums());
    append(body, products(0, i64(0)));
    append(body, await_half(0));
    append(body, products(1, i64(0)));
    append(body, elements_of(0, i64(0)));
    return body;
  }

  Body turn_to_next(const Expr& turn) {
    Body body = await_half(1);
    if (queued()) append(body, await_sums());
    body.push_back(stmt(Barrier{}));
    const Expr next = let(body, "next", turn + i64(1)), behind = let(body, "behind", turn + i64(2));
    append(body, sums(0, turn));
    append(body, products(0, next));
    append(body, columns_of_turn(next, true));
    Body ahead = columns_of_turn(behind, false);
    append(ahead, load_columns(first_ + behind * i64(depth_)));
    append(body, where(less(behind, turns_), std::move(ahead)));
    body.push_back(stmt(Commit{}));
    append(body, elements_of(1, turn));
    if (!queued()) append(body, await_half(0));
    append(body, sums(1, turn));
    append(body, products(1, next));
    if (queued()) append(body, await_products(0));
    append(body, elements_of(0, next));
    if (Body known = put_columns(remainder(behind, turns_at_once())); !known.empty())
      append(body, where(less(behind, turns_), std::move(known)));
    return body;
  }

  Body last_turn() {
    Body body = await_half(1);
    if (queued()) append(body, await_sums());
    body.push_back(stmt(Barrier{}));
    const Expr last = let(body, "last", turns_ - i64(1));
    append(body, sums(0, last));
    append(body, elements_of(1, last));
    if (!queued()) append(body, await_half(0));
    append(body, sums(1, last));
    append(body, await_half(1));
    if (queued()) append(body, await_sums());
    return body;
  }

  Body known_of_turn(const Expr& turn) {
    Body body = load_columns(first_ + turn * i64(depth_));
    append(body, put_columns(remainder(turn, turns_at_once())));
    return body;
  }
  Body elements_of(int which, const Expr& turn) {
    Body body;
    const Half own = half(which);
    j0_ = let(body, "j_0", first_ + turn * i64(depth_));
    buffer_ = let(body, "buffer", remainder(turn, turns_at_once()));
    const std::int64_t each = own.columns / of_quad;
    some_ = Some{own.first * 2, own.tall * 2, own.column / of_quad, each};
    append(body, elements(false));
    some_.reset();
    std::size_t sum = 0;
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Sum)
        append(body, packed_factors(m, factors_[which][sum++], own));
    return body;
  }
  Body products(int which, const Expr& turn) {
    Body body;
    std::size_t rows = 0;
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Product) {
        const Box& b = columns_of(m);
        append(body, product_of_shared(m, rows++, b, remainder(turn, b.buffers), half(which)));
      }
    return body;
  }
  Body sums(int which, const Expr& turn) {
    Body body;
    std::size_t sum = 0;
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Sum) {
        const Box& b = columns_of(m);
        if (m.rescaled) append(body, rescaled(m, half(which)));
        append(body, sum_of_shared(m, b, remainder(turn, b.buffers), factors_[which][sum++], half(which)));
      }
    return body;
  }
  Body await_sums() const {
    Body body;
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Sum) body.push_back(stmt(Await{0, m.registers}));
    return body;
  }
  // Whether what is asked for of a half may stand behind what is asked for of the other: where no sum is scaled. It is
  // asked for before the other is waited for then, lest the compiler brings the wait in front of the elements, which
  // then are computed while tensor cores have nothing to do.
  bool queued() const {
    return std::ranges::none_of(
        members_, [](const PassMember& m) { return m.part.role == OnlinePart::Sum && m.rescaled; });
  }
  // The products of a half, while the newest groups, all those of the other one, are under way.
  Body await_products(int which) const {
    Body body;
    int groups = 0;
    const auto multiplied = [](const PassMember& m) {
      return m.part.role == OnlinePart::Product || m.part.role == OnlinePart::Sum;
    };
    for (const PassMember& m : members_) groups += multiplied(m);
    const Half own = half(which);
    for (const PassMember& m : members_)
      if (m.part.role == OnlinePart::Product)
        body.push_back(stmt(Await{groups, m.tile, first_register(own), registers_of_half(own)}));
    return body;
  }
  // The products of a half, and what sums it has: where halves are columns, both have all of them.
  Body await_half(int which) const {
    Body body;
    const Half own = half(which);
    for (const PassMember& m : members_) {
      if (m.part.role == OnlinePart::Product)
        body.push_back(stmt(Await{0, m.tile, first_register(own), registers_of_half(own)}));
      if (m.part.role == OnlinePart::Sum) {
        const std::int64_t row = sum_blocks(m) * instruction_.registers_of_c();
        body.push_back(stmt(Await{0, m.registers, own.first * row, own.tall * row}));
      }
    }
    return body;
  }

  std::vector<std::string> factors_[2];                // of each sum
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
  if (is_operand(instruction, program, nest, *part.by_row) || rounded_in(*part.by_row, instruction.operand))
    return {&instruction};
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
    const std::vector<OnlinePart>& parts, std::int64_t threads, std::int64_t tall, std::int64_t depth, bool twice) {
  const std::int64_t bytes = lang::bytes(instruction.operand),
                     rows = threads / instruction.threads() * tall * instruction.m;
  const bool halves = takes_halves(instruction, tall, depth);
  const auto width = [&](const Nest& nest, std::size_t d) { return row_width(nest.dims[d].extent, instruction); };
  std::int64_t all = 0;
  std::vector<std::size_t> columns;                    // that bring their own
  for (std::size_t l = 0; l < nests.size(); ++l) {
    // Of some turns, and reciprocals; each sweep has its own.
    all += std::int64_t{halves ? 3 : 2} * 2 * 4 * depth * std::ssize(column_reads(nests[l], parts[l])) *
        (twice ? 2 : 1);
    if (parts[l].role == OnlinePart::Product) all += width(nests[l], parts[l].depth) * rows * bytes;
    if (parts[l].role == OnlinePart::Sum) all += depth * rows * 4;
    if (parts[l].role != OnlinePart::Product && parts[l].role != OnlinePart::Sum) continue;
    const auto alike = [&](std::size_t c) { return same_columns(nests[c], parts[c], nests[l], parts[l]); };
    if (std::ranges::any_of(columns, alike)) continue;
    ColumnUse use;
    for (std::size_t c = 0; c < nests.size(); ++c)
      if ((parts[c].role == OnlinePart::Product || parts[c].role == OnlinePart::Sum) && alike(c))
        (parts[c].role == OnlinePart::Product ? use.by_products : use.by_sums) = true;
    all += width(nests[l], wide_dim(parts[l])) * buffers_of(use, halves) * depth * bytes;
    columns.push_back(l);
  }
  return all;
}

Body spell_online_on_cores(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
    Names& names, std::int64_t threads) {
  using enum OnlinePass::Sweep;
  if (!leaves.front().as<forms::Online>()->twice) return InHalves(nests, leaves, storage, names, threads, Only).spell();
  InHalves first(nests, leaves, storage, names, threads, First);
  return InHalves(nests, leaves, storage, names, threads, Second).spell_behind(first);
}

}  // namespace tilec::codegen
