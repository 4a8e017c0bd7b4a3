#include "codegen/rewrite/seek.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "autodiff/graph.h"
#include "codegen/choose/predicted.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/scratch.h"
#include "poly/intern.h"
#include "poly/intrinsic.h"

namespace tilec::codegen {

namespace {

using lang::Op;
using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Intrinsic;
using poly::IntrinsicOp;
using poly::Program;
using poly::Statement;

// What statements become, at their places; the nodes at `gone` are not needed any more.
struct Sought {
  std::vector<std::pair<std::size_t, Statement>> made;
  std::vector<std::size_t> gone;
};

std::size_t batch_of(const Intrinsic& rows) { return static_cast<std::size_t>(rows.parameters.front().get()); }
bool is(const poly::Node& node, IntrinsicOp op) {
  const auto* intrinsic = std::get_if<Intrinsic>(&node);
  return intrinsic && intrinsic->op == op;
}

// The same with an index more, of so many values, behind the others.
Statement with_index(Statement s, std::int64_t extent) {
  const std::size_t count = s.indices.size();
  const auto longer = [&](Affine& e) { e.coefficients.emplace_back(0); };
  for (poly::Range& range : s.domain) longer(range.value);
  for (Affine& e : s.target.element) longer(e);
  for (Access& read : s.reads) for (Affine& e : read.element) longer(e);
  s.value = poly::with_leaves(s.value, [&](const Expr& leaf) -> Expr {
    const auto* index = leaf.as<poly::Index>();
    if (!index) return leaf;
    poly::Index own = *index;
    longer(own.value);
    return own;
  });
  s.indices.push_back(fresh_index(s, "v"));
  s.domain.insert(s.domain.begin() + static_cast<std::ptrdiff_t>(count),
      poly::Range{Affine::index(count, count + 1), poly::Size(extent)});
  return s;
}

// The last index is the number, brought below `extent`, that is read there.
Expr is_row(const Program& program, Statement& s, Access numbers, std::int64_t extent) {
  const lang::DType type = program.tensor(numbers.tensor).dtype;
  const auto limit = [&](std::int64_t value) { return Expr(poly::Number{type, value, 0}); };
  Expr row = poly::Read{static_cast<int>(s.reads.size()), type};
  s.reads.push_back(std::move(numbers));
  if (lang::is_signed(type)) row = poly::Apply{Op::Max, {row, limit(0)}, type};
  const int bits = lang::bits(type) - (lang::is_signed(type) ? 1 : 0);
  if (bits >= 63 || extent - 1 < (std::int64_t{1} << bits) - 1)
    row = poly::Apply{Op::Min, {row, limit(extent - 1)}, type};
  if (type != lang::DType::I64) row = poly::Cast{row, lang::DType::I64};
  const std::size_t count = s.indices.size();
  return poly::Apply{
      Op::Eq, {poly::Index{Affine::index(count - 1, count), lang::DType::I64}, row}, lang::DType::Bool};
}

void ask(Statement& s, Expr condition) {
  const lang::DType type = s.value.type();
  s.value = poly::interned(poly::Apply{Op::Select, {std::move(condition), s.value, poly::Number{type, 0, 0}}, type});
}

// A statement over rows of the operand in the place of those of the copy.
Statement with_rows(const Program& program, const Intrinsic& gather, Statement s) {
  const TensorId from = gather.operands[0], numbers = gather.operands[1], copy = gather.targets.front();
  const std::size_t batch = batch_of(gather), rank = program.tensor(numbers).shape.size();
  const std::int64_t extent = program.tensor(from).shape[batch].get();
  for (std::size_t r = 0; r < s.reads.size(); ++r) {
    if (s.reads[r].tensor != copy) continue;
    s = with_index(std::move(s), extent);
    const std::vector<Affine> element = s.reads[r].element;
    const auto at = [&](std::size_t d) { return element.begin() + static_cast<std::ptrdiff_t>(d); };
    Access row{from, {at(0), at(batch)}};
    row.element.push_back(Affine::index(s.indices.size() - 1, s.indices.size()));
    row.element.insert(row.element.end(), at(rank), element.end());
    s.reads[r] = std::move(row);
    ask(s, is_row(program, s, {numbers, {at(0), at(rank)}}, extent));
  }
  return s;
}

// Of a gather that only sums read.
std::optional<Sought> of_gather(const Program& program, std::size_t n) {
  const auto& gather = std::get<Intrinsic>(program.nodes[n]);
  const TensorId copy = gather.targets.front();
  if (is_output(program, copy) || program.tensor(gather.operands[0]).shape[batch_of(gather)].is(0))
    return std::nullopt;
  Sought sought{{}, {n}};
  for (std::size_t u = 0; u < program.nodes.size(); ++u) {
    if (!reads(program.nodes[u], copy)) continue;
    const auto* s = std::get_if<Statement>(&program.nodes[u]);
    const auto* filled = s ? std::get_if<TensorId>(&s->fill) : nullptr;
    if (!s || s->aggregation != poly::Aggregation::Sum || !reduces(*s) || (filled && *filled == copy))
      return std::nullopt;
    sought.made.emplace_back(u, with_rows(program, gather, *s));
  }
  return sought.made.empty() ? std::nullopt : std::optional(std::move(sought));
}

// Of a scatter of what a statement computes point by point, each a term.
std::optional<Sought> of_scatter(const Program& program, std::size_t n) {
  const auto& scatter = std::get<Intrinsic>(program.nodes[n]);
  const TensorId terms = scatter.operands[0], numbers = scatter.operands[1], sums = scatter.targets.front();
  const std::size_t batch = batch_of(scatter), rank = program.tensor(numbers).shape.size();
  const lang::DType type = program.tensor(sums).dtype;
  const auto is_terms = [&](const poly::Node& node) {
    const auto* s = std::get_if<Statement>(&node);
    return s && s->target.tensor == terms;
  };
  const auto at_terms = std::ranges::find_if(program.nodes, is_terms);
  if (at_terms == program.nodes.end() || is_output(program, terms) || program.tensor(terms).dtype != type ||
      (type != lang::DType::F32 && type != lang::DType::F64) ||
      std::ranges::count_if(program.nodes, [&](const poly::Node& node) { return reads(node, terms); }) != 1)
    return std::nullopt;
  Statement s = std::get<Statement>(*at_terms);
  const auto* fill = std::get_if<poly::Number>(&s.fill);
  const bool sum = s.aggregation == poly::Aggregation::Sum || s.aggregation == poly::Aggregation::Assign;
  if (!sum || reduces(s) || !fill || fill->real != 0 || s.value.type() != type) return std::nullopt;
  const std::int64_t extent = program.tensor(sums).shape[batch].get();
  s = with_index(std::move(s), extent);
  const std::vector<Affine> element = s.target.element;
  const auto at = [&](std::size_t d) { return element.begin() + static_cast<std::ptrdiff_t>(d); };
  s.target = {sums, {at(0), at(batch)}};
  s.target.element.push_back(Affine::index(s.indices.size() - 1, s.indices.size()));
  s.target.element.insert(s.target.element.end(), at(rank), element.end());
  s.aggregation = poly::Aggregation::Sum;
  s.fill = poly::Number{type, 0, 0};
  ask(s, is_row(program, s, {numbers, {at(0), at(rank)}}, extent));
  return Sought{{{n, std::move(s)}}, {static_cast<std::size_t>(at_terms - program.nodes.begin())}};
}

std::optional<Sought> sought(const Program& program, std::size_t n) {
  if (is(program.nodes[n], IntrinsicOp::Gather)) return of_gather(program, n);
  if (is(program.nodes[n], IntrinsicOp::Scatter)) return of_scatter(program, n);
  return std::nullopt;
}

void put(Program& program, Sought with) {
  for (auto& [n, s] : with.made) program.nodes[n] = std::move(s);
  std::ranges::sort(with.gone, std::greater());
  for (const std::size_t n : with.gone) program.nodes.erase(program.nodes.begin() + static_cast<std::ptrdiff_t>(n));
}

// The program of these nodes alone.
Rewriting part_of(const Rewriting& r, const std::set<std::size_t>& nodes) {
  Rewriting part{Program(), r.strides, r.target};
  part.program.tensors = r.program.tensors;
  std::set<TensorId> made, given;
  for (const std::size_t n : nodes) {
    const poly::Node& node = r.program.nodes[n];
    for (const TensorId id : autodiff::operands(node)) if (!made.contains(id)) given.insert(id);
    made.insert(target_of(r.program, static_cast<int>(n)));
    part.program.nodes.push_back(node);
  }
  part.program.inputs.assign(given.begin(), given.end());
  for (const TensorId id : made)
    if (std::ranges::none_of(part.program.nodes, [&](const poly::Node& node) { return reads(node, id); }))
      part.program.outputs.push_back(id);
  return part;
}

bool pays(const Rewriting& r, std::size_t n, const Sought& with) {
  std::set<std::size_t> nodes(with.gone.begin(), with.gone.end());
  nodes.insert(n);
  for (const auto& [u, s] : with.made) nodes.insert(u);
  Rewriting before = part_of(r, nodes), after = before;
  Sought own = with;
  const auto place = [&](std::size_t& of) {
    of = static_cast<std::size_t>(std::distance(nodes.begin(), nodes.find(of)));
  };
  for (auto& [u, s] : own.made) place(u);
  for (std::size_t& gone : own.gone) place(gone);
  put(after.program, std::move(own));
  for (Rewriting* one : {&before, &after}) give_scratch(one->program, one->strides, one->target);
  const double bar = model::faster_by_seeking * predicted(std::move(before));
  return predicted(std::move(after), bar) < bar;
}

// Elements of a row, which lie side by side.
double row_of(const Program& program, const Intrinsic& rows) {
  double count = 1;
  for (const poly::Size& size : poly::groups(program, rows).rest) count *= static_cast<double>(size.get());
  return count;
}

std::optional<std::size_t> rows_of(const Program& program, const std::string& tensor) {
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    if ((is(program.nodes[n], IntrinsicOp::Gather) || is(program.nodes[n], IntrinsicOp::Scatter)) &&
        program.tensor(target_of(program, static_cast<int>(n))).name == tensor)
      return n;
  return std::nullopt;
}

}  // namespace

void seek_rows(Rewriting& r) {
  if (!model::predicts_time(r.target)) return;
  std::set<TensorId> dear;                             // each is asked about once
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* rows = std::get_if<Intrinsic>(&r.program.nodes[n]);
    if (!rows || (rows->op != IntrinsicOp::Gather && rows->op != IntrinsicOp::Scatter) ||
        row_of(r.program, *rows) < model::row_worth_seeking || dear.contains(rows->targets.front()))
      continue;
    std::optional<Sought> with = sought(r.program, n);
    if (!with || !pays(r, n, *with)) {
      dear.insert(rows->targets.front());
      continue;
    }
    r.done.push_back(directives::Seek{r.program.tensor(rows->targets.front()).name});
    put(r.program, std::move(*with));
    n = static_cast<std::size_t>(-1);                  // places are others now
  }
}

Refusal apply(Rewriting& r, const directives::Seek& directive) {
  const auto n = rows_of(r.program, directive.tensor);
  if (!n) return fmt::format("no gather or scatter makes `{}`", directive.tensor);
  std::optional<Sought> with = sought(r.program, *n);
  if (!with)
    return fmt::format(
        "`{}` is no gather that only sums read, and no scatter of terms in f32 or f64 that one statement makes each by itself",
        directive.tensor);
  put(r.program, std::move(*with));
  r.done.push_back(directive);
  return std::nullopt;
}

}  // namespace tilec::codegen
