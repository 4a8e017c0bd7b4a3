// A copy has the order of its operand. Each set of operands whose rows begin anywhere is tried on a Program of the
// statement alone.
#include "codegen/choose/aligned.h"

#include <algorithm>
#include <functional>

#include "codegen/choose/copied.h"
#include "codegen/choose/tensor_cores.h"
#include "codegen/matrix_instruction.h"
#include "codegen/model/estimates.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

namespace {

using poly::Statement;

std::int64_t elements_of_piece(const Rewriting& r, const poly::Access& read) {
  return piece_bytes / lang::bytes(r.program.tensor(read.tensor).dtype);
}

// Whether a row of the operand, in the order in which it lies, begins where no piece does.
bool begins_anywhere(const Rewriting& r, const poly::Access& read) {
  const auto& strides = r.strides[static_cast<std::size_t>(read.tensor)];
  const std::int64_t piece = elements_of_piece(r, read);
  return strides.size() > 1 &&
      std::ranges::any_of(strides, [&](std::int64_t s) { return std::abs(s) != 1 && s % piece != 0; });
}

}  // namespace

std::optional<Layouts> aligned_copies(const Rewriting& r, const Statement& s) {
  if (r.target.family != Target::Family::Cuda || s.reads.size() != 2) return std::nullopt;
  const bool apart[] = {begins_anywhere(r, s.reads[0]), begins_anywhere(r, s.reads[1])};
  if ((!apart[0] && !apart[1]) || elements_of_piece(r, s.reads[0]) != elements_of_piece(r, s.reads[1]))
    return std::nullopt;
  const auto today = contraction_on_cores(r.program, nest_of(s, r.strides), r.target);
  if (!today || today->in_pieces) return std::nullopt;
  double least = model::tiles::faster_by_copies * cycles_of_device(*today, r, s);
  std::optional<Layouts> best;
  for (unsigned copied = 1; copied < 4; ++copied) {
    Layouts layouts{std::vector<std::vector<std::size_t>>(2), {}};
    layouts.rows = elements_of_piece(r, s.reads[0]);
    bool may = true;
    for (std::size_t read = 0; read < 2; ++read) {
      if (!(copied >> read & 1)) continue;
      may = may && apart[read];
      layouts.reads[read] = order_in_memory(r, s.reads[read].tensor);
    }
    const auto with = may ? with_copies(r, s, layouts) : std::nullopt;
    if (!with || with->cycles >= least) continue;
    layouts.cost = least = with->cycles;
    best = std::move(layouts);
  }
  return best;
}

}  // namespace tilec::codegen
