// The problem with Scatter is order: terms that meet in one row must be added one after the other, or the bits differ
// from run to run. So not the terms are shared among turns but the rows (or, where a row is wide, its columns): every
// turn reads all the indices, which is little beside the terms, and adds those that fall to it.
//
//   I = 2 0 2 1, two turns:     turn 0 owns rows 0, 1:   O[0] += E[1], O[1] += E[3]
//                               turn 1 owns row 2:       O[2] += E[0], O[2] += E[2]
//
// On a GPU the threads of a block have the same rows and a column each. Looking at all indices takes each far longer
// than adding, so they look together, each at its part, and what they have found is in shared memory.
#include "codegen/indirect.h"

#include <algorithm>
#include <functional>

#include "codegen/choose/threads.h"
#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;


bool is_rest(const Dim& dim) { return dim.name.starts_with("r"); }
bool is_index(const Dim& dim) { return dim.name.starts_with("j"); }
bool is_row(const Dim& dim) { return dim.name == "v"; }

// The dims of a group, in order.
template <class Predicate> std::vector<std::size_t> dims_where(const Nest& nest, Predicate holds) {
  std::vector<std::size_t> found;
  for (std::size_t d = 0; d < nest.dims.size(); ++d) if (holds(nest.dims[d])) found.push_back(d);
  return found;
}

std::int64_t product(const Nest& nest, const std::vector<std::size_t>& dims) {
  std::int64_t count = 1;
  for (const std::size_t d : dims) count = (poly::Exact(count) * nest.dims[d].extent).get();
  return count;
}

// Turns worth their start, at most `most`.
std::int64_t turns_for(double cycles, std::int64_t most) {
  return static_cast<std::int64_t>(
      std::clamp(cycles / model::worth_a_turn, 1.0, static_cast<double>(std::max<std::int64_t>(1, most))));
}

// An index as a row: below 0 the first, beyond the end the last. Compared in its own type, so that a u64 is not taken
// for negative.
Expr clamped(const Expr& index, std::int64_t extent) {
  const DType type = index.type();
  Expr row = index;
  if (lang::is_signed(type)) row = Operation{Op::Max, {row, Constant{type, 0, 0}}, type};
  const int width = lang::bits(type) - (lang::is_signed(type) ? 1 : 0);
  if (width >= 63 || extent - 1 < (std::int64_t{1} << width) - 1)
    row = Operation{Op::Min, {row, Constant{type, extent - 1, 0}}, type};
  return convert(row, DType::I64);
}

// What both have: the value of each dim at the point being spelled, and the views of the tensors.
class Indirect {
 public:
  Indirect(const Nest& nest, const Group& group, const Storage& storage, Names& names)
      : nest_(nest),
        group_(group),
        leaf_(group.body.front()),
        storage_(storage),
        names_(names),
        at_(nest.dims.size(), Expr(std::int64_t{0})) {
    if (const auto n = nest.dim(leaf_.n); n && !leaf_.n.empty()) n_ = static_cast<int>(*n);
  }

 protected:
  using Inside = std::function<Body()>;

  DType type_of(TensorId id) const { return storage_.plan.program.tensor(id).dtype; }

  Expr offset(const Form& form) const {
    Expr sum(form.constant);
    for (std::size_t d = 0; d < at_.size(); ++d)
      if (form.coefficients[d] != 0) sum = sum + at_[d] * Expr(form.coefficients[d]);
    return sum;
  }
  Expr load(const FlatAccess& access) const {
    return Load{storage_.name(access.tensor), offset(access.offset), type_of(access.tensor)};
  }
  Expr row() const { return clamped(load(nest_.reads[1]), extent(v())); }
  std::size_t v() const { return *nest_.dim("v"); }
  std::int64_t extent(std::size_t d) const { return nest_.dims[d].extent; }

  // Dims from one number, the last fastest.
  void decode(const std::vector<std::size_t>& dims, const Expr& number, Body& body) {
    Expr rest = number;
    std::int64_t inner = product(nest_, dims);
    for (const std::size_t d : dims) {
      inner = extent(d) ? inner / extent(d) : 1;
      const std::string name = names_.fresh(nest_.dims[d].name);
      body.push_back(stmt(Let{name, quotient(rest, inner)}));
      rest = remainder(rest, inner);
      at_[d] = var(name);
    }
  }

