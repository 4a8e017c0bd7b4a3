// Cuts the longest reduction index of a statement with few outputs into chunks.
#include "codegen/split.h"

#include <algorithm>
#include <cmath>

#include "codegen/product.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Range;
using poly::Statement;

constexpr double long_enough = 1 << 15;                // points of the reduction a chunk should have on a CPU
constexpr double few_outputs = 64;

struct Split { std::size_t index; std::int64_t chunk; };

// Which reduction index to cut into chunks, and how long they are. By shapes alone, so that results do not depend on threads.
std::optional<Split> split_of(const Program& program, const Statement& s, const Target& target) {
  const double outputs = std::max(1.0, elements(program, s.target.tensor)), all = points(s) / outputs;
  const double enough = has_threads(target) ? 2048 : long_enough, wanted = has_threads(target) ? 8.0 * target.multiprocessors : few_outputs;
  if (!reduces(s) || s.aggregation == Aggregation::Assign || has_scale(s.aggregation, compute_type(s.value.type())) || s.domain.size() != s.indices.size() || !covers(program, s)) return std::nullopt;
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

}  // namespace

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

}  // namespace tilec::codegen
