// The meaning of a Program, executed, with a bound on what rounding may do to each element (`estimate.h`).
//
// The expression is flattened once into instructions over slots (equal nodes share one); offsets of reads advance by a
// constant along a run of points.
#include "poly/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "poly/estimate.h"
#include "poly/evaluate.h"
#include "poly/interpret_intrinsic.h"
#include "poly/points.h"

namespace tilec::poly {
namespace {

// An affine form with integer coefficients.
struct Linear {
  std::vector<std::int64_t> coefficients;
  std::int64_t constant = 0, divisor = 1;

  std::int64_t at(std::span<const std::int64_t> point) const {
    std::int64_t sum = constant;
    for (std::size_t k = 0; k < coefficients.size(); ++k) sum += coefficients[k] * point[k];
    return divisor == 1 ? sum : sum / divisor;
  }
};

Linear linear(const Affine& affine) {
  Linear form{{}, affine.constant.get(), affine.divisor.get()};
  for (const auto& coefficient : affine.coefficients) form.coefficients.push_back(coefficient.get());
  return form;
}

// Where in its tensor an access lands. Dimensions that no row of the domain guards are looked at point by point.
struct Location {
  std::vector<Linear> element;
  std::vector<std::int64_t> shape, strides;
  std::vector<std::size_t> unguarded;
  bool steady = true;                                  // no divisors: a step of the last index moves it by `step`
  std::int64_t step = 0;

  std::size_t at(std::span<const std::int64_t> point) const {
    for (const auto d : unguarded) {
      const auto x = element[d].at(point);
      if (x < 0 || x >= shape[d]) throw lang::InternalError(fmt::format("an access leaves its tensor: {} of {}", x, shape[d]));
    }
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < element.size(); ++d) offset += element[d].at(point) * strides[d];
    return static_cast<std::size_t>(offset);
  }
};

Location location(const Access& access, const std::vector<Range>& domain, std::vector<std::int64_t> shape) {
  Location where;
  where.shape = std::move(shape);
  where.strides.assign(where.shape.size(), 1);
  for (std::size_t d = where.shape.size(); d-- > 1;) where.strides[d - 1] = where.strides[d] * where.shape[d];
  for (std::size_t d = 0; d < where.shape.size(); ++d) {
    const auto& affine = access.element.at(d);
    where.element.push_back(linear(affine));
    where.steady &= where.element[d].divisor == 1;
    if (where.steady && !affine.coefficients.empty()) where.step += where.element[d].coefficients.back() * where.strides[d];
    const Range row{affine, Size(where.shape[d])};
    if (std::find(domain.begin(), domain.end(), row) == domain.end()) where.unguarded.push_back(d);
  }
  return where;
}

struct Instruction {
  enum Kind { Load, Form, Real, Integer, Compare, Choose, Convert, IsNan, IsFinite } kind;
  Op op = Op::Add;
  DType type = DType::F32, from = DType::F32;          // of the result; of the operands
  std::size_t result = 0, a = 0, b = 0, c = 0;         // slots; for Load `a` is the read, for Form the affine form
};

// The value of a statement as instructions over slots.
class Code {
 public:
  explicit Code(const Expr& value) {
    slots_.emplace_back();                             // slot 0: an operand that is not there
    result = compile(value);
  }

  Value run(std::span<const std::int64_t> point, const std::vector<const Stored*>& tensors, const std::vector<std::size_t>& offsets) {
    for (const auto& i : instructions_) slots_[i.result] = execute(i, point, tensors, offsets);
    return slots_[result];
  }

 private:
  Value execute(const Instruction& i, std::span<const std::int64_t> point, const std::vector<const Stored*>& tensors, const std::vector<std::size_t>& offsets) const {
    const auto &a = slots_[i.a], &b = slots_[i.b], &c = slots_[i.c];
    switch (i.kind) {
      case Instruction::Load: return load(*tensors[i.a], offsets[i.a]);
      case Instruction::Form: return {0, wrap_to(i.type, forms_[i.a].at(point)), 0};
      case Instruction::Real: return apply_real(i.op, i.type, a, b, c);
      case Instruction::Integer: return apply_integer(i.op, i.type, a, b, c);
      case Instruction::Compare: return compare(i.op, i.from, a, b);
      case Instruction::Choose: return choose(i.from, i.type, a, b, c);
      case Instruction::Convert: return cast(i.from, i.type, a);
      case Instruction::IsNan: return {0, std::isnan(a.real), 0};
      case Instruction::IsFinite: return {0, std::isfinite(a.real), 0};
    }
    return {};
  }

