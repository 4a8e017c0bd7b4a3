// A stable argsort that lanes of one row can share. Bitonic networks are the usual choice for threads, but they do N
// log² N work and are not stable; merging is both, and a merge can be cut: where the first d elements of the result
// come from is found by bisection along its diagonal (Odeh, Green, Mwassi, Shmueli, Birk 2012), so every part of a
// merge is a turn of its own.
//
//   A = 1 4 6 | 2 3 9, part of results 2 … 4:   diagonal d = 2: one from the left, one from the right (1 2)
//     ⇒  4 and 3 are next: 3 4
//
// Buffers go in pairs: keys and positions are merged from one pair into the other and back. The positions of the first
// pair are the target. Keys are carried along, so that a merge reads memory in order.
#include "codegen/sort.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {


std::int64_t rows_of(const Nest& nest) {
  std::int64_t count = 1;
  for (const Dim& dim : nest.dims) if (dim.name != "v") count = (poly::Exact(count) * dim.extent).get();
  return count;
}
std::int64_t length_of(const Nest& nest) { return nest.dims[*nest.dim("v")].extent; }
int log_up(std::int64_t n) { return n <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1))); }
std::int64_t block_threads(std::int64_t length, const Target& target) {
  return std::clamp<std::int64_t>(std::int64_t{1} << log_up(length), model::threads::warp,
      length > model::threads::sorted_row ? target.max_threads : model::threads::sorting);
}

struct Pair { std::string keys, positions; };          // views, from the row's first element
struct Merge { Expr low, middle, high; };              // two runs of a row: [low, middle) and [middle, high)

// What sorting and selecting have in common: rows, their keys, who goes first.
class Ordering {
 public:
  Ordering(const Nest& nest, const Group& group, const Storage& storage, const poly::Intrinsic& sort, Names& names)
      : nest_(nest),
        group_(group),
        leaf_(group.body.front()),
        storage_(storage),
        sort_(sort),
        names_(names),
        descending_(!sort.parameters.at(0).is(0)),
        length_(length_of(nest)),
        type_(key_type(storage.plan.program.tensor(sort.operands[0]).dtype)) {}

 protected:
  // Turns of whole rows, each with these buffers.
  Body each_row(Body body, const std::function<Body()>& inside) {
    const std::string turn = names_.fresh("p"), count = names_.fresh("rows"), row = names_.fresh("row"),
                      number = names_.fresh("number");
    Body one{stmt(Let{number, var(turn) * Expr(leaf_.rows) + var(row)})};
    append(one, views_of_row(var(number), false));
    append(one, inside());
    body.push_back(stmt(Let{count, minimum(Expr(leaf_.rows), Expr(rows_of(nest_)) - var(turn) * Expr(leaf_.rows))}));
    body.push_back(stmt(For{row, Kind::Serial, var(count), {}, std::move(one)}));
    return {stmt(For{turn, Kind::Parallel, Expr(ceil_divide(rows_of(nest_), leaf_.rows)), {}, std::move(body)})};
  }

  // Views of one row: of the keys given, of the target, and of the buffers when these are tensors.
  Body views_of_row(const Expr& row, bool global) {
    Body body;
    Expr rest = row, from(nest_.reads[0].offset.constant), to(nest_.target.offset.constant);
    std::int64_t inner = rows_of(nest_);
    for (std::size_t d = 0; d < nest_.dims.size(); ++d) {
      if (nest_.dims[d].name == "v") continue;
      inner /= nest_.dims[d].extent;
      const Expr at = quotient(rest, inner);
      from = from + at * Expr(nest_.reads[0].offset.coefficients[d]);
      to = to + at * Expr(nest_.target.offset.coefficients[d]);
      rest = remainder(rest, inner);
    }
    const auto view = [&](const char* stem, TensorId tensor, const Expr& offset) {
      const std::string name = names_.fresh(stem);
      body.push_back(stmt(View{name, storage_.name(tensor), offset}));
      return name;
    };
    source_ = view("source", sort_.operands[0], from);
    first_.positions = view("positions", sort_.targets[0], to);
    if (!global) return body;
    const Expr dense = row * Expr(length_);
    first_.keys = view("keys", sort_.targets[1], dense);
    second_ = {view("other_keys", sort_.targets[2], dense), view("other_positions", sort_.targets[3], dense)};
    return body;
  }

