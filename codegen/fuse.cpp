// Six rewrites, in order: copies for outputs that need a buffer of their own, inlining, long reductions in two stages,
// transposed copies, panels, shared rows.
//
// Shared rows are the one mechanism behind epilogues, softmax and attention. Statements whose targets start with the same
// dimensions, each a plain index, and that read each other only at their own row, can run row by row (or 64 rows by 64 rows):
//
//   Mx[i] = >(X[i, j]);  E[i, j] = =(exp(X[i, j] - Mx[i]));  S[i] = +(E[i, j]);  Y[i, j] = =(E[i, j] / S[i]);
//     ⇒  one set with rows {i}: a turn reads some rows of X, keeps Mx, E, S in cache, writes those rows of Y
#include "codegen/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "codegen/plan.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Range;
using poly::Statement;

std::string fresh_name(const Program& program, const std::string& stem) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(program.tensors.begin(), program.tensors.end(), [&](const poly::Tensor& t) { return t.name == name; });
  };
  std::string base = stem;
  while (!base.empty() && base.back() == '\'') base.pop_back();
  std::string name = base;
  for (int n = 1; taken(name); ++n) name = fmt::format("{}_{}", base, n);
  return name;
}

// target[o] = source[o with its dimensions in the order `order`].
Statement copy(const Program& program, TensorId target, TensorId source, const std::vector<std::size_t>& order) {
  const std::size_t rank = order.size();
  Statement s{{target, {}}, {}, {}, Aggregation::Assign, Expr(poly::Read{0, program.tensor(source).dtype}), {}, poly::Number{program.tensor(target).dtype}, {}, "", {}};
  Access read{source, std::vector<Affine>(rank)};
  for (std::size_t d = 0; d < rank; ++d) {
    s.indices.push_back(fmt::format("c{}", d));
    s.target.element.push_back(Affine::index(d, rank));
    s.domain.push_back({Affine::index(d, rank), program.tensor(target).shape[d]});
    read.element[order[d]] = Affine::index(d, rank);
  }
  s.reads.push_back(std::move(read));
  return s;
}

std::vector<std::size_t> in_order(std::size_t rank) {
  std::vector<std::size_t> order(rank);
  for (std::size_t d = 0; d < rank; ++d) order[d] = d;
  return order;
}

// ---- outputs that are inputs, or the same tensor twice

void copy_outputs(Program& program, Strides& strides) {
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    const TensorId id = program.outputs[o];
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), id) != program.inputs.end();
    const bool repeated = std::find(program.outputs.begin(), program.outputs.begin() + static_cast<std::ptrdiff_t>(o), id) != program.outputs.begin() + static_cast<std::ptrdiff_t>(o);
    if (!input && !repeated) continue;
    poly::Tensor tensor = program.tensor(id);
    tensor.name = fresh_name(program, tensor.name);
    strides.push_back(row_major(extents(tensor)));
    program.tensors.push_back(std::move(tensor));
    const TensorId target = static_cast<TensorId>(program.tensors.size()) - 1;
    program.nodes.push_back(copy(program, target, id, in_order(program.tensor(id).shape.size())));
    program.outputs[o] = target;
  }
}

// ---- facts about statements

std::optional<std::size_t> plain_index(const Affine& e) { return e.single_index(); }

// Each target dimension is an index of its own that runs over the whole extent, and nothing else restricts the outputs: every
// element is written.
bool covers(const Program& program, const Statement& s) {
  const poly::Tensor& tensor = program.tensor(s.target.tensor);
  std::vector<bool> output(s.indices.size(), false);
  for (std::size_t d = 0; d < s.target.element.size(); ++d) {
    const auto k = plain_index(s.target.element[d]);
    if (!k || output[*k]) return false;
    output[*k] = true;
    const Range& hull = s.domain[*k];
    if (!hull.value.constant.is(0) || hull.extent != tensor.shape[d]) return false;
  }
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (!output[k] && s.domain[k].extent->is(0)) return false;
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r) {
    bool reduces = false;
    for (std::size_t k = 0; k < s.indices.size(); ++k) reduces = reduces || (!output[k] && !s.domain[r].value.coefficients[k].is(0));
    if (!reduces) return false;
  }
  return !std::holds_alternative<TensorId>(s.fill);
}

