// The meaning of a Program, executed, with a bound on what rounding may do to each element (`estimate.h`).
#include "poly/interpret.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include "poly/block.h"
#include "poly/estimate.h"
#include "poly/intern.h"
#include "poly/interpret_intrinsic.h"
#include "poly/no_memory.h"
#include "poly/points.h"
#include "poly/sample.h"

namespace tilec::poly {
namespace {

// Whether terms of a sum share a factor that a backend may take out of it. What another statement makes may be written
// out, and exp(a - b) is exp(a) / exp(b).
class SharedFactors {
 public:
  SharedFactors(const Program& program, const Statement& statement)
      : program_(program), statement_(statement), summed_(statement.indices.size(), true) {
    for (const Affine& form : statement.target.element)
      if (std::ranges::count_if(form.coefficients, [](const Size& c) { return !c.is(0); }) == 1)
        for (std::size_t k = 0; k < summed_.size(); ++k)
          if (!form.coefficients[k].is(0)) summed_[k] = false;
  }
  bool any() {
    return statement_.aggregation == Aggregation::Sum && lang::is_float(statement_.value.type()) &&
        any(statement_.value, false);
  }

 private:
  bool any(const Expr& e, bool is_factor) {
    if (e.as<Number>() || !seen_.emplace(address(e), is_factor).second) return false;
    if (const auto* cast = e.as<Cast>()) return any(cast->operand, is_factor);
    const auto* apply = e.as<Apply>();
    if (apply && (apply->op == Op::Exp || apply->op == Op::Pow)) return true;
    const bool product = apply && (apply->op == Op::Mul || apply->op == Op::Div || apply->op == Op::Select),
               terms = apply && (apply->op == Op::Add || apply->op == Op::Sub || apply->op == Op::Neg);
    if (product || terms)
      return std::ranges::any_of(apply->operands, [&](const Expr& o) { return any(o, is_factor || product); });
    return is_factor && (is_made(e) || lacks_an_index(e));
  }
  const Access* read_by(const Expr& e) const {
    const auto* read = e.as<Read>();
    return read ? &statement_.reads[static_cast<std::size_t>(read->read)] : nullptr;
  }
  bool is_made(const Expr& e) const {
    const Access* read = read_by(e);
    return read != nullptr && std::ranges::count(program_.inputs, read->tensor) == 0;
  }
  bool lacks_an_index(const Expr& e) const {
    std::vector<bool> lacking = summed_;
    const auto mentions = [&](const Affine& form) {
      for (std::size_t k = 0; k < lacking.size(); ++k)
        if (!form.coefficients[k].is(0)) lacking[k] = false;
    };
    for (const Expr& part : parts(e)) {
      if (const Access* read = read_by(part)) std::ranges::for_each(read->element, mentions);
      if (const auto* index = part.as<Index>()) mentions(index->value);
    }
    return std::ranges::count(lacking, true) > 0;
  }

  const Program& program_;
  const Statement& statement_;
  std::vector<bool> summed_;                           // indices: all but those that a dimension of the target is of
  std::set<std::pair<const void*, bool>> seen_;        // nodes, as factors and not
};

class Interpreter {
 public:
  Interpreter(const Program& program, const Selection& selection, const Progress& progress)
      : program_(program), selection_(selection), progress_(progress), tensors_(program.tensors.size()) {
    for (std::size_t id = 0; id < program.tensors.size(); ++id) {
      tensors_[id].array.dtype = program.tensors[id].dtype;
      for (const auto& size : program.tensors[id].shape) tensors_[id].array.shape.push_back(size.get());
    }
  }

