// Random small programs over f64: one to five statements.
//
// Random affine maps (strides, negative coefficients, fractions, diagonals, broadcasts, repeated reads, reads of
// earlier targets and of the tensor a `default` names), random bodies with selects, casts and index values, every
// aggregation with every policy for ties, reshapes, gathers and scatters.
#pragma once

#include <cstdlib>
#include <random>
#include <string>

#include "autodiff/companion.h"
#include "autodiff/term.h"
#include "poly/program.h"

namespace tilec::test {

using namespace autodiff::term;
using namespace poly;

// Smooth: what finite differences can follow. Any: also ties(all), which is no derivative where elements are equal.
//         Narrow: also
// casts to f32 and back.
enum class Kind { Smooth, Any, Narrow };

class Generator {
 public:
  explicit Generator(std::uint64_t seed, Kind kind = Kind::Smooth) : random(seed), kind_(kind) {}

  Program program() {
    Program result;
    result.name = "f";
    for (int n = below(2) + 1, k = 0; k < n; ++k)
      result.inputs.push_back(tensor(result, "A" + std::to_string(k), shape()));
    const int statements = 1 + below(5);
    for (int k = 0; k < statements; ++k) {
      if (chance(7)) moved(result, std::to_string(k));
      else statement(result, "T" + std::to_string(k));
    }
    result.outputs = {static_cast<TensorId>(result.tensors.size()) - 1};
    if (!chance(3)) return result;
    if (const TensorId other = some(result); other != result.outputs[0]) result.outputs.push_back(other);
    return result;
  }

  std::mt19937_64 random;

 private:
  Kind kind_;

  int below(int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }
  bool chance(int n) { return below(n) == 0; }
  std::vector<Size> shape() {
    std::vector<Size> sizes;
    for (int rank = below(3), d = 0; d < rank; ++d) sizes.emplace_back(1 + below(4));
    return sizes;
  }
  static TensorId tensor(Program& program, std::string name, std::vector<Size> shape) {
    program.tensors.push_back({std::move(name), DType::F64, std::move(shape), {}});
    return static_cast<TensorId>(program.tensors.size()) - 1;
  }

  static std::int64_t count(const std::vector<Size>& shape) {
    std::int64_t product = 1;
    for (const auto& size : shape) product *= size.get();
    return product;
  }
  // A reshape, a gather or a scatter of some tensor.
  void moved(Program& program, const std::string& name) {
    const TensorId from = some(program);
    const std::vector<Size> shape = program.tensor(from).shape;
    if (shape.empty() || chance(3)) {
      const std::vector<Size> flat =
          chance(2) ? std::vector<Size>{Size(count(shape))} : std::vector<Size>{Size(1), Size(count(shape))};
      const TensorId to = tensor(program, "T" + name, flat);
      program.nodes.emplace_back(Intrinsic{IntrinsicOp::Reshape, {to}, {from}, flat, {}});
      return;
    }
    const bool gather = chance(2);
    const std::size_t batch = static_cast<std::size_t>(below(static_cast<int>(shape.size())));
    std::vector<Size> index(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(batch)), result = index;
    const Size looked_up = gather ? Size(1 + below(4)) : shape[batch];
    index.push_back(looked_up);
    result.push_back(gather ? looked_up : Size(1 + below(4)));
    result.insert(result.end(), shape.begin() + static_cast<std::ptrdiff_t>(batch) + 1, shape.end());
    const TensorId positions = integers(program, "I" + name, index), to = tensor(program, "T" + name, result);
    program.nodes.emplace_back(Intrinsic{gather ? IntrinsicOp::Gather : IntrinsicOp::Scatter, {to}, {from, positions},
        {Size(static_cast<std::int64_t>(batch))}, {}});
  }
  // Whole numbers between -1 and 5, some of them out of any range: I[i, j] = (a·i + b·j + c) mod 7 - 1.
  TensorId integers(Program& program, std::string name, const std::vector<Size>& shape) {
    Statement made = autodiff::over_shape(program, shape);
    Affine form = Affine::of(below(7), shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) form = form.plus(Affine::index(d, shape.size()).times(1 + below(5)));
    made.value = Apply{Op::Sub,
        {Apply{Op::Mod, {Index{form, DType::I32}, number(DType::I32, 7)}, DType::I32}, number(DType::I32, 1)},
        DType::I32};
    made.fill = Number{DType::I32};
    program.tensors.push_back({std::move(name), DType::I32, shape, {}});
    made.target.tensor = static_cast<TensorId>(program.tensors.size()) - 1;
    program.nodes.emplace_back(made);
    return made.target.tensor;
  }
  // Some tensor of floats.
  TensorId some(const Program& program) {
    for (;;)
      if (const TensorId id = below(static_cast<int>(program.tensors.size())); lang::is_float(program.tensor(id).dtype))
        return id;
  }

