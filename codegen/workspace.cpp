// The largest first, each at the lowest offset that nothing holds while it lives.
#include "codegen/workspace.h"

#include <algorithm>
#include <numeric>

#include "codegen/package.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {

struct Life { std::size_t buffer; std::int64_t bytes; std::size_t first, last; };  // steps, both included

std::vector<Life> lives_of(const Lowered& program) {
  std::vector<Life> lives;
  // of a buffer that has one, its position
  std::vector<std::size_t> life(program.buffers.size(), program.buffers.size());
  for (std::size_t s = 0; s < program.steps.size(); ++s)
    for (const int b : program.steps[s].buffers) {
      const auto at = static_cast<std::size_t>(b);
      // kernels written by hand may come without buffers
      if (at >= program.buffers.size() || program.buffers[at].role != Buffer::Role::Scratch) continue;
      const Buffer& buffer = program.buffers[at];
      if (life[at] == program.buffers.size()) {
        const std::int64_t bytes =
            std::max<std::int64_t>((poly::Exact(buffer.count()) * lang::bytes(buffer.dtype)).get(), 1);
        life[at] = lives.size();
        lives.push_back({at,
            (poly::Exact(bytes) + workspace_alignment - 1).get() / workspace_alignment * workspace_alignment, s, s});
      }
      lives[life[at]].last = s;
    }
  return lives;
}

}  // namespace

Workspace workspace_of(const Lowered& program) {
  Workspace result{std::vector<std::int64_t>(program.buffers.size(), 0), 0};
  std::vector<Life> lives = lives_of(program), placed;  // placed: by their offsets
  std::ranges::stable_sort(lives, std::greater(), &Life::bytes);
  for (const Life& life : lives) {
    std::int64_t offset = 0;
    for (const Life& other : placed) {
      if (other.first > life.last || life.first > other.last) continue;
      const std::int64_t at = result.offsets[other.buffer];
      if (at - offset >= life.bytes) break;
      offset = std::max(offset, (poly::Exact(at) + other.bytes).get());
    }
    result.offsets[life.buffer] = offset;
    result.bytes = std::max(result.bytes, (poly::Exact(offset) + life.bytes).get());
    const auto offset_of = [&](const Life& other) { return result.offsets[other.buffer]; };
    placed.insert(std::ranges::upper_bound(placed, offset, {}, offset_of), life);
  }
  return result;
}

}  // namespace tilec::codegen