  std::size_t emit(Instruction instruction) {
    instruction.result = slots_.size();
    slots_.emplace_back();
    instructions_.push_back(instruction);
    return instruction.result;
  }

  std::size_t compile(const Expr& value) {
    const void* node = value.match([](const auto& n) { return static_cast<const void*>(&n); });
    const auto known = seen_.find(node);
    if (known != seen_.end()) return known->second;
    const auto slot = value.match(
        [&](const Number& n) { return constant(n); },
        [&](const Read& r) { return emit({.kind = Instruction::Load, .type = r.type, .a = static_cast<std::size_t>(r.read)}); },
        [&](const Index& i) {
          forms_.push_back(linear(i.value));
          return emit({.kind = Instruction::Form, .type = i.type, .a = forms_.size() - 1});
        },
        [&](const Cast& c) {
          const auto operand = compile(c.operand);
          return emit({.kind = Instruction::Convert, .type = c.type, .from = c.operand.type(), .a = operand});
        },
        [&](const Apply& a) { return operation(a); });
    seen_.emplace(node, slot);
    return slot;
  }

  std::size_t constant(const Number& n) {
    const bool inexact = lang::is_float(n.type) && round_to(n.type, n.real) != n.real && std::isfinite(n.real);
    slots_.push_back({n.real, n.integer, inexact ? epsilon(n.type) * std::fabs(n.real) : 0});
    return slots_.size() - 1;
  }

  std::size_t operation(const Apply& a) {
    std::size_t operand[3] = {0, 0, 0};
    for (std::size_t k = 0; k < a.operands.size(); ++k) operand[k] = compile(a.operands[k]);
    const auto from = a.operands.at(0).type();
    const bool boolean = lang::info(a.op).result == lang::Result::Boolean;
    const auto kind = a.op == Op::Select ? Instruction::Choose
                      : a.op == Op::IsNan ? Instruction::IsNan
                      : a.op == Op::IsFinite ? Instruction::IsFinite
                      : boolean ? Instruction::Compare
                      : lang::is_float(a.type) ? Instruction::Real : Instruction::Integer;
    return emit({kind, a.op, a.type, from, 0, operand[0], operand[1], operand[2]});
  }

  std::vector<Instruction> instructions_;
  std::vector<Value> slots_;
  std::vector<Linear> forms_;
  std::map<const void*, std::size_t> seen_;            // node → slot; the statement keeps the nodes alive

 public:
  std::size_t result = 0;
};

class Interpreter {
 public:
  explicit Interpreter(const Program& program) : program_(program), tensors_(program.tensors.size()) {
    for (std::size_t id = 0; id < program.tensors.size(); ++id) {
      tensors_[id].array.dtype = program.tensors[id].dtype;
      for (const auto& size : program.tensors[id].shape) tensors_[id].array.shape.push_back(size.get());
    }
  }

  void give(TensorId id, const Array& input) {
    auto& tensor = at(id);
    const auto count = static_cast<std::size_t>(tensor.array.count());
    const bool real = lang::is_float(input.dtype);
    if (input.dtype != tensor.array.dtype || input.shape != tensor.array.shape || (real ? input.reals.size() : input.integers.size()) != count)
      throw lang::InternalError(fmt::format("`{}` is given a tensor of another type or shape", program_.tensor(id).name));
    tensor.array = input;
    tensor.errors.assign(count, 0);
  }

  void run(const Statement& statement);
  void run(const Intrinsic& intrinsic);

