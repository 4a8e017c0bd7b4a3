#include "codegen/online_boxes.h"

#include <algorithm>

#include "codegen/tensor_cores.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t loads_at_once = 8;              // of elements that are copied one by one
constexpr std::int64_t least_half = 64;                // columns of an instruction, which reads its rows for each

}  // namespace

std::int64_t row_width(std::int64_t extent, const MatrixInstruction& i) {
  const std::int64_t part = i.from_shared() ? i.of_panel() : i.k;
  return ceil_divide(extent, part) * part;
}

bool takes_halves(const MatrixInstruction& instruction, std::int64_t tall, std::int64_t depth) {
  return instruction.from_shared() && (tall % 2 == 0 || depth % (2 * least_half) == 0);
}

std::int64_t buffers_of(const ColumnUse& use, bool halves) { return halves && use.by_products && use.by_sums ? 3 : 2; }

std::size_t wide_dim(const OnlinePart& part) { return part.role == OnlinePart::Product ? part.depth : part.column; }

bool same_columns(const Nest& a, const OnlinePart& p, const Nest& b, const OnlinePart& q) {
  const FlatAccess &x = a.reads[static_cast<std::size_t>(read_of(*p.by_column)->read)],
                   &y = b.reads[static_cast<std::size_t>(read_of(*q.by_column)->read)];
  const std::size_t wide = wide_dim(p), other = wide_dim(q);
  if (x.tensor != y.tensor || x.offset.constant != y.offset.constant ||
      x.offset.coefficients[wide] != y.offset.coefficients[other] || a.dims[wide].extent != b.dims[other].extent)
    return false;
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    if (d == wide) continue;
    const auto own = b.dim(a.dims[d].name);
    if (!own || *own == other || x.offset.coefficients[d] != y.offset.coefficients[*own]) return false;
  }
  return true;
}

OnlineBoxes::OnlineBoxes(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
    Names& names, std::int64_t threads, Sweep sweep)
    : OnlinePass(nests, leaves, storage, names, threads, sweep),
      instruction_(*matrix_instruction(leaves.front().as<forms::Online>()->instruction)),
      tall_(height_ / (threads / instruction_.threads() * instruction_.m)),
      halves_(takes_halves(instruction_, tall_, depth_)) {}

OnlineBoxes::Box OnlineBoxes::box(Body& body, const PassMember& m, const poly::Expr& factor, std::size_t row,
    std::int64_t rows, std::int64_t row_extent, std::size_t column, std::int64_t buffers) {
  const FlatAccess& access = m.nest.reads[static_cast<std::size_t>(read_of(factor)->read)];
  const std::int64_t extent = m.nest.dims[column].extent;
  Box b{{instruction_, rows, row_width(extent, instruction_)}, &m, &access, row, column, row_extent, extent, buffers};
  const bool of_rows = rows == height_ && buffers == 1;
  if (later_) {
    const PassMember& same = later_->members_[later_->by_tensor_.at(m.nest.target.tensor)];
    std::vector<Box>& boxes = of_rows ? later_->of_rows_boxes_ : later_->of_columns_;
    Box& other = of_rows ? *std::ranges::find(boxes, &same, &Box::member) : boxes[later_->box_of_.at(&same)];
    b.shared = other.shared, other.there = of_rows;
  } else {
    b.shared = allocate(body, of_rows ? "rows" : "columns", buffers * rows * b.width, Memory::Shared,
        instruction_.operand);
  }
  b.together = neighbours_of(storage_, access, column, instruction_.of_piece());
  while (b.together > 1 && extent % b.together) b.together /= 2;
  if (b.together * lang::bytes(instruction_.operand) < 4) b.together = 1;
  return b;
}

Body OnlineBoxes::shared_memory() {
  Body body;
  for (PassMember& m : members_) {
    if (m.part.role == OnlinePart::Product)
      of_rows_boxes_.push_back(box(body, m, *m.part.by_row, m.part.row, height_, rows_, m.part.depth, 1));
    if (m.part.role != OnlinePart::Product && m.part.role != OnlinePart::Sum) continue;
    const auto alike = std::ranges::find_if(
        of_columns_, [&](const Box& b) { return same_columns(b.member->nest, b.member->part, m.nest, m.part); });
    box_of_[&m] = static_cast<std::size_t>(alike - of_columns_.begin());
    if (alike == of_columns_.end()) {
      const ColumnUse use = use_of(m);
      of_columns_.push_back(
          box(body, m, *m.part.by_column, m.part.over, depth_, over_, wide_dim(m.part), buffers_of(use, halves_)));
      of_columns_.back().later = halves_ && !use.by_products;
    }
    if (m.part.role == OnlinePart::Sum) m.shared = allocate(body, "again", depth_ * height_, Memory::Shared);
  }
  return body;
}

ColumnUse OnlineBoxes::use_of(const PassMember& m) const {
  ColumnUse use;
  for (const PassMember& other : members_)
    if ((other.part.role == OnlinePart::Product || other.part.role == OnlinePart::Sum) &&
        same_columns(m.nest, m.part, other.nest, other.part))
      (other.part.role == OnlinePart::Product ? use.by_products : use.by_sums) = true;
  return use;
}