  // Serial loops over all of these dims, the last innermost.
  Body over(const std::vector<std::size_t>& dims, const Inside& inside, std::size_t level = 0) {
    if (level == dims.size()) return inside();
    const std::size_t d = dims[level];
    const std::string name = names_.fresh(nest_.dims[d].name);
    at_[d] = var(name);
    return {stmt(For{name, Kind::Serial, Expr(extent(d)), {}, over(dims, inside, level + 1)})};
  }

  // Dim `d` from `begin` to `end` exclusive, which may be empty.
  Body between(std::size_t d, const Expr& begin, const Expr& end, const Inside& inside) {
    const std::string name = names_.fresh(nest_.dims[d].name), count = names_.fresh(nest_.dims[d].name + "_n");
    at_[d] = begin + var(name);
    Body loop{stmt(For{name, Kind::Serial, var(count), {}, inside()})};
    return {stmt(Let{count, end - begin}), stmt(If{less(Expr(std::int64_t{0}), var(count)), std::move(loop), {}})};
  }

  // The leaf's n from `begin` to `end`, a vector at a time, the last one masked.
  Body lanes(const Expr& begin, const Expr& end, const Inside& inside) {
    if (n_ < 0) return inside();
    const auto d = static_cast<std::size_t>(n_);
    const std::string lane = names_.fresh("l"), turn = names_.fresh(leaf_.n + "_v");
    const auto vector = [&](const Expr& first, bool masked) {
      at_[d] = first + var(lane);
      Body body = inside();
      if (masked) body = {stmt(If{less(at_[d], end), std::move(body), {}})};
      return stmt(For{lane, Kind::Vector, Expr(leaf_.lanes), {}, std::move(body)});
    };
    Body body;
    Expr full = floor_divide(end - begin, leaf_.lanes);
    if (!is_const(full)) {
      const std::string name = names_.fresh(leaf_.n + "_full");
      body.push_back(stmt(Let{name, full}));
      full = var(name);
    }
    const Expr done = begin + full * Expr(leaf_.lanes), some = less(Expr(std::int64_t{0}), full),
               more = less(done, end);
    const auto when = [&](const Expr& condition, const std::function<Stmt()>& inside) {
      if (!is_const(condition)) body.push_back(stmt(If{condition, {inside()}, {}}));
      else if (condition.as<Constant>()->integer) body.push_back(inside());
    };
    when(some, [&] {
      return stmt(For{turn, Kind::Serial, full, {}, {vector(begin + var(turn) * Expr(leaf_.lanes), false)}});
    });
    when(more, [&] { return vector(done, true); });
    return body;
  }

  // Turns of a parallel loop, `step` items each; an item is decoded from its number.
  Body turns(std::int64_t items, std::int64_t step, const std::function<Body(const Expr&)>& inside) {
    if (items == 0) return {};
    const std::string turn = names_.fresh("p"), item = names_.fresh("item"), count = names_.fresh("items"),
                      number = names_.fresh("number");
    const Expr first = var(turn) * Expr(step);
    Body body = step == 1 ? inside(first) : Body{};
    if (step > 1) {
      Body one{stmt(Let{number, first + var(item)})};
      append(one, inside(var(number)));
      body.push_back(stmt(Let{count, minimum(Expr(step), Expr(items) - first)}));
      body.push_back(stmt(For{item, Kind::Serial, var(count), {}, std::move(one)}));
    }
    return {stmt(For{turn, Kind::Parallel, Expr(ceil_divide(items, step)), {}, std::move(body)})};
  }

  // One item per thread.
  Body threads(std::int64_t items, const std::function<Body(const Expr&)>& inside) {
    if (items == 0) return {};
    const std::string block = names_.fresh("block"), thread = names_.fresh("l"), item = names_.fresh("item");
    Body body{stmt(Let{item, var(block) * Expr(group_.threads) + var(thread)}),
        stmt(If{less(var(item), Expr(items)), inside(var(item)), {}})};
    return {stmt(For{block, Kind::Block, Expr(ceil_divide(items, group_.threads)), {},
        {stmt(For{thread, Kind::Thread, Expr(group_.threads), {}, std::move(body)})}})};
  }

