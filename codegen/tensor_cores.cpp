// A block of threads on tensor cores: copies to shared memory some turns ahead, fragments, products, the result.
#include "codegen/tensor_cores.h"

#include <algorithm>

#include "codegen/core_results.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite/copy.h"
#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

constexpr std::int64_t warp = 32;

std::int64_t side(std::int64_t blocks, std::int64_t of_instruction, std::int64_t warps) {
  return blocks * of_instruction * warps;
}

const MatrixInstruction& instruction_of(const Compute& leaf) {
  return *matrix_instruction(leaf.as<forms::TensorCores>()->instruction);
}
std::int64_t height_of(const Compute& leaf) {
  return side(leaf.rows, instruction_of(leaf).m, leaf.as<forms::TensorCores>()->warps_m);
}
std::int64_t width_of(const Compute& leaf) {
  return side(leaf.vectors, instruction_of(leaf).n, leaf.as<forms::TensorCores>()->warps_n);
}

class OnTensorCores : CoreResults {
 public:
  OnTensorCores(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names)
      : CoreResults(nests, leaf, storage, names, height_of(leaf), width_of(leaf)) {
    if (!multiplies(instruction_, storage.plan.program, nest_, roles_, true))
      throw InternalError("the plan puts a statement on tensor cores that they cannot multiply");
    a_ = operand(roles_.by_m, roles_.m, height_, true);
    b_ = operand(roles_.by_n, roles_.n, width_, false);
  }

