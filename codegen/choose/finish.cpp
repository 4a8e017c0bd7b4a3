#include "codegen/choose/finish.h"

#include <algorithm>
#include <set>

#include "codegen/choose/short_rows.h"
#include "codegen/choose/staged.h"
#include "codegen/choose/threads.h"
#include "codegen/finishing.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/finish.h"
#include "codegen/rewrite/online.h"
#include "codegen/scan.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::Statement;

TensorId tensor_of(const Rewriting& r, const std::string& name) {
  return std::get<Statement>(r.program.nodes[*statement_of(r.program, name)]).target.tensor;
}

// All that the launch makes.
std::set<TensorId> launch_of(const Rewriting& r, const directives::Finish& directive) {
  std::set<TensorId> made;
  for (const std::string& name : directive.tensors) made.insert(tensor_of(r, name));
  for (const Rewriting::Online& pass : r.online) {
    if (std::ranges::find(pass.tensors, tensor_of(r, directive.tensors.front())) == pass.tensors.end()) continue;
    made.insert(pass.tensors.begin(), pass.tensors.end());
    made.insert(pass.finishing.begin(), pass.finishing.end());
  }
  return made;
}

// Of a tensor, those elsewhere. `shares`: one of them may share rows with it; `stores`: memory has it in any case.
struct Readers { bool shares = false, stores = false; };
Readers readers_of(const Rewriting& r, TensorId id, const std::set<TensorId>& launch) {
  Readers found{false, is_output(r.program, id)};
  for (const poly::Node& node : r.program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!reads(node, id) || (s && launch.contains(s->target.tensor))) continue;
    const bool apart = !s || in_pass(r, s->target.tensor) || contracts(r.program, *s);
    (apart ? found.stores : found.shares) = true;
  }
  return found;
}

// What accesses of the last of these move beyond their elements: neighbours of a tile that lie apart have sectors of
// their own.
double scattered(const Rewriting& r, const directives::Finish& directive) {
  std::vector<int> nodes;
  for (const std::string& name : directive.tensors) nodes.push_back(static_cast<int>(*statement_of(r.program, name)));
  const int sum = nodes.front();
  nodes.erase(nodes.begin());
  const std::vector<Nest> nests = finishing_nests(r.program, nodes, sum, r.strides);
  std::int64_t threads = 0;
  const Facts all = facts(nests.front(), {}, r.target);
  auto leaf = staged_leaf(all, sum, r.target, threads, Staged::AlsoSmall);
  const bool tile = leaf.has_value();
  if (!tile) leaf = leaf_of_own_elements(all, sum, r.target);
  // Threads that have elements of their own lie along n alone.
  const std::size_t n = *nests.front().dim(leaf->n), m = tile ? *nests.front().dim(leaf->m()) : n;
  double bytes = 0;
  const auto add = [&](const FlatAccess& access) {
    const auto lie = [&](std::size_t d) { return std::abs(access.offset.coefficients[d]); };
    const auto each = static_cast<double>(lang::bytes(r.program.tensor(access.tensor).dtype));
    if (lie(m) > 1 && lie(n) > 1)
      bytes += elements(r.program, nests.front().target.tensor) * (model::threads::sector - each);
  };
  add(nests.back().target);
  for (const FlatAccess& read : nests.back().reads) add(read);
  return bytes;
}

// Whether the last of these moves fewer bytes so than by a launch, or a share of one, of its own.
bool pays(const Rewriting& r, const directives::Finish& directive) {
  const std::set<TensorId> launch = launch_of(r, directive);
  const TensorId id = tensor_of(r, directive.tensors.back());
  const auto& s = std::get<Statement>(r.program.nodes[*statement_of(r.program, directive.tensors.back())]);
  const Readers readers = readers_of(r, id, launch);
  double apart = 0, together = bytes_of(r.program, id);
  std::set<TensorId> seen;
  for (const poly::Access& read : s.reads) {
    if (!launch.contains(read.tensor) || !seen.insert(read.tensor).second) continue;
    const Readers others = readers_of(r, read.tensor, launch);
    apart += bytes_of(r.program, read.tensor) * (others.shares || others.stores ? 1 : 2);
  }
  if (readers.stores) apart += bytes_of(r.program, id);
  if (readers.shares) together += bytes_of(r.program, id);
  else apart += model::threads::bytes_of_a_launch;
  if (!in_pass(r, tensor_of(r, directive.tensors.front()))) together += scattered(r, directive);
  return together < apart;
}