  Expr key(const Pair& pair, const Expr& at) const { return Load{pair.keys, at, type_}; }

  // Whether the left one of two keys goes first: it does unless the right one is strictly before it.
  Expr left_first(const Expr& left, const Expr& right) const {
    Expr ordered = Operation{descending_ ? Op::Ge : Op::Le, {left, right}, DType::Bool};
    if (!lang::is_float(type_)) return ordered;
    return Operation{
        Op::Or, {ordered, Expr(Operation{Op::IsNan, {descending_ ? left : right}, DType::Bool})}, DType::Bool};
  }

  Expr given(const Expr& at) const {
    const DType type = storage_.plan.program.tensor(sort_.operands[0]).dtype;
    return convert(Load{source_, at * Expr(nest_.reads[0].offset.coefficients[*nest_.dim("v")]), type}, type_);
  }

  const Nest& nest_;
  const Group& group_;
  const Compute& leaf_;
  const std::int64_t part_ = leaf_.as<forms::Sort>()->part;
  const Storage& storage_;
  const poly::Intrinsic& sort_;
  Names& names_;
  bool descending_;
  std::int64_t length_;
  DType type_;
  std::string source_;
  Pair first_, second_;
};

// The first places of each row.
class Selection : public Ordering {
 public:
  Selection(const Nest& nest, const Group& group, const Storage& storage, const poly::Intrinsic& sort, Names& names,
      std::int64_t places)
      : Ordering(nest, group, storage, sort, names), places_(places) {}

  Body spell() {
    if (rows_of(nest_) == 0) return {};
    first_.keys = names_.fresh("keys");
    return each_row({stmt(Allocate{first_.keys, type_, places_, Memory::Local})}, [&] { return selected(); });
  }

 private:
  // The first places of what has been seen, in order; an element goes in where it is before the last of them.
  Body selected() {
    const std::string k = names_.fresh("k"), more = names_.fresh("k"), x = names_.fresh("x");
    const Expr last(places_ - 1), at = Expr(places_) + var(more), own = Variable{x, type_};
    Body later{stmt(Let{x, given(at)}),
        stmt(If{Operation{Op::Not, {left_first(key(first_, last), own)}, DType::Bool}, inserted(own, at, last), {}})};
    const std::string first = names_.fresh("x");
    Body begin{stmt(Let{first, given(var(k))})};
    append(begin, inserted(Variable{first, type_}, var(k), var(k)));
    return {stmt(For{k, Kind::Serial, Expr(places_), {}, std::move(begin)}),
        stmt(For{more, Kind::Serial, Expr(length_ - places_), {}, std::move(later)})};
  }

  // Behind those of the first `count` that are not after it; what is at `count` is lost.
  Body inserted(const Expr& x, const Expr& position, const Expr& count) {
    const std::string before = names_.fresh("before"), j = names_.fresh("j"), place = names_.fresh("place"),
                      moved = names_.fresh("moved"), s = names_.fresh("s"), to = names_.fresh("to");
    const Expr zero(std::int64_t{0}), number = Load{before, zero, DType::I64};
    const Expr one = Operation{Op::Select, {left_first(key(first_, var(j)), x), Expr(1), zero}, DType::I64};
    Body counting{stmt(Store{before, zero, number + one})};
    Body moving{stmt(Let{to, count - var(s)}), stmt(Store{first_.keys, var(to), key(first_, var(to) - Expr(1))}),
        stmt(Store{first_.positions, var(to), Load{first_.positions, var(to) - Expr(1), DType::I32}})};
    return {stmt(Allocate{before, DType::I64, 1, Memory::Register}), stmt(Store{before, zero, zero}),
        stmt(If{less(zero, count), {stmt(For{j, Kind::Serial, count, {}, std::move(counting)})}, {}}),
        stmt(Let{place, number}), stmt(Let{moved, count - var(place)}),
        stmt(If{less(zero, var(moved)), {stmt(For{s, Kind::Serial, var(moved), {}, std::move(moving)})}, {}}),
        stmt(Store{first_.keys, var(place), x}),
        stmt(Store{first_.positions, var(place), convert(position, DType::I32)})};
  }

