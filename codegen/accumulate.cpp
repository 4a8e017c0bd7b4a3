#include "codegen/accumulate.h"

#include "codegen/rewrite.h"

namespace tilec::codegen {

namespace {

poly::TensorId tensor_like(poly::Program& program, poly::TensorId id, const char* suffix) {
  poly::Tensor tensor = program.tensor(id);
  tensor.name = fresh_name(program, tensor.name + suffix);
  program.tensors.push_back(std::move(tensor));
  return static_cast<poly::TensorId>(program.tensors.size()) - 1;
}

}  // namespace

poly::Program accumulated(const poly::Program& program, const std::vector<std::size_t>& positions) {
  poly::Program result = program;
  for (const std::size_t position : positions) {
    const poly::TensorId made = result.outputs.at(position);
    const poly::TensorId before = tensor_like(result, made, "_before"), after = tensor_like(result, made, "_after");
    const lang::DType stored = result.tensor(made).dtype, sum = lang::accumulator(stored);
    const auto wide = [&](int read) {
      return stored == sum ? poly::Expr(poly::Read{read, stored})
                           : poly::Expr(poly::Cast{poly::Read{read, stored}, sum});
    };
    poly::Statement statement = copy(result, after, made, in_order(result.tensor(made).shape.size()));
    statement.reads.push_back({before, statement.reads[0].element});
    statement.value = poly::Apply{lang::Op::Add, {wide(1), wide(0)}, sum};
    statement.span = result.tensor(made).span;
    result.nodes.emplace_back(std::move(statement));
    result.inputs.push_back(before);
    result.outputs[position] = after;
  }
  return result;
}

}  // namespace tilec::codegen