bool reduces(const Statement& s) { return s.indices.size() > s.target.element.size(); }

bool elementwise(const Program& program, const Statement& s) {
  return s.aggregation == Aggregation::Assign && !reduces(s) && s.domain.size() == s.indices.size() && covers(program, s);
}

double points(const Statement& s) {
  double count = 1;
  for (std::size_t k = 0; k < s.indices.size(); ++k) count *= static_cast<double>(s.domain[k].extent->get());
  return count;
}

double elements(const Program& program, TensorId id) {
  double count = 1;
  for (const auto n : extents(program.tensor(id))) count *= static_cast<double>(n);
  return count;
}

// A reduction some operand of which does not depend on some output index: blocks of m and n pay.
bool reuses(const Statement& s) {
  if (!reduces(s)) return false;
  for (const Affine& e : s.target.element) {
    const auto k = plain_index(e);
    for (const Access& read : s.reads)
      if (k && std::all_of(read.element.begin(), read.element.end(), [&](const Affine& x) { return x.coefficients[*k].is(0); })) return true;
  }
  return false;
}

int weight(const Expr& e) {
  return e.match([](const poly::Apply& a) {
                   int sum = a.op == lang::Op::Add || a.op == lang::Op::Sub || a.op == lang::Op::Mul || a.op == lang::Op::Neg || a.op == lang::Op::Max || a.op == lang::Op::Min || a.op == lang::Op::Relu || a.op == lang::Op::Select ? 1 : 8;
                   for (const Expr& o : a.operands) sum += weight(o);
                   return sum;
                 },
                 [](const poly::Cast& c) { return weight(c.operand); }, [](const auto&) { return 0; });
}

int nodes(const Expr& e) {
  return e.match([](const poly::Apply& a) { int sum = 1; for (const Expr& o : a.operands) sum += nodes(o); return sum; },
                 [](const poly::Cast& c) { return 1 + nodes(c.operand); }, [](const auto&) { return 1; });
}

bool reads(const poly::Node& node, TensorId id) {
  if (const auto* s = std::get_if<Statement>(&node)) {
    if (std::holds_alternative<TensorId>(s->fill) && std::get<TensorId>(s->fill) == id) return true;
    return std::any_of(s->reads.begin(), s->reads.end(), [&](const Access& r) { return r.tensor == id; });
  }
  const auto& operands = std::get<poly::Intrinsic>(node).operands;
  return std::find(operands.begin(), operands.end(), id) != operands.end();
}

// ---- inlining

// `e` over the producer's indices, seen from the consumer: index k of the producer is map[k].
Expr seen_from(const Expr& e, const std::vector<Affine>& map, std::size_t count, const std::vector<int>& read_at) {
  return e.match([&](const poly::Number& n) { return Expr(n); },
                 [&](const poly::Read& r) { return Expr(poly::Read{read_at[static_cast<std::size_t>(r.read)], r.type}); },
                 [&](const poly::Index& i) { return Expr(poly::Index{i.value.compose(map, count), i.type}); },
                 [&](const poly::Cast& c) { return Expr(poly::Cast{seen_from(c.operand, map, count, read_at), c.type}); },
                 [&](const poly::Apply& a) {
                   std::vector<Expr> operands;
                   for (const Expr& o : a.operands) operands.push_back(seen_from(o, map, count, read_at));
                   return Expr(poly::Apply{a.op, std::move(operands), a.type});
                 });
}

// The producer's value as its tensor would hold it: f16 and bf16 expressions are computed in f32, so the cast is spelled out.
Expr rounded(const Expr& value, lang::DType stored) {
  const bool half = stored == lang::DType::F16 || stored == lang::DType::BF16;
  if (!half) return value.type() == stored ? value : Expr(poly::Cast{value, stored});
  if (value.as<poly::Read>() && value.type() == stored) return value;
  return poly::Cast{Expr(poly::Cast{value, lang::DType::F32}), stored};
}