  void give(TensorId id, const Array& input) {
    auto& tensor = at(id);
    const auto count = static_cast<std::size_t>(tensor.array.count());
    const bool real = lang::is_float(input.dtype);
    if (input.dtype != tensor.array.dtype || input.shape != tensor.array.shape ||
        (real ? input.reals.size() : input.integers.size()) != count)
      throw lang::InternalError(
          fmt::format("`{}` is given a tensor of another type or shape", program_.tensor(id).name));
    tensor.array = input;
    tensor.errors.assign(count, 0);
    tensor.exact = true;
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
        if (magnitudes[k] != 0) magnitudes[k] = std::max(magnitudes[k] / (8 * epsilon(tensor.array.dtype)),
            std::isfinite(tensor.array.reals[k]) ? std::fabs(tensor.array.reals[k]) : 0);
      all.magnitudes.push_back(std::move(magnitudes));
    }
    return all;
  }

 private:
  struct Running;
  Stored& at(TensorId id) { return tensors_[static_cast<std::size_t>(id)]; }
  void make_room(TensorId id);
  void finish(const Running& r, std::size_t element, const Fold& fold);
  void flush(Running& r);
  void add(Running& r, std::span<std::int64_t> point, std::int64_t low, std::int64_t high);
  void advance(std::size_t points, std::size_t operations);

