#include "codegen/choose/streams.h"

#include <algorithm>

#include "codegen/choose/facts.h"
#include "codegen/choose/leaf.h"
#include "codegen/model/machine.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

namespace {

// Every vector of a row starts where a cache line does, if the first does. Parts of lines, as at the end of other rows,
// are slow to stream.
bool whole_lines(const Nest& nest, const Compute& leaf, std::int64_t bytes) {
  constexpr auto line = static_cast<std::int64_t>(model::line);
  for (std::size_t d = 0; d < nest.dims.size(); ++d)
    if (nest.dims[d].name != leaf.n && nest.target.offset.coefficients[d] * bytes % line != 0) return false;
  return nest.target.offset.constant * bytes % line == 0 && leaf.lanes * bytes % line == 0;
}

// Whether a contraction writes each element once, row after row, and so soon after the one before that the memory
// decides.
bool writes_once(const Compute& leaf, const Nest& nest, std::int64_t bytes) {
  const auto* contract = leaf.as<forms::Contract>();
  if (!contract || contract->chunk || contract->taps || contract->turned || !nest.rows.empty() ||
      (contract->m_inner && !contract->m.empty()))
    return false;
  double steps = 1;
  for (const Dim& dim : nest.dims) if (dim.reduction) steps *= static_cast<double>(dim.extent);
  return steps <= model::streamed_steps && whole_lines(nest, leaf, bytes);
}

}  // namespace

void stream(Compute& leaf, const poly::Program& program, const Nest& nest, const Group& group, const Target& target) {
  const TensorId id = nest.target.tensor;
  const std::int64_t bytes = lang::bytes(program.tensor(id).dtype);
  const auto* map = leaf.as<forms::Map>();
  if (has_threads(target) || !is_output(program, id)) return;
  if (!map && !writes_once(leaf, nest, bytes)) return;
  const double row = leaf.n.empty() ? 0 : static_cast<double>(nest.dims[*nest.dim(leaf.n)].extent * bytes);
  const bool long_rows = row >= (group.body.size() > 1 ? model::streamed_row_of_turn : model::streamed_row);
  if (map && (map->turned || (!long_rows && !whole_lines(nest, leaf, bytes)))) return;
  if (bytes_of(program, id) < model::streamed_part_of_l3 * static_cast<double>(target.l3)) return;
  if (std::any_of(program.nodes.begin(), program.nodes.end(), [&](const poly::Node& n) { return reads(n, id); }))
    return;
  if (leaf.set_streams()) widen_for_streams(leaf, facts(nest, group.loops, target));
}

}  // namespace tilec::codegen
