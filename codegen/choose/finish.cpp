#include "codegen/choose/finish.h"

#include <algorithm>

#include "codegen/choose/staged.h"
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

double bytes_of(const Program& program, TensorId id) {
  return elements(program, id) * static_cast<double>(lang::bytes(program.tensor(id).dtype));
}

struct Readers { bool any = false, stores = false; };  // stores: one of them shares no rows, so that memory has it

// Of a tensor, those but for what finishes the same sum.
Readers readers_of(const Rewriting& r, TensorId id, const directives::Finish& directive) {
  Readers found{false, is_output(r.program, id)};
  for (const poly::Node& node : r.program.nodes) {
    if (!reads(node, id)) continue;
    const auto* s = std::get_if<Statement>(&node);
    if (s && std::ranges::find(directive.tensors, target_name(r.program, *s)) != directive.tensors.end()) continue;
    found.any = true;
    found.stores = found.stores || !s || in_pass(r, s->target.tensor) || contracts(r.program, *s);
  }
  return found;
}

// What accesses of the last of these move beyond their elements: neighbours of a tile that lie apart have sectors of
// their own.
double scattered(const Rewriting& r, const directives::Finish& directive) {
  std::vector<int> nodes;
  for (const std::string& name : directive.tensors) nodes.push_back(static_cast<int>(*statement_of(r.program, name)));
  const std::vector<Nest> nests = finishing_nests(r.program, nodes, r.strides);
  std::int64_t threads = 0;
  const auto leaf = staged_leaf(facts(nests.front(), {}, r.target), nodes.front(), r.target, threads, true);
  const std::size_t m = *nests.front().dim(leaf->m()), n = *nests.front().dim(leaf->n);
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
  const auto tensor = [&](const std::string& name) {
    return std::get<Statement>(r.program.nodes[*statement_of(r.program, name)]).target.tensor;
  };
  const TensorId sum = tensor(directive.tensors.front()), id = tensor(directive.tensors.back());
  const Readers of_sum = readers_of(r, sum, directive), readers = readers_of(r, id, directive);
  const bool stored = of_sum.any || is_output(r.program, sum);
  double apart = bytes_of(r.program, sum) * (stored ? 1 : 2), together = bytes_of(r.program, id);
  if (readers.stores || !readers.any) apart += bytes_of(r.program, id) + model::threads::bytes_of_a_launch;
  if (readers.any) together += bytes_of(r.program, id);
  return together + scattered(r, directive) < apart;
}

// All that finish a sum of which blocks of threads have tiles.
directives::Finish finish_of(const Rewriting& r, const Statement& sum) {
  directives::Finish found{{target_name(r.program, sum)}};
  const Nest nest = nest_of(sum, r.strides);
  std::int64_t threads = 0;
  if (scan_of(nest) || !staged_leaf(facts(nest, {}, r.target), 0, r.target, threads)) return found;
  for (const poly::Node& node : r.program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s || reduces(*s) || std::ranges::none_of(s->reads, [&](const poly::Access& read) {
          return std::ranges::find(found.tensors, r.program.tensor(read.tensor).name) != found.tensors.end();
        }))
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
    if (!s || !contracts(r.program, *s) || in_pass(r, s->target.tensor) || finished(r, s->target.tensor)) continue;
    const directives::Finish found = finish_of(r, *s);
    if (found.tensors.size() < 2) continue;
    if (const Refusal why = apply(r, found)) throw lang::InternalError("what finishes a sum is refused: " + *why);
    --n;                                               // another statement stands there now
  }
}

}  // namespace tilec::codegen