Expr replace_reads(const Expr& e, const std::map<int, Expr>& with) {
  return e.match([&](const poly::Read& r) { const auto found = with.find(r.read); return found == with.end() ? e : found->second; },
                 [&](const poly::Cast& c) { return Expr(poly::Cast{replace_reads(c.operand, with), c.type}); },
                 [&](const poly::Apply& a) {
                   std::vector<Expr> operands;
                   for (const Expr& o : a.operands) operands.push_back(replace_reads(o, with));
                   return Expr(poly::Apply{a.op, std::move(operands), a.type});
                 },
                 [&](const auto&) { return e; });
}

// Drops reads that the value no longer mentions, and merges equal ones.
void compact_reads(Statement& s) {
  std::vector<bool> used(s.reads.size(), false);
  const std::function<void(const Expr&)> mark = [&](const Expr& e) {
    e.match([&](const poly::Read& r) { used[static_cast<std::size_t>(r.read)] = true; }, [&](const poly::Cast& c) { mark(c.operand); },
            [&](const poly::Apply& a) { for (const Expr& o : a.operands) mark(o); }, [](const auto&) {});
  };
  mark(s.value);
  std::vector<Access> kept;
  std::map<int, Expr> renamed;
  const auto typed = [&](int r) {
    lang::DType type = lang::DType::F32;
    const std::function<void(const Expr&)> find = [&](const Expr& e) {
      e.match([&](const poly::Read& x) { if (x.read == r) type = x.type; }, [&](const poly::Cast& c) { find(c.operand); },
              [&](const poly::Apply& a) { for (const Expr& o : a.operands) find(o); }, [](const auto&) {});
    };
    find(s.value);
    return type;
  };
  for (std::size_t r = 0; r < s.reads.size(); ++r) {
    if (!used[r]) continue;
    const auto same = std::find(kept.begin(), kept.end(), s.reads[r]);
    const int position = static_cast<int>(same - kept.begin());
    if (same == kept.end()) kept.push_back(s.reads[r]);
    renamed.emplace(static_cast<int>(r), Expr(poly::Read{position, typed(static_cast<int>(r))}));
  }
  s.value = replace_reads(s.value, renamed);
  s.reads = std::move(kept);
}

Statement inlined(const Program& program, const Statement& producer, Statement consumer) {
  const TensorId id = producer.target.tensor;
  std::map<int, Expr> with;
  const std::size_t original = consumer.reads.size(), count = consumer.indices.size();
  for (std::size_t r = 0; r < original; ++r) {
    if (consumer.reads[r].tensor != id) continue;
    std::vector<Affine> map(producer.indices.size());
    for (std::size_t d = 0; d < producer.target.element.size(); ++d) map[*plain_index(producer.target.element[d])] = consumer.reads[r].element[d];
    std::vector<int> read_at;
    for (const Access& access : producer.reads) {
      Access seen{access.tensor, {}};
      for (const Affine& e : access.element) seen.element.push_back(e.compose(map, count));
      read_at.push_back(static_cast<int>(consumer.reads.size()));
      consumer.reads.push_back(std::move(seen));
    }
    with.emplace(static_cast<int>(r), rounded(seen_from(producer.value, map, count, read_at), program.tensor(id).dtype));
  }
  consumer.value = replace_reads(consumer.value, with);
  compact_reads(consumer);
  return consumer;
}

bool output(const Program& program, TensorId id) { return std::find(program.outputs.begin(), program.outputs.end(), id) != program.outputs.end(); }

// Whether recomputing the producer at each read costs less than storing and reading it.
bool worth_inlining(const Program& program, const Statement& producer, const Statement& consumer) {
  const TensorId id = producer.target.tensor;
  int uses = 0;
  for (const Access& read : consumer.reads) uses += read.tensor == id;
  const double ratio = points(consumer) * uses / std::max(1.0, elements(program, id));
  const bool map = consumer.aggregation == Aggregation::Assign && !reduces(consumer);
  if (nodes(producer.value) * uses + nodes(consumer.value) > 80 || consumer.reads.size() + producer.reads.size() > 10) return false;
  if (weight(producer.value) == 0 && producer.reads.size() <= 1) return map || ratio <= 2;
  if (map && weight(producer.value) <= 3) return true;
  return ratio <= 1.5;
}

