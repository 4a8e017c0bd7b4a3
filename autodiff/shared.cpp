#include "autodiff/shared.h"

#include <algorithm>
#include <unordered_map>

#include "autodiff/term.h"
#include "poly/intern.h"

namespace tilec::autodiff {
namespace {

using namespace term;
using poly::Access;
using poly::Affine;
using poly::Apply;
using poly::Cast;
using poly::Size;
using poly::Statement;

constexpr double longest = 300;                        // operations and operands of a value that is left as it is
constexpr double least = 4;                            // of a part that is worth a statement
constexpr double most = 40;                            // of a part, and of what is left: cut there, equal parts of
                                                       // several values end alike

// Indices as dimensions: an element of a tensor for each point.
struct Points { std::vector<Affine> element; std::vector<Size> shape; };

// The extents are those of the target's dimensions that the indices are; nothing where an index is no dimension alone.
std::optional<Points> points_of(
    const Statement& statement, const std::vector<Affine>& element, const std::vector<Size>& shape) {
  Points points;
  for (std::size_t k = 0; k < statement.indices.size(); ++k) {
    std::size_t d = 0;
    while (d < element.size() && element[d].single_index() != k) ++d;
    if (d == element.size()) return std::nullopt;
    points.element.push_back(element[d]);
    points.shape.push_back(shape[d]);
  }
  return points;
}

const std::vector<Expr> operands_of(const Expr& e) {
  if (const auto* apply = e.as<Apply>()) return apply->operands;
  if (const auto* cast = e.as<Cast>()) return {cast->operand};
  return {};
}

class Sharing {
 public:
  Sharing(const Companion& companion, const Statement& statement, Points points)
      : companion_(companion), statement_(statement), points_(std::move(points)) {}

  Statement run(const Expr& value) {
    count(value);
    statement_.value = written(value, true);
    return std::move(statement_);
  }

 private:
  const Companion& companion_;
  Statement statement_;                                // gets the reads
  Points points_;
  std::unordered_map<const void*, int> uses_;
  std::unordered_map<const void*, Expr> done_;
  std::unordered_map<const void*, double> length_;     // of what is written in place of a node

  void count(const Expr& e) {
    if (++uses_[poly::address(e)] > 1) return;
    for (const Expr& operand : operands_of(e)) count(operand);
  }

  Expr written(const Expr& e, bool whole = false) {
    const void* key = poly::address(e);
    if (const auto known = done_.find(key); known != done_.end()) return known->second;
    double length = 1;
    Expr result = e;
    if (const auto* apply = e.as<Apply>()) {
      Apply same{apply->op, {}, apply->type};
      for (const Expr& operand : apply->operands) {
        same.operands.push_back(written(operand));
        length += length_[poly::address(operand)];
      }
      result = std::move(same);
    } else if (const auto* cast = e.as<Cast>()) {
      result = Cast{written(cast->operand), cast->type};
      length += length_[poly::address(cast->operand)];
    }
    if (!whole && ((uses_[key] > 1 && length >= least) || length >= most) && e.type() != DType::Bool) {
      result = named(result);
      length = 1;
    }
    length_[key] = length;
    done_.emplace(key, result);
    return result;
  }

  Expr named(const Expr& value) {
    Statement part = statement_;
    part.aggregation = poly::Aggregation::Assign;
    part.value = value;
    part.target.element = points_.element;
    part.fill = poly::Number{value.type()};
    tidy_reads(part);
    std::optional<poly::TensorId> id = known(part);
    if (!id) {
      id = part.target.tensor = companion_.helper("V", value.type(), points_.shape);
      companion_.program.nodes.emplace_back(std::move(part));
    }
    statement_.reads.push_back({*id, points_.element});
    return poly::Read{static_cast<int>(statement_.reads.size()) - 1, value.type()};
  }

  // What computes the same already: a part of another value, which is long for the same reason.
  std::optional<poly::TensorId> known(const Statement& part) const {
    for (const poly::Node& node : companion_.program.nodes) {
      const auto* other = std::get_if<Statement>(&node);
      if (other == nullptr || other->reads != part.reads || other->domain != part.domain ||
          other->target.element != part.target.element)
        continue;
      const poly::Tensor& tensor = companion_.program.tensor(other->target.tensor);
      if (other->aggregation == part.aggregation && other->fill == part.fill && other->value == part.value &&
          tensor.dtype == part.value.type() && tensor.shape == points_.shape)
        return other->target.tensor;
    }
    return std::nullopt;
  }
};

}  // namespace

void name_shared(const Companion& companion, Statement& statement) {
  if (poly::length(statement.value) <= longest) return;
  const Expr value = poly::interned(statement.value);
  auto points = points_of(statement, statement.target.element, companion.program.tensor(statement.target.tensor).shape);
  if (!points) {
    statement.value = value;
    return;
  }
  for (std::size_t k = 0; k < points->element.size(); ++k) {
    const poly::Range row{points->element[k], points->shape[k]};
    if (std::find(statement.domain.begin(), statement.domain.end(), row) == statement.domain.end())
      statement.domain.push_back(row);
  }
  statement = Sharing(companion, statement, std::move(*points)).run(value);
}

}  // namespace tilec::autodiff
