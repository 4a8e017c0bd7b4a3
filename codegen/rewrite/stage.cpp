// A result computed in one order and copied into another.
#include "codegen/rewrite/stage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "codegen/part.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/tile.h"

namespace tilec::codegen {

using poly::Affine;
using poly::Program;
using poly::Statement;

bool may_stage(const Program& program, const Strides& strides, const Statement& s) {
  if (s.aggregation == Aggregation::Assign || program.tensor(s.target.tensor).shape.empty()) return false;
  return std::holds_alternative<poly::Number>(s.fill) || s.held || always_reached(nest_of(s, strides));
}

std::size_t stage_result(Rewriting& r, std::size_t n, const std::vector<std::size_t>& order) {
  Program& program = r.program;
  Statement sum = std::get<Statement>(program.nodes[n]);
  directives::Stage done{target_name(program, sum), {}};
  for (const std::size_t k : order) done.order.push_back(sum.indices[k]);
  r.done.push_back(std::move(done));
  const poly::Tensor& whole = program.tensor(sum.target.tensor);
  const Frame outputs = frame(sum, order, {});
  // The copy keeps the rows that say which outputs there are.
  const auto of_outputs = [&](const Affine& row) {
    for (std::size_t k = 0; k < sum.indices.size(); ++k) if (mentions(row, k) && !is_output_index(sum, k)) return false;
    return true;
  };
  std::vector<poly::Access> reads = std::exchange(sum.reads, {});  // the copy has none of them
  poly::Expr value = std::exchange(sum.value, poly::Expr(poly::Number{whole.dtype}));
  Statement copy = seen_in(sum, outputs, of_outputs);
  sum.reads = std::move(reads), sum.value = std::move(value);
  copy.value = poly::Read{0, whole.dtype};
  copy.aggregation = Aggregation::Assign;
  copy.kernel_name.clear();

  poly::Tensor staged{fresh_name(program, whole.name + "_s"), whole.dtype, {}, sum.span};
  const TensorId id = static_cast<TensorId>(program.tensors.size());
  sum.target = {id, {}};
  copy.reads = {{id, {}}};
  for (std::size_t at = 0; at < order.size(); ++at) {
    staged.shape.push_back(*sum.domain[order[at]].extent);
    copy.reads[0].element.push_back(Affine::index(at, order.size()));
    sum.target.element.push_back(Affine::index(order[at], sum.indices.size()));
    sum.target.element.back().constant = poly::Size(-low(sum, order[at]));
  }
  // else every element is reached
  if (!std::holds_alternative<poly::Number>(sum.fill)) sum.fill = sum.held.value_or(poly::Number{whole.dtype});
  r.strides.push_back(strides_between(staged, r.target));
  program.tensors.push_back(std::move(staged));
  program.nodes[n] = std::move(sum);
  program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n) + 1, std::move(copy));
  return n + 1;
}

Refusal apply(Rewriting& r, const directives::Stage& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const auto& s = std::get<Statement>(r.program.nodes[*n]);
  if (tiled(r, s.target.tensor)) return fmt::format("`{}` is tiled", directive.tensor);
  if (!may_stage(r.program, r.strides, s))
    return fmt::format("`{}` folds nothing, or has elements that no point reaches", directive.tensor);
  std::vector<std::size_t> order, outputs;
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (is_output_index(s, k)) outputs.push_back(k);
  for (const std::string& name : directive.order)
    if (const auto k = index_of(s, name)) order.push_back(*k);
  std::vector<std::size_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != outputs || order.size() != directive.order.size())
    return fmt::format(
        "{} is no order of the output indices of `{}`", fmt::join(directive.order, " "), directive.tensor);
  static_cast<void>(stage_result(r, *n, order));
  return std::nullopt;
}

}  // namespace tilec::codegen