  Affine form(std::size_t indices) {
    Affine affine = Affine::of(0, indices);
    if (indices > 0 && !chance(8)) {
      affine.coefficients[static_cast<std::size_t>(below(static_cast<int>(indices)))] = chance(4) ? 2
          : chance(6)                                                                             ? -1
                                                                                                  : 1;
      if (chance(3))
        affine.coefficients[static_cast<std::size_t>(below(static_cast<int>(indices)))] = chance(3) ? -1 : 1;
    }
    if (chance(3)) affine.constant = below(4) - 1;
    if (chance(8)) affine.divisor = 2;
    return affine;
  }
  Access access(const Program& program, Statement& statement, TensorId id) {
    Access made{id, {}};
    for (const auto& extent : program.tensor(id).shape) {
      made.element.push_back(form(statement.indices.size()));
      statement.domain.push_back({made.element.back(), extent});
    }
    return made;
  }

  Expr leaf(const Statement& statement) {
    if (chance(8)) return number(DType::F64, 0.5 + below(3));
    if (chance(12) && !statement.indices.empty()) return Cast{Index{form_of_index(statement), DType::I64}, DType::F64};
    return Read{below(static_cast<int>(statement.reads.size())), DType::F64};
  }
  Affine form_of_index(const Statement& statement) {
    return Affine::index(
        static_cast<std::size_t>(below(static_cast<int>(statement.indices.size()))), statement.indices.size());
  }
  Expr positive(const Expr& x) { return add(number(DType::F64, 1.5), mul(x, x)); }
  Expr value(const Statement& statement, int depth) {
    if (depth == 0) return leaf(statement);
    const Expr a = value(statement, depth - 1);
    switch (below(18)) {
      case 0: return add(a, value(statement, depth - 1));
      case 1: return sub(a, value(statement, depth - 1));
      case 2: case 3: case 4: return mul(a, value(statement, depth - 1));
      case 5: return div(a, positive(value(statement, depth - 1)));
      case 6: return call(Op::Sin, a);
      case 7: return call(Op::Tanh, a);
      case 8: return call(Op::Exp, call(Op::Tanh, a));
      case 9: return call(Op::Sqrt, positive(a));
      case 10: return call(Op::Pow, positive(a), number(DType::F64, below(4) - 1));
      case 11: return call(Op::Log, positive(a));
      case 12: return call(chance(2) ? Op::Max : Op::Min, a, value(statement, depth - 1));
      case 13: return call(chance(2) ? Op::Abs : Op::Sigmoid, a);
      case 14:
        return select(
            autodiff::term::compare(Op::Gt, leaf(statement), leaf(statement)), a, value(statement, depth - 1));
      case 15: return add(a, Cast{autodiff::term::compare(Op::Gt, a, leaf(statement)), DType::F64});
      case 16:
        return kind_ != Kind::Narrow ? mul(a, Cast{Cast{leaf(statement), DType::I32}, DType::F64})
                                     : Expr(Cast{Cast{a, DType::F32}, DType::F64});
      default: return a;
    }
  }

  void statement(Program& program, std::string name) {
    Statement made{.target = {},
        .indices = {},
        .domain = {},
        .aggregation = Aggregation::Sum,
        .value = number(DType::F64, 0),
        .reads = {},
        .fill = Number{DType::F64},
        .ties = Ties::Split,
        .kernel_name = {},
        .span = {}};
    constexpr const char* names[] = {"i", "j", "k"};
    const int count = 1 + below(3);
    for (int k = 0; k < count; ++k) made.indices.emplace_back(names[k]);
    for (int k = 0; k < count; ++k)
      made.domain.push_back({Affine::index(static_cast<std::size_t>(k), made.indices.size()), Size(1 + below(4))});
    for (int reads = 1 + below(3), k = 0; k < reads; ++k) made.reads.push_back(access(program, made, some(program)));
    TensorId latest = static_cast<TensorId>(program.tensors.size()) - 1;
    while (!lang::is_float(program.tensor(latest).dtype)) --latest;
    made.reads.push_back(access(program, made, latest));
    made.value = value(made, 1 + below(3));

    constexpr Aggregation kinds[] = {Aggregation::Sum, Aggregation::Sum, Aggregation::Max, Aggregation::Min,
        Aggregation::Assign, Aggregation::Product};
    made.aggregation = kinds[below(6)];
    if (made.aggregation == Aggregation::Max || made.aggregation == Aggregation::Min)
      made.ties = chance(4) ? Ties::First : kind_ != Kind::Smooth && chance(3) ? Ties::All : Ties::Split;
    if (made.aggregation == Aggregation::Assign) {
      std::vector<Size> extents;
      for (int k = 0; k < count; ++k)
        extents.emplace_back(*made.domain[static_cast<std::size_t>(k)].extent + Size(below(3)));
      made.target.tensor = tensor(program, std::move(name), extents);
      for (int k = 0; k < count; ++k)
        made.target.element.push_back(Affine::index(static_cast<std::size_t>(k), made.indices.size())
                .plus(Affine::of(chance(3) ? 1 : 0, made.indices.size())));
      for (int k = 0; k < count; ++k)
        made.domain.push_back({made.target.element[static_cast<std::size_t>(k)], extents[static_cast<std::size_t>(k)]});
    } else {
      const bool over = chance(3);
      const TensorId fill = some(program);
      const TensorId target = tensor(program, std::move(name), over ? program.tensor(fill).shape : shape());
      made.target = access(program, made, target);
      if (over) made.fill = fill;
    }
    program.nodes.emplace_back(std::move(made));
  }
};

inline std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace tilec::test