void inline_elementwise(Program& program) {
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const auto* producer = std::get_if<Statement>(&program.nodes[n]);
    if (!producer || output(program, producer->target.tensor) || !elementwise(program, *producer)) continue;
    std::vector<std::size_t> users;
    bool possible = true;
    for (std::size_t u = n + 1; u < program.nodes.size(); ++u) {
      if (!reads(program.nodes[u], producer->target.tensor)) continue;
      const auto* consumer = std::get_if<Statement>(&program.nodes[u]);
      const bool fills = consumer && std::holds_alternative<TensorId>(consumer->fill) && std::get<TensorId>(consumer->fill) == producer->target.tensor;
      possible = possible && consumer && !fills && worth_inlining(program, *producer, *consumer);
      users.push_back(u);
    }
    if (!possible || users.empty() || (users.size() > 1 && weight(producer->value) > 3)) continue;
    const Statement taken = *producer;
    for (const std::size_t u : users) program.nodes[u] = inlined(program, taken, std::get<Statement>(program.nodes[u]));
    program.nodes.erase(program.nodes.begin() + static_cast<std::ptrdiff_t>(n));
    --n;
  }
}

// ---- long reductions of few outputs

constexpr double long_enough = 1 << 15;                // points of the reduction a chunk should have on a CPU
constexpr double few_outputs = 64;

struct Split { std::size_t index; std::int64_t chunk; };

// Which reduction index to cut into chunks, and how long they are. By shapes alone, so that results do not depend on threads.
std::optional<Split> split_of(const Program& program, const Statement& s, const Target& target) {
  const double outputs = std::max(1.0, elements(program, s.target.tensor)), all = points(s) / outputs;
  const double enough = has_threads(target) ? 2048 : long_enough, wanted = has_threads(target) ? 8.0 * target.multiprocessors : few_outputs;
  if (!reduces(s) || s.aggregation == Aggregation::Assign || s.domain.size() != s.indices.size() || !covers(program, s)) return std::nullopt;
  if (outputs >= wanted || all < 2 * enough) return std::nullopt;
  std::optional<std::size_t> longest;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    const bool output = std::any_of(s.target.element.begin(), s.target.element.end(), [&](const Affine& e) { return !e.coefficients[k].is(0); });
    if (!output && (!longest || s.domain[k].extent->get() > s.domain[*longest].extent->get())) longest = k;
  }
  const std::int64_t extent = s.domain[*longest].extent->get();
  const double chunks = std::min({all / enough, std::ceil(wanted / outputs), static_cast<double>(extent)});
  if (chunks < 2) return std::nullopt;
  const auto chunk = static_cast<std::int64_t>(std::ceil(static_cast<double>(extent) / chunks));
  return Split{*longest, chunk};
}

