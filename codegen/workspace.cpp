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
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.role != Buffer::Role::Scratch) continue;
    Life life{b, 0, program.steps.size(), 0};
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      if (std::ranges::count(program.steps[s].buffers, static_cast<int>(b)) == 0) continue;
      life.first = std::min(life.first, s);
      life.last = s;
    }
    const std::int64_t bytes = std::max<std::int64_t>((poly::Exact(buffer.count()) * lang::bytes(buffer.dtype)).get(), 1);
    life.bytes = (poly::Exact(bytes) + workspace_alignment - 1).get() / workspace_alignment * workspace_alignment;
    lives.push_back(life);
  }
  return lives;
}

}  // namespace

Workspace workspace_of(const Lowered& program) {
  Workspace result{std::vector<std::int64_t>(program.buffers.size(), 0), 0};
  std::vector<Life> lives = lives_of(program), placed;
  std::ranges::stable_sort(lives, std::greater(), &Life::bytes);
  for (const Life& life : lives) {
    std::vector<Life> beside;
    for (const Life& other : placed)
      if (other.first <= life.last && life.first <= other.last) beside.push_back(other);
    std::ranges::sort(beside, {}, [&](const Life& other) { return result.offsets[other.buffer]; });
    std::int64_t offset = 0;
    for (const Life& other : beside) {
      const std::int64_t at = result.offsets[other.buffer];
      if (at - offset >= life.bytes) break;
      offset = std::max(offset, (poly::Exact(at) + other.bytes).get());
    }
    result.offsets[life.buffer] = offset;
    result.bytes = std::max(result.bytes, (poly::Exact(offset) + life.bytes).get());
    placed.push_back(life);
  }
  return result;
}

}  // namespace tilec::codegen