  Body spell() {
    block_ = names_.fresh("p");
    Body body = coordinates();
    a_.first = m0_, b_.first = n0_;
    for (Operand* x : {&a_, &b_}) {
      x->shared = names_.fresh(x == &a_ ? "As" : "Bs");
      body.push_back(
          stmt(Allocate{x->shared, instruction_.operand, cores_.buffers * x->side * depth_, Memory::Shared}));
    }
    thread_ = names_.fresh("l");
    body.push_back(stmt(For{thread_, Kind::Thread, i64(cores_.threads()), {}, one_thread()}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  Body one_thread() {
    Body body;
    const auto begins_aligned = [&](const Operand& x) {
      return aligned(storage_, names_, body, x.access->tensor, piece_bytes / lang::bytes(type_of(x)));
    };
    a_.aligned = begins_aligned(a_), b_.aligned = begins_aligned(b_);
    aligned_ = let(body, "aligned", both(a_.aligned, b_.aligned));
    lane_ = let(body, "lane", remainder(var(thread_), warp));
    warp_ = let(body, "warp", remainder(quotient(var(thread_), warp), instruction_.warps));
    const Expr group = let(body, "group", quotient(var(thread_), instruction_.threads()));
    first_m_ = let(body, "first_m", quotient(group, cores_.warps_n) * i64(leaf_.rows * instruction_.m));
    first_n_ = let(body, "first_n", remainder(group, cores_.warps_n) * i64(leaf_.vectors * instruction_.n));
    acc_ = names_.fresh("acc");
    const std::int64_t count = leaf_.rows * leaf_.vectors * instruction_.registers_of_c();
    body.push_back(stmt(Allocate{acc_, type_, count, Memory::Register}));
    const std::string r = names_.fresh("r");
    body.push_back(
        stmt(For{r, Kind::Unroll, i64(count), {}, {stmt(Store{acc_, var(r), identity(Aggregation::Sum, type_)})}}));
    append(body, stages());
    append(body, write());
    if (has_zeros()) append(body, again());
    return body;
  }

  // The copies of a turn are asked for some turns before.
  Body stages() {
    Body body;
    const Expr count = count_stages(body);
    if (is_const(count) && const_or(count, 0) <= 0) return body;
    Body all = hold();
    const std::int64_t ahead = cores_.ahead();
    for (std::int64_t turn = 0; turn < ahead; ++turn) {
      append(all, when(less(i64(turn), count), copies(i64(turn), i64(turn))));
      all.push_back(stmt(Commit{}));
    }
    const std::string index = names_.fresh(nest_.dims[roles_.depth].name + "_b");
    Body inside{stmt(Barrier{static_cast<int>(ahead - 1)})};
    const Expr next = let(inside, "next", var(index) + i64(ahead)), more = less(next, count);
    Body later = fetched(next, more);
    append(later, when(more, copies(next, remainder(next, cores_.buffers), true)));
    later.push_back(stmt(Commit{}));
    const Expr buffer = remainder(var(index), cores_.buffers);
    append(inside,
        instruction_.from_shared() ? multiply_shared(buffer, std::move(later)) : multiply(buffer, std::move(later)));
    if (Body held = put(remainder(next, cores_.buffers)); !held.empty()) append(inside, when(more, std::move(held)));
    all.push_back(stmt(For{index, Kind::Serial, count, {}, std::move(inside)}));
    if (instruction_.from_shared()) all.push_back(stmt(Await{0, acc_}));
    if (is_const(count)) append(body, std::move(all));
    else append(body, when(less(i64(0), count), std::move(all)));
    return body;
  }

  // What comes element by element is on its way to registers while a turn is multiplied, if few of them hold it.
  Body hold() {
    Body body;
    std::int64_t held = 0;
    for (Operand* x : {&a_, &b_}) {
      const std::int64_t count = together(*x) == 1 && may_hold(*x) ? registers_of_thread(*x) : 0;
      if (!count || held + count > model::threads::most_held) continue;
      held += count;
      x->held = names_.fresh("held");
      body.push_back(registers(*x));
    }
    return body;
  }

  Body fetched(const Expr& turn, const Expr& more) {
    Body body;
    if (a_.held.empty() && b_.held.empty()) return body;
    const Expr k0 = begin_stage(body, turn);
    for (const Operand* x : {&a_, &b_}) if (!x->held.empty()) append(body, fetch(*x, k0, more));
    end_stage();
    return body;
  }

  Body put(const Expr& buffer) {
    Body body;
    for (const Operand* x : {&a_, &b_})
      if (!x->held.empty()) append(body, CoreOperands::put(*x, let(body, "to", buffer * i64(depth_ * x->side))));
    return body;
  }

  // Of a turn, but, in a `later` one, what registers hold.
  Body copies(const Expr& turn, const Expr& buffer, bool later = false) {
    Body body;
    const Expr k0 = begin_stage(body, turn);
    const Expr to_a = let(body, "to_a", buffer * i64(depth_ * a_.side)),
               to_b = let(body, "to_b", buffer * i64(depth_ * b_.side));
    const auto both = [&](std::int64_t of_a, std::int64_t of_b) {
      Body copies;
      if (!later || a_.held.empty()) append(copies, copy(a_, k0, to_a, of_a));
      if (!later || b_.held.empty()) append(copies, copy(b_, k0, to_b, of_b));
      return copies;
    };
    const std::int64_t of_a = together(a_), of_b = together(b_);
    if (later && !a_.held.empty() && !b_.held.empty()) body.clear();
    else if (of_a == 1 && of_b == 1) append(body, both(1, 1));
    else body.push_back(stmt(If{aligned_, both(of_a, of_b), both(1, 1)}));
    end_stage();
    return body;
  }

  // The fragments of a step are read while those of the step before it are multiplied, and `ahead`, the copies of a
  // later turn, are asked for behind the first ones, which the products wait for.
  Body multiply(const Expr& buffer, Body ahead) {
    Body body;
    const Expr row = let(body, "r", remainder(lane_, 8)), low = let(body, "q_low", remainder(quotient(lane_, 8), 2)),
               high = let(body, "q_high", quotient(lane_, 16));
    const OfThread of{row, low, high};
    const Expr at_a = let(body, "at_a", buffer * i64(depth_ * a_.side)),
               at_b = let(body, "at_b", buffer * i64(depth_ * b_.side));
    const std::int64_t regs_a = instruction_.registers_of_a(), regs_b = instruction_.registers_of_b(),
                       regs_c = instruction_.registers_of_c();
    const std::int64_t steps = depth_ / instruction_.k;
    std::string a[2], b[2];
    for (int set = 0; set < std::min<std::int64_t>(steps, 2); ++set) {
      a[set] = names_.fresh("a"), b[set] = names_.fresh("b");
      body.push_back(stmt(Allocate{a[set], instruction_.fragment(), leaf_.rows * regs_a, Memory::Register}));
      body.push_back(stmt(Allocate{b[set], instruction_.fragment(), leaf_.vectors * regs_b, Memory::Register}));
    }
    const auto read = [&](std::int64_t step) {
      const std::int64_t k = step * instruction_.k;
      for (std::int64_t i = 0; i < leaf_.rows; ++i)
        fragment(body, a_, at_a, a[step % 2], i * regs_a, k, first_m_ + i64(i * instruction_.m), of);
      for (std::int64_t j = 0; j < leaf_.vectors; j += 2)
        fragment(body, b_, at_b, b[step % 2], j * regs_b, k, first_n_ + i64(j * instruction_.n), of);
    };
    read(0);
    append(body, std::move(ahead));
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step + 1 < steps) read(step + 1);
      for (std::int64_t i = 0; i < leaf_.rows; ++i)
        for (std::int64_t j = 0; j < leaf_.vectors; ++j)
          body.push_back(stmt(Multiply{&instruction_, acc_, (i * leaf_.vectors + j) * regs_c, a[step % 2], i * regs_a,
              b[step % 2], j * regs_b}));
    }
    return body;
  }

  // Turns of the reduction as one group, which begins while the group before it ends. The copies of a later turn are
  // asked for first: they go where the group before that one has read, and take longer than products.
  Body multiply_shared(const Expr& buffer, Body later) {
    Body body;
    const Expr at_a = let(body, "at_a", buffer * i64(depth_ * a_.side)),
               at_b = let(body, "at_b", buffer * i64(depth_ * b_.side));
    const auto matrix = [&](const Operand& x) {
      return SharedMatrix{x.shared, !x.along_k, x.along_k ? piece_bytes : depth_ * panel_bytes};
    };
    // Where a box begins that starts at this value of m or n: a multiple of eight rows, or of a whole panel.
    const auto begin = [&](const Operand& x, const Expr& at, const Expr& value, std::int64_t k) {
      if (x.along_k) return at + rows_of(x).begin(value, k);
      return at + value * i64(depth_) + i64(k * instruction_.of_panel());
    };
    MultiplyShared all{&instruction_, acc_, leaf_.vectors * instruction_.n, matrix(a_), matrix(b_), {}};
    for (std::int64_t k = 0; k < depth_; k += instruction_.k)
      for (std::int64_t i = 0; i < leaf_.rows; ++i)
        all.products.push_back({i * leaf_.vectors * instruction_.registers_of_c(),
            begin(a_, at_a, first_m_ + i64(i * instruction_.m), k), begin(b_, at_b, first_n_, k)});
    append(body, std::move(later));
    body.push_back(stmt(std::move(all)));
    body.push_back(stmt(Await{1, acc_}));
    return body;
  }

  Operand a_, b_;
  Expr aligned_ = i64(0);                              // what callers gave begins at a multiple of 16 bytes
};

// Whether an operand is multiplied as it lies: `wgmma` takes the 19 highest bits of f32, of rows along k alone.
bool as_tf32(const poly::Program& program, const Nest& nest, const poly::Read& factor, const Staging& roles,
    const std::vector<std::size_t>& side) {
  const FlatAccess& read = nest.reads[static_cast<std::size_t>(factor.read)];
  return holds_tf32(program, read.tensor) && reads_along(read.offset, roles.depth, side.back()) == roles.depth;
}

bool is_byte(DType type) { return type == DType::I8 || type == DType::U8; }

// The narrowest type of operands that holds every value of both: bytes are whole numbers that floats of 16 bits have.
std::optional<DType> operand_of(DType x, DType y, DType sum) {
  if (x == y && (lang::is_float(x) || !lang::is_float(sum))) return x;
  if (is_byte(x)) std::swap(x, y);
  if (is_byte(x)) return lang::is_float(sum) ? std::optional(DType::BF16) : std::nullopt;
  const auto is_held = [](DType type) { return type == DType::F16 || type == DType::BF16 || type == DType::F32; };
  if (!is_held(x) || (!is_byte(y) && !is_held(y))) return std::nullopt;
  return is_byte(y) ? x : DType::F32;
}

}  // namespace

