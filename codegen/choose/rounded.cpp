// The order of a copy is that of its operand, with the dimension of one reduction innermost: both must have one that
// this index alone runs over. Each such index is tried on a Program of the statement alone.
#include "codegen/choose/rounded.h"

#include <algorithm>
#include <utility>

#include "codegen/choose/copied.h"
#include "codegen/matrix_instruction.h"
#include "codegen/model/estimates.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/copy.h"

namespace tilec::codegen {

namespace {

using poly::Statement;

constexpr std::int64_t elements_of_piece = piece_bytes / 4;

// Of both operands, with k innermost, in rows of whole pieces; none: it runs along no dimension of one of them.
std::optional<Layouts> with_innermost(const Rewriting& r, const Statement& s, std::size_t k) {
  Layouts made{.reads = {}, .target = {}, .bits = bits_of_tf32};
  for (const poly::Access& read : s.reads) {
    const auto along = dimension_of(read, k);
    if (!along) return std::nullopt;
    std::vector<std::size_t> order = order_in_memory(r, read.tensor);
    const auto at = std::ranges::find(order, *along);
    std::rotate(at, at + 1, order.end());
    if (r.program.tensor(read.tensor).shape[order.back()].get() % elements_of_piece) made.rows = elements_of_piece;
    made.reads.push_back(std::move(order));
  }
  return made;
}

}  // namespace

std::optional<Layouts> rounded_copies(const Rewriting& r, const Statement& s) {
  if (r.target.math == Math::F32 || s.reads.size() != 2 || may_not_round(r, s, 0) || may_not_round(r, s, 1))
    return std::nullopt;
  const auto today = contraction_on_cores(r.program, nest_of(s, r.strides), r.target);
  if (!today) return std::nullopt;
  double least = model::tiles::faster_by_copies * cycles_of_device(*today, r, s);
  std::optional<Layouts> best;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (is_output_index(s, k)) continue;
    auto layouts = with_innermost(r, s, k);
    if (!layouts) continue;
    const auto with = with_copies(r, s, *layouts);
    if (!with || !with->instruction->from_shared() || with->cycles >= least) continue;
    layouts->cost = least = with->cycles;
    best = std::move(layouts);
  }
  return best;
}

}  // namespace tilec::codegen