  std::int64_t places_;
};

class Sort : public Ordering {
 public:
  using Ordering::Ordering;

  Body spell() {
    if (rows_of(nest_) * length_ == 0) return {};
    if (group_.threads) return block_per_row();
    if (part_) return parts_of_rows();
    return each_row(buffers(Memory::Local), [&] { return sorted_chunk(Expr(std::int64_t{0}), length_); });
  }

 private:
  // ---- who does what

  // Every pass is a parallel loop of its own over rows and parts.
  Body parts_of_rows() {
    Body all = each_part([&](const Expr& first) { return sorted_chunk(first, part_); });
    std::int64_t width = part_;
    for (bool back = false; width < length_ || back; width *= 2, back = !back)
      append(all, each_part([&](const Expr& first) {
        return merged_part(back ? second_ : first_, back ? first_ : second_, first, Expr(width), log_up(width) + 1);
      }));
    return all;
  }

  template <class Inside> Body each_part(const Inside& inside) {
    const std::int64_t parts = ceil_divide(length_, part_);
    const std::string turn = names_.fresh("p"), row = names_.fresh("row"), first = names_.fresh("first");
    Body body{stmt(Let{row, Operation{Op::Div, {var(turn), Expr(parts)}, DType::I64}}),
        stmt(Let{first, Expr(Operation{Op::Mod, {var(turn), Expr(parts)}, DType::I64}) * Expr(part_)})};
    append(body, views_of_row(var(row), true));
    append(body, inside(var(first)));
    return {stmt(For{turn, Kind::Parallel, Expr(rows_of(nest_) * parts), {}, std::move(body)})};
  }

  // A block has a row, each thread a part of it; between passes all wait.
  Body block_per_row() {
    const std::string row = names_.fresh("row"), pass = names_.fresh("pass"), width = names_.fresh("width");
    const bool global = sort_.targets.size() > 1;
    Body body = global ? Body{} : buffers(Memory::Shared);
    append(body, views_of_row(var(row), global));
    append(body, each_thread([&](const Expr& first) { return sorted_chunk(first, part_); }));
    if (const int passes = log_up(ceil_divide(length_, part_)); passes > 0) {
      Body turn{stmt(Let{width, Operation{Op::Shl, {Expr(part_), var(pass) * Expr(2)}, DType::I64}})};
      const int steps = log_up(length_) + 1;
      append(
          turn, each_thread([&](const Expr& first) { return merged_part(first_, second_, first, var(width), steps); }));
      append(turn, each_thread([&](const Expr& first) {
        return merged_part(second_, first_, first, var(width) * Expr(2), steps);
      }));
      body.push_back(stmt(For{pass, Kind::Serial, Expr((passes + 1) / 2), {}, std::move(turn)}));
    }
    return {stmt(For{row, Kind::Block, Expr(rows_of(nest_)), {}, std::move(body)})};
  }

  template <class Inside> Body each_thread(const Inside& inside) {
    const std::string thread = names_.fresh("t"), first = names_.fresh("first");
    Body body{stmt(Let{first, var(thread) * Expr(part_)})};
    body.push_back(stmt(If{less(var(first), Expr(length_)), inside(var(first)), {}}));
    return {stmt(For{thread, Kind::Thread, Expr(group_.threads), {}, std::move(body)}), stmt(Barrier{})};
  }

