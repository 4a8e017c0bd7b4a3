#include "poly/checked.h"

#include <algorithm>

namespace tilec::poly {

namespace {

TensorId scalar(Program& program, const std::string& wish, Span span) {
  std::string name = wish;
  const auto taken = [&] {
    return std::any_of(program.tensors.begin(), program.tensors.end(), [&](const Tensor& t) { return t.name == name; });
  };
  for (int n = 1; taken(); ++n) name = wish + "_" + std::to_string(n);
  program.tensors.push_back({name, DType::I64, {}, span});
  return static_cast<TensorId>(program.tensors.size()) - 1;
}

Expr number(std::int64_t value) { return Number{DType::I64, value}; }
Expr compare(Op op, const Expr& a, const Expr& b) { return Apply{op, {a, b}, DType::Bool}; }
Expr select(const Expr& condition, const Expr& a, const Expr& b) {
  return Apply{Op::Select, {condition, a, b}, DType::I64};
}

// Every element of `indices` folded into a scalar. `value` is made of the element, as an i64, and its row-major
// position.
Statement fold(const Program& program, TensorId target, TensorId indices, Aggregation aggregation, std::int64_t fill,
    std::vector<Access> more, auto value) {
  const Tensor& tensor = program.tensor(indices);
  const std::size_t rank = tensor.shape.size();
  Statement statement{{target, {}}, {}, {}, aggregation, number(0), {{indices, {}}}, Number{DType::I64, fill}, {}, {},
      {}, program.tensor(target).span};
  Affine position = Affine::of(0, rank);
  Size stride = 1;
  for (std::size_t d = rank; d-- > 0;) {
    position.coefficients[d] = stride;
    stride = stride * tensor.shape[d];
  }
  for (std::size_t d = 0; d < rank; ++d) {
    statement.indices.push_back("c" + std::to_string(d));
    statement.domain.push_back({Affine::index(d, rank), tensor.shape[d]});
    statement.reads[0].element.push_back(Affine::index(d, rank));
  }
  statement.reads.insert(statement.reads.end(), more.begin(), more.end());
  const Expr element =
      tensor.dtype == DType::I64 ? Expr(Read{0, DType::I64}) : Expr(Cast{Read{0, tensor.dtype}, DType::I64});
  statement.value = value(element, Expr(Index{position, DType::I64}));
  return statement;
}

void add(Program& program, TensorId indices, const IndexCheck& check) {
  const std::int64_t count = product(check.shape);
  const TensorId first = scalar(program, "First", check.span), found = scalar(program, "Value", check.span);
  program.nodes.emplace_back(
      fold(program, first, indices, Aggregation::Min, count, {}, [&](const Expr& element, const Expr& position) {
        const Expr outside = Apply{
            Op::Or, {compare(Op::Lt, element, number(0)), compare(Op::Ge, element, number(check.bound))}, DType::Bool};
        return select(outside, position, number(count));
      }));
  program.nodes.emplace_back(
      fold(program, found, indices, Aggregation::Sum, 0, {{first, {}}}, [&](const Expr& element, const Expr& position) {
        return select(compare(Op::Eq, position, Expr(Read{1, DType::I64})), element, number(0));
      }));
  program.outputs.push_back(first);
  program.outputs.push_back(found);
}

// The extent that an index must stay below.
std::int64_t bound_of(const Program& program, const Intrinsic& intrinsic) {
  const auto dimension = static_cast<std::size_t>(intrinsic.parameters.at(0).get());
  const TensorId indexed = intrinsic.op == IntrinsicOp::Gather ? intrinsic.operands.at(0) : intrinsic.targets.at(0);
  return program.tensor(indexed).shape.at(dimension).get();
}

}  // namespace

std::vector<IndexCheck> add_index_checks(Program& program) {
  std::vector<IndexCheck> checks;
  std::vector<std::pair<TensorId, std::int64_t>> done;     // a gradient gathers and scatters by the same indices
  const std::vector<Node> nodes = program.nodes;
  for (const Node& node : nodes) {
    const auto* intrinsic = std::get_if<Intrinsic>(&node);
    if (intrinsic == nullptr || (intrinsic->op != IntrinsicOp::Gather && intrinsic->op != IntrinsicOp::Scatter))
      continue;
    const TensorId indices = intrinsic->operands.at(1);
    const std::pair<TensorId, std::int64_t> key{indices, bound_of(program, *intrinsic)};
    if (std::find(done.begin(), done.end(), key) != done.end()) continue;
    done.push_back(key);
    const Tensor& tensor = program.tensor(indices);
    IndexCheck check{tensor.name, tensor.dtype, {}, key.second,
        intrinsic->op == IntrinsicOp::Gather ? "gather" : "scatter", intrinsic->span};
    for (const Size& extent : tensor.shape) check.shape.push_back(extent.get());
    add(program, indices, check);
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace tilec::poly