  const Nest& nest_;
  const Group& group_;
  const Compute& leaf_;
  const Storage& storage_;
  Names& names_;
  std::vector<Expr> at_;                               // value of each dim
  int n_ = -1;                                         // the dim of lanes
};

class Gather : public Indirect {
 public:
  using Indirect::Indirect;

  Body spell() {
    const auto all = dims_where(nest_, [](const Dim& d) { return !is_row(d); });
    if (product(nest_, all) == 0) return {};
    if (group_.threads)
      return several_each(product(nest_, all), [&](const Expr& item) {
        Body body;
        decode(all, item, body);
        append(body, element());
        return body;
      });
    return n_ >= 0 && !is_rest(nest_.dims[static_cast<std::size_t>(n_)]) ? many_rows() : row_by_row();
  }

 private:
  // The leaf's `vectors` items per thread, apart by the threads of a block: each waits for a number and then for what
  // it picks, so that several are on their way together.
  Body several_each(std::int64_t items, const std::function<Body(const Expr&)>& inside) {
    const std::int64_t of_block = group_.threads * leaf_.vectors;
    const std::string block = names_.fresh("block"), thread = names_.fresh("l");
    const Expr first = var(block) * Expr(of_block);
    const auto all = [&](bool masked) {
      const std::string v = names_.fresh("v"), item = names_.fresh("item");
      Body one{stmt(Let{item, first + var(v) * Expr(group_.threads) + var(thread)})}, body = inside(var(item));
      if (masked) body = {stmt(If{less(var(item), Expr(items)), std::move(body), {}})};
      append(one, std::move(body));
      return Body{stmt(For{v, Kind::Unroll, Expr(leaf_.vectors), {}, std::move(one)})};
    };
    Body body = items % of_block == 0
        ? all(false)
        : Body{stmt(If{less(first + Expr(of_block - 1), Expr(items)), all(false), all(true)})};
    return {stmt(For{block, Kind::Block, Expr(ceil_divide(items, of_block)), {},
        {stmt(For{thread, Kind::Thread, Expr(group_.threads), {}, std::move(body)})}})};
  }

  std::vector<std::size_t> others(bool rest) const {
    return dims_where(nest_,
        [&](const Dim& d) { return !is_row(d) && is_rest(d) == rest && (leaf_.n.empty() || d.name != leaf_.n); });
  }

  Body element() {
    const FlatAccess& target = nest_.target;
    const DType type = type_of(target.tensor);
    if (extent(v()) == 0)
      return {stmt(Store{storage_.name(target.tensor), offset(target.offset), Constant{type, 0, 0}})};
    const std::string c = names_.fresh("c");
    Body body{stmt(Let{c, row()})};
    append(body, copy(var(c)));
    return body;
  }

  Body copy(const Expr& row) {
    at_[v()] = row;
    return {stmt(Store{storage_.name(nest_.target.tensor), offset(nest_.target.offset), load(nest_.reads[0])})};
  }

  // A row is wide: its number is looked up once, then it is copied.
  Body row_by_row() {
    const auto rows = others(false), rest = others(true);
    return turns(product(nest_, rows), leaf_.rows, [&](const Expr& item) {
      Body body;
      decode(rows, item, body);
      const std::string c = names_.fresh("c");
      const bool empty = extent(v()) == 0;
      if (!empty) body.push_back(stmt(Let{c, row()}));
      const Expr end = n_ < 0 ? Expr(1) : Expr(extent(static_cast<std::size_t>(n_)));
      append(body, over(rest, [&] {
        return lanes(Expr(std::int64_t{0}), end, [&] { return empty ? element() : copy(var(c)); });
      }));
      return body;
    });
  }

  // Rows are narrow: lanes over their numbers, each its own element.
  Body many_rows() {
    const auto rows = others(false), rest = others(true);
    const auto d = static_cast<std::size_t>(n_);
    const std::int64_t width = leaf_.lanes * leaf_.vectors, blocks = ceil_divide(extent(d), width);
    return turns(product(nest_, rows) * blocks, leaf_.rows, [&](const Expr& item) {
      const std::string begin = names_.fresh(leaf_.n + "_begin");
      Body body{stmt(Let{begin, remainder(item, blocks) * Expr(width)})};
      decode(rows, quotient(item, blocks), body);
      append(body, over(rest, [&] {
        return lanes(var(begin), minimum(var(begin) + Expr(width), Expr(extent(d))), [&] { return element(); });
      }));
      return body;
    });
  }
};

