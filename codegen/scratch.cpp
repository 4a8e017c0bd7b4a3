// Dense copies and buffers of Intrinsics.
#include "codegen/scratch.h"

#include "codegen/indirect.h"
#include "codegen/rewrite.h"
#include "codegen/sort.h"

namespace tilec::codegen {

namespace {

using poly::Intrinsic;
using poly::IntrinsicOp;
using poly::Program;

bool is_dense(const Program& program, const Strides& strides, TensorId id) {
  return strides[static_cast<std::size_t>(id)] == row_major(extents(program.tensor(id)));
}

// A row-major tensor of the shape of `like`.
TensorId add_tensor(Program& program, Strides& strides, TensorId like, const std::string& stem, lang::DType dtype) {
  poly::Tensor tensor = program.tensor(like);
  tensor.name = fresh_name(program, stem);
  tensor.dtype = dtype;
  strides.push_back(row_major(extents(tensor)));
  program.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(program.tensors.size()) - 1;
}

// Reshape and Sort write their target, and Reshape reads its operand, element after element.
void make_dense(Program& program, Strides& strides) {
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    auto* intrinsic = std::get_if<Intrinsic>(&program.nodes[n]);
    if (!intrinsic || (intrinsic->op != IntrinsicOp::Reshape && intrinsic->op != IntrinsicOp::Sort)) continue;
    const auto like = [&](TensorId id) {
      return add_tensor(program, strides, id, program.tensor(id).name, program.tensor(id).dtype);
    };
    const auto at = [&](std::size_t position) { return program.nodes.begin() + static_cast<std::ptrdiff_t>(position); };
    const auto rank = [&](TensorId id) { return program.tensor(id).shape.size(); };
    if (const TensorId to = intrinsic->targets[0]; !is_dense(program, strides, to)) {
      const TensorId dense = intrinsic->targets[0] = like(to);
      program.nodes.insert(at(n + 1), copy(program, to, dense, in_order(rank(to))));
      intrinsic = &std::get<Intrinsic>(program.nodes[n]);
    }
    if (const TensorId from = intrinsic->operands[0];
        intrinsic->op == IntrinsicOp::Reshape && !is_dense(program, strides, from)) {
      const TensorId dense = intrinsic->operands[0] = like(from);
      program.nodes.insert(at(n++), copy(program, dense, from, in_order(rank(from))));
    }
  }
}

void add_buffers(Program& program, Strides& strides, Intrinsic& intrinsic, const Target& target) {
  const TensorId from = intrinsic.operands[0], to = intrinsic.targets[0];
  const lang::DType type = program.tensor(from).dtype;
  const std::string name = program.tensor(to).name;
  if (intrinsic.op == IntrinsicOp::Scatter) {
    const lang::DType held = program.tensor(to).dtype, sum = sum_type(type, held);
    if (sum != held) intrinsic.targets.push_back(add_tensor(program, strides, to, name + "_sums", sum));
  }
  if (intrinsic.op != IntrinsicOp::Sort ||
      !sorts_in_global_memory(
          intrinsic_nest(program, intrinsic, strides), type, places_read(program, intrinsic.targets[0]), target))
    return;
  for (int k = 0; k < 2; ++k)
    intrinsic.targets.push_back(add_tensor(program, strides, to, name + "_keys", key_type(type)));
  intrinsic.targets.push_back(add_tensor(program, strides, to, name + "_positions", lang::DType::I32));
}

}  // namespace

void give_scratch(Program& program, Strides& strides, const Target& target) {
  make_dense(program, strides);
  for (poly::Node& node : program.nodes)
    if (auto* intrinsic = std::get_if<Intrinsic>(&node)) add_buffers(program, strides, *intrinsic, target);
}

}  // namespace tilec::codegen