  const Program& program_;
  const Selection& selection_;
  const Progress& progress_;
  std::vector<Stored> tensors_;
  double steps_ = 0;
};

// A statement on its way: points by the block, and what was made of them so far.
struct Interpreter::Running {
  const Statement& statement;
  const Needed& needed;
  Block block;
  Trace trace;
  bool assigns;                                        // keeps no folds: its one point is stored at once
  bool shares;                                         // factors among the terms: an infinite sum may be NaN
  std::vector<Fold> folds;
  std::vector<bool> reached;
  std::vector<std::size_t> places = std::vector<std::size_t>(block_size);  // in `folds`
  std::size_t place = 0;
};

void Interpreter::make_room(TensorId id) {
  auto& target = at(id);
  const auto count = static_cast<std::size_t>(target.array.count());
  const NoMemory none(program_.tensor(id).name, 16 * static_cast<std::uint64_t>(count));
  if (!has_room(16 * static_cast<std::uint64_t>(count))) throw none;
  try {
    (lang::is_float(target.array.dtype) ? target.array.reals.resize(count) : target.array.integers.resize(count));
    target.errors.assign(count, 0);
  } catch (const std::bad_alloc&) {
    throw none;
  } catch (const std::length_error&) {
    throw none;
  }
}

// Computes the points of a block.
void Interpreter::flush(Running& r) {
  const auto type = r.statement.value.type();
  const std::size_t points = r.block.size();
  const Column& values = r.block.run();
  if (!r.assigns)
    fold(r.statement.aggregation, type, points, r.needed.all ? r.trace.elements().data() : r.places.data(), values,
        r.folds.data());
  for (std::size_t k = 0; r.assigns && k < points; ++k) {
    const std::size_t element = r.trace.elements()[k];
    if (r.reached[element]) throw lang::InternalError("two points of an assignment write one element");
    r.reached[element] = true;
    Fold one;
    fold(r.statement.aggregation, type, one, values.at(k));
    finish(r, element, one);
  }
  advance(points, r.block.operations());
}

// Adds the points of a run, block by block.
void Interpreter::add(Running& r, std::span<std::int64_t> point, std::int64_t low, std::int64_t high) {
  for (auto left = static_cast<std::size_t>(high - low) + 1; left > 0;) {
    const std::size_t some = std::min(left, r.block.room()), at = r.block.size();
    r.trace.add(point, low, some, at);
    std::fill_n(r.places.begin() + static_cast<std::ptrdiff_t>(at), some, r.place);
    r.block.add(point, low, some);
    low += static_cast<std::int64_t>(some);
    left -= some;
    if (r.block.room() == 0) flush(r);
  }
}

// Points of one element follow each other in lexicographic order, whichever elements are computed.
void Interpreter::run(const Statement& statement) {
  const Needed& needed = selection_.tensors[static_cast<std::size_t>(statement.target.tensor)];
  if (!needed.all && needed.elements.empty()) return;
  make_room(statement.target.tensor);
  auto& target = at(statement.target.tensor);
  const auto count = static_cast<std::size_t>(target.array.count());
  std::vector<const Stored*> operands;
  for (const auto& read : statement.reads) operands.push_back(&at(read.tensor));
  const bool assigns = statement.aggregation == Aggregation::Assign;
  Running r{statement, needed, Block(statement, std::move(operands)),
      Trace(location(statement.target, statement.domain, target.array.shape)), assigns,
      SharedFactors(program_, statement).any(),
      std::vector<Fold>(assigns ? 0 : needed.all ? count : needed.elements.size()),
      std::vector<bool>(assigns ? count : 0)};
  const Visit visit = [&](std::span<std::int64_t> point, std::int64_t low, std::int64_t high) {
    add(r, point, low, high);
  };
  if (needed.all) for_each_run(statement.domain, statement.indices.size(), visit);
  for (const auto element : needed.elements) {
    for_each_run(points_of(statement, target.array.shape, element), statement.indices.size(), visit);
    ++r.place;
  }
  flush(r);
  // A sum starts from 0, so that of -0 alone is 0; where no element has two points, it is the value of its point
  // (simplify.h makes it `=`).
  if (statement.aggregation == Aggregation::Sum &&
      std::ranges::any_of(r.folds, [](const Fold& f) { return f.count > 1; }))
    for (Fold& f : r.folds) f.value.real += 0.0;
  for (std::size_t k = 0; k < (needed.all ? count : needed.elements.size()); ++k) {
    const std::size_t element = needed.all ? k : needed.elements[k];
    if (!assigns) finish(r, element, r.folds[k]);
    else if (!r.reached[element]) finish(r, element, {});
  }
  target.exact = std::ranges::all_of(target.errors, [](double error) { return error == 0; });
}

void Interpreter::finish(const Running& r, std::size_t element, const Fold& fold) {
  const Statement& statement = r.statement;
  auto& target = at(statement.target.tensor);
  if (fold.count > 0) {
    Value value = finished(statement.aggregation, statement.value.type(), target.array.dtype, fold);
    if (r.shares && fold.count > 1 && std::isinf(value.real)) value.error = infinity;
    return store(target, element, value);
  }
  if (const auto* number = std::get_if<Number>(&statement.fill))
    return store(target, element, cast(number->type, target.array.dtype, {number->real, number->integer, 0}));
  store(target, element, load(at(std::get<TensorId>(statement.fill)), element));
}

void Interpreter::advance(std::size_t points, std::size_t operations) {
  steps_ += static_cast<double>(points * (1 + operations));
  if (progress_) progress_(std::min(1.0, steps_ / selection_.steps));
}

void Interpreter::run(const Intrinsic& intrinsic) {
  const Needed& needed = selection_.tensors[static_cast<std::size_t>(intrinsic.targets.at(0))];
  if (!needed.all && needed.elements.empty()) return;
  std::vector<const Stored*> operands;
  for (const auto id : intrinsic.operands) operands.push_back(&at(id));
  poly::run(intrinsic, groups(program_, intrinsic), operands, at(intrinsic.targets.at(0)));
}

}  // namespace

Interpretation interpret(const Program& program, const std::vector<Array>& inputs) {
  return interpret(program, inputs, everything(program), {});
}

Interpretation interpret(
    const Program& program, const std::vector<Array>& inputs, const Selection& selection, const Progress& progress) {
  if (inputs.size() != program.inputs.size())
    throw lang::InternalError("the interpreter is given another number of inputs than the program has");
  Interpreter interpreter(program, selection, progress);
  for (std::size_t k = 0; k < inputs.size(); ++k) interpreter.give(program.inputs[k], inputs[k]);
  for (const auto& node : program.nodes) std::visit([&](const auto& n) { interpreter.run(n); }, node);
  return interpreter.result();
}

}  // namespace tilec::poly