// O[o] = +(v(o, k)), 0 <= k < K   ⇒   T[s, o] = +(v(o, C*s + c)), 0 <= c < C, 0 <= C*s + c < K;   O[o] = +(T[s, o]);
void split_reductions(Program& program, Strides& strides, const Target& target) {
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&program.nodes[n]);
    const auto split = s ? split_of(program, *s, target) : std::nullopt;
    if (!split) continue;
    const Statement whole = *s;
    const std::size_t count = whole.indices.size(), chunk_index = count;  // the new index stands last
    const std::int64_t extent = whole.domain[split->index].extent->get(), begin = -whole.domain[split->index].value.constant.get();
    const std::int64_t chunks = (extent + split->chunk - 1) / split->chunk;
    std::vector<Affine> map;
    for (std::size_t k = 0; k < count; ++k) map.push_back(Affine::index(k, count + 1));
    map[split->index].coefficients[chunk_index] = poly::Size(split->chunk);
    map[split->index].constant = poly::Size(begin);
    poly::Tensor parts{fresh_name(program, program.tensor(whole.target.tensor).name + "_parts"), whole.value.type(), {poly::Size(chunks)}, whole.span};
    for (const poly::Size& size : program.tensor(whole.target.tensor).shape) parts.shape.push_back(size);
    strides.push_back(row_major(extents(parts)));
    program.tensors.push_back(parts);
    const TensorId id = static_cast<TensorId>(program.tensors.size()) - 1;
    const auto seen = [&](const Affine& e) { return e.compose(map, count + 1); };
    Statement part = whole;
    part.target = {id, {Affine::index(chunk_index, count + 1)}};
    for (const Affine& e : whole.target.element) part.target.element.push_back(seen(e));
    part.indices.push_back(part.indices[split->index] + "_s");
    part.domain.clear();
    for (std::size_t k = 0; k < count; ++k) {
      Range row = whole.domain[k];
      row.value = k == split->index ? Affine::index(k, count + 1) : seen(row.value);
      if (k == split->index) row.extent = poly::Size(split->chunk);
      part.domain.push_back(std::move(row));
    }
    part.domain.push_back({Affine::index(chunk_index, count + 1), poly::Size(chunks)});
    if (chunks * split->chunk != extent) {
      Range rest{map[split->index], poly::Size(extent)};
      rest.value.constant = poly::Size(0);
      part.domain.push_back(std::move(rest));
    }
    for (Access& read : part.reads) for (Affine& e : read.element) e = seen(e);
    std::vector<int> same;
    for (std::size_t r = 0; r < part.reads.size(); ++r) same.push_back(static_cast<int>(r));
    part.value = seen_from(whole.value, map, count + 1, same);
    part.fill = poly::Number{whole.value.type()};      // no chunk is empty
    Statement sum = copy(program, whole.target.tensor, whole.target.tensor, in_order(whole.target.element.size()));
    const std::size_t rank = sum.indices.size();
    std::vector<std::size_t> where = in_order(rank);
    for (Affine& e : sum.target.element) e = e.renumber(where, rank + 1);
    for (Range& row : sum.domain) row.value = row.value.renumber(where, rank + 1);
    sum.indices.push_back("s");
    sum.domain.push_back({Affine::index(rank, rank + 1), poly::Size(chunks)});
    sum.reads = {{id, {Affine::index(rank, rank + 1)}}};
    for (const Affine& e : sum.target.element) sum.reads[0].element.push_back(e);
    sum.aggregation = whole.aggregation;
    sum.value = poly::Read{0, whole.value.type()};
    sum.fill = whole.fill;
    sum.span = whole.span;
    program.nodes[n] = std::move(part);
    program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n) + 1, std::move(sum));
    ++n;
  }
}

// ---- transposed copies

constexpr double reuse_that_pays = 12;                 // reads of each element

// The read's dimension that alone holds index k, if it is not the last one already.
std::optional<std::size_t> dimension_of(const Access& read, std::size_t k) {
  std::optional<std::size_t> found;
  for (std::size_t d = 0; d < read.element.size(); ++d) {
    if (read.element[d].coefficients[k].is(0)) continue;
    if (found) return std::nullopt;
    found = d;
  }
  return found;
}

// The output index that lanes will run over: unit stride in the target.
std::optional<std::size_t> lane_index(const Statement& s, const std::vector<std::int64_t>& strides) {
  std::optional<std::size_t> best;
  for (std::size_t d = 0; d < s.target.element.size(); ++d) {
    const auto k = plain_index(s.target.element[d]);
    if (k && strides[d] == 1 && s.domain[*k].extent->get() > 1) best = k;
  }
  return best;
}

bool unit_stride(const Access& read, std::size_t k, const std::vector<std::int64_t>& strides) {
  std::int64_t stride = 0;
  for (std::size_t d = 0; d < read.element.size(); ++d) stride += read.element[d].coefficients[k].get() * strides[d];
  return stride == 0 || stride == 1;
}