class Scatter : public Indirect {
 public:
  Scatter(const Nest& nest, const Group& group, const Storage& storage, TensorId sums, Names& names)
      : Indirect(nest, group, storage, names), sums_(sums) {
    sum_form_ = nest.target.offset;
    // Sums of a wider type are row-major.
    if (sums != nest.target.tensor) sum_form_ = dense();
  }

  Body spell() {
    const auto batch = dims_where(nest_, [](const Dim& d) { return !is_row(d) && !is_rest(d) && !is_index(d); });
    const auto rest = dims_where(nest_, is_rest);
    if (product(nest_, batch) * product(nest_, rest) * extent(v()) == 0) return {};
    const std::int64_t ranges = ceil_divide(extent(v()), leaf_.rows);
    const std::int64_t chunk = leaf_.as<forms::Scatter>()->columns;
    if (group_.threads && chunk) return by_blocks(batch, rest, ranges);
    if (group_.threads)
      return threads(product(nest_, batch) * ranges * product(nest_, rest), [&](const Expr& item) {
        Body body;
        const std::int64_t columns = product(nest_, rest);
        decode(rest, remainder(item, columns), body);
        append(body, owned(batch, quotient(item, columns), ranges, [](const Inside& inside) { return inside(); }));
        return body;
      });
    const std::int64_t width = n_ < 0 ? 1 : extent(static_cast<std::size_t>(n_)), columns = chunk ? chunk : width,
                       blocks = ceil_divide(width, columns);
    const auto serial = dims_where(nest_, [&](const Dim& d) { return is_rest(d) && d.name != leaf_.n; });
    return turns(product(nest_, batch) * ranges * blocks, 1, [&](const Expr& item) {
      Body body;
      Expr begin(std::int64_t{0}), end(width), number = item;
      if (blocks > 1) {
        const std::string first = names_.fresh(leaf_.n + "_begin");
        body.push_back(stmt(Let{first, remainder(item, blocks) * Expr(columns)}));
        begin = var(first), end = minimum(begin + Expr(columns), Expr(width)),
        number = quotient(item, blocks);
      }
      append(body, owned(batch, number, ranges, [&](const Inside& inside) {
        return over(serial, [&] { return lanes(begin, end, inside); });
      }));
      return body;
    });
  }

 private:
  using Columns = std::function<Body(const Inside&)>;

  Form dense() const {
    Form form{std::vector<std::int64_t>(nest_.dims.size(), 0), 0};
    std::int64_t stride = 1;
    for (std::size_t d = nest_.dims.size(); d-- > 0;) {
      if (is_index(nest_.dims[d])) continue;
      form.coefficients[d] = stride;
      stride = (poly::Exact(stride) * std::max<std::int64_t>(1, extent(d))).get();
    }
    return form;
  }

  Expr sum_at() const { return offset(sum_form_); }
  Body store_sum(const Expr& value) {
    return {stmt(Store{storage_.name(sums_), sum_at(), convert(value, type_of(sums_))})};
  }

  // A block has a range of rows, and a column for each thread. Of a stage of the terms each thread looks at some that
  // follow each other, and leaves those that fall to the range where they lay in shared memory; then all threads add
  // what all have found, in the order of the terms.
  Body by_blocks(const std::vector<std::size_t>& batch, const std::vector<std::size_t>& rest, std::int64_t ranges) {
    const std::int64_t width = product(nest_, rest), chunks = ceil_divide(width, group_.threads);
    const std::string block = names_.fresh("block"), column = names_.fresh("column");
    thread_ = names_.fresh("l");
    rows_ = names_.fresh("rows"), places_ = names_.fresh("places"), found_ = names_.fresh("found");
    Body body{stmt(Let{column, remainder(var(block), chunks) * Expr(group_.threads) + var(thread_)})};
    decode(rest, var(column), body);
    const auto mine = [&](const Inside& inside) -> Body {
      if (width % group_.threads == 0) return inside();
      return {stmt(If{less(var(column), Expr(width)), inside(), {}})};
    };
    append(body, owned(batch, quotient(var(block), chunks), ranges, mine));
    Body all;
    for (const std::string& name : {rows_, places_})
      all.push_back(stmt(Allocate{name, DType::I32, group_.threads * pitch, Memory::Shared}));
    all.push_back(stmt(Allocate{found_, DType::I32, group_.threads, Memory::Shared}));
    all.push_back(stmt(For{thread_, Kind::Thread, Expr(group_.threads), {}, std::move(body)}));
    return {stmt(For{block, Kind::Block, Expr(product(nest_, batch) * ranges * chunks), {}, std::move(all)})};
  }