const poly::Read* read_of(const poly::Expr& factor) {
  return poly::below_casts(factor).as<poly::Read>();
}

DType type_read(const poly::Program& program, const Nest& nest, const poly::Expr& factor) {
  return program.tensor(nest.reads[static_cast<std::size_t>(read_of(factor)->read)].tensor).dtype;
}

bool keeps_values(const poly::Expr& factor, DType type) {
  const auto* cast = factor.as<poly::Cast>();
  if (!cast) return factor.as<poly::Read>() != nullptr;
  if (!keeps_values(cast->operand, type)) return false;
  if (lang::is_float(type)) return cast->type == type || cast->type == DType::F32;
  return cast->type == type || cast->type == DType::I32 || (is_byte(type) && lang::is_float(cast->type));
}

const poly::Expr* rounded_in(const poly::Expr& factor, DType type) {
  const auto* cast = factor.as<poly::Cast>();
  if (!cast) return nullptr;
  if (cast->type == type) return &cast->operand;
  return cast->type == DType::F32 ? rounded_in(cast->operand, type) : nullptr;
}

bool multiplies(const MatrixInstruction& i, const poly::Program& program, const Nest& nest,
    const std::optional<Staging>& roles, bool tf32) {
  if (!roles || roles->joined || compute_type(nest.value->type()) != i.accumulator) return false;
  const poly::Read *x = read_of(roles->by_m), *y = read_of(roles->by_n);
  if (!x || !y) return false;
  const DType of_x = type_read(program, nest, roles->by_m), of_y = type_read(program, nest, roles->by_n);
  if (i.from_shared() && i.operand == DType::F32 &&
      (!as_tf32(program, nest, *x, *roles, roles->m) || !as_tf32(program, nest, *y, *roles, roles->n)))
    return false;
  if (!keeps_values(roles->by_m, of_x) || !keeps_values(roles->by_n, of_y)) return false;
  const bool rounds = of_x == DType::F32 || of_y == DType::F32;
  return (!rounds || tf32) && operand_of(of_x, of_y, i.accumulator) == i.operand;
}

std::pair<std::int64_t, std::int64_t> tile_of(const Compute& leaf) { return {height_of(leaf), width_of(leaf)}; }

std::int64_t shared_bytes_of(const Compute& leaf) {
  const auto& cores = *leaf.as<forms::TensorCores>();
  return cores.buffers * cores.depth * (height_of(leaf) + width_of(leaf)) * lang::bytes(instruction_of(leaf).operand);
}

Body spell_on_tensor_cores(
    const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names) {
  return OnTensorCores(nests, leaf, storage, names).spell();
}

}  // namespace tilec::codegen