void transpose_for_lanes(Program& program, Strides& strides) {
  std::map<std::pair<TensorId, std::vector<std::size_t>>, TensorId> made;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    auto* s = std::get_if<Statement>(&program.nodes[n]);
    if (!s || !reduces(*s) || s->reads.size() < 2) continue;
    const auto lane = lane_index(*s, strides[static_cast<std::size_t>(s->target.tensor)]);
    if (!lane) continue;
    for (std::size_t r = 0; r < s->reads.size(); ++r) {
      s = &std::get<Statement>(program.nodes[n]);
      const TensorId source = s->reads[r].tensor;
      if (unit_stride(s->reads[r], *lane, strides[static_cast<std::size_t>(source)])) continue;
      const auto d = dimension_of(s->reads[r], *lane);
      if (!d || points(*s) < reuse_that_pays * elements(program, source)) continue;
      std::vector<std::size_t> order = in_order(s->reads[r].element.size());
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(*d));
      order.push_back(*d);
      const auto key = std::make_pair(source, order);
      if (!made.count(key)) {
        poly::Tensor tensor = program.tensor(source);
        tensor.name = fresh_name(program, tensor.name + "_t");
        std::vector<poly::Size> shape;
        for (const std::size_t from : order) shape.push_back(tensor.shape[from]);
        tensor.shape = std::move(shape);
        strides.push_back(row_major(extents(tensor)));
        program.tensors.push_back(std::move(tensor));
        const TensorId target = static_cast<TensorId>(program.tensors.size()) - 1;
        made.emplace(key, target);
        program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n), copy(program, target, source, order));
        s = &std::get<Statement>(program.nodes[++n]);
      }
      Access read{made.at(key), {}};
      for (const std::size_t from : order) read.element.push_back(s->reads[r].element[from]);
      s->reads[r] = std::move(read);
    }
  }
}

// ---- panels

// Every row of a wide operand starts on a page of its own when its stride is a multiple of the page, and an operand beyond the
// cache is streamed again for every block of rows. Both cure by copying it into panels as wide as a block, once:
//
//   C[i, j] = +(A[i, k] * B[k, j])   ⇒   B_p[b, k, l] = =(B[k, 64*b + l]);  C[i, 64*b + l] = +(A[i, k] * B_p[b, k, l]);
constexpr double reuse_of_panels = 128;
constexpr std::int64_t page = 4096;

struct Panels { std::size_t read, dimension, index; };

std::optional<Panels> panels_of(const Program& program, const Strides& strides, const Statement& s, const Target& target) {
  if (!reduces(s) || s.reads.size() < 2 || !reuses(s)) return std::nullopt;
  const auto lane = lane_index(s, strides[static_cast<std::size_t>(s.target.tensor)]);
  if (!lane || !s.domain[*lane].value.constant.is(0)) return std::nullopt;
  for (std::size_t r = 0; r < s.reads.size(); ++r) {
    const TensorId id = s.reads[r].tensor;
    const auto d = dimension_of(s.reads[r], *lane);
    if (!d || plain_index(s.reads[r].element[*d]) != lane || strides[static_cast<std::size_t>(id)][*d] != 1) continue;
    double bytes = lang::bytes(program.tensor(id).dtype);  // of one batch
    for (std::size_t e = 0; e < s.reads[r].element.size(); ++e) {
      const auto k = plain_index(s.reads[r].element[e]);
      const bool batch = k && k != lane && std::any_of(s.target.element.begin(), s.target.element.end(), [&](const Affine& x) { return !x.coefficients[*k].is(0); });
      if (!batch) bytes *= static_cast<double>(program.tensor(id).shape[e].get());
    }
    bool paged = false;
    for (std::size_t e = 0; e < s.reads[r].element.size(); ++e)
      paged = paged || (e != *d && strides[static_cast<std::size_t>(id)][e] * lang::bytes(program.tensor(id).dtype) % page == 0);
    const bool large = bytes >= 8.0 * static_cast<double>(target.l2);
    if (bytes < static_cast<double>(target.l2) || !(paged || large)) continue;
    if (points(s) >= reuse_of_panels * elements(program, id)) return Panels{r, *d, *lane};
  }
  return std::nullopt;
}

