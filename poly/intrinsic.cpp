// One place that knows where B, J, V and R of program.h stand in each operand and target.
#include "poly/intrinsic.h"

#include <fmt/core.h>

namespace tilec::poly {

namespace {

using Shape = std::vector<Size>;

Shape part(const Shape& shape, std::size_t from, std::size_t count) {
  const auto begin = shape.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

std::size_t batch_rank(const Intrinsic& intrinsic) {
  return static_cast<std::size_t>(intrinsic.parameters.at(0).get());
}

// The tensor with V and the one with J: D and O of a Gather, O and E of a Scatter.
struct Sides { TensorId rows, terms; };
Sides sides(const Intrinsic& intrinsic) {
  const bool gathers = intrinsic.op == IntrinsicOp::Gather;
  return {
      gathers ? intrinsic.operands[0] : intrinsic.targets[0], gathers ? intrinsic.targets[0] : intrinsic.operands[0]};
}

std::string type_fault(const Program& program, const Intrinsic& intrinsic) {
  const DType from = program.tensor(intrinsic.operands[0]).dtype, to = program.tensor(intrinsic.targets[0]).dtype;
  const auto words = [&](std::string_view what) {
    return fmt::format("{} {} makes {}", what, lang::name(from), lang::name(to));
  };
  switch (intrinsic.op) {
    case IntrinsicOp::Reshape:
    case IntrinsicOp::Gather: return from == to ? "" : words("of");
    case IntrinsicOp::Scatter:
      return lang::is_float(from) == lang::is_float(to) && to != DType::Bool ? "" : words("a sum of");
    case IntrinsicOp::Sort: return to == DType::I32 ? "" : words("of");
  }
  return "";
}

std::string rank_fault(const Program& program, const Intrinsic& intrinsic) {
  const auto rank = [&](TensorId id) { return program.tensor(id).shape.size(); };
  const auto parameter = intrinsic.parameters.size() == 1 ? intrinsic.parameters[0].value() : std::nullopt;
  if (!parameter || *parameter < 0) return "one parameter, a number, is needed";
  if (intrinsic.op == IntrinsicOp::Sort) {
    if (*parameter > 1) return fmt::format("the parameter is {}, not 0 or 1", *parameter);
    const auto x = rank(intrinsic.operands[0]), i = rank(intrinsic.targets[0]);
    return x == i && x > 0 ? "" : fmt::format("rank {} is sorted to rank {}", x, i);
  }
  const auto batch = static_cast<std::size_t>(*parameter), indices = rank(intrinsic.operands[1]);
  const auto [rows, terms] = sides(intrinsic);
  if (!lang::is_integer(program.tensor(intrinsic.operands[1]).dtype))
    return fmt::format("the index is {}", lang::name(program.tensor(intrinsic.operands[1]).dtype));
  if (rank(rows) <= batch || indices < batch || rank(terms) != indices + rank(rows) - batch - 1)
    return fmt::format("ranks {}, {} and {} with a batch of rank {}", rank(rows), indices, rank(terms), batch);
  return "";
}

}  // namespace

std::string_view name(IntrinsicOp op) {
  switch (op) {
    case IntrinsicOp::Reshape: return "reshape";
    case IntrinsicOp::Gather: return "gather";
    case IntrinsicOp::Scatter: return "scatter";
    case IntrinsicOp::Sort: return "argsort";
  }
  return "";
}

std::string fault(const Program& program, const Intrinsic& intrinsic) {
  const std::size_t operands = intrinsic.op == IntrinsicOp::Gather || intrinsic.op == IntrinsicOp::Scatter ? 2 : 1;
  if (intrinsic.operands.size() != operands || intrinsic.targets.size() != 1)
    return fmt::format("{} operands make {} targets", intrinsic.operands.size(), intrinsic.targets.size());
  if (intrinsic.op != IntrinsicOp::Reshape)
    if (auto words = rank_fault(program, intrinsic); !words.empty()) return words;
  return type_fault(program, intrinsic);
}

Groups groups(const Program& program, const Intrinsic& intrinsic) {
  if (intrinsic.op == IntrinsicOp::Reshape) return {{}, {}, {}, 1};
  if (intrinsic.op == IntrinsicOp::Sort) {
    const Shape& shape = program.tensor(intrinsic.operands[0]).shape;
    return {part(shape, 0, shape.size() - 1), {}, {}, shape.back()};
  }
  const std::size_t batch = batch_rank(intrinsic);
  const Shape& rows = program.tensor(sides(intrinsic).rows).shape;
  const Shape& indices = program.tensor(intrinsic.operands[1]).shape;
  return {part(rows, 0, batch), part(indices, batch, indices.size() - batch),
      part(rows, batch + 1, rows.size() - batch - 1), rows[batch]};
}

std::vector<Equal> equal_extents(const Program& program, const Intrinsic& intrinsic) {
  std::vector<Equal> all;
  const TensorId operand = intrinsic.operands[0], target = intrinsic.targets[0];
  if (intrinsic.op == IntrinsicOp::Reshape) return all;
  if (intrinsic.op == IntrinsicOp::Sort) {
    for (std::size_t d = 0; d < program.tensor(operand).shape.size(); ++d) all.push_back({operand, d, target, d});
    return all;
  }
  const std::size_t batch = batch_rank(intrinsic), indices = program.tensor(intrinsic.operands[1]).shape.size();
  const auto [rows, terms] = sides(intrinsic);
  for (std::size_t d = 0; d < batch; ++d) all.push_back({rows, d, intrinsic.operands[1], d});
  for (std::size_t d = 0; d < indices; ++d) all.push_back({terms, d, intrinsic.operands[1], d});
  for (std::size_t d = batch + 1; d < program.tensor(rows).shape.size(); ++d)
    all.push_back({rows, d, terms, d - batch - 1 + indices});
  return all;
}

}  // namespace tilec::poly