  Body found_terms(const Expr& low, const Expr& high, const Columns& columns) {
    const auto indices = dims_where(nest_, is_index);
    const std::int64_t count = product(nest_, indices), length = group_.threads * each;
    if (count == 0) return {};
    const std::string stage = names_.fresh("stage"), first = names_.fresh("first");
    Body body{stmt(Let{first, var(stage) * Expr(length)})};
    for (std::int64_t u = 0; u < each; ++u) {            // threads side by side read side by side
      const Expr within = var(thread_) + Expr(u * group_.threads),
                 at = quotient(within, each) * Expr(pitch) + remainder(within, each);
      body.push_back(stmt(Store{rows_, at, Constant{DType::I32, -1, 0}}));
      Body one;
      decode(indices, var(first) + within, one);
      one.push_back(stmt(Store{rows_, at, convert(row(), DType::I32)}));
      body.push_back(stmt(If{less(var(first) + within, Expr(count)), std::move(one), {}}));
    }
    body.push_back(stmt(Barrier{}));
    append(body, find(low, high));
    body.push_back(stmt(Barrier{}));
    append(body, add_found(var(first), indices, columns));
    body.push_back(stmt(Barrier{}));
    return {stmt(For{stage, Kind::Serial, Expr(ceil_divide(count, length)), {}, std::move(body)})};
  }

  // Of a thread's terms those of the range, to the front of what it looked at.
  Body find(const Expr& low, const Expr& high) {
    const std::string n = names_.fresh("n");
    const Expr own = var(thread_) * Expr(pitch), so_far = Load{n, Expr(std::int64_t{0}), DType::I64};
    Body body{stmt(Allocate{n, DType::I64, 1, Memory::Register}),
        stmt(Store{n, Expr(std::int64_t{0}), Expr(std::int64_t{0})})};
    for (std::int64_t q = 0; q < each; ++q) {
      const std::string c = names_.fresh("c");
      body.push_back(stmt(Let{c, convert(Load{rows_, own + Expr(q), DType::I32}, DType::I64)}));
      const Expr place = convert(var(thread_) * Expr(each) + Expr(q), DType::I32);
      Body is_mine{stmt(Store{rows_, own + so_far, convert(var(c), DType::I32)}),
          stmt(Store{places_, own + so_far, place}), stmt(Store{n, Expr(std::int64_t{0}), so_far + Expr(1)})};
      body.push_back(stmt(If{both(at_least(var(c), low), less(var(c), high)), std::move(is_mine), {}}));
    }
    body.push_back(stmt(Store{found_, var(thread_), convert(so_far, DType::I32)}));
    return body;
  }

  Body add_found(const Expr& first, const std::vector<std::size_t>& indices, const Columns& columns) {
    const std::string from = names_.fresh("from"), some = names_.fresh("some"), q = names_.fresh("q"),
                      c = names_.fresh("c");
    const auto shared = [&](const std::string& name) {
      return convert(Load{name, var(from) * Expr(pitch) + var(q), DType::I32}, DType::I64);
    };
    Body one{stmt(Let{c, shared(rows_)})};
    decode(indices, first + shared(places_), one);
    append(one, added(var(c), columns));
    Body of_thread{stmt(Let{some, convert(Load{found_, var(from), DType::I32}, DType::I64)}),
        stmt(If{less(Expr(std::int64_t{0}), var(some)), {stmt(For{q, Kind::Serial, var(some), {}, std::move(one)})},
            {}})};
    return {stmt(For{from, Kind::Serial, Expr(group_.threads), {}, std::move(of_thread)})};
  }