void panel_operands(Program& program, Strides& strides, const Target& target) {
  if (target.family != Target::Family::Cpu) return;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&program.nodes[n]);
    const auto panels = s ? panels_of(program, strides, *s, target) : std::nullopt;
    if (!panels) continue;
    Statement use = *s;
    const std::size_t count = use.indices.size();
    const std::int64_t width = 4 * target.vector_bytes / std::max(4, lang::bytes(use.value.type())), extent = use.domain[panels->index].extent->get();
    const std::int64_t pieces = (extent + width - 1) / width;
    if (pieces < 2) continue;
    // The packed operand: panel, the other dimensions in their order, element within the panel.
    const TensorId source = use.reads[panels->read].tensor;
    poly::Tensor packed{fresh_name(program, program.tensor(source).name + "_p"), program.tensor(source).dtype, {poly::Size(pieces)}, {}};
    for (std::size_t d = 0; d < program.tensor(source).shape.size(); ++d) if (d != panels->dimension) packed.shape.push_back(program.tensor(source).shape[d]);
    packed.shape.push_back(poly::Size(width));
    const std::size_t rank = packed.shape.size();
    strides.push_back(row_major(extents(packed)));
    program.tensors.push_back(packed);
    const TensorId id = static_cast<TensorId>(program.tensors.size()) - 1;
    Statement pack = copy(program, id, id, in_order(rank));
    Affine whole = Affine::index(0, rank).times(poly::Size(width)).plus(Affine::index(rank - 1, rank));
    Access from{source, {}};
    for (std::size_t d = 0, next = 1; d < program.tensor(source).shape.size(); ++d) from.element.push_back(d == panels->dimension ? whole : Affine::index(next++, rank));
    pack.reads = {std::move(from)};
    if (pieces * width != extent) pack.domain.push_back({whole, poly::Size(extent)});
    // The use: its lane index becomes width·b + l.
    std::vector<Affine> map;
    for (std::size_t k = 0; k < count; ++k) map.push_back(Affine::index(k, count + 1));
    map[panels->index].coefficients[count] = poly::Size(width);
    Access read{id, {Affine::index(count, count + 1)}};
    for (std::size_t d = 0; d < use.reads[panels->read].element.size(); ++d)
      if (d != panels->dimension) read.element.push_back(use.reads[panels->read].element[d].compose(map, count + 1));
    read.element.push_back(Affine::index(panels->index, count + 1));
    for (Affine& e : use.target.element) e = e.compose(map, count + 1);
    for (Access& access : use.reads) for (Affine& e : access.element) e = e.compose(map, count + 1);
    use.reads[panels->read] = std::move(read);
    for (std::size_t r = 0; r < use.domain.size(); ++r) use.domain[r].value = r == panels->index ? Affine::index(r, count + 1) : use.domain[r].value.compose(map, count + 1);
    use.domain[panels->index].extent = poly::Size(width);
    use.domain.insert(use.domain.begin() + static_cast<std::ptrdiff_t>(count), {Affine::index(count, count + 1), poly::Size(pieces)});
    if (pieces * width != extent) use.domain.push_back({map[panels->index], poly::Size(extent)});
    std::vector<int> same;
    for (std::size_t r = 0; r < use.reads.size(); ++r) same.push_back(static_cast<int>(r));
    use.value = seen_from(use.value, map, count + 1, same);
    use.indices.push_back(use.indices[panels->index] + "_p");
    program.nodes[n] = std::move(use);
    program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n), std::move(pack));
    ++n;
  }
}

// ---- shared rows

// How many leading target dimensions may become loops: maps and contractions keep at least their last dimension for lanes.
std::size_t row_limit(const Statement& s) {
  const std::size_t rank = s.target.element.size();
  return rank == 0 ? 0 : rank == 1 ? reduces(s) : reuses(s) || !reduces(s) ? rank - 1 : rank;
}

class Rows {
 public:
  Rows(const Program& program, const Target& target) : program_(program), target_(target) {}