Body OnlineBoxes::look_at_addresses() {
  Body body;
  for (std::vector<Box>* boxes : {&of_rows_boxes_, &of_columns_})
    for (Box& b : *boxes)
      if (b.together > 1) {
        const Expr one = aligned(storage_, names_, body, b.access->tensor, b.together);
        b.aligned = one.as<Variable>()->name;
      }
  return body;
}

Body OnlineBoxes::bring(const Box& b, const Expr& first, const Expr& buffer) {
  if (b.together == 1) return bring(b, first, buffer, 1);
  return {
      stmt(If{Variable{b.aligned, DType::Bool}, bring(b, first, buffer, b.together), bring(b, first, buffer, 1)})};
}

Body OnlineBoxes::bring(const Box& b, const Expr& first, const Expr& buffer, std::int64_t elements) {
  const std::int64_t of_piece = instruction_.of_piece();
  const std::int64_t of_row = b.width / elements, total = b.rows * of_row, count = ceil_divide(total, threads_);
  std::int64_t at_once = elements > 1 ? count : std::min(count, loads_at_once);
  while (count % at_once) --at_once;
  const std::string turn = names_.fresh("u"), round = names_.fresh("v");
  Body before, all, body;                               // of the loop, of a turn of it
  const Expr times = count > at_once ? var(round) * i64(at_once) + var(turn) : var(turn);
  const Expr number = let(all, "e", var(thread_) + times * i64(threads_));
  // Where threads are whole rows, each keeps its place in them, and where they are whole eights, its place of eight.
  const std::int64_t step = threads_ % of_row ? 0 : threads_ / of_row;
  const Expr mine = quotient(var(thread_), of_row);
  const Expr row = let(body, "row", step ? mine + times * i64(step) : quotient(number, of_row)),
             at = let(step ? before : body, "at", remainder(step ? var(thread_) : number, of_row) * i64(elements)),
             of_eight = remainder(step && step % 8 == 0 ? mine : row, 8);
  std::optional<Expr> there;
  const auto too = [&](const Expr& holds) { there = there ? both(*there, holds) : holds; };
  if (b.row_extent % b.rows) too(less(first + row, i64(b.row_extent)));
  if (b.width > b.column_extent) too(less(at, i64(b.column_extent)));
  Ranges points = points_[static_cast<std::size_t>(b.member - members_.data())];
  const auto offset_of = [&](const Expr& row) {
    points.fix(b.row, first + row), points.fix(b.column, at);
    return points.known_part(b.access->offset);
  };
  const auto place_of = [&](const Expr& row) {
    return buffer * i64(b.rows * b.width) + b.piece(row, of_eight, quotient(at, of_piece)) + remainder(at, of_piece);
  };
  const Expr offset = offset_of(row), to = place_of(row);
  const std::string& from = storage_.name(b.access->tensor);
  const DType type = instruction_.operand;
  const Expr holds = there.value_or(Constant{DType::Bool, 1, 0});
  if (elements > 1 && step && step % 8 == 0 && count == at_once) {
    // A thread's copies lie constants apart.
    const std::string first_to = names_.fresh("to"), first_from = names_.fresh("from");
    before.push_back(stmt(View{first_to, b.shared, place_of(mine), 0}));
    before.push_back(stmt(View{first_from, from, offset_of(mine), 0}));
    const std::int64_t of_row = instruction_.from_shared() ? instruction_.of_panel() : b.width;
    body.push_back(stmt(Copy{first_to, times * i64(step * of_row), first_from,
        times * i64(step * b.access->offset.coefficients[b.row]), holds, elements}));
  } else if (elements > 1) {
    body.push_back(stmt(Copy{b.shared, to, from, offset, holds, elements}));
  } else {
    const std::string one = allocate(body, "x", 1, Memory::Register, type);
    const Stmt load = stmt(Store{one, i64(0), Load{from, offset, type}});
    body.push_back(stmt(Store{one, i64(0), Constant{type, 0, 0.0}}));
    body.push_back(there ? stmt(If{*there, {load}, {}}) : load);
    body.push_back(stmt(Store{b.shared, to, Load{one, i64(0), type}}));
  }
  if (total % threads_) body = {stmt(If{less(number, i64(total)), std::move(body), {}})};
  append(all, std::move(body));
  Stmt loop = stmt(For{turn, Kind::Unroll, i64(at_once), {}, std::move(all)});
  if (count > at_once) loop = stmt(For{round, Kind::Serial, i64(count / at_once), {}, {std::move(loop)}});
  before.push_back(std::move(loop));
  return before;
}

Body OnlineBoxes::columns(const Expr& first, const Expr& buffer) {
  Body body;
  for (const Box& b : of_columns_) append(body, bring(b, first, buffer));
  return body;
}

Body OnlineBoxes::columns_of_turn(const Expr& turn, bool later) {
  Body body;
  for (const Box& b : of_columns_)
    if (b.later == later) append(body, bring(b, first_ + turn * i64(depth_), remainder(turn, b.buffers)));
  return body;
}

}  // namespace tilec::codegen
