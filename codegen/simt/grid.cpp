#include "codegen/simt/grid.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "lang/diagnostic.h"

namespace tilec::codegen::simt {
namespace {

bool is_block(const Stmt& s) {
  const For* loop = std::get_if<For>(&s.node);
  return loop && loop->kind == Kind::Block;
}

// Whether any statement of the body, however deep, satisfies the predicate.
template <class Predicate> bool any(const Body& body, const Predicate& holds) {
  return std::any_of(body.begin(), body.end(), [&](const Stmt& s) {
    if (holds(s)) return true;
    if (const For* loop = std::get_if<For>(&s.node)) return any(loop->body, holds);
    if (const If* branch = std::get_if<If>(&s.node)) return any(branch->then, holds) || any(branch->otherwise, holds);
    return false;
  });
}

bool is_for(const Stmt& s, Kind kind) {
  const For* loop = std::get_if<For>(&s.node);
  return loop && loop->kind == kind;
}

// Fewer blocks of a warp than 32 for each of 128 multiprocessors run at once as they are, and so do those that share
// the memory of a multiprocessor among fewer than 64.
constexpr std::int64_t least_to_join = 4096, joined = 4, most_shared_of_warp = 3584;

std::int64_t blocks_together(const Body& kernel) {
  const bool warps = threads_of(kernel) == 32 && !multiplies_shared(kernel);
  return warps && blocks_of(kernel) >= least_to_join && shared_bytes(kernel) <= most_shared_of_warp ? joined : 1;
}

}  // namespace

std::int64_t constant_extent(const For& loop) {
  const Constant* c = loop.extent.as<Constant>();
  if (!c)
    throw lang::InternalError(
        fmt::format("loops: the extent of `{}` is no constant: {}", loop.index, print(loop.extent)));
  return std::max<std::int64_t>(c->integer, 0);
}

std::int64_t element_bytes(const Allocate& a) { return a.count * lang::bytes(a.type); }

std::int64_t blocks_of(const Body& body) {
  if (std::none_of(body.begin(), body.end(), is_block)) return 1;
  std::int64_t sum = 0;
  for (const Stmt& s : body) {
    std::int64_t blocks = 0;
    if (!is_block(s)) continue;
    const For& loop = std::get<For>(s.node);
    if (__builtin_mul_overflow(constant_extent(loop), blocks_of(loop.body), &blocks) ||
        __builtin_add_overflow(sum, blocks, &sum)) {
      throw lang::InternalError("loops: more blocks than 63 bits count");
    }
  }
  return sum;
}

Grid grid_of(const Body& kernel, bool cuda) {
  Grid grid{true, blocks_of(kernel), {1, 1, 1}, cuda ? blocks_together(kernel) : 1};
  grid.chained = grid.together == 1;
  std::vector<std::int64_t> extents;                   // outermost first
  for (const Body* body = grid.chained ? &kernel : nullptr; body;) {
    const Body* inner = nullptr;
    for (const Stmt& s : *body) {
      if (!is_block(s)) continue;
      if (inner) grid.chained = false;                 // siblings
      inner = &std::get<For>(s.node).body;
      extents.push_back(constant_extent(std::get<For>(s.node)));
    }
    body = grid.chained ? inner : nullptr;
  }
  if (extents.size() > 3) grid.chained = false;
  for (std::size_t axis = 0; grid.chained && axis < extents.size(); ++axis) {
    grid.extent[axis] = extents[extents.size() - 1 - axis];
    if (grid.extent[axis] > axis_limit[axis]) grid.chained = false;
  }
  if (grid.chained) return grid;
  const std::int64_t launched = (grid.blocks + grid.together - 1) / grid.together,
                     row = std::min(launched, std::int64_t{1} << 30);
  grid.extent[0] = row;
  grid.extent[1] = row == 0 ? 1 : (launched + row - 1) / row;
  grid.extent[2] = 1;
  if (grid.extent[1] > axis_limit[1])
    throw lang::InternalError(fmt::format("loops: {} blocks are more than a grid has", grid.blocks));
  return grid;
}

std::int64_t threads_of(const Body& body) {
  std::int64_t most = 1;
  for (const Stmt& s : body) {
    if (const For* loop = std::get_if<For>(&s.node))
      most = std::max(most, loop->kind == Kind::Thread ? constant_extent(*loop) : threads_of(loop->body));
    if (const If* branch = std::get_if<If>(&s.node))
      most = std::max({most, threads_of(branch->then), threads_of(branch->otherwise)});
  }
  return most;
}

// 16 bytes of alignment each, as the emitter lays them out.
std::int64_t shared_bytes(const Body& body) {
  std::int64_t own = 0, blocks = 0;
  for (const Stmt& s : body) {
    if (const Allocate* a = std::get_if<Allocate>(&s.node))
      own += a->memory == Memory::Shared ? (element_bytes(*a) + 15) / 16 * 16 : 0;
    if (const If* branch = std::get_if<If>(&s.node))
      own += shared_bytes(branch->then) + shared_bytes(branch->otherwise);
    if (const For* loop = std::get_if<For>(&s.node)) {
      if (loop->kind == Kind::Block) blocks = std::max(blocks, shared_bytes(loop->body));
      else own += shared_bytes(loop->body);
    }
  }
  return own + blocks;
}

// An array per type, as the emitter declares it for its first Fold of that type.
std::int64_t fold_bytes(const Body& kernel, bool by_warps) {
  const std::int64_t threads = threads_of(kernel), count = by_warps ? threads / 32 : threads;
  std::set<DType> types;
  any(kernel, [&](const Stmt& s) {
    if (const Fold* fold = std::get_if<Fold>(&s.node); fold && !fold->among) types.insert(fold->value.type());
    return false;
  });
  if (count <= 1) return 0;
  return std::accumulate(types.begin(), types.end(), std::int64_t{0},
      [&](std::int64_t sum, DType type) { return sum + (count * lang::bytes(type) + 15) / 16 * 16; });
}

bool synchronises(const Body& body) {
  return any(body,
      [](const Stmt& s) { return std::holds_alternative<Barrier>(s.node) || std::holds_alternative<Fold>(s.node); });
}
bool has_block(const Body& body) { return any(body, [](const Stmt& s) { return is_for(s, Kind::Block); }); }
bool has_copies(const Body& body) {
  return any(body,
      [](const Stmt& s) { return std::holds_alternative<Copy>(s.node) || std::holds_alternative<Commit>(s.node); });
}
bool multiplies_shared(const Body& body) {
  return any(body, [](const Stmt& s) { return std::holds_alternative<MultiplyShared>(s.node); });
}
bool has_thread(const Body& body) { return any(body, [](const Stmt& s) { return is_for(s, Kind::Thread); }); }

}  // namespace tilec::codegen::simt