  std::vector<Fused::Set> sets() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (!open_.nodes.empty() && joins(static_cast<int>(n))) continue;
      close();
      open_.nodes = {static_cast<int>(n)};
      rows_ = row_candidate(static_cast<int>(n));
    }
    close();
    return std::move(done_);
  }

 private:
  const Statement* statement(int node) const { return std::get_if<Statement>(&program_.nodes[static_cast<std::size_t>(node)]); }

  // 0 when the statement cannot share rows at all.
  std::size_t row_candidate(int node) const {
    const Statement* s = statement(node);
    if (has_threads(target_) && s && reuses(*s)) return 0;    // blocks of threads want whole contractions
    return s && covers(program_, *s) ? row_limit(*s) : 0;
  }

  bool joins(int node) {
    const Statement* s = statement(node);
    std::size_t rows = std::min(rows_, row_candidate(node));
    if (rows == 0) return false;
    bool dependent = false;
    for (const int earlier : open_.nodes) {
      const TensorId id = statement(earlier)->target.tensor;
      for (const Access& read : s->reads) {
        if (read.tensor != id) continue;
        dependent = true;
        std::size_t same = 0;
        while (same < rows && read.element[same] == s->target.element[same]) ++same;
        rows = same;
      }
    }
    if (!dependent || rows == 0 || !same_extents(*s, rows)) return false;
    open_.nodes.push_back(node);
    if (local_bytes(rows) > static_cast<double>(has_threads(target_) ? target_.shared_bytes : target_.l2) / 2) {
      open_.nodes.pop_back();
      return false;
    }
    rows_ = rows;
    return true;
  }

  bool same_extents(const Statement& s, std::size_t rows) const {
    const auto& first = program_.tensor(statement(open_.nodes.front())->target.tensor).shape;
    const auto& shape = program_.tensor(s.target.tensor).shape;
    return std::equal(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(rows), first.begin());
  }

  // What one row of every target of the set takes.
  double local_bytes(std::size_t rows) const {
    double bytes = 0;
    for (const int node : open_.nodes) {
      const poly::Tensor& tensor = program_.tensor(statement(node)->target.tensor);
      double row = lang::bytes(tensor.dtype);
      for (std::size_t d = rows; d < tensor.shape.size(); ++d) row *= static_cast<double>(tensor.shape[d].get());
      bytes += row;
    }
    return bytes;
  }

  void close() {
    if (open_.nodes.empty()) return;
    if (open_.nodes.size() > 1)
      for (std::size_t d = 0; d < rows_; ++d) {
        const Statement& first = *statement(open_.nodes.front());
        open_.indices.push_back(first.indices[*plain_index(first.target.element[d])]);
      }
    for (const int node : open_.nodes) open_.blocks = open_.blocks || (statement(node) && reuses(*statement(node)));
    done_.push_back(std::move(open_));
    open_ = {};
  }

  const Program& program_;
  const Target& target_;
  Fused::Set open_;
  std::size_t rows_ = 0;
  std::vector<Fused::Set> done_;
};

// The set's loops have one name in all its statements; an index that had that name before gets another.
void rename_rows(Program& program, const Fused::Set& set) {
  for (const int node : set.nodes) {
    auto* s = std::get_if<Statement>(&program.nodes[static_cast<std::size_t>(node)]);
    if (!s || set.indices.empty()) continue;
    for (std::size_t k = 0; k < s->indices.size(); ++k)
      if (std::find(set.indices.begin(), set.indices.end(), s->indices[k]) != set.indices.end()) s->indices[k] += "_";
    for (std::size_t k = 0; k < s->indices.size(); ++k)
      while (std::count(s->indices.begin(), s->indices.end(), s->indices[k]) > 1) s->indices[k] += "_";
    for (std::size_t d = 0; d < set.indices.size(); ++d) s->indices[*plain_index(s->target.element[d])] = set.indices[d];
  }
}

}  // namespace

Fused fuse(const Program& program, const Strides& strides, const Target& target) {
  Fused fused{program, strides, {}};
  copy_outputs(fused.program, fused.strides);
  inline_elementwise(fused.program);
  split_reductions(fused.program, fused.strides, target);
  if (!has_threads(target)) transpose_for_lanes(fused.program, fused.strides);  // staging reads any order
  panel_operands(fused.program, fused.strides, target);
  fused.sets = Rows(fused.program, target).sets();
  for (const Fused::Set& set : fused.sets) rename_rows(fused.program, set);
  return fused;
}

}  // namespace tilec::codegen