  // ---- buffers

  Body buffers(Memory memory) {
    first_.keys = names_.fresh("keys"), second_ = {names_.fresh("other_keys"), names_.fresh("other_positions")};
    return {stmt(Allocate{first_.keys, type_, length_, memory}), stmt(Allocate{second_.keys, type_, length_, memory}),
        stmt(Allocate{second_.positions, DType::I32, length_, memory})};
  }

  // ---- merging

  // Keys and positions of [first, first + size), sorted, in the first pair. An even number of passes: the last may only
  // copy.
  Body sorted_chunk(const Expr& first, std::int64_t size) {
    const std::string count = names_.fresh("count"), k = names_.fresh("k");
    const Expr end = minimum(first + Expr(size), Expr(length_)), at = first + var(k);
    Body body{stmt(Let{count, end - first})};
    body.push_back(stmt(For{k, Kind::Serial, var(count), {},
        {stmt(Store{first_.keys, at, given(at)}), stmt(Store{first_.positions, at, convert(at, DType::I32)})}}));
    const int passes = log_up(size);
    if (passes == 0) return body;
    const std::string pass = names_.fresh("pass"), width = names_.fresh("width");
    Body turn{stmt(Let{width, Operation{Op::Shl, {Expr(1), var(pass) * Expr(2)}, DType::I64}})};
    append(turn, merged_runs(first_, second_, first, var(count), var(width)));
    append(turn, merged_runs(second_, first_, first, var(count), var(width) * Expr(2)));
    body.push_back(stmt(For{pass, Kind::Serial, Expr((passes + 1) / 2), {}, std::move(turn)}));
    return body;
  }

  // All runs of `width` in [first, first + count), two and two.
  Body merged_runs(const Pair& from, const Pair& to, const Expr& first, const Expr& count, const Expr& width) {
    const std::string run = names_.fresh("run"), runs = names_.fresh("runs"), low = names_.fresh("low"),
                      middle = names_.fresh("middle"), high = names_.fresh("high");
    const Expr end = first + count;
    Body body{stmt(Let{low, first + var(run) * (width * Expr(2))}), stmt(Let{middle, minimum(var(low) + width, end)}),
        stmt(Let{high, minimum(var(low) + width * Expr(2), end)})};
    append(body,
        merged(from, to, {var(low), var(middle), var(high)}, var(low), var(middle), var(low), var(high) - var(low)));
    const Expr both = width * Expr(2);
    return {stmt(Let{runs, Operation{Op::Div, {count + both - Expr(1), both}, DType::I64}}),
        stmt(For{run, Kind::Serial, var(runs), {}, std::move(body)})};
  }

  // The results [first, first + chunk) of merging runs of `width`: a multiple of chunk, so that they belong to one
  // merge.
  Body merged_part(const Pair& from, const Pair& to, const Expr& first, const Expr& width, int steps) {
    const std::string low = names_.fresh("low"), middle = names_.fresh("middle"), high = names_.fresh("high"),
                      count = names_.fresh("count");
    const Expr both = width * Expr(2);
    Body body{stmt(Let{low, first - Expr(Operation{Op::Mod, {first, both}, DType::I64})}),
        stmt(Let{middle, minimum(var(low) + width, Expr(length_))}),
        stmt(Let{high, minimum(var(low) + both, Expr(length_))}),
        stmt(Let{count, minimum(Expr(part_), Expr(length_) - first)})};
    const Merge merge{var(low), var(middle), var(high)};
    const std::string taken = names_.fresh("taken");
    append(body, split(from, merge, first - var(low), steps, taken));
    append(body,
        merged(
            from, to, merge, var(low) + var(taken), var(middle) + (first - var(low) - var(taken)), first, var(count)));
    return body;
  }

