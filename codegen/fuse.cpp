// The rewrites in order; each has a file of its own.
#include "codegen/fuse.h"

#include <algorithm>

#include "codegen/factor.h"
#include "codegen/inline.h"
#include "codegen/operands.h"
#include "codegen/plan.h"
#include "codegen/rewrite.h"
#include "codegen/rows.h"
#include "codegen/scan.h"
#include "codegen/scratch.h"
#include "codegen/split.h"

namespace tilec::codegen {

namespace {

// Outputs that are inputs, or the same tensor twice, get a buffer of their own.
void copy_outputs(poly::Program& program, Strides& strides, const std::map<std::size_t, std::vector<std::int64_t>>& output_strides) {
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    const TensorId id = program.outputs[o];
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), id) != program.inputs.end();
    const bool repeated = std::find(program.outputs.begin(), program.outputs.begin() + static_cast<std::ptrdiff_t>(o), id) != program.outputs.begin() + static_cast<std::ptrdiff_t>(o);
    if (!input && !repeated) continue;
    poly::Tensor tensor = program.tensor(id);
    tensor.name = fresh_name(program, tensor.name);
    const auto given = output_strides.find(o);
    strides.push_back(given == output_strides.end() ? row_major(extents(tensor)) : given->second);
    program.tensors.push_back(std::move(tensor));
    const TensorId target = static_cast<TensorId>(program.tensors.size()) - 1;
    program.nodes.push_back(copy(program, target, id, in_order(program.tensor(id).shape.size())));
    program.outputs[o] = target;
  }
}

// One index of the hull: values from `low` below `high`.
struct Run { std::int64_t low, high; };
Run run_of(const poly::Range& hull) {
  const std::int64_t low = -hull.value.constant.get();
  return {low, low + hull.extent->get()};
}

void clip(poly::Statement& s, const poly::Affine& element, std::int64_t extent) {
  std::int64_t least = element.constant.get(), most = least;
  std::optional<std::size_t> only;
  int mentioned = 0;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    const std::int64_t c = element.coefficients[k].get();
    if (!c) continue;
    const Run run = run_of(s.domain[k]);
    if (run.high <= run.low) return;
    (c > 0 ? least : most) += c * run.low;
    (c > 0 ? most : least) += c * (run.high - 1);
    only = k, ++mentioned;
  }
  if (least >= 0 && most < extent) return;
  if (mentioned != 1) {
    s.domain.push_back({element, poly::Size(extent)});
    return;
  }
  // 0 <= c q + b < extent
  const std::int64_t c = element.coefficients[*only].get(), b = element.constant.get();
  const auto floor = [](std::int64_t a, std::int64_t d) { return a / d - (a % d < 0); };
  const std::int64_t low = c > 0 ? -floor(b, c) : -floor(extent - 1 - b, -c), high = c > 0 ? floor(extent - 1 - b, c) + 1 : floor(b, -c) + 1;
  Run run = run_of(s.domain[*only]);
  run = {std::max(run.low, low), std::min(run.high, high)};
  s.domain[*only].value.constant = poly::Size(-run.low);
  s.domain[*only].extent = poly::Size(std::max<std::int64_t>(0, run.high - run.low));
}

// A leaf writes every element that the hull and the rows over output indices leave, its fill where no point is. A hull may be
// loose, and that the element exists may follow from rows over reductions: then it is said again, of the output indices alone.
void clip_targets(poly::Program& program) {
  for (poly::Node& node : program.nodes) {
    auto* s = std::get_if<poly::Statement>(&node);
    if (!s) continue;
    const std::vector<std::int64_t> shape = extents(program.tensor(s->target.tensor));
    for (std::size_t d = 0; d < shape.size(); ++d) clip(*s, poly::Affine(s->target.element[d]), shape[d]);
  }
}

}  // namespace

Fused fuse(const poly::Program& program, const Strides& strides, const std::map<std::size_t, std::vector<std::int64_t>>& output_strides, const Target& target) {
  Fused fused{program, strides, {}};
  clip_targets(fused.program);
  copy_outputs(fused.program, fused.strides, output_strides);
  inline_elementwise(fused.program);
  factor_sums(fused.program, fused.strides);
  split_scans(fused.program, fused.strides, target);
  split_reductions(fused.program, fused.strides, target);
  if (!has_threads(target)) transpose_for_lanes(fused.program, fused.strides, target);  // staging reads any order
  panel_operands(fused.program, fused.strides, target);
  give_scratch(fused.program, fused.strides, target);
  // Links of a chain live in the last one's buffer, whose strides may be the caller's.
  const std::vector<TensorId> buffer = buffers(fused.program);
  for (std::size_t id = 0; id < buffer.size(); ++id) fused.strides[id] = fused.strides[static_cast<std::size_t>(buffer[id])];
  fused.sets = shared_rows(fused.program, fused.strides, target);
  return fused;
}

}  // namespace tilec::codegen
