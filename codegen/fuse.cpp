// The rewrites in order; each has a file of its own.
#include "codegen/fuse.h"

#include <algorithm>

#include "codegen/inline.h"
#include "codegen/operands.h"
#include "codegen/rewrite.h"
#include "codegen/rows.h"
#include "codegen/split.h"

namespace tilec::codegen {

namespace {

// Outputs that are inputs, or the same tensor twice, get a buffer of their own.
void copy_outputs(poly::Program& program, Strides& strides) {
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    const TensorId id = program.outputs[o];
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), id) != program.inputs.end();
    const bool repeated = std::find(program.outputs.begin(), program.outputs.begin() + static_cast<std::ptrdiff_t>(o), id) != program.outputs.begin() + static_cast<std::ptrdiff_t>(o);
    if (!input && !repeated) continue;
    poly::Tensor tensor = program.tensor(id);
    tensor.name = fresh_name(program, tensor.name);
    strides.push_back(row_major(extents(tensor)));
    program.tensors.push_back(std::move(tensor));
    const TensorId target = static_cast<TensorId>(program.tensors.size()) - 1;
    program.nodes.push_back(copy(program, target, id, in_order(program.tensor(id).shape.size())));
    program.outputs[o] = target;
  }
}

}  // namespace

Fused fuse(const poly::Program& program, const Strides& strides, const Target& target) {
  Fused fused{program, strides, {}};
  copy_outputs(fused.program, fused.strides);
  inline_elementwise(fused.program);
  split_reductions(fused.program, fused.strides, target);
  if (!has_threads(target)) transpose_for_lanes(fused.program, fused.strides);  // staging reads any order
  panel_operands(fused.program, fused.strides, target);
  fused.sets = shared_rows(fused.program, target);
  return fused;
}

}  // namespace tilec::codegen