  // taken = how many of the first `diagonal` results come from the left run.
  Body split(const Pair& from, const Merge& merge, const Expr& diagonal, int steps, const std::string& taken) {
    const std::string least = names_.fresh("least"), most = names_.fresh("most"), step = names_.fresh("step"),
                      half = names_.fresh("half"), open = names_.fresh("open"), left = names_.fresh("left");
    const Expr zero(std::int64_t{0}), low = Load{least, zero, DType::I64}, high = Load{most, zero, DType::I64},
                                      last(length_ - 1);
    const Expr x = key(from, minimum(merge.low + var(half), last)),
               y = key(from, minimum(merge.middle + (diagonal - var(half) - Expr(1)), last));
    const auto flag = [&](const std::string& name) { return Expr(Variable{name, DType::Bool}); };
    const auto pick = [&](const Expr& condition, const Expr& a, const Expr& b) {
      return Expr(Operation{Op::Select, {condition, a, b}, DType::I64});
    };
    const Expr up = both(flag(open), flag(left)),
               down = both(flag(open), Operation{Op::Not, {flag(left)}, DType::Bool});
    Body turn{stmt(Let{half, floor_divide(low + high, 2)}), stmt(Let{open, less(low, high)}),
        stmt(Let{left, left_first(x, y)}), stmt(Store{least, zero, pick(up, var(half) + Expr(1), low)}),
        stmt(Store{most, zero, pick(down, var(half), high)})};
    return {stmt(Allocate{least, DType::I64, 1, Memory::Register}),
        stmt(Allocate{most, DType::I64, 1, Memory::Register}),
        stmt(Store{least, zero, maximum(zero, diagonal - (merge.high - merge.middle))}),
        stmt(Store{most, zero, minimum(diagonal, merge.middle - merge.low)}),
        stmt(For{step, Kind::Serial, Expr(steps), {}, std::move(turn)}), stmt(Let{taken, low})};
  }

  // Merges `count` elements and stores them from `to_first` on; the runs are read from `left` and `right` on. Of a run
  // that is used up the last element is read again: what lies behind it another thread may be writing.
  Body merged(const Pair& from, const Pair& to, const Merge& merge, const Expr& left, const Expr& right,
      const Expr& to_first, const Expr& count) {
    const std::string i = names_.fresh("i"), j = names_.fresh("j"), k = names_.fresh("k"), p = names_.fresh("left_at"),
                      q = names_.fresh("right_at"), x = names_.fresh("x"), y = names_.fresh("y"),
                      take = names_.fresh("take"), left_end = names_.fresh("left_end"),
                      right_end = names_.fresh("right_end");
    const Expr zero(std::int64_t{0}), at = to_first + var(k);
    const Expr chosen = Variable{take, DType::Bool}, a = Variable{x, type_}, b = Variable{y, type_};
    const auto pick = [&](const Expr& yes, const Expr& no) {
      return Expr(Operation{Op::Select, {chosen, yes, no}, yes.type()});
    };
    const Expr left_over = at_least(var(q), merge.high);
    const Expr first = both(less(var(p), merge.middle), Operation{Op::Or, {left_over, left_first(a, b)}, DType::Bool});
    Body turn{stmt(Let{p, Load{i, zero, DType::I64}}), stmt(Let{q, Load{j, zero, DType::I64}}),
        stmt(Let{x, key(from, minimum(var(p), var(left_end)))}),
        stmt(Let{y, key(from, minimum(var(q), var(right_end)))}), stmt(Let{take, first}),
        stmt(Store{to.keys, at, pick(a, b)}),
        stmt(Store{to.positions, at, Load{from.positions, pick(var(p), var(q)), DType::I32}}),
        stmt(Store{i, zero, pick(var(p) + Expr(1), var(p))}), stmt(Store{j, zero, pick(var(q), var(q) + Expr(1))})};
    return {stmt(Allocate{i, DType::I64, 1, Memory::Register}), stmt(Allocate{j, DType::I64, 1, Memory::Register}),
        stmt(Store{i, zero, left}), stmt(Store{j, zero, right}), stmt(Let{left_end, merge.middle - Expr(1)}),
        stmt(Let{right_end, merge.high - Expr(1)}), stmt(For{k, Kind::Serial, count, {}, std::move(turn)})};
  }
};

}  // namespace

