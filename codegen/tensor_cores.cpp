// A block of threads on tensor cores: copies to shared memory some turns ahead, fragments, products, the result.
//
// In shared memory a row holds the values of one operand along k, or along m (n) where those have the unit stride; a row is cut into pieces
// of 16 bytes, and piece c of row r lies at c ^ (r mod 8), so that the 8 rows which a Fragment reads together are in different banks. Where
// rows have fewer than 8 pieces, several share the 32 banks: with 4 of them c ^ (r / 2 mod 4).
//
//   64 bytes a row, 16 rows, piece 0:  0  0  1  1  2  2  3  3   rows 0 .. 7 → banks 0, 16, 4, 20, 8, 24, 12, 28
#include "codegen/tensor_cores.h"

#include <algorithm>

#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

constexpr std::int64_t piece_bytes = 16, warp = 32;

Expr i64(std::int64_t value) { return Expr(value); }
Expr quotient(const Expr& a, std::int64_t b) { return b == 1 ? a : Expr(Operation{Op::Div, {a, i64(b)}, DType::I64}); }
Expr remainder(const Expr& a, std::int64_t b) { return b == 1 ? i64(0) : Expr(Operation{Op::Mod, {a, i64(b)}, DType::I64}); }
Expr differ(const Expr& a, const Expr& b) { return Operation{Op::Xor, {a, b}, DType::I64}; }

// The read that a factor is, below casts that keep every value of `type`.
const poly::Read* read_of(const poly::Expr& factor) {
  if (const auto* cast = factor.as<poly::Cast>()) return read_of(cast->operand);
  return factor.as<poly::Read>();
}

bool keeps_values(const poly::Expr& factor, DType type) {
  const auto* cast = factor.as<poly::Cast>();
  if (!cast) return factor.as<poly::Read>() != nullptr;
  if (!keeps_values(cast->operand, type)) return false;
  if (lang::is_float(type)) return cast->type == type || cast->type == DType::F32;
  return cast->type == type || cast->type == DType::I32;
}

std::int64_t side(std::int64_t blocks, std::int64_t of_instruction, std::int64_t warps) { return blocks * of_instruction * warps; }

class OnTensorCores {
 public:
  OnTensorCores(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names)
      : nest_(nest), leaf_(leaf), cores_(*leaf.as<forms::TensorCores>()), instruction_(*matrix_instruction(cores_.instruction)), storage_(storage), names_(names), points_(nest),
        bytes_(lang::bytes(instruction_.operand)), of_piece_(piece_bytes / bytes_) {
    if (instruction_of(storage.plan.program, nest, leaf.m(), leaf.n, leaf.k) != &instruction_) throw InternalError("the plan puts a statement on tensor cores that they cannot multiply");
    const Staging roles = *staging_of(nest, {leaf.m()}, leaf.n, leaf.k);
    depth_ = roles.depth;
    a_ = operand(roles.by_m, roles.m.front(), side(leaf.rows, instruction_.m, cores_.warps_m));
    b_ = operand(roles.by_n, roles.n, side(leaf.vectors, instruction_.n, cores_.warps_n));
  }

