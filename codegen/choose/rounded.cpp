// The order of a copy is that of its operand, with the dimension of one reduction innermost: both must have one that
// this index alone runs over. Each such index is tried on a Program of the statement alone.
#include "codegen/choose/rounded.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "codegen/choose/tensor_cores.h"
#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/operands.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/copy.h"

namespace tilec::codegen {

namespace {

using poly::Statement;

// Of both operands, with k innermost; none: it runs along no dimension of one of them.
std::optional<Layouts> with_innermost(const Rewriting& r, const Statement& s, std::size_t k) {
  Layouts made{.reads = {}, .target = {}, .bits = bits_of_tf32};
  for (const poly::Access& read : s.reads) {
    const auto along = dimension_of(read, k);
    if (!along) return std::nullopt;
    const auto& strides = r.strides[static_cast<std::size_t>(read.tensor)];
    std::vector<std::size_t> order = in_order(strides.size());
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t d) { return std::abs(strides[d]); });
    const auto at = std::ranges::find(order, *along);
    std::rotate(at, at + 1, order.end());
    made.reads.push_back(std::move(order));
  }
  return made;
}

// Cycles of the device: what it multiplies, or what it moves.
double cycles_of(const OnCores& cores, const Rewriting& r, const Statement& s) {
  double bytes = bytes_of(r.program, s.target.tensor);
  for (const poly::Access& read : s.reads) bytes += bytes_of(r.program, read.tensor);
  return std::max(cores.cycles, bytes / model::threads::memory_bytes);
}

// Copies that nobody has made yet, each a launch.
double cycles_of_copies(const Rewriting& r, const Statement& s, const Layouts& layouts) {
  std::set<std::tuple<TensorId, std::vector<std::size_t>, std::int64_t>> made;
  double cycles = 0;
  for (std::size_t read = 0; read < s.reads.size(); ++read) {
    const std::tuple key(s.reads[read].tensor, layouts.reads[read], layouts.bits);
    if (r.copies.contains(key) || !made.insert(key).second) continue;
    cycles += model::threads::cycles_of_a_launch +
        2 * bytes_of(r.program, s.reads[read].tensor) / model::threads::memory_bytes;
  }
  return cycles;
}

// The contraction as it would read its copies: none where no instruction takes these as they are, by whole pieces.
std::optional<double> cycles_with(const Rewriting& r, const Statement& s, const Layouts& layouts) {
  Rewriting part = alone(r, std::span(&s, 1));
  std::size_t n = 0;
  for (std::size_t read = 0; read < s.reads.size(); ++read)
    n = read_copy(part, n, read, layouts.reads[read], layouts.bits);
  const auto& copied = std::get<Statement>(part.program.nodes[n]);
  const auto cores = contraction_on_cores(part.program, nest_of(copied, part.strides), r.target);
  if (!cores || !cores->in_pieces || !cores->instruction->from_shared()) return std::nullopt;
  return cycles_of(*cores, part, copied) + cycles_of_copies(r, s, layouts);
}

}  // namespace

std::optional<Layouts> rounded_copies(const Rewriting& r, const Statement& s) {
  if (r.target.math == Math::F32 || s.reads.size() != 2 || may_not_round(r, s, 0) || may_not_round(r, s, 1))
    return std::nullopt;
  const auto today = contraction_on_cores(r.program, nest_of(s, r.strides), r.target);
  if (!today) return std::nullopt;
  double least = model::tiles::faster_by_copies * cycles_of(*today, r, s);
  std::optional<Layouts> best;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (is_output_index(s, k)) continue;
    auto layouts = with_innermost(r, s, k);
    if (!layouts) continue;
    const auto cycles = cycles_with(r, s, *layouts);
    if (!cycles || *cycles >= least) continue;
    layouts->cost = least = *cycles;
    best = std::move(layouts);
  }
  return best;
}

}  // namespace tilec::codegen
