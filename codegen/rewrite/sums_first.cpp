#include "codegen/rewrite/sums_first.h"

#include <algorithm>
#include <set>

#include "autodiff/graph.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::Statement;

// Of each node, whether it computes little from inputs, and from what does so too.
std::vector<bool> small_nodes(const Program& program) {
  std::set<TensorId> at_hand(program.inputs.begin(), program.inputs.end());
  std::vector<bool> small;
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    bool is_small = s && !std::holds_alternative<TensorId>(s->fill);
    double all = is_small ? bytes_of(program, s->target.tensor) : 0;
    if (is_small) {
      for (const poly::Access& read : s->reads) {
        is_small = is_small && at_hand.contains(read.tensor);
        all += bytes_of(program, read.tensor);
      }
    }
    is_small = is_small && all <= model::threads::small_sum && points(*s) <= model::threads::small_sum;
    if (is_small) at_hand.insert(s->target.tensor);
    small.push_back(is_small);
  }
  return small;
}

// Whether what waits for it reads a large tensor that statements before it read.
bool separates(const Program& program, std::size_t n) {
  std::set<TensorId> before, waiting;
  for (std::size_t m = 0; m < n; ++m)
    for (const TensorId id : autodiff::operands(program.nodes[m]))
      if (bytes_of(program, id) >= model::threads::bytes_of_a_launch) before.insert(id);
  for (const TensorId id : autodiff::targets(program.nodes[n])) waiting.insert(id);
  for (std::size_t m = n + 1; m < program.nodes.size(); ++m) {
    const std::vector<TensorId> needs = autodiff::operands(program.nodes[m]);
    if (std::ranges::none_of(needs, [&](TensorId id) { return waiting.contains(id); })) continue;
    if (std::ranges::any_of(needs, [&](TensorId id) { return before.contains(id); })) return true;
    for (const TensorId id : autodiff::targets(program.nodes[m])) waiting.insert(id);
  }
  return false;
}

}  // namespace

void put_small_sums_first(Rewriting& r) {
  Program& program = r.program;
  const std::vector<bool> small = small_nodes(program);
  std::vector<bool> first(program.nodes.size(), false);
  std::set<TensorId> needed;
  for (std::size_t n = program.nodes.size(); n-- > 0;) {
    if (!small[n]) continue;
    const auto& s = std::get<Statement>(program.nodes[n]);
    first[n] = needed.contains(s.target.tensor) || (reduces(s) && separates(program, n));
    if (first[n]) for (const poly::Access& read : s.reads) needed.insert(read.tensor);
  }
  std::vector<poly::Node> nodes;
  for (const bool now : {true, false})
    for (std::size_t n = 0; n < first.size(); ++n)
      if (first[n] == now) nodes.push_back(std::move(program.nodes[n]));
  program.nodes = std::move(nodes);
}

}  // namespace tilec::codegen
