// The meaning of a Program, executed, with a bound on what rounding may do to each element.
//
// The problem: a backend sums in another order and has its own `exp`, so its results differ from these, and a test must
// know by how much they may. A fixed tolerance is either too wide for a sum of three numbers or too narrow for one with
// cancellation. So an absolute error travels with every value, first order and derivative-free:
//
//   input                0
//   a + b                ea + eb                        every operation adds 2 ulp of its result, in its type
//   a · b                |a|·eb + |b|·ea + ea·eb
//   f(x)                 the largest |f(x ± e) - f(x)|: no derivative needed, and a step in between is seen
//   a < b                1 where |a - b| <= ea + eb and a != b: either answer is right
//   c ? a : b            that of the arm, plus |a - b| where c is uncertain
//   Σ terms              Σ e + 8·eps·Σ|term|·(1 + √n/32 + n/1024): equal terms round alike
//   store                + 1 ulp of the tensor's type
//
// For `0.1f + 0.2f - 0.3f` the value is about 1e-8 and the error 2e-7: nothing can be said about its digits, and the
// tolerance says so. `magnitudes` is this error in units of 8·eps of the tensor's type, and at least |value|.
//
// The expression is flattened once into instructions over slots (equal nodes share one); offsets of reads advance by a
// constant along a run of points.
#include "poly/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "poly/evaluate.h"
#include "poly/points.h"

namespace tilec::poly {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double epsilon(DType type) {
  switch (type) {
    case DType::F16: return 0x1p-10;
    case DType::BF16: return 0x1p-7;
    case DType::F32: return 0x1p-23;
    case DType::F64: return 0x1p-52;
    default: return 0;
  }
}

double least(DType type) {
  switch (type) {
    case DType::F16: return 0x1p-24;
    case DType::BF16:
    case DType::F32: return 0x1p-126;                  // backends may flush subnormals
    case DType::F64: return 0x1p-1022;
    default: return 0;
  }
}

double largest(DType type) {
  switch (type) {
    case DType::F16: return 65504;
    case DType::BF16:
    case DType::F32: return 0x1.fffffep127;
    default: return std::numeric_limits<double>::max();
  }
}

// One scalar: a float in `real`, anything else in `integer`; and how far a backend may be off.
struct Value { double real = 0; std::int64_t integer = 0; double error = 0; };

// A tensor while the Program runs.
struct Stored { Array array; std::vector<double> errors; };

Value load(const Stored& tensor, std::size_t at) {
  return lang::is_float(tensor.array.dtype) ? Value{tensor.array.reals[at], 0, tensor.errors[at]} : Value{0, tensor.array.integers[at], tensor.errors[at]};
}

void store(Stored& tensor, std::size_t at, const Value& value) {
  if (lang::is_float(tensor.array.dtype)) tensor.array.reals[at] = value.real;
  else tensor.array.integers[at] = value.integer;
  tensor.errors[at] = value.error;
}

double as_real(DType type, const Value& v) {
  return lang::is_float(type) ? v.real : type == DType::U64 ? static_cast<double>(static_cast<std::uint64_t>(v.integer)) : static_cast<double>(v.integer);
}

// |a - b| where a difference that is not a number means that nothing is known.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double apart = std::fabs(a - b);
  return std::isnan(apart) ? infinity : apart;
}

// |factor| * error, where nothing times an unbounded error is unbounded, not NaN: the error may come from a value that is not finite.
double error_product(double factor, double error) {
  if (error == 0) return 0;
  const double product = std::fabs(factor) * error;
  return std::isnan(product) ? infinity : product;
}