  Interpretation result() const {
    Interpretation all;
    for (const auto id : program_.outputs) {
      const auto& tensor = tensors_[static_cast<std::size_t>(id)];
      all.outputs.push_back(tensor.array);
      std::vector<double> magnitudes = tensor.errors;
      const bool real = lang::is_float(tensor.array.dtype);
      for (std::size_t k = 0; real && k < magnitudes.size(); ++k)
        magnitudes[k] = std::max(magnitudes[k] / (8 * epsilon(tensor.array.dtype)), std::isfinite(tensor.array.reals[k]) ? std::fabs(tensor.array.reals[k]) : 0);
      all.magnitudes.push_back(std::move(magnitudes));
    }
    return all;
  }

 private:
  Stored& at(TensorId id) { return tensors_[static_cast<std::size_t>(id)]; }

  const Program& program_;
  std::vector<Stored> tensors_;
};

void Interpreter::run(const Statement& statement) {
  auto& target = at(statement.target.tensor);
  std::vector<Fold> folds(static_cast<std::size_t>(target.array.count()));
  const auto where = location(statement.target, statement.domain, target.array.shape);
  std::vector<Location> reads;
  std::vector<const Stored*> operands;
  for (const auto& read : statement.reads) {
    operands.push_back(&at(read.tensor));
    reads.push_back(location(read, statement.domain, operands.back()->array.shape));
  }
  Code code(statement.value);
  const auto type = statement.value.type();
  std::vector<std::size_t> offsets(reads.size());
  for_each_run(statement.domain, statement.indices.size(), [&](std::span<std::int64_t> point, std::int64_t low, std::int64_t high) {
    std::size_t element = 0;
    for (std::int64_t last = low; last <= high; ++last) {
      if (!point.empty()) point.back() = last;
      const auto move = [&](const Location& l, std::size_t& offset) {
        if (last != low && l.steady && l.unguarded.empty()) offset += static_cast<std::size_t>(l.step);
        else offset = l.at(point);
      };
      move(where, element);
      for (std::size_t r = 0; r < reads.size(); ++r) move(reads[r], offsets[r]);
      fold(statement.aggregation, type, folds[element], code.run(point, operands, offsets));
    }
  });
  // A sum starts from 0, so that of -0 alone is 0; where no element has two points, it is the value of its point (simplify.h makes it `=`).
  if (statement.aggregation == Aggregation::Sum && std::any_of(folds.begin(), folds.end(), [](const Fold& f) { return f.count > 1; }))
    for (Fold& f : folds) f.value.real += 0.0;
  const auto count = folds.size();
  const auto& fill = statement.fill;
  target.errors.assign(count, 0);
  (lang::is_float(target.array.dtype) ? target.array.reals.resize(count) : target.array.integers.resize(count));
  for (std::size_t k = 0; k < count; ++k) {
    if (folds[k].count > 0) store(target, k, finished(statement.aggregation, type, target.array.dtype, folds[k]));
    else if (const auto* number = std::get_if<Number>(&fill)) store(target, k, cast(number->type, target.array.dtype, {number->real, number->integer, 0}));
    else store(target, k, load(at(std::get<TensorId>(fill)), k));
  }
}

void Interpreter::run(const Intrinsic& intrinsic) {
  std::vector<const Stored*> operands;
  for (const auto id : intrinsic.operands) operands.push_back(&at(id));
  poly::run(intrinsic, groups(program_, intrinsic), operands, at(intrinsic.targets.at(0)));
}

}  // namespace

std::int64_t Array::count() const {
  std::int64_t product = 1;
  for (const auto extent : shape) product *= extent;
  return product;
}

Interpretation interpret(const Program& program, const std::vector<Array>& inputs) {
  if (inputs.size() != program.inputs.size()) throw lang::InternalError("the interpreter is given another number of inputs than the program has");
  Interpreter interpreter(program);
  for (std::size_t k = 0; k < inputs.size(); ++k) interpreter.give(program.inputs[k], inputs[k]);
  for (const auto& node : program.nodes) std::visit([&](const auto& n) { interpreter.run(n); }, node);
  return interpreter.result();
}

}  // namespace tilec::poly