std::int64_t places_read(const poly::Program& program, TensorId order) {
  const std::int64_t all = program.tensor(order).shape.back().get();
  std::int64_t places = is_output(program, order) ? all : 1;
  for (const poly::Node& node : program.nodes) {
    if (!reads(node, order)) continue;
    const auto* s = std::get_if<poly::Statement>(&node);
    if (!s || std::holds_alternative<TensorId>(s->fill)) return all;
    for (const poly::Access& read : s->reads) {
      if (read.tensor != order) continue;
      const poly::Affine& at = read.element.back();
      poly::Exact most = at.constant.get();
      for (std::size_t k = 0; k < s->indices.size(); ++k) {
        const std::int64_t c = at.coefficients[k].get();
        most += poly::Exact(c) * (c > 0 ? low(*s, k) + extent(*s, k) - 1 : low(*s, k));
      }
      places = std::max(places, most.get() + 1);
    }
  }
  return std::min(places, all);
}

// An element that goes in moves as many: in the worst of orders all do, which then takes as long as to sort them.
bool few_places(std::int64_t places, std::int64_t length) {
  return 0 < places && 2 * places <= length && places <= std::int64_t{4} * log_up(length);
}

lang::DType key_type(lang::DType type) { return type == DType::Bool ? DType::U8 : compute_type(type); }

bool sorts_in_global_memory(const Nest& nest, lang::DType keys, std::int64_t places, const Target& target) {
  if (!has_threads(target) && few_places(places, length_of(nest))) return false;
  const std::int64_t length = length_of(nest), bytes = lang::bytes(key_type(keys));
  if (has_threads(target)) return length * (2 * bytes + 4) + 64 > target.shared_bytes;
  return length > model::longest_sorted_whole && rows_of(nest) < model::rows_to_cut;
}

Compute sort_leaf(const poly::Program& program, const Nest& nest, int node, const Target& target) {
  Compute leaf;
  leaf.form = forms::Sort{}, leaf.node = node;
  const std::int64_t length = length_of(nest), rows = rows_of(nest);
  if (has_threads(target)) {
    leaf.form = forms::Sort{
        std::int64_t{1} << log_up(ceil_divide(std::max<std::int64_t>(1, length), block_threads(length, target)))};
    leaf.lanes = block_threads(length, target);
    return leaf;
  }
  const std::int64_t places = places_read(program, nest.target.tensor);
  if (sorts_in_global_memory(nest, program.tensor(nest.reads[0].tensor).dtype, places, target)) {
    leaf.form = forms::Sort{model::longest_sorted_whole / 2};             // an even number of passes sorts it
    return leaf;
  }
  const double passes = few_places(places, length) ? 1 : log_up(length) + 2;
  const double cycles = model::sorted_element * static_cast<double>(length) * passes;
  leaf.rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(model::worth_a_turn / std::max(1.0, cycles)));
  leaf.rows = std::min(leaf.rows, std::max<std::int64_t>(1, rows));
  return leaf;
}

Body spell_sort(
    const Nest& nest, const Group& group, const Storage& storage, const poly::Intrinsic& sort, Names& names) {
  const std::int64_t places = places_read(storage.plan.program, sort.targets[0]);
  const bool whole = !group.threads && !group.body.front().as<forms::Sort>()->part;
  return whole && few_places(places, length_of(nest)) ? Selection(nest, group, storage, sort, names, places).spell()
                                                      : Sort(nest, group, storage, sort, names).spell();
}

}  // namespace tilec::codegen
