#include "codegen/rewrite/finish.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <variant>

#include "autodiff/graph.h"
#include "codegen/choose/staged.h"
#include "codegen/choose/threads.h"
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

// What a directive names: what the launch sums, and what finishes it.
struct Launch {
  SumsOfLaunch sums;
  std::vector<int> finishing;
  std::optional<std::size_t> pass;                     // which; none: the sum is a contraction

  std::vector<int> nodes() const {
    std::vector<int> all = sums.nodes;
    all.insert(all.end(), finishing.begin(), finishing.end());
    return all;
  }
};

Refusal statement_fault(const Rewriting& r, const Statement& s, const std::string& name) {
  if (tiled(r, s.target.tensor)) return fmt::format("`{}` is tiled", name);
  if (in_pass(r, s.target.tensor)) return fmt::format("`{}` belongs to a pass", name);
  if (finished(r, s.target.tensor)) return fmt::format("`{}` is finished, or finishes a sum, already", name);
  if (!own_memory(r.program, s)) return fmt::format("`{}` goes on from what another statement has written", name);
  return std::nullopt;
}

// The pass that makes a tensor, all of its statements.
void take_pass(const Rewriting& r, TensorId id, Launch& launch) {
  for (std::size_t p = 0; p < r.online.size(); ++p) {
    const Rewriting::Online& pass = r.online[p];
    if (std::ranges::find(pass.tensors, id) == pass.tensors.end()) continue;
    launch.sums = {{}, pass.rows, pass.over}, launch.pass = p;
    for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
      const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
      if (!s) continue;
      if (std::ranges::find(pass.tensors, s->target.tensor) != pass.tensors.end())
        launch.sums.nodes.push_back(static_cast<int>(n));
      if (std::ranges::find(pass.finishing, s->target.tensor) != pass.finishing.end())
        launch.finishing.push_back(static_cast<int>(n));
    }
  }
}

std::variant<Launch, std::string> launch_of(const Rewriting& r, const directives::Finish& directive) {
  Launch launch;
  for (const std::string& name : directive.tensors) {
    const auto n = statement_of(r.program, name);
    if (!n) return no_statement(name);
    const auto& s = std::get<Statement>(r.program.nodes[*n]);
    const bool first = launch.sums.nodes.empty();
    if (first) take_pass(r, s.target.tensor, launch);
    if (first && launch.pass) continue;
    const std::vector<int> all = launch.nodes();
    if (std::ranges::find(all, static_cast<int>(*n)) != all.end()) return fmt::format("`{}` is named twice", name);
    if (Refusal why = statement_fault(r, s, name)) return *std::move(why);
    (first ? launch.sums.nodes : launch.finishing).push_back(static_cast<int>(*n));
  }
  if (directive.tensors.size() < 2) return fmt::format("nothing finishes `{}`", directive.tensors.front());
  std::ranges::sort(launch.finishing);                 // one may read another
  return launch;
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
  std::vector<std::vector<TensorId>> launches = r.finishes;
  for (const Rewriting::Online& pass : r.online) {
    launches.push_back(pass.tensors);
    launches.back().insert(launches.back().end(), pass.finishing.begin(), pass.finishing.end());
  }
  for (bool more = true; more;) {
    more = false;
    for (auto n = static_cast<std::size_t>(first); n <= static_cast<std::size_t>(last); ++n)
      if (waits(n)) more = add(n) || more;
    for (const std::vector<TensorId>& launch : launches) {
      const auto of_launch = [&](std::size_t n) {
        const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
        return s && std::ranges::find(launch, s->target.tensor) != launch.end();
      };
      if (std::ranges::none_of(found, of_launch)) continue;
      for (auto n = static_cast<std::size_t>(first); n <= static_cast<std::size_t>(last); ++n)
        if (of_launch(n)) more = add(n) || more;
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
  const auto among = [&](const std::vector<TensorId>& all) { return std::ranges::find(all, target) != all.end(); };
  return std::ranges::any_of(r.finishes, among) ||
      std::ranges::any_of(r.online, [&](const Rewriting::Online& pass) { return among(pass.finishing); });
}

Refusal finish_fault(const Rewriting& r, const directives::Finish& directive) {
  if (!has_threads(r.target)) return "sums are finished by blocks of threads, which a CPU has not";
  const auto found = launch_of(r, directive);
  if (const auto* why = std::get_if<std::string>(&found)) return *why;
  const auto& launch = std::get<Launch>(found);
  const std::vector<int> nodes = launch.nodes();
  const auto seen = finished_by(r.program, launch.sums, launch.finishing);
  if (const auto* why = std::get_if<std::string>(&seen)) return *why;
  std::set<TensorId> later;
  for (const std::size_t n : waiting(r, nodes))
    for (const TensorId id : autodiff::targets(r.program.nodes[n])) later.insert(id);
  for (const int node : nodes)
    for (const TensorId id : autodiff::operands(r.program.nodes[static_cast<std::size_t>(node)]))
      if (later.contains(id))
        return fmt::format("`{}` waits for `{}`, which is not among them",
              r.program.tensor(target_of(r.program, node)).name, r.program.tensor(id).name);
  if (launch.pass) return std::nullopt;
  const Nest nest = finishing_nests(r.program, launch.finishing, nodes.front(), r.strides).front();
  std::int64_t threads = 0;
  const Facts all = facts(nest, {}, r.target);
  if (scan_of(nest) || !(staged_leaf(all, nodes.front(), r.target, threads, Staged::AlsoSmall) ||
                         (reduces(std::get<Statement>(r.program.nodes[static_cast<std::size_t>(nodes.front())])) &&
                             leaf_of_own_elements(all, nodes.front(), r.target))))
    return fmt::format("`{}` is no sum of which a block of threads has a tile, or its threads elements of their own",
        directive.tensors.front());
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Finish& directive) {
  if (Refusal why = finish_fault(r, directive)) return why;
  const auto launch = std::get<Launch>(launch_of(r, directive));
  const std::vector<int> nodes = launch.nodes();
  std::vector<TensorId> tensors, finishing;
  for (const int node : nodes) tensors.push_back(target_of(r.program, node));
  for (const int node : launch.finishing) finishing.push_back(target_of(r.program, node));
  bring_together(r.program, nodes, waiting(r, nodes));
  if (launch.pass) r.online[*launch.pass].finishing = std::move(finishing);
  else r.finishes.push_back(std::move(tensors));
  r.done.push_back(directive);
  return std::nullopt;
}

}  // namespace tilec::codegen