double error_square(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

double own_error(DType type, double result) { return std::isfinite(result) ? 2 * epsilon(type) * std::fabs(result) + least(type) : 0; }

bool is_exact(Op op) {
  switch (op) {
    case Op::Neg: case Op::Abs: case Op::Max: case Op::Min: case Op::Relu: case Op::Sign: case Op::Ceil: case Op::Floor: case Op::Round: case Op::Trunc: return true;
    default: return false;
  }
}

// The error that operands of a float operation hand on.
double inherited(Op op, DType type, const Value& a, const Value& b, const Value& c, double result) {
  if (a.error == 0 && b.error == 0 && c.error == 0) return 0;
  switch (op) {
    case Op::Add:
    case Op::Sub: return a.error + b.error;
    case Op::Mul: return error_product(a.real, b.error) + error_product(b.real, a.error) + error_square(a.error, b.error);
    case Op::Fma: return error_product(a.real, b.error) + error_product(b.real, a.error) + error_square(a.error, b.error) + c.error;
    case Op::Neg:
    case Op::Abs:
    case Op::Relu: return a.error;
    case Op::Max:
    case Op::Min: return std::max(a.error, b.error);
    case Op::Div: return std::fabs(b.real) > b.error ? (a.error + error_product(result, b.error)) / (std::fabs(b.real) - b.error) : infinity;
    case Op::Sin:
    case Op::Cos: return std::min(2.0, a.error);
    case Op::Tan: if (a.error >= 1.5) return infinity; break;
    case Op::Mod: {                                    // a jump from one end of [0, |b|) to the other may lie between
      const double period = std::fabs(b.real), e = a.error + error_product(a.real / b.real, b.error);
      return e < std::fabs(result) && std::fabs(result) + e < period - b.error ? e : std::isfinite(period) ? period + e : infinity;
    }
    default: break;
  }
  double worst = 0;
  for (const double x : {a.real - a.error, a.real + a.error})
    for (const double y : {b.real - b.error, b.real + b.error}) worst = std::max(worst, distance(real_operation(op, type, x, y, c.real), result));
  return worst;
}

Value apply_real(Op op, DType type, const Value& a, const Value& b, const Value& c) {
  const double result = real_operation(op, type, a.real, b.real, c.real);
  return {result, 0, inherited(op, type, a, b, c, result) + (is_exact(op) ? 0 : own_error(type, result))};
}

Value apply_integer(Op op, DType type, const Value& a, const Value& b, const Value& c) {
  const auto result = integer_operation(op, type, a.integer, b.integer, c.integer);
  if (a.error == 0 && b.error == 0 && c.error == 0) return {0, result, 0};
  const double x = as_real(type, a), y = as_real(type, b);
  switch (op) {
    case Op::Add: case Op::Sub: case Op::Max: case Op::Min: case Op::Neg: case Op::Abs: case Op::Relu: return {0, result, a.error + b.error};
    case Op::Mul: return {0, result, error_product(x, b.error) + error_product(y, a.error) + error_square(a.error, b.error)};
    default: return {0, result, infinity};
  }
}

Value compare(Op op, DType type, const Value& a, const Value& b) {
  const bool real = lang::is_float(type);
  const bool holds = real ? compare_reals(op, type, a.real, b.real) : compare_integers(op, type, a.integer, b.integer);
  if (a.error == 0 && b.error == 0) return {0, holds, 0};
  const double apart = distance(as_real(type, a), as_real(type, b));
  return {0, holds, apart != 0 && apart <= a.error + b.error ? 1.0 : 0.0};
}

Value choose(DType condition_type, DType type, const Value& condition, const Value& a, const Value& b) {
  const bool first = lang::is_float(condition_type) ? condition.real != 0 : condition.integer != 0;
  Value value = first ? a : b;
  if (condition.error != 0) value.error = std::max(a.error, b.error) + distance(as_real(type, a), as_real(type, b));
  return value;
}

Value cast(DType from, DType to, const Value& v) {
  Value result;
  if (lang::is_float(to)) {
    result.real = lang::is_float(from) ? round_to(to, round_to(from, v.real)) : integer_to_real(from, to, v.integer);
    result.error = v.error + epsilon(to) * (std::isfinite(result.real) ? std::fabs(result.real) : 0);
    if (lang::is_float(from) && result.real == v.real && v.error == 0) result.error = 0;
    if (!lang::is_float(from) && as_real(from, v) == result.real) result.error = v.error;
  } else if (lang::is_float(from)) {
    const double seen = round_to(from, v.real);
    result.integer = real_to_integer(to, seen);
    if (v.error != 0) {
      const auto low = real_to_integer(to, v.real - v.error), high = real_to_integer(to, v.real + v.error);
      result.error = std::max(distance(static_cast<double>(low), static_cast<double>(result.integer)), distance(static_cast<double>(high), static_cast<double>(result.integer)));
    }
  } else {
    result.integer = wrap_to(to, v.integer);
    result.error = v.error;
  }
  return result;
}

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

// What an element has gathered so far.
// `above`, `below`: the products of the factors over and under 1, between which any order of multiplication stays.
struct Fold { Value value; double terms = 0; std::int64_t count = 0; double above = 1, below = 1; };

void fold_extreme(Aggregation aggregation, DType type, Value& held, const Value& v) {
  const auto op = aggregation == Aggregation::Max ? Op::Max : Op::Min;
  held = lang::is_float(type) ? apply_real(op, type, held, v, {}) : apply_integer(op, type, held, v, {});
}

void fold(Aggregation aggregation, DType type, Fold& fold, const Value& v) {
  const bool real = lang::is_float(type);
  const double size = real && std::isfinite(v.real) ? std::fabs(v.real) : 0;
  fold.terms += size;
  if (size > 1) fold.above *= size;
  else if (size > 0) fold.below *= size;
  if (fold.count++ == 0) {
    fold.value = v;
    return;
  }
  switch (aggregation) {
    case Aggregation::Assign: throw lang::InternalError("two points of an assignment write one element");
    case Aggregation::Sum:
      if (real) fold.value.real += v.real;
      else fold.value.integer = integer_operation(Op::Add, type, fold.value.integer, v.integer, 0);
      fold.value.error += v.error;
      return;
    case Aggregation::Product: fold.value = real ? apply_real(Op::Mul, type, fold.value, v, {}) : apply_integer(Op::Mul, type, fold.value, v, {}); return;
    case Aggregation::Max:
    case Aggregation::Min: return fold_extreme(aggregation, type, fold.value, v);
  }
}

Value finished(Aggregation aggregation, DType type, DType target, const Fold& fold) {
  Value value = fold.value;
  if (aggregation == Aggregation::Sum && fold.count > 1) value.error += 8 * epsilon(type) * fold.terms * (1 + std::sqrt(static_cast<double>(fold.count)) / 32 + static_cast<double>(fold.count) / 1024);
  const bool out = aggregation == Aggregation::Product ? fold.above > largest(type) || fold.below < least(type) : aggregation == Aggregation::Sum && fold.terms > largest(type);
  if (lang::is_float(type) && fold.count > 1 && out) value.error = infinity;  // in some order a partial result leaves the type
  return cast(type, target, value);
}

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
  if (intrinsic.op != IntrinsicOp::Reshape) throw lang::InternalError("the interpreter has no such intrinsic");
  const auto& from = at(intrinsic.operands.at(0));
  auto& to = at(intrinsic.targets.at(0));
  if (from.array.count() != to.array.count()) throw lang::InternalError(fmt::format("reshape makes {} elements of {}", to.array.count(), from.array.count()));
  to.array.reals = from.array.reals;
  to.array.integers = from.array.integers;
  to.errors = from.errors;
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
