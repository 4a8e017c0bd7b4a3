#include "autodiff/companion.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "autodiff/graph.h"
#include "autodiff/shared.h"
#include "autodiff/term.h"

namespace tilec::autodiff {

using namespace term;
using poly::Access;
using poly::Affine;
using poly::Aggregation;
using poly::Number;
using poly::Program;
using poly::Size;
using poly::Statement;
using poly::TensorId;

TensorId new_tensor(Program& program, std::string name, DType type, const std::vector<Size>& shape, lang::Span span) {
  program.tensors.push_back({std::move(name), type, shape, span});
  return static_cast<TensorId>(program.tensors.size()) - 1;
}

TensorId Companion::helper(std::string name, DType type) const {
  return helper(std::move(name), type, std::vector<Size>(program.tensor(forward.target.tensor).shape));
}

TensorId Companion::helper(std::string name, DType type, const std::vector<Size>& shape) const {
  helpers.push_back(new_tensor(program, std::move(name), type, shape, forward.span));
  return helpers.back();
}

Statement Companion::start() const {
  Statement statement = forward;
  statement.aggregation = Aggregation::Sum;
  statement.ties = poly::Ties::Split;
  statement.kernel_name.clear();
  statement.keep = poly::Keep::Free;
  return statement;
}

Expr Companion::at_target(Statement& statement, TensorId id) const {
  statement.reads.push_back({id, forward.target.element});
  return poly::Read{static_cast<int>(statement.reads.size()) - 1, program.tensor(id).dtype};
}

void Companion::add(Statement statement, TensorId target, const std::vector<Affine>& element) const {
  statement.target = {target, element};
  statement.fill = Number{program.tensor(target).dtype};
  if (statement.aggregation == Aggregation::Sum && one_point_each(statement))
    statement.aggregation = Aggregation::Assign;
  tidy_reads(statement);
  name_shared(*this, statement);
  tidy_reads(statement);
  program.nodes.emplace_back(std::move(statement));
}

namespace {

// With a mark or without.
bool is_called(std::string_view spelled, std::string_view name) {
  if (spelled.starts_with('#') || spelled.starts_with('$')) spelled.remove_prefix(1);
  return spelled == name;
}

}  // namespace

Statement over_shape(const Program& program, const std::vector<Size>& shape) {
  const auto is_taken = [&](const std::string& name) {  // asked for a few names, of many tensors
    return std::any_of(program.tensors.begin(), program.tensors.end(),
               [&](const poly::Tensor& tensor) { return is_called(tensor.name, name); }) ||
        std::any_of(
            program.sizes.begin(), program.sizes.end(), [&](const std::string& size) { return is_called(size, name); });
  };
  Statement statement{.target = {},
      .indices = {},
      .domain = {},
      .aggregation = Aggregation::Assign,
      .value = number(DType::F32, 0),
      .reads = {},
      .fill = Number{DType::F32},
      .ties = poly::Ties::Split,
      .kernel_name = {},
      .span = {}};
  constexpr std::string_view letters = "ijklmnpqrstuvwxyz";
  for (std::size_t n = 0; statement.indices.size() < shape.size(); ++n) {
    std::string name(1, letters[n % letters.size()]);
    if (n >= letters.size()) name += std::to_string(n / letters.size());
    if (!is_taken(name)) statement.indices.push_back(name);
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    statement.target.element.push_back(Affine::index(d, shape.size()));
    statement.domain.push_back({Affine::index(d, shape.size()), shape[d]});
  }
  return statement;
}

bool one_point_each(const Statement& statement) {
  std::set<std::size_t> seen;
  for (const auto& form : statement.target.element)
    if (const auto k = form.single_index()) seen.insert(*k);
  return seen.size() == statement.indices.size();
}

}  // namespace tilec::autodiff
