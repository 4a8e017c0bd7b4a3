#include "codegen/locals.h"

#include <algorithm>

#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {

std::int64_t most(const Body& body) {
  poly::Exact held = 0;
  std::int64_t all = 0;
  for (const Stmt& s : body) {
    if (const auto* allocate = std::get_if<Allocate>(&s.node)) held += local_bytes(*allocate);
    std::int64_t inside = 0;
    if (const auto* loop = std::get_if<For>(&s.node)) inside = most(loop->body);
    if (const auto* test = std::get_if<If>(&s.node)) inside = std::max(most(test->then), most(test->otherwise));
    all = std::max(all, (held + inside).get());
  }
  return all;
}

}  // namespace

std::int64_t local_bytes(const Allocate& allocate) {
  if (allocate.memory != Memory::Local) return 0;
  const std::int64_t bytes = (poly::Exact(allocate.count) * lang::bytes(allocate.type)).get();
  return bytes < stack_limit ? 0 : (poly::Exact(bytes) + 63).get() / 64 * 64;
}

std::int64_t local_bytes(const Loops& loops) {
  for (std::size_t k = 0; k + 1 < loops.functions.size(); ++k)
    if (most(loops.functions[k].body) > 0)
      throw lang::InternalError("function `" + loops.functions[k].name + "` has a local that is too large for a stack");
  return loops.functions.empty() ? 0 : most(loops.functions.back().body);
}

}  // namespace tilec::codegen
