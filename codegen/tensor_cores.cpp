// A block of threads on tensor cores: copies to shared memory some turns ahead, fragments, products, the result.
//
// In shared memory a row holds the values of one operand along k, or along m (n) where those have the unit stride; a
// row is cut into pieces of 16 bytes, and piece c of row r lies at c ^ (r mod 8), so that the 8 rows which a Fragment
// reads together are in different banks. Where rows have fewer than 8 pieces, several share the 32 banks: with 4 of
// them c ^ (r / 2 mod 4).
//
//   64 bytes a row, 16 rows, piece 0:  0  0  1  1  2  2  3  3   rows 0 .. 7 → banks 0, 16, 4, 20, 8, 24, 12, 28
//
// Where instructions read shared memory themselves, rows have 128 bytes: longer ones are panels of that width, one
// after the other.
#include "codegen/tensor_cores.h"

#include <algorithm>

#include "codegen/scalar.h"
#include "codegen/staged_block.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

constexpr std::int64_t piece_bytes = 16, row_bytes = 128, warp = 32;

Expr differ(const Expr& a, const Expr& b) { return Operation{Op::Xor, {a, b}, DType::I64}; }

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

class OnTensorCores : StagedBlock {
 public:
  OnTensorCores(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names)
      : StagedBlock(nest, leaf, storage, names, leaf.as<forms::TensorCores>()->depth, height_of(leaf), width_of(leaf)),
        cores_(*leaf.as<forms::TensorCores>()),
        instruction_(instruction_of(leaf)),
        bytes_(lang::bytes(instruction_.operand)),
        of_piece_(piece_bytes / bytes_) {
    if (!multiplies(instruction_, storage.plan.program, nest, leaf.all_of_m(), leaf.all_of_n(), leaf.k, true))
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
  struct Operand {
    const FlatAccess* access = nullptr;
    std::vector<std::size_t> dims;                     // of m, or n
    std::int64_t side = 0;                             // values of them that a block has
    bool by_m = false;
    bool along_k = true;                               // of rows in shared memory
    bool reads_along_k = true;                         // neighbouring threads read neighbours in k
    Expr first = Expr(std::int64_t{0});                // of its dimensions
    std::string shared;
  };

  Operand operand(const poly::Expr& factor, std::vector<std::size_t> dims, std::int64_t values, bool by_m) const {
    const FlatAccess& access = nest_.reads[static_cast<std::size_t>(read_of(factor)->read)];
    const std::size_t last = dims.back();
    Operand x;
    x.access = &access, x.dims = std::move(dims), x.side = values, x.by_m = by_m;
    x.reads_along_k =
        std::abs(access.offset.coefficients[roles_.depth]) == 1 || std::abs(access.offset.coefficients[last]) != 1;
    x.along_k = x.reads_along_k || bytes_ == 1;        // fragments are transposed 16 or 32 bits at a time
    return x;
  }

  Body one_thread() {
    Body body;
    const auto aligned = [&](const Operand& x) {
      const std::string name = names_.fresh("aligned");
      body.push_back(stmt(Aligned{name, storage_.name(x.access->tensor), piece_bytes}));
      return Expr(Variable{name, DType::Bool});
    };
    const Expr a = aligned(a_), b = aligned(b_);
    aligned_ = let(body, "aligned", both(a, b));
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
    Body all;
    const std::int64_t ahead = cores_.ahead();
    for (std::int64_t turn = 0; turn < ahead; ++turn) {
      append(all, when(less(i64(turn), count), copies(i64(turn), i64(turn))));
      all.push_back(stmt(Commit{}));
    }
    const std::string index = names_.fresh(nest_.dims[roles_.depth].name + "_b");
    Body inside{stmt(Barrier{static_cast<int>(ahead - 1)})};
    const Expr next = let(inside, "next", var(index) + i64(ahead));
    Body later = when(less(next, count), copies(next, remainder(next, cores_.buffers)));
    later.push_back(stmt(Commit{}));
    const Expr buffer = remainder(var(index), cores_.buffers);
    append(inside,
        instruction_.from_shared() ? multiply_shared(buffer, std::move(later)) : multiply(buffer, std::move(later)));
    all.push_back(stmt(For{index, Kind::Serial, count, {}, std::move(inside)}));
    if (instruction_.from_shared()) all.push_back(stmt(Await{0, acc_}));
    if (is_const(count)) append(body, std::move(all));
    else append(body, when(less(i64(0), count), std::move(all)));
    return body;
  }

  static Body when(const Expr& condition, Body body) {
    if (is_const(condition)) return condition.as<Constant>()->integer ? std::move(body) : Body{};
    return {stmt(If{condition, std::move(body), {}})};
  }

  Body copies(const Expr& turn, const Expr& buffer) {
    Body body;
    const Expr k0 = begin_stage(body, turn);
    const Expr to_a = let(body, "to_a", buffer * i64(depth_ * a_.side)),
               to_b = let(body, "to_b", buffer * i64(depth_ * b_.side));
    const auto both = [&](std::int64_t of_a, std::int64_t of_b) {
      Body copies = copy(a_, k0, to_a, of_a);
      append(copies, copy(b_, k0, to_b, of_b));
      return copies;
    };
    const std::int64_t of_a = together(a_), of_b = together(b_);
    if (of_a == 1 && of_b == 1) append(body, both(1, 1));
    else body.push_back(stmt(If{aligned_, both(of_a, of_b), both(1, 1)}));
    end_stage();
    return body;
  }

  // How many elements go to shared memory at a time: as many as always lie side by side at a multiple of their bytes
  // and take part together, as far as strides, bounds and rows say, from aligned memory; one where none do.
  std::int64_t together(const Operand& x) const {
    if (x.along_k != x.reads_along_k || type_of(x) != instruction_.operand) return 1;
    const std::size_t along = x.along_k ? roles_.depth : x.dims.back();
    const Form& offset = x.access->offset;
    if (offset.coefficients[along] != 1 || (x.along_k && !known_)) return 1;
    if (std::any_of(nest_.rows.begin(), nest_.rows.end(),
            [&](const Row& row) { return is_asked(row) && row.form.coefficients[along] != 0; }))
      return 1;
    const std::int64_t lo = x.along_k ? const_or(range_.lo, 0) : 0,
                       count = x.along_k ? const_or(range_.hi, 0) - lo : extent(along);
    for (std::int64_t bytes = piece_bytes; bytes >= 4; bytes /= 2) {
      const std::int64_t elements = bytes / bytes_;
      bool fits = (offset.constant + lo) % elements == 0 && count % elements == 0;
      for (std::size_t d = 0; d < offset.coefficients.size(); ++d)
        fits = fits && (d == along || offset.coefficients[d] % elements == 0);
      if (fits) return elements;
    }
    return 1;
  }

  DType type_of(const Operand& x) const { return storage_.plan.program.tensor(x.access->tensor).dtype; }
  // Whether so many elements are one Copy: four bytes of what is copied as it is, or more.
  bool at_a_time(const Operand& x, std::int64_t elements) const {
    return elements * bytes_ >= 4 && type_of(x) == instruction_.operand;
  }

  // Where an element lies in its buffer: `at` in row `row`.
  Expr place(const Operand& x, const Expr& row, const Expr& at) const {
    return piece_of(x, row, quotient(at, of_piece_)) + remainder(at, of_piece_);
  }
  Expr piece_of(const Operand& x, const Expr& row, const Expr& piece) const {
    if (instruction_.from_shared())
      return ((x.along_k ? depth_ : x.side) > row_bytes / bytes_ ? panel(x, quotient(piece, 8)) : i64(0)) +
          row * i64(row_bytes / bytes_) + differ(remainder(piece, 8), remainder(row, 8)) * i64(of_piece_);
    const std::int64_t pieces = (x.along_k ? depth_ : x.side) / of_piece_;
    Expr turned = piece;
    if (!x.along_k && bytes_ == 4) {                   // four rows of two pieces are read together
      if (pieces % 8 == 0) turned = differ(piece, remainder(row, 4) * i64(2));
      else if (pieces == 4) turned = differ(piece, remainder(quotient(row, 2), 2) * i64(2));
    } else if (pieces % 8 == 0) {
      turned = differ(piece, remainder(row, 8));
    } else if (pieces == 2 || pieces == 4) {
      turned = differ(piece, remainder(quotient(row, 8 / pieces), pieces));
    }
    return row * i64(pieces * of_piece_) + turned * i64(of_piece_);
  }
  Expr panel(const Operand& x, const Expr& number) const {
    return number * i64((x.along_k ? x.side : depth_) * (row_bytes / bytes_));
  }

  // `elements` at a time; one by one, loads wait for each other eight at a time, so that few registers hold them.
  Body copy(const Operand& x, const Expr& k0, const Expr& buffer, std::int64_t elements) {
    const std::int64_t threads = cores_.threads(), total = depth_ * x.side / elements,
                       of_row = (x.reads_along_k ? depth_ : x.side) / elements;
    const std::int64_t count = (total + threads - 1) / threads;
    const bool together = at_a_time(x, elements);
    std::int64_t at_once = together ? count : std::min<std::int64_t>(count, 8);
    while (count % at_once) --at_once;
    const std::string turn = names_.fresh("u"), round = names_.fresh("v");
    Body all, body;
    const Expr pass = count > at_once ? var(round) * i64(at_once) + var(turn) : var(turn);
    const Expr number = let(all, "e", var(thread_) + pass * i64(threads));
    // Where a pass is whole rows, a thread stays in its column, and its addresses lie constants apart.
    const bool whole = threads % of_row == 0;
    const Expr row = let(
        body, "row", whole ? quotient(var(thread_), of_row) + pass * i64(threads / of_row) : quotient(number, of_row));
    const Expr at = let(body, "at", remainder(whole ? var(thread_) : number, of_row) * i64(elements));
    const Expr k = x.reads_along_k ? at : row, value = x.reads_along_k ? row : at;
    // Values of m or n beyond the last one are computed from the last ones, and written nowhere.
    Expr of_dims = x.first + value;
    if (extent(x.dims) % x.side) of_dims = minimum(of_dims, i64(extent(x.dims) - (x.reads_along_k ? 1 : elements)));
    const std::vector<Expr> values = digits(body, x.dims, of_dims);
    const std::optional<Expr> there = takes_part(std::nullopt, x.by_m, k0 + k, values);
    const Form& f = x.access->offset;
    const Expr offset = points_.known_part(f) + part(f, x.dims, values) + (k0 + k) * i64(f.coefficients[roles_.depth]);
    const Expr to = buffer + (x.along_k ? place(x, value, k) : place(x, k, value));
    const std::string& from = storage_.name(x.access->tensor);
    const DType type = instruction_.operand;
    if (together) {
      body.push_back(stmt(Copy{x.shared, to, from, offset, there.value_or(Constant{DType::Bool, 1, 0}), elements}));
    } else {
      const std::string one = names_.fresh("s");
      body.push_back(stmt(Allocate{one, type, 1, Memory::Register}));
      body.push_back(stmt(Store{one, i64(0), Constant{type, 0, 0.0}}));
      append(body,
          when(there.value_or(Constant{DType::Bool, 1, 0}),
              {stmt(Store{one, i64(0), convert(Load{from, offset, type_of(x)}, type)})}));
      body.push_back(stmt(Store{x.shared, to, Load{one, i64(0), type}}));
    }
    if (total % threads) body = {stmt(If{less(number, i64(total)), std::move(body), {}})};
    append(all, std::move(body));
    Stmt loop = stmt(For{turn, Kind::Unroll, i64(at_once), {}, std::move(all)});
    if (count > at_once) loop = stmt(For{round, Kind::Serial, i64(count / at_once), {}, {std::move(loop)}});
    return {std::move(loop)};
  }

  // A Fragment takes from thread 8 q + r the place of row r of its q-th matrix. Of A these are m 0 .. 7 and 8 .. 15 of
  // the first half of k, then of the second; of two neighbours of B the halves of k of the first, then of the second.
  //
  // The fragments of a step are read while those of the step before it are multiplied, and `ahead`, the copies of a
  // later turn, are asked for behind the first ones, which the products wait for.
  Body multiply(const Expr& buffer, Body ahead) {
    Body body;
    const Expr row = let(body, "r", remainder(lane_, 8)), low = let(body, "q_low", remainder(quotient(lane_, 8), 2)),
               high = let(body, "q_high", quotient(lane_, 16));
    const Expr at_a = let(body, "at_a", buffer * i64(depth_ * a_.side)),
               at_b = let(body, "at_b", buffer * i64(depth_ * b_.side));
    const std::int64_t regs_a = instruction_.registers_of_a(), regs_b = instruction_.registers_of_b(),
                       regs_c = instruction_.registers_of_c();
    const std::int64_t steps = depth_ / instruction_.k, half_k = instruction_.k / 2;
    std::string a[2], b[2];
    for (int set = 0; set < std::min<std::int64_t>(steps, 2); ++set) {
      a[set] = names_.fresh("a"), b[set] = names_.fresh("b");
      body.push_back(stmt(Allocate{a[set], instruction_.fragment(), leaf_.rows * regs_a, Memory::Register}));
      body.push_back(stmt(Allocate{b[set], instruction_.fragment(), leaf_.vectors * regs_b, Memory::Register}));
    }
    const auto fragment = [&](const Operand& x, const Expr& at, const std::string& to, std::int64_t first,
                              std::int64_t k, const Expr& value, const Expr& half_of_value, const Expr& half_of_k) {
      if (!x.along_k && bytes_ == 4) {
        // Without matrices: thread 4 g + t takes row t of each half of k, columns g and g + 8.
        const Expr g = quotient(lane_, 4), t = remainder(lane_, 4);
        for (std::int64_t r = 0; r < 4; ++r) {
          const std::int64_t of_value = &x == &a_ ? r % 2 : r / 2, of_k = &x == &a_ ? r / 2 : r % 2;
          const Expr word = place(x, i64(k + of_k * half_k) + t, value + i64(of_value * 8) + g);
          body.push_back(stmt(Store{to, i64(first + r), Load{x.shared, at + word, instruction_.operand}}));
        }
        return;
      }
      const Expr offset = x.along_k
          ? piece_of(x, value + half_of_value * i64(8) + row, i64(k / of_piece_) + half_of_k * i64(half_k / of_piece_))
          : piece_of(x, i64(k) + half_of_k * i64(half_k) + row, quotient(value, of_piece_) + half_of_value);
      body.push_back(stmt(Fragment{to, first, x.shared, at + offset, !x.along_k}));
    };
    const auto read = [&](std::int64_t step) {
      const std::int64_t k = step * instruction_.k;
      for (std::int64_t i = 0; i < leaf_.rows; ++i)
        fragment(a_, at_a, a[step % 2], i * regs_a, k, first_m_ + i64(i * instruction_.m), low, high);
      for (std::int64_t j = 0; j < leaf_.vectors; j += 2)
        fragment(b_, at_b, b[step % 2], j * regs_b, k, first_n_ + i64(j * instruction_.n), high, low);
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

  // Turns of the reduction as one group, which begins while the group before it ends; the copies of a later turn go
  // where the one before that has been read.
  Body multiply_shared(const Expr& buffer, Body later) {
    Body body;
    const Expr at_a = let(body, "at_a", buffer * i64(depth_ * a_.side)),
               at_b = let(body, "at_b", buffer * i64(depth_ * b_.side));
    const auto matrix = [&](const Operand& x) {
      return SharedMatrix{x.shared, !x.along_k, x.along_k ? piece_bytes : depth_ * row_bytes};
    };
    const std::int64_t of_row = row_bytes / bytes_;
    // Where a box begins that starts at this value of m or n: a multiple of eight rows, or of a whole panel.
    const auto begin = [&](const Operand& x, const Expr& at, const Expr& value, std::int64_t k) {
      if (x.along_k) return at + panel(x, i64(k / of_row)) + value * i64(of_row) + i64(k % of_row);
      return at + value * i64(depth_) + i64(k * of_row);
    };
    MultiplyShared all{&instruction_, acc_, leaf_.vectors * instruction_.n, matrix(a_), matrix(b_), {}};
    for (std::int64_t k = 0; k < depth_; k += instruction_.k)
      for (std::int64_t i = 0; i < leaf_.rows; ++i)
        all.products.push_back({i * leaf_.vectors * instruction_.registers_of_c(),
            begin(a_, at_a, first_m_ + i64(i * instruction_.m), k), begin(b_, at_b, first_n_, k)});
    body.push_back(stmt(std::move(all)));
    append(body, std::move(later));
    body.push_back(stmt(Await{1, acc_}));
    return body;
  }

  // The elements of a thread: thread 4 g + t has of each 16 x 8 results rows g and g + 8, columns 2 t and 2 t + 1.
  std::int64_t row(std::int64_t i, std::int64_t half) const { return i * instruction_.m + half * 8; }
  Expr element_of(std::int64_t i, std::int64_t half, std::int64_t j, std::int64_t one) const {
    return Load{acc_, i64((i * leaf_.vectors + j) * instruction_.registers_of_c() + half * 2 + one), type_};
  }
  void name_elements(Body& body) {
    m_of_thread_ = let(body, "m_of_thread", m0_ + first_m_ + warp_ * i64(16) + quotient(lane_, 4));
    n_of_thread_ = let(body, "n_of_thread", n0_ + first_n_ + remainder(lane_, 4) * i64(2));
  }

  Body write() {
    const Form& f = nest_.target.offset;
    Body body;
    name_elements(body);
    std::vector<Expr> columns;
    for (std::int64_t j = 0; j < leaf_.vectors; ++j)
      for (std::int64_t one = 0; one < 2; ++one)
        columns.push_back(part_of_n(body, f, n_of_thread_ + i64(j * instruction_.n + one)));
    for (std::int64_t i = 0; i < leaf_.rows; ++i)
      for (std::int64_t half = 0; half < 2; ++half) {
        const Expr m = m_of_thread_ + i64(row(i, half));
        Body line;
        const Expr base = points_.known_part(f) + part(f, roles_.m, digits(line, roles_.m, m));
        for (std::int64_t j = 0; j < leaf_.vectors; ++j)
          for (std::int64_t one = 0; one < 2; ++one) {
            const Expr n = n_of_thread_ + i64(j * instruction_.n + one);
            Stmt put = stmt(Store{storage_.name(nest_.target.tensor),
                base + columns[static_cast<std::size_t>(2 * j + one)], result(element_of(i, half, j, one))});
            if (extent(roles_.n) % width_) put = stmt(If{less(n, i64(extent(roles_.n))), {std::move(put)}, {}});
            line.push_back(std::move(put));
          }
        if (extent(roles_.m) % height_) body.push_back(stmt(If{less(m, i64(extent(roles_.m))), std::move(line), {}}));
        else append(body, std::move(line));
      }
    return body;
  }

  Body again() {
    const auto each = [&](const std::string& stem, std::int64_t count, const std::function<Body(const Expr&)>& inside) {
      return serial(names_, stem, {i64(0), i64(count)}, inside);
    };
    Body elements = each("i", 2 * leaf_.rows, [&](const Expr& i) {
      return each("j", 2 * leaf_.vectors, [&](const Expr& j) {
        return element(m_of_thread_ + quotient(i, 2) * i64(instruction_.m) + remainder(i, 2) * i64(8),
            n_of_thread_ + quotient(j, 2) * i64(instruction_.n) + remainder(j, 2));
      });
    });
    return unless_finite(acc_, leaf_.rows * leaf_.vectors * instruction_.registers_of_c(), std::move(elements));
  }

  const forms::TensorCores& cores_;
  const MatrixInstruction& instruction_;
  std::int64_t bytes_, of_piece_;                      // of an element; elements of 16 bytes
  Operand a_, b_;
  Expr aligned_ = i64(0);                              // what callers gave begins at a multiple of 16 bytes
  Expr lane_ = i64(0), warp_ = i64(0);                 // this thread; its warp, of those of an instruction
  Expr first_m_ = i64(0), first_n_ = i64(0);           // where they begin in the block
  Expr m_of_thread_ = i64(0), n_of_thread_ = i64(0);   // its first element
  std::string thread_, acc_;
};

}  // namespace

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

bool multiplies(const MatrixInstruction& i, const poly::Program& program, const Nest& nest,
    const std::vector<std::string>& m, const std::vector<std::string>& n, const std::vector<std::string>& k,
    bool tf32) {
  const auto roles = staging_of(nest, m, n, k);
  if (!roles || compute_type(nest.value->type()) != i.accumulator) return false;
  const poly::Read *x = read_of(roles->by_m), *y = read_of(roles->by_n);
  if (!x || !y) return false;
  const auto type_of = [&](const poly::Read& r) {
    return program.tensor(nest.reads[static_cast<std::size_t>(r.read)].tensor).dtype;
  };
  const DType of_x = type_of(*x), of_y = type_of(*y);
  if (!keeps_values(roles->by_m, of_x) || !keeps_values(roles->by_n, of_y)) return false;
  const bool rounds = of_x == DType::F32 || of_y == DType::F32;
  if (rounds && !tf32) return false;
  const auto held = [](DType type) { return type == DType::F16 || type == DType::BF16 || type == DType::F32; };
  return of_x == of_y ? i.operand == of_x : i.operand == DType::F32 && held(of_x) && held(of_y);
}

std::int64_t shared_bytes_of(const Compute& leaf) {
  const auto& cores = *leaf.as<forms::TensorCores>();
  return cores.buffers * cores.depth * (height_of(leaf) + width_of(leaf)) * lang::bytes(instruction_of(leaf).operand);
}

Body spell_on_tensor_cores(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names) {
  return OnTensorCores(nest, leaf, storage, names).spell();
}

}  // namespace tilec::codegen