  Body spell() {
    block_ = names_.fresh("p");
    Body body = coordinates();
    for (Operand* x : {&a_, &b_}) {
      x->shared = names_.fresh(x == &a_ ? "As" : "Bs");
      body.push_back(stmt(Allocate{x->shared, instruction_.operand, cores_.buffers * x->side * cores_.depth, Memory::Shared}));
    }
    thread_ = names_.fresh("l");
    body.push_back(stmt(For{thread_, Kind::Thread, i64(cores_.threads()), {}, one_thread()}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  struct Operand {
    const FlatAccess* access = nullptr;
    std::size_t dim = 0;                               // m or n
    std::int64_t side = 0;                             // values of it that a block has
    bool along_k = true;                               // of rows in shared memory
    bool reads_along_k = true;                         // neighbouring threads read neighbours in k
    Expr first = Expr(std::int64_t{0});                // of its dimension
    std::string shared;
  };

  std::int64_t extent(std::size_t d) const { return nest_.dims[d].extent; }

  Operand operand(const poly::Expr& factor, std::size_t d, std::int64_t values) const {
    const FlatAccess& access = nest_.reads[static_cast<std::size_t>(read_of(factor)->read)];
    Operand x;
    x.access = &access, x.dim = d, x.side = values;
    x.reads_along_k = std::abs(access.offset.coefficients[depth_]) == 1 || std::abs(access.offset.coefficients[d]) != 1;
    x.along_k = x.reads_along_k || bytes_ != 2;        // fragments are transposed 16 bits at a time
    return x;
  }

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
    b_.first = digit(leaf_.n + "_0", (extent(b_.dim) + b_.side - 1) / b_.side, b_.side);
    a_.first = digit(leaf_.m() + "_0", (extent(a_.dim) + a_.side - 1) / a_.side, a_.side);
    for (std::size_t o = leaf_.outer.size(); o-- > 0;) {
      const std::size_t d = *nest_.dim(leaf_.outer[o]);
      points_.fix(d, digit(leaf_.outer[o], extent(d), 1));
    }
    return body;
  }

  Expr named(Body& body, const std::string& stem, Expr value) {
    const std::string name = names_.fresh(stem);
    const DType type = value.type();
    body.push_back(stmt(Let{name, std::move(value)}));
    return Variable{name, type};
  }

  Body one_thread() {
    Body body;
    const auto aligned = [&](const Operand& x) {
      const std::string name = names_.fresh("aligned");
      body.push_back(stmt(Aligned{name, storage_.name(x.access->tensor), piece_bytes}));
      return Expr(Variable{name, DType::Bool});
    };
    const Expr a = aligned(a_), b = aligned(b_);
    aligned_ = named(body, "aligned", both(a, b));
    lane_ = named(body, "lane", remainder(var(thread_), warp));
    const Expr number = named(body, "warp", quotient(var(thread_), warp));
    warp_m_ = named(body, "warp_m", quotient(number, cores_.warps_n) * i64(leaf_.rows * instruction_.m));
    warp_n_ = named(body, "warp_n", remainder(number, cores_.warps_n) * i64(leaf_.vectors * instruction_.n));
    acc_ = names_.fresh("acc");
    const DType type = instruction_.accumulator;
    const std::int64_t count = leaf_.rows * leaf_.vectors * instruction_.registers_of_c();
    body.push_back(stmt(Allocate{acc_, type, count, Memory::Register}));
    const std::string r = names_.fresh("r");
    body.push_back(stmt(For{r, Kind::Unroll, i64(count), {}, {stmt(Store{acc_, var(r), identity(Aggregation::Sum, type)})}}));
    append(body, taps(0));
    append(body, write());
    return body;
  }

  // Serial loops over all reductions but the staged one: their bounds are the same for all threads.
  Body taps(std::size_t level) {
    if (level == leaf_.k.size()) return turns();
    const std::size_t d = *nest_.dim(leaf_.k[level]);
    if (d == depth_) return taps(level + 1);
    const Interval range = points_.bounds(d);
    return serial(names_, leaf_.k[level], range, [&](const Expr& value) {
      points_.fix(d, value);
      Body inside{stmt(Barrier{})};                    // warps read the last turns of the tap before
      append(inside, taps(level + 1));
      points_.release(d);
      return inside;
    });
  }

  // The staged reduction, `depth` at a time: the copies of a turn are asked for `buffers` - 1 turns before.
  Body turns() {
    const std::string& stem = nest_.dims[depth_].name;
    const Interval range = points_.bounds(depth_);
    Body before;
    lo_ = range.lo, end_ = range.hi;
    known_ = is_const(lo_) && is_const(end_);
    if (!known_) lo_ = named(before, stem + "_lo", lo_), end_ = named(before, stem + "_end", end_);
    Expr count = ceil_divide(end_ - lo_, cores_.depth);
    if (!known_) count = named(before, stem + "_n", count);
    if (known_ && const_or(count, 0) <= 0) return {};
    ragged_ = !known_ || (const_or(end_, 0) - const_or(lo_, 0)) % cores_.depth != 0;
    Body all;
    for (std::int64_t ahead = 0; ahead + 1 < cores_.buffers; ++ahead) {
      append(all, when(less(i64(ahead), count), copies(i64(ahead), i64(ahead))));
      all.push_back(stmt(Commit{}));
    }
    const std::string index = names_.fresh(stem + "_b");
    Body inside{stmt(Barrier{static_cast<int>(cores_.buffers - 2)})};
    const Expr next = named(inside, "next", var(index) + i64(cores_.buffers - 1));
    Body ahead = when(less(next, count), copies(next, remainder(next, cores_.buffers)));
    ahead.push_back(stmt(Commit{}));
    append(inside, multiply(remainder(var(index), cores_.buffers), std::move(ahead)));
    all.push_back(stmt(For{index, Kind::Serial, count, {}, std::move(inside)}));
    if (known_) return all;
    append(before, when(less(i64(0), count), std::move(all)));
    return before;
  }

  static Body when(const Expr& condition, Body body) {
    if (is_const(condition)) return condition.as<Constant>()->integer ? std::move(body) : Body{};
    return {stmt(If{condition, std::move(body), {}})};
  }

  Body copies(const Expr& turn, const Expr& buffer) {
    Body body;
    const Expr k0 = named(body, nest_.dims[depth_].name + "_0", lo_ + turn * i64(cores_.depth));
    const Expr to_a = named(body, "to_a", buffer * i64(cores_.depth * a_.side)), to_b = named(body, "to_b", buffer * i64(cores_.depth * b_.side));
    const auto both = [&](std::int64_t of_a, std::int64_t of_b) {
      Body copies = copy(a_, k0, to_a, of_a);
      append(copies, copy(b_, k0, to_b, of_b));
      return copies;
    };
    const std::int64_t of_a = together(a_), of_b = together(b_);
    if (of_a == 1 && of_b == 1) append(body, both(1, 1));
    else body.push_back(stmt(If{aligned_, both(of_a, of_b), both(1, 1)}));
    return body;
  }

  // How many elements go to shared memory at a time: as many as always lie side by side at a multiple of their bytes, as far as strides and
  // bounds say, from aligned memory; one where none do.
  std::int64_t together(const Operand& x) const {
    if (x.along_k != x.reads_along_k) return 1;
    const std::size_t along = x.along_k ? depth_ : x.dim;
    const Form& offset = x.access->offset;
    if (offset.coefficients[along] != 1 || (x.along_k && !known_)) return 1;
    const std::int64_t lo = x.along_k ? const_or(lo_, 0) : 0, count = x.along_k ? const_or(end_, 0) - lo : extent(x.dim);
    for (std::int64_t bytes = piece_bytes; bytes >= 4; bytes /= 2) {
      const std::int64_t elements = bytes / bytes_;
      bool fits = (offset.constant + lo) % elements == 0 && count % elements == 0;
      for (std::size_t d = 0; d < offset.coefficients.size(); ++d) fits = fits && (d == along || offset.coefficients[d] % elements == 0);
      if (fits) return elements;
    }
    return 1;
  }

  // Where an element lies in its buffer: `at` in row `row`.
  Expr place(const Operand& x, const Expr& row, const Expr& at) const { return piece_of(x, row, quotient(at, of_piece_)) + remainder(at, of_piece_); }
  Expr piece_of(const Operand& x, const Expr& row, const Expr& piece) const {
    const std::int64_t pieces = (x.along_k ? cores_.depth : x.side) / of_piece_;
    Expr turned = piece;
    if (pieces % 8 == 0) turned = differ(piece, remainder(row, 8));
    else if (pieces == 2 || pieces == 4) turned = differ(piece, remainder(quotient(row, 8 / pieces), pieces));
    return row * i64(pieces * of_piece_) + turned * i64(of_piece_);
  }

  // `elements` at a time; one by one, loads wait for each other eight at a time, so that few registers hold them.
  Body copy(const Operand& x, const Expr& k0, const Expr& buffer, std::int64_t elements) {
    const std::int64_t total = cores_.depth * x.side / elements, of_row = (x.reads_along_k ? cores_.depth : x.side) / elements;
    const std::int64_t count = (total + cores_.threads() - 1) / cores_.threads();
    std::int64_t at_once = elements > 1 ? count : std::min<std::int64_t>(count, 8);
    while (count % at_once) --at_once;
    const std::string turn = names_.fresh("u"), round = names_.fresh("v");
    Body body;
    const Expr pass = count > at_once ? var(round) * i64(at_once) + var(turn) : var(turn);
    const Expr number = named(body, "e", var(thread_) + pass * i64(cores_.threads()));
    // Where a pass is whole rows, a thread stays in its column, and its addresses lie constants apart.
    const bool whole = cores_.threads() % of_row == 0;
    const Expr row = named(body, "row", whole ? quotient(var(thread_), of_row) + pass * i64(cores_.threads() / of_row) : quotient(number, of_row));
    const Expr at = named(body, "at", remainder(whole ? var(thread_) : number, of_row) * i64(elements));
    const Expr k = x.reads_along_k ? at : row, value = x.reads_along_k ? row : at;
    // Values of m or n beyond the last one are computed from the last ones, and written nowhere.
    Expr there = Constant{DType::Bool, 1, 0}, of_dim = x.first + value;
    if (extent(x.dim) % x.side) of_dim = minimum(of_dim, i64(extent(x.dim) - (x.reads_along_k ? 1 : elements)));
    if (ragged_) there = less(k0 + k, end_);
    const Form& f = x.access->offset;
    const Expr offset = points_.known_part(f) + of_dim * i64(f.coefficients[x.dim]) + (k0 + k) * i64(f.coefficients[depth_]);
    const Expr to = buffer + (x.along_k ? place(x, value, k) : place(x, k, value));
    const std::string& from = storage_.name(x.access->tensor);
    const DType type = instruction_.operand;
    if (elements > 1) {
      body.push_back(stmt(Copy{x.shared, to, from, offset, there, elements}));
    } else {
      const std::string one = names_.fresh("s");
      body.push_back(stmt(Allocate{one, type, 1, Memory::Register}));
      body.push_back(stmt(Store{one, i64(0), Constant{type, 0, 0.0}}));
      append(body, when(there, {stmt(Store{one, i64(0), Load{from, offset, type}})}));
      body.push_back(stmt(Store{x.shared, to, Load{one, i64(0), type}}));
    }
    if (total % cores_.threads()) body = {body.front(), stmt(If{less(number, i64(total)), Body(body.begin() + 1, body.end()), {}})};
    Stmt loop = stmt(For{turn, Kind::Unroll, i64(at_once), {}, std::move(body)});
    if (count > at_once) loop = stmt(For{round, Kind::Serial, i64(count / at_once), {}, {std::move(loop)}});
    return {std::move(loop)};
  }

  // A Fragment takes from thread 8 q + r the place of row r of its q-th matrix. Of A these are m 0 .. 7 and 8 .. 15 of the first half of k, then
  // of the second; of two neighbours of B the halves of k of the first, then of the second.
  //
  // The fragments of a step are read while those of the step before it are multiplied, and `ahead`, the copies of a later turn, are asked for
  // behind the first ones, which the products wait for.
  Body multiply(const Expr& buffer, Body ahead) {
    Body body;
    const Expr row = named(body, "r", remainder(lane_, 8)), low = named(body, "q_low", remainder(quotient(lane_, 8), 2)), high = named(body, "q_high", quotient(lane_, 16));
    const Expr at_a = named(body, "at_a", buffer * i64(cores_.depth * a_.side)), at_b = named(body, "at_b", buffer * i64(cores_.depth * b_.side));
    const std::int64_t regs_a = instruction_.registers_of_a(), regs_b = instruction_.registers_of_b(), regs_c = instruction_.registers_of_c();
    const std::int64_t steps = cores_.depth / instruction_.k, half_k = instruction_.k / 2;
    std::string a[2], b[2];
    for (int set = 0; set < std::min<std::int64_t>(steps, 2); ++set) {
      a[set] = names_.fresh("a"), b[set] = names_.fresh("b");
      body.push_back(stmt(Allocate{a[set], DType::U32, leaf_.rows * regs_a, Memory::Register}));
      body.push_back(stmt(Allocate{b[set], DType::U32, leaf_.vectors * regs_b, Memory::Register}));
    }
    const auto fragment = [&](const Operand& x, const Expr& at, const std::string& to, std::int64_t first, std::int64_t k, const Expr& value, const Expr& half_of_value, const Expr& half_of_k) {
      const Expr offset = x.along_k ? piece_of(x, value + half_of_value * i64(8) + row, i64(k / of_piece_) + half_of_k * i64(half_k / of_piece_))
                                    : piece_of(x, i64(k) + half_of_k * i64(half_k) + row, quotient(value, of_piece_) + half_of_value);
      body.push_back(stmt(Fragment{to, first, x.shared, at + offset, !x.along_k}));
    };
    const auto read = [&](std::int64_t step) {
      const std::int64_t k = step * instruction_.k;
      for (std::int64_t i = 0; i < leaf_.rows; ++i) fragment(a_, at_a, a[step % 2], i * regs_a, k, warp_m_ + i64(i * instruction_.m), low, high);
      for (std::int64_t j = 0; j < leaf_.vectors; j += 2) fragment(b_, at_b, b[step % 2], j * regs_b, k, warp_n_ + i64(j * instruction_.n), high, low);
    };
    read(0);
    append(body, std::move(ahead));
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step + 1 < steps) read(step + 1);
      for (std::int64_t i = 0; i < leaf_.rows; ++i)
        for (std::int64_t j = 0; j < leaf_.vectors; ++j) body.push_back(stmt(Multiply{&instruction_, acc_, (i * leaf_.vectors + j) * regs_c, a[step % 2], i * regs_a, b[step % 2], j * regs_b}));
    }
    return body;
  }

