#include "codegen/choose/copied.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <span>

#include "codegen/model/thresholds.h"
#include "codegen/operands.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/copy.h"

namespace tilec::codegen {

using poly::Statement;

namespace {

// Copies that nobody has made yet, one launch.
double cycles_of_copies(const Rewriting& r, const Statement& s, const Layouts& layouts) {
  std::set<Rewriting::CopyKey> made;
  double cycles = 0;
  for (std::size_t read = 0; read < s.reads.size(); ++read) {
    if (layouts.reads[read].empty()) continue;
    const Rewriting::CopyKey key(s.reads[read].tensor, layouts.reads[read], layouts.bits, layouts.rows);
    if (r.copies.contains(key) || !made.insert(key).second) continue;
    cycles += 2 * bytes_of(r.program, s.reads[read].tensor) / model::threads::memory_bytes;
  }
  return cycles > 0 ? cycles + model::threads::cycles_of_a_launch : 0;
}

}  // namespace

std::vector<std::size_t> order_in_memory(const Rewriting& r, TensorId tensor) {
  const auto& strides = r.strides[static_cast<std::size_t>(tensor)];
  std::vector<std::size_t> order = in_order(strides.size());
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t d) { return std::abs(strides[d]); });
  return order;
}

double cycles_of_device(const OnCores& cores, const Rewriting& r, const Statement& s) {
  double bytes = bytes_of(r.program, s.target.tensor);
  for (const poly::Access& read : s.reads) bytes += bytes_of(r.program, read.tensor);
  return std::max(cores.cycles, bytes / model::threads::memory_bytes);
}

std::optional<WithCopies> with_copies(const Rewriting& r, const Statement& s, const Layouts& layouts) {
  Rewriting part = alone(r, std::span(&s, 1));
  std::size_t n = 0;
  for (std::size_t read = 0; read < s.reads.size(); ++read)
    if (!layouts.reads[read].empty())
      n = read_copy(part, n, read, layouts.reads[read], layouts.bits, layouts.rows);
  const auto& copied = std::get<Statement>(part.program.nodes[n]);
  const auto cores = contraction_on_cores(part.program, nest_of(copied, part.strides), r.target);
  if (!cores || !cores->in_pieces) return std::nullopt;
  return WithCopies{cores->instruction, cycles_of_device(*cores, part, copied) + cycles_of_copies(r, s, layouts)};
}

}  // namespace tilec::codegen