  // What one turn, thread or block does: rows of a range, and of these its columns.
  Body owned(const std::vector<std::size_t>& batch, const Expr& number, std::int64_t ranges, const Columns& columns) {
    Body body;
    const std::string low = names_.fresh("v_begin"), high = names_.fresh("v_end");
    body.push_back(stmt(Let{low, remainder(number, ranges) * Expr(leaf_.rows)}));
    body.push_back(stmt(Let{high, minimum(var(low) + Expr(leaf_.rows), Expr(extent(v())))}));
    decode(batch, quotient(number, ranges), body);
    const DType sum = computed(type_of(sums_));
    append(body,
        between(v(), var(low), var(high), [&] { return columns([&] { return store_sum(Constant{sum, 0, 0}); }); }));
    append(body, found_.empty() ? terms(var(low), var(high), ranges > 1, columns)
                                : found_terms(var(low), var(high), columns));
    if (sums_ == nest_.target.tensor) return body;
    append(body, between(v(), var(low), var(high), [&] {
      return columns([&]() -> Body {
        return {stmt(Store{storage_.name(nest_.target.tensor), offset(nest_.target.offset),
            convert(Load{storage_.name(sums_), sum_at(), type_of(sums_)}, type_of(nest_.target.tensor))})};
      });
    }));
    return body;
  }

  Body terms(const Expr& low, const Expr& high, bool ranged, const Columns& columns) {
    const auto indices = dims_where(nest_, is_index);
    if (product(nest_, indices) == 0) return {};
    return over(indices, [&] {
      const std::string c = names_.fresh("c");
      Body body{stmt(Let{c, row()})};
      Body adding = added(var(c), columns);
      if (ranged) body.push_back(stmt(If{both(at_least(var(c), low), less(var(c), high)), std::move(adding), {}}));
      else append(body, std::move(adding));
      return body;
    });
  }

  // The term whose index stands, to a row.
  Body added(const Expr& row, const Columns& columns) {
    const DType sum = computed(type_of(sums_));
    at_[v()] = row;
    return columns([&] {
      const Expr held = convert(Load{storage_.name(sums_), sum_at(), type_of(sums_)}, sum);
      return store_sum(Operation{Op::Add, {held, convert(load(nest_.reads[0]), sum)}, sum});
    });
  }

  static DType computed(DType type) { return compute_type(type); }

  // terms that a thread of a block looks at, at a time; from one's to the next's in shared memory, on other banks
  static constexpr std::int64_t each = 16, pitch = each + 1;

  TensorId sums_;
  Form sum_form_;
  std::string thread_, rows_, places_, found_;         // of a block whose threads look for terms together
};

// The dim for lanes: the last of a row where it fills a vector, or nothing else is longer.
std::string lane_dim(const Nest& nest, std::int64_t lanes, bool rest_only) {
  const auto rest = dims_where(nest, is_rest);
  const auto rows = dims_where(nest, [](const Dim& d) { return !is_rest(d) && !is_row(d); });
  const bool wide = !rest.empty() &&
      (nest.dims[rest.back()].extent >= lanes / 2 || rows.empty() ||
          nest.dims[rest.back()].extent >= nest.dims[rows.back()].extent);
  if (wide) return nest.dims[rest.back()].name;
  return rest_only || rows.empty() ? "" : nest.dims[rows.back()].name;
}

}  // namespace

lang::DType sum_type(lang::DType terms, lang::DType target) {
  const DType sum = lang::accumulator(terms);
  // integers wrap alike in fewer bits
  return lang::is_integer(target) && lang::bits(target) <= lang::bits(sum) ? target : sum;
}

TensorId sums_of(const poly::Intrinsic& scatter) { return scatter.targets.back(); }