  // Thread 4 g + t has of each result rows g and g + 8, columns 2 t and 2 t + 1.
  Body write() {
    const DType target = storage_.plan.program.tensor(nest_.target.tensor).dtype, type = instruction_.accumulator;
    const Form& f = nest_.target.offset;
    Body body;
    const Expr m0 = named(body, "m_of_thread", a_.first + warp_m_ + quotient(lane_, 4)), n0 = named(body, "n_of_thread", b_.first + warp_n_ + remainder(lane_, 4) * i64(2));
    for (std::int64_t i = 0; i < leaf_.rows; ++i)
      for (std::int64_t half = 0; half < 2; ++half) {
        const Expr m = m0 + i64(i * instruction_.m + half * 8);
        Body row;
        for (std::int64_t j = 0; j < leaf_.vectors; ++j)
          for (std::int64_t one = 0; one < 2; ++one) {
            const Expr n = n0 + i64(j * instruction_.n + one);
            const Expr offset = points_.known_part(f) + m * i64(f.coefficients[a_.dim]) + n * i64(f.coefficients[b_.dim]);
            const Expr sum = Load{acc_, i64((i * leaf_.vectors + j) * instruction_.registers_of_c() + half * 2 + one), type};
            Stmt put = stmt(Store{storage_.name(nest_.target.tensor), offset, convert(convert(sum, compute_type(target)), target)});
            if (extent(b_.dim) % b_.side) put = stmt(If{less(n, i64(extent(b_.dim))), {std::move(put)}, {}});
            row.push_back(std::move(put));
          }
        if (extent(a_.dim) % a_.side) body.push_back(stmt(If{less(m, i64(extent(a_.dim))), std::move(row), {}}));
        else append(body, std::move(row));
      }
    return body;
  }

