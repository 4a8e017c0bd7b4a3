#include "codegen/core_operands.h"

#include <algorithm>

#include "codegen/scalar.h"
#include "codegen/tensor_cores.h"

namespace tilec::codegen {

std::size_t reads_along(const Form& offset, std::size_t depth, std::size_t last) {
  return std::abs(offset.coefficients[depth]) == 1 || std::abs(offset.coefficients[last]) != 1 ? depth : last;
}

bool in_groups(
    const Form& offset, std::size_t along, std::int64_t first, std::int64_t count, std::int64_t elements) {
  bool fits =
      offset.coefficients[along] == 1 && (offset.constant + first) % elements == 0 && count % elements == 0;
  for (std::size_t d = 0; d < offset.coefficients.size(); ++d)
    fits = fits && (d == along || offset.coefficients[d] % elements == 0);
  return fits;
}

namespace {

Expr words(Op op, const Expr& a, const Expr& b) { return Operation{op, {a, b}, DType::U32}; }

}  // namespace

CoreOperands::CoreOperands(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
    std::int64_t height, std::int64_t width)
    : StagedBlock(nests, leaf, storage, names, leaf.as<forms::TensorCores>()->depth, height, width),
      cores_(*leaf.as<forms::TensorCores>()),
      instruction_(*matrix_instruction(cores_.instruction)),
      bytes_(lang::bytes(instruction_.operand)),
      of_piece_(instruction_.of_piece()) {}

CoreOperands::Operand CoreOperands::operand(
    const poly::Expr& factor, std::vector<std::size_t> dims, std::int64_t values, bool by_m) const {
  const FlatAccess& access = nest_.reads[static_cast<std::size_t>(read_of(factor)->read)];
  const std::size_t last = dims.back();
  Operand x;
  x.access = &access, x.dims = std::move(dims), x.side = values, x.by_m = by_m;
  x.reads_along_k = reads_along(access.offset, roles_.depth, last) == roles_.depth;
  x.along_k = x.reads_along_k || bytes_ == 1;          // nothing transposes bytes
  return x;
}

Body CoreOperands::when(const Expr& condition, Body body) {
  if (is_const(condition)) return condition.as<Constant>()->integer ? std::move(body) : Body{};
  return {stmt(If{condition, std::move(body), {}})};
}

std::int64_t CoreOperands::neighbours(const Operand& x, bool part) const {
  if (x.along_k != x.reads_along_k) return 1;
  const std::size_t along = x.reads_along_k ? roles_.depth : x.dims.back();
  const Form& offset = x.access->offset;
  if (offset.coefficients[along] != 1 || is_asked_along(along)) return 1;
  if (x.reads_along_k && !(part ? is_const(range_.lo) : known_)) return 1;
  const std::int64_t lo = x.reads_along_k ? const_or(range_.lo, 0) : 0,
                     count = x.reads_along_k && !across() ? const_or(range_.hi, 0) - lo : extent(along);
  for (std::int64_t elements = of_piece_; elements * lang::bytes(type_of(x)) >= 4; elements /= 2)
    if (in_groups(offset, along, lo, part ? elements : count, elements)) return elements;
  return 1;
}

CoreOperands::Piece CoreOperands::piece(
    Body& body, const Operand& x, const Expr& pass, std::int64_t elements) const {
  const std::int64_t threads = cores_.threads(), of_row = (x.reads_along_k ? depth_ : x.side) / elements;
  const Expr number = let(body, "e", var(thread_) + pass * i64(threads));
  // Where a pass is whole rows, a thread stays in its column, and its addresses lie constants apart.
  const bool whole = threads % of_row == 0;
  const Expr row = let(
      body, "row", whole ? quotient(var(thread_), of_row) + pass * i64(threads / of_row) : quotient(number, of_row));
  const Expr at = let(body, "at", remainder(whole ? var(thread_) : number, of_row) * i64(elements));
  const Expr &k = x.reads_along_k ? at : row, &value = x.reads_along_k ? row : at;
  return {number, k, value, x.along_k ? rows_of(x).place(value, k) : rows_of(x).place(k, value)};
}

std::vector<CoreOperands::Source> CoreOperands::sources(Body& body, const Operand& x, const Piece& piece,
    const Expr& k0, const std::optional<Expr>& all, std::int64_t elements, std::int64_t one) {
  const Form& f = x.access->offset;
  const bool apart = rows_apart(x.by_m) || !in_steps(f);
  const auto values_at = [&](std::int64_t c) {
    // Values of m or n beyond the last one are computed from the last ones, and written nowhere.
    Expr of_dims = x.first + piece.value + i64(c);
    const std::int64_t last = extent(x.dims) - 1;
    if (extent(x.dims) % x.side) of_dims = minimum(of_dims, i64(x.reads_along_k ? last : last / one * one));
    return digits(body, x.dims, of_dims);
  };
  std::vector<Source> from;
  std::optional<std::vector<Expr>> values;
  std::optional<Step> k;
  for (std::int64_t c = 0; c < elements; c += one) {
    if (!values || !x.reads_along_k) values = values_at(x.reads_along_k ? 0 : c);
    if (!k || x.reads_along_k) k = step(body, k0 + piece.k + i64(x.reads_along_k ? c : 0), apart);
    from.push_back({takes_part(all, x.by_m, *k, *values).value_or(Constant{DType::Bool, 1, 0}),
        points_.known_part(f) + part(f, x.dims, *values) + part(f, *k)});
  }
  return from;
}

// Neighbours that a thread reads one by one, whose place it finds, and writes, once: a whole piece where it is asked
// whether each is there; else two, so that a warp's accesses are of one line. One where each has a place of its own, or
// they are together in most calls.
std::int64_t CoreOperands::grouped(const Operand& x) const {
  if (in_words(x)) return neighbours(x);
  const std::size_t along = x.reads_along_k ? roles_.depth : x.dims.back();
  if (together(x) > 1 || x.along_k != x.reads_along_k || std::abs(x.access->offset.coefficients[along]) != 1 ||
      (!x.reads_along_k && x.dims.size() > 1))
    return 1;
  const std::int64_t all = x.reads_along_k && rows_apart(x.by_m) ? of_piece_ : 2;
  return (x.reads_along_k ? depth_ : x.side) % all ? 1 : all;
}

Expr CoreOperands::there(
    const Operand& x, const Piece& piece, const Source& from, const Expr& k0, std::int64_t elements) const {
  const std::size_t along = x.reads_along_k ? roles_.depth : x.dims.back();
  const Expr all = x.reads_along_k && !across() ? range_.hi : i64(extent(along));
  if (is_const(all) && (const_or(all, 0) - (x.reads_along_k ? const_or(range_.lo, 0) : 0)) % elements == 0)
    return from.there;
  const Expr last = i64((extent(along) - 1) / elements * elements),
             at = x.reads_along_k ? k0 + piece.k : minimum(x.first + piece.value, last);
  return Operation{Op::Select, {from.there, minimum(i64(elements), all - at), i64(0)}, DType::I64};
}

// `body`, where not all threads have such a piece: if this one has.
Body CoreOperands::only(const Operand& x, const Piece& piece, std::int64_t elements, Body body) const {
  const std::int64_t total = depth_ * x.side / elements;
  if (total % cores_.threads() == 0) return body;
  return {stmt(If{less(piece.number, i64(total)), std::move(body), {}})};
}

// Of what is read, in the type of the instruction; 0 where there is none.
Body CoreOperands::read(
    const Operand& x, const std::vector<Source>& from, const std::string& to, const Expr& slot) {
  const DType type = instruction_.operand;
  Body body;
  if (in_words(x)) {
    for (std::int64_t w = 0; w < registers_of_piece(x); ++w)
      body.push_back(stmt(Store{to, slot + i64(w), Constant{DType::U32}}));
    append(body, when(from.front().there, {stmt(If{x.aligned, read_words(x, from.front(), to, slot, true),
                                              read_words(x, from.front(), to, slot, false)})}));
    return body;
  }
  for (std::size_t c = 0; c < from.size(); ++c) {
    const Expr at = slot + i64(static_cast<std::int64_t>(c));
    body.push_back(stmt(Store{to, at, Constant{type, 0, 0.0}}));
    const Expr value = convert(Load{storage_.name(x.access->tensor), from[c].offset, type_of(x)}, type);
    append(body, when(from[c].there, {stmt(Store{to, at, value})}));
  }
  return body;
}

Body CoreOperands::read_words(
    const Operand& x, const Source& from, const std::string& to, const Expr& slot, bool aligned) {
  const std::int64_t count = registers_of_piece(x);
  const std::string view = names_.fresh("v"), tensor = storage_.name(x.access->tensor);
  Body body;
  if (aligned) body.push_back(stmt(View{view, tensor, from.offset, count * 4, true}));
  else body.push_back(stmt(View{view, tensor, from.offset, 1}));
  for (std::int64_t w = 0; w < count; ++w) {
    Expr word = Load{view, i64(w), DType::U32};
    for (std::int64_t c = 0; !aligned && c < 4; ++c) {
      const Expr byte = convert(convert(Load{view, i64(4 * w + c), type_of(x)}, DType::U8), DType::U32);
      word = c ? words(Op::Or, word, words(Op::Shl, byte, Constant{DType::U32, 8 * c})) : byte;
    }
    body.push_back(stmt(Store{to, slot + i64(w), word}));
  }
  return body;
}

// Of a piece in registers, in the type of the instruction.
Expr CoreOperands::held_value(const Operand& x, const std::string& from, const Expr& slot, std::int64_t at) const {
  if (!in_words(x)) return Load{from, slot + i64(at), instruction_.operand};
  const Expr word = Load{from, slot + i64(at / 4), DType::U32};
  return convert(convert(words(Op::Shr, word, Constant{DType::U32, at % 4 * 8}), type_of(x)), instruction_.operand);
}

Body CoreOperands::write_piece(
    const Operand& x, const Expr& place, const std::string& from, const Expr& slot, std::int64_t elements) const {
  Body body;
  for (std::int64_t c = 0; c < elements; ++c)
    body.push_back(stmt(Store{x.shared, place + i64(c), held_value(x, from, slot, c)}));
  return body;
}

Body CoreOperands::copy(const Operand& x, const Expr& k0, const Expr& buffer, std::int64_t elements) {
  if (in_words(x)) {
    Operand now = x;
    now.held = names_.fresh("s");
    Body body{registers(now)};
    append(body, fetch(now, k0, Constant{DType::Bool, 1}));
    append(body, put(now, buffer));
    return body;
  }
  const bool together = at_a_time(x, elements);
  const std::int64_t group = together ? elements : grouped(x),
                     count = ceil_divide(depth_ * x.side / group, cores_.threads());
  std::int64_t at_once = together ? count : std::min(count, ceil_divide(std::int64_t{8}, group));
  while (count % at_once) --at_once;
  const std::string turn = names_.fresh("u"), round = names_.fresh("v");
  Body all, body;
  const Piece p = piece(all, x, count > at_once ? var(round) * i64(at_once) + var(turn) : var(turn), group);
  const std::vector<Source> from = sources(body, x, p, k0, std::nullopt, group, together ? group : 1);
  const Expr place = buffer + p.place;
  if (together) {
    body.push_back(stmt(Copy{x.shared, place, storage_.name(x.access->tensor), from.front().offset,
        there(x, p, from.front(), k0, elements), elements}));
  } else {
    const std::string some = names_.fresh("s");
    body.push_back(stmt(Allocate{some, instruction_.operand, group, Memory::Register}));
    append(body, read(x, from, some, i64(0)));
    append(body, write_piece(x, place, some, i64(0), group));
  }
  append(all, only(x, p, group, std::move(body)));
  Stmt loop = stmt(For{turn, Kind::Unroll, i64(at_once), {}, std::move(all)});
  if (count > at_once) loop = stmt(For{round, Kind::Serial, i64(count / at_once), {}, {std::move(loop)}});
  return {std::move(loop)};
}

std::int64_t CoreOperands::registers_of_thread(const Operand& x) const {
  return ceil_divide(depth_ * x.side / grouped(x), cores_.threads()) * registers_of_piece(x);
}

Stmt CoreOperands::registers(const Operand& x) const {
  const DType type = in_words(x) ? DType::U32 : instruction_.operand;
  return stmt(Allocate{x.held, type, registers_of_thread(x), Memory::Register});
}

Body CoreOperands::fetch(const Operand& x, const Expr& k0, const Expr& more) {
  const std::int64_t group = grouped(x), total = depth_ * x.side / group;
  const std::string turn = names_.fresh("u");
  Body body;
  const Piece p = piece(body, x, var(turn), group);
  const Expr mine = total % cores_.threads() ? both(more, less(p.number, i64(total))) : more;
  const std::vector<Source> from = sources(body, x, p, k0, mine, group, in_words(x) ? group : 1);
  append(body, read(x, from, x.held, var(turn) * i64(registers_of_piece(x))));
  return {stmt(For{turn, Kind::Unroll, i64(ceil_divide(total, cores_.threads())), {}, std::move(body)})};
}

Body CoreOperands::put(const Operand& x, const Expr& buffer) {
  const std::int64_t group = grouped(x), total = depth_ * x.side / group;
  const std::string turn = names_.fresh("u");
  Body body;
  const Piece p = piece(body, x, var(turn), group);
  const Expr slot = var(turn) * i64(registers_of_piece(x));
  append(body, only(x, p, group, write_piece(x, buffer + p.place, x.held, slot, group)));
  return {stmt(For{turn, Kind::Unroll, i64(ceil_divide(total, cores_.threads())), {}, std::move(body)})};
}

void CoreOperands::fragment(Body& body, const Operand& x, const Expr& buffer, const std::string& to,
    std::int64_t first, std::int64_t k, const Expr& value, const OfThread& of) {
  const std::int64_t half_k = instruction_.k / 2;
  const CoreRows rows = rows_of(x);
  if (!x.along_k && bytes_ == 4) {
    // Without matrices: thread 4 g + t takes row t of each half of k, columns g and g + 8.
    const Expr g = quotient(lane_, 4), t = remainder(lane_, 4);
    for (std::int64_t r = 0; r < 4; ++r) {
      const std::int64_t of_value = x.by_m ? r % 2 : r / 2, of_k = x.by_m ? r / 2 : r % 2;
      const Expr word = rows.place(i64(k + of_k * half_k) + t, value + i64(of_value * 8) + g);
      body.push_back(stmt(Store{to, i64(first + r), Load{x.shared, buffer + word, instruction_.operand}}));
    }
    return;
  }
  const Expr &half_of_value = x.by_m ? of.low : of.high, &half_of_k = x.by_m ? of.high : of.low;
  const Expr offset = x.along_k
      ? rows.piece(value + half_of_value * i64(8) + of.row, i64(k / of_piece_) + half_of_k * i64(half_k / of_piece_))
      : rows.piece(i64(k) + half_of_k * i64(half_k) + of.row, quotient(value, of_piece_) + half_of_value);
  body.push_back(stmt(Fragment{to, first, x.shared, buffer + offset, !x.along_k}));
}

}  // namespace tilec::codegen