Compute gather_leaf(const poly::Program& program, const Nest& nest, int node, const Target& target) {
  Compute leaf;
  leaf.form = forms::Gather{}, leaf.node = node;
  if (has_threads(target)) {
    leaf.lanes = threads_of_a_block;
    const double elements =
        static_cast<double>(product(nest, dims_where(nest, [](const Dim& d) { return !is_row(d); })));
    leaf.vectors = elements_of_a_thread(elements, target);
    return leaf;
  }
  leaf.lanes = target.vector_bytes / lang::bytes(program.tensor(nest.target.tensor).dtype);
  leaf.n = lane_dim(nest, leaf.lanes, false);
  const auto n = nest.dim(leaf.n);
  const bool narrow = n && !is_rest(nest.dims[*n]);
  if (narrow) leaf.lanes = std::min<std::int64_t>(leaf.lanes, target.vector_bytes / 4);  // addresses are wide
  if (narrow)
    leaf.vectors = std::clamp<std::int64_t>(ceil_divide(nest.dims[*n].extent, leaf.lanes), 1, model::gathered_vectors);
  const auto rows = dims_where(nest, [&](const Dim& d) { return !is_rest(d) && !is_row(d) && d.name != leaf.n; });
  const std::int64_t items =
      product(nest, rows) * (narrow ? ceil_divide(nest.dims[*n].extent, leaf.lanes * leaf.vectors) : 1);
  const double elements = static_cast<double>(product(nest, dims_where(nest, [](const Dim& d) { return !is_row(d); })));
  leaf.rows = std::max<std::int64_t>(
      1, ceil_divide(items, turns_for(elements * (narrow ? model::narrow_gather : 1), model::gather_turns)));
  return leaf;
}

Compute scatter_leaf(const poly::Program& program, const Nest& nest, int node, const Target& target) {
  Compute leaf;
  leaf.form = forms::Scatter{}, leaf.node = node;
  const auto rest = dims_where(nest, is_rest),
             batch = dims_where(nest, [](const Dim& d) { return !is_row(d) && !is_rest(d) && !is_index(d); });
  const std::int64_t extent = std::max<std::int64_t>(1, nest.dims[*nest.dim("v")].extent),
                     batches = product(nest, batch);
  if (has_threads(target)) {
    leaf.lanes = threads_of_a_block;
    const std::int64_t wanted = static_cast<std::int64_t>(model::threads::wanted_of_a_multiprocessor) *
        target.multiprocessors,
                       others = std::max<std::int64_t>(1, batches * product(nest, rest));
    leaf.rows = ceil_divide(extent, std::clamp<std::int64_t>(wanted / others, 1, extent));
    const std::int64_t terms = product(nest, dims_where(nest, is_index)), most = std::int64_t{1} << 31;
    if (2 * product(nest, rest) > threads_of_a_block && terms >= model::threads::least_to_find && terms < most &&
        extent < most)
      leaf.form = forms::Scatter{threads_of_a_block};
    return leaf;
  }
  leaf.lanes = target.vector_bytes /
      lang::bytes(sum_type(program.tensor(nest.reads[0].tensor).dtype, program.tensor(nest.target.tensor).dtype));
  leaf.n = lane_dim(nest, leaf.lanes, true);
  leaf.rows = extent;
  const double terms = static_cast<double>(batches * product(nest, dims_where(nest, is_index))),
               sums = static_cast<double>(batches * extent);
  const std::int64_t turns =
      ceil_divide(turns_for((2 * terms + sums) * static_cast<double>(std::max<std::int64_t>(1, product(nest, rest))),
                      model::scatter_turns),
          std::max<std::int64_t>(1, batches));
  const std::int64_t width = leaf.n.empty() ? 1 : nest.dims[*nest.dim(leaf.n)].extent;
  if (turns == 1) return leaf;
  if (width >= model::wide_scatter * leaf.lanes)
    leaf.form = forms::Scatter{ceil_divide(ceil_divide(width, turns), model::scattered_vectors * leaf.lanes) *
        model::scattered_vectors * leaf.lanes};
  else leaf.rows = ceil_divide(extent, std::min(turns, extent));
  return leaf;
}

Body spell_gather(const Nest& nest, const Group& group, const Storage& storage, Names& names) {
  return Gather(nest, group, storage, names).spell();
}

Body spell_scatter(
    const Nest& nest, const Group& group, const Storage& storage, const poly::Intrinsic& scatter, Names& names) {
  return Scatter(nest, group, storage, sums_of(scatter), names).spell();
}

}  // namespace tilec::codegen