  const Nest& nest_;
  const Compute& leaf_;
  const forms::TensorCores& cores_;
  const MatrixInstruction& instruction_;
  const Storage& storage_;
  Names& names_;
  Ranges points_;
  std::int64_t bytes_, of_piece_, blocks_ = 1;         // of an element; elements of 16 bytes
  std::size_t depth_ = 0;                              // the staged reduction
  Operand a_, b_;
  Expr lo_ = Expr(std::int64_t{0}), end_ = Expr(std::int64_t{0});  // its bounds
  Expr aligned_ = Expr(std::int64_t{0});               // what callers gave begins at a multiple of 16 bytes
  bool known_ = false, ragged_ = false;                // they are numbers; the last turn is not full
  Expr lane_ = Expr(std::int64_t{0}), warp_m_ = Expr(std::int64_t{0}), warp_n_ = Expr(std::int64_t{0});  // this thread; where its warp begins in the block
  std::string block_, thread_, acc_;
};

}  // namespace

const MatrixInstruction* instruction_of(const poly::Program& program, const Nest& nest, const std::string& m, const std::string& n, const std::vector<std::string>& k) {
  const auto roles = staging_of(nest, {m}, n, k);
  if (!roles || std::ranges::any_of(nest.rows, [&](const Row& row) { return row.form.coefficients[roles->m.front()] != 0; })) return nullptr;
  const poly::Read *x = read_of(roles->by_m), *y = read_of(roles->by_n);
  if (!x || !y) return nullptr;
  const auto type_of = [&](const poly::Read& r) { return program.tensor(nest.reads[static_cast<std::size_t>(r.read)].tensor).dtype; };
  const DType type = type_of(*x);
  if (type_of(*y) != type || !keeps_values(roles->by_m, type) || !keeps_values(roles->by_n, type)) return nullptr;
  return matrix_instruction(type, compute_type(nest.value->type()));
}

std::int64_t shared_bytes_of(const Compute& leaf) {
  const auto& cores = *leaf.as<forms::TensorCores>();
  const MatrixInstruction& i = *matrix_instruction(cores.instruction);
  return cores.buffers * cores.depth * (side(leaf.rows, i.m, cores.warps_m) + side(leaf.vectors, i.n, cores.warps_n)) * lang::bytes(i.operand);
}

Body spell_on_tensor_cores(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names) {
  return OnTensorCores(nest, leaf, storage, names).spell();
}

}  // namespace tilec::codegen
