#include "codegen/rewrite/finish.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <variant>

#include "autodiff/graph.h"
#include "codegen/choose/staged.h"
#include "codegen/finishing.h"
#include "codegen/plan.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::Statement;

// Memory of its own, which holds what the statement writes and numbers.
bool own_memory(const Program& program, const Statement& s) {
  const std::vector<TensorId> buffer = buffers(program);
  return std::holds_alternative<poly::Number>(s.fill) &&
      std::ranges::count(buffer, buffer[static_cast<std::size_t>(s.target.tensor)]) == 1;
}

Refusal statement_fault(const Rewriting& r, const Statement& s, const std::string& name) {
  if (tiled(r, s.target.tensor)) return fmt::format("`{}` is tiled", name);
  if (in_pass(r, s.target.tensor)) return fmt::format("`{}` belongs to a pass", name);
  if (finished(r, s.target.tensor)) return fmt::format("`{}` is finished, or finishes a sum, already", name);
  if (!own_memory(r.program, s)) return fmt::format("`{}` goes on from what another statement has written", name);
  return std::nullopt;
}

// Where the statements stand, the sum first; or why there are none such.
std::variant<std::vector<int>, std::string> nodes_in(const Rewriting& r, const directives::Finish& directive) {
  std::vector<int> nodes;
  for (const std::string& name : directive.tensors) {
    const auto n = statement_of(r.program, name);
    if (!n) return no_statement(name);
    if (std::ranges::find(nodes, static_cast<int>(*n)) != nodes.end()) return fmt::format("`{}` is named twice", name);
    if (Refusal why = statement_fault(r, std::get<Statement>(r.program.nodes[*n]), name)) return *std::move(why);
    nodes.push_back(static_cast<int>(*n));
  }
  if (nodes.size() < 2) return fmt::format("nothing finishes `{}`", directive.tensors.front());
  return nodes;
}

// Nodes from the first to the last of these, by whether they wait for one of them. What is one launch waits together.
std::set<std::size_t> waiting(const Rewriting& r, const std::vector<int>& nodes) {
  const auto [first, last] = std::ranges::minmax(nodes);
  std::set<TensorId> made;
  std::set<std::size_t> found;
  for (const int node : nodes) made.insert(target_of(r.program, node));
  const auto waits = [&](std::size_t n) {
    return std::ranges::any_of(
        autodiff::operands(r.program.nodes[n]), [&](TensorId id) { return made.contains(id); });
  };
  const auto add = [&](std::size_t n) {
    if (std::ranges::find(nodes, static_cast<int>(n)) != nodes.end() || !found.insert(n).second) return false;
    for (const TensorId id : autodiff::targets(r.program.nodes[n])) made.insert(id);
    return true;
  };
  for (bool more = true; more;) {
    more = false;
    for (auto n = static_cast<std::size_t>(first); n <= static_cast<std::size_t>(last); ++n)
      if (waits(n)) more = add(n) || more;
    for (const Rewriting::Online& pass : r.online) {
      const auto of_pass = [&](std::size_t n) {
        const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
        return s && std::ranges::find(pass.tensors, s->target.tensor) != pass.tensors.end();
      };
      if (std::ranges::none_of(found, of_pass)) continue;
      for (auto n = static_cast<std::size_t>(first); n <= static_cast<std::size_t>(last); ++n)
        if (of_pass(n)) more = add(n) || more;
    }
  }
  return found;
}

// One behind the other where the last of them stands, and behind them what waits for one.
void bring_together(Program& program, const std::vector<int>& nodes, const std::set<std::size_t>& behind) {
  const auto [first, last] = std::ranges::minmax(nodes);
  std::vector<poly::Node> before, own, after;
  for (const int node : nodes) own.push_back(program.nodes[static_cast<std::size_t>(node)]);
  for (int n = first; n <= last; ++n) {
    if (std::ranges::find(nodes, n) != nodes.end()) continue;
    const auto at = static_cast<std::size_t>(n);
    (behind.contains(at) ? after : before).push_back(program.nodes[at]);
  }
  auto to = program.nodes.begin() + first;
  for (auto* part : {&before, &own, &after}) to = std::ranges::move(*part, to).out;
}

}  // namespace

bool finished(const Rewriting& r, TensorId target) {
  return std::ranges::any_of(
      r.finishes, [&](const std::vector<TensorId>& all) { return std::ranges::find(all, target) != all.end(); });
}

Refusal finish_fault(const Rewriting& r, const directives::Finish& directive) {
  if (!has_threads(r.target)) return "sums are finished by blocks of threads, which a CPU has not";
  const auto found = nodes_in(r, directive);
  if (const auto* why = std::get_if<std::string>(&found)) return *why;
  const auto& nodes = std::get<std::vector<int>>(found);
  const auto seen = over_sum(r.program, nodes);
  if (const auto* why = std::get_if<std::string>(&seen)) return *why;
  std::set<TensorId> later;
  for (const std::size_t n : waiting(r, nodes))
    for (const TensorId id : autodiff::targets(r.program.nodes[n])) later.insert(id);
  for (const int node : nodes)
    for (const TensorId id : autodiff::operands(r.program.nodes[static_cast<std::size_t>(node)]))
      if (later.contains(id))
        return fmt::format("`{}` waits for `{}`, which is not among them",
              r.program.tensor(target_of(r.program, node)).name, r.program.tensor(id).name);
  const Nest nest = finishing_nests(r.program, nodes, r.strides).front();
  std::int64_t threads = 0;
  if (scan_of(nest) || !staged_leaf(facts(nest, {}, r.target), nodes.front(), r.target, threads, true))
    return fmt::format("`{}` is no contraction of which a block of threads has a tile", directive.tensors.front());
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Finish& directive) {
  if (Refusal why = finish_fault(r, directive)) return why;
  const auto nodes = std::get<std::vector<int>>(nodes_in(r, directive));
  std::vector<TensorId> tensors;
  for (const int node : nodes) tensors.push_back(target_of(r.program, node));
  bring_together(r.program, nodes, waiting(r, nodes));
  r.finishes.push_back(std::move(tensors));
  r.done.push_back(directive);
  return std::nullopt;
}

}  // namespace tilec::codegen