// Whether it folds rows that another statement makes, which may share them with it. Windows go from row to row.
bool may_share_rows_with_makers(const Rewriting& r, const Statement& s) {
  const auto slides = [&](const poly::Access& read) {
    return std::ranges::any_of(read.element, [&](const poly::Affine& e) {
      return std::ranges::count_if(e.coefficients, [](const poly::Size& c) { return !c.is(0); }) > 1;
    });
  };
  if (std::ranges::any_of(s.reads, slides)) return false;
  return std::ranges::any_of(s.reads, [&](const poly::Access& read) {
    return !r.parts.contains(read.tensor) && std::ranges::any_of(r.program.nodes, [&](const poly::Node& node) {
      const auto* maker = std::get_if<Statement>(&node);
      return maker && maker->target.tensor == read.tensor;
    });
  });
}

// Whether it adds up what adds up parts: one launch does both (rewrite/rows.h).
bool adds_parts_twice(const Rewriting& r, const Statement& s) {
  const auto of_parts = [&](const poly::Access& read) { return r.parts.contains(read.tensor); };
  return std::ranges::any_of(r.program.nodes, [&](const poly::Node& node) {
    const auto* maker = std::get_if<Statement>(&node);
    return maker && std::ranges::any_of(maker->reads, of_parts) &&
        std::ranges::any_of(s.reads, [&](const poly::Access& read) {
          return of_parts(read) && read.tensor == maker->target.tensor;
        });
  });
}

// A fold of which blocks of threads have tiles, or threads elements of their own, or the last statement of a pass.
bool has_sums(const Rewriting& r, const Statement& s) {
  if (finished(r, s.target.tensor)) return false;
  if (in_pass(r, s.target.tensor))
    return std::ranges::any_of(r.online, [&](const Rewriting::Online& pass) {
      return pass.tensors.back() == s.target.tensor && pass.finishing.empty();
    });
  if (!reduces(s)) return false;
  const Nest nest = nest_of(s, r.strides);
  const Facts all = facts(nest, {}, r.target);
  std::int64_t threads = 0;
  if (scan_of(nest)) return false;
  if (contracts(r.program, s) && staged_leaf(all, 0, r.target, threads)) return true;
  return !may_share_rows_with_makers(r, s) && !adds_parts_twice(r, s) && !folds_short_rows(r, s) &&
      !staged_leaf(all, 0, r.target, threads, Staged::AlsoSmall) && leaf_of_own_elements(all, 0, r.target).has_value();
}

// All that finish such sums.
directives::Finish finish_of(const Rewriting& r, const Statement& sum) {
  directives::Finish found{{target_name(r.program, sum)}};
  for (const poly::Node& node : r.program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    const std::set<TensorId> launch = launch_of(r, found);
    if (!s || reduces(*s) || launch.contains(s->target.tensor) ||
        std::ranges::none_of(s->reads, [&](const poly::Access& read) { return launch.contains(read.tensor); }))
      continue;
    found.tensors.push_back(target_name(r.program, *s));
    if (finish_fault(r, found) || !pays(r, found)) found.tensors.pop_back();
  }
  return found;
}

}  // namespace

void finish_sums(Rewriting& r) {
  if (!has_threads(r.target)) return;
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    if (!s || !has_sums(r, *s) || r.of_columns.contains(s->target.tensor)) continue;
    const directives::Finish found = finish_of(r, *s);
    if (found.tensors.size() < 2) continue;
    if (const Refusal why = apply(r, found)) throw lang::InternalError("what finishes a sum is refused: " + *why);
    --n;                                               // another statement stands there now
  }
}

}  // namespace tilec::codegen
