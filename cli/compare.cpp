#include "cli/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "cli/arguments.h"
#include "cli/call.h"
#include "runtime/error.h"

namespace tilec::cli {

namespace {

using lang::DType;
using poly::Array;
using runtime::Argument;
using runtime::Callable;
using runtime::Tensor;

double epsilon(DType type) {
  switch (type) {
    case DType::F16: return 0x1p-10;
    case DType::BF16: return 0x1p-7;
    case DType::F64: return 0x1p-52;
    default: return 0x1p-23;
  }
}

Tensor as_double(const std::string& name, const Tensor& tensor) {
  return lang::is_float(tensor.dtype) ? runtime::convert(name, tensor, DType::F64) : tensor;
}

struct Evaluation { std::vector<runtime::Port> ports; std::vector<Tensor> outputs; };

std::optional<Evaluation> evaluate(
    const Callable& callable, const std::vector<Argument>& arguments, lang::Diagnostics& diagnostics) {
  const auto made = callable.specialise(arguments, {}, diagnostics);
  if (!made) return std::nullopt;
  Evaluation result{made->module->outputs, runtime::allocate_outputs(*made->module)};
  runtime::run(*made->module, runtime::bind_inputs(*made->module, arguments), result.outputs);
  return result;
}

// L = Σ cotangent · output, in double, and Σ |cotangent · output|.
std::pair<double, double> loss(const Evaluation& value, const std::vector<std::pair<std::string, Array>>& cotangents) {
  double sum = 0, magnitude = 0;
  for (std::size_t k = 0; k < value.ports.size(); ++k) {
    const auto at = std::ranges::find(cotangents, value.ports[k].name, [](const auto& c) { return c.first; });
    if (at == cotangents.end()) continue;
    const Array output = runtime::to_array(value.outputs[k]);
    for (std::size_t n = 0; n < output.reals.size(); ++n) {
      sum += at->second.reals[n] * output.reals[n];
      magnitude += std::fabs(at->second.reals[n] * output.reals[n]);
    }
  }
  return {sum, magnitude};
}

Array direction(const Array& x, int turn, std::mt19937_64& generator) {
  Array v = x;
  std::ranges::fill(v.reals, 0.0);
  if (turn % 2 == 0)
    for (double& e : v.reals) e = static_cast<double>(generator() >> 11) * 0x1p-52 - 1.0;  // all elements at once
  else if (!v.reals.empty()) v.reals[generator() % v.reals.size()] = 1.0;                     // one element
  return v;
}

Tensor moved(const std::string& name, const Array& x, const Array& v, double h) {
  Array result = x;
  for (std::size_t n = 0; n < x.reals.size(); ++n) result.reals[n] += h * v.reals[n];
  Tensor tensor = runtime::allocate(name, DType::F64, x.shape);
  runtime::from_array(result, tensor);
  return tensor;
}

using Weights = std::vector<std::pair<std::string, Array>>;  // per output of the function that is differentiated

// Several opinions on one tensor as one: the worst. That is the one whose error is the largest part of what it may be,
// not the largest error, which may be well within a larger allowance. True when it is this one.
bool add(Comparison& worst, double error, double allowed) {
  const bool bad = !(error <= allowed) || !std::isfinite(allowed);  // what has no bound agrees with nothing
  const double part = bad && !(error / allowed < HUGE_VAL) ? HUGE_VAL : error == 0 ? 0 : error / allowed;
  const bool is_worse = bad != worst.bad ? bad : part > worst.part || (part == worst.part && error > worst.error);
  if (!is_worse) return false;
  worst.error = error;
  worst.allowed = allowed;
  worst.part = part;
  worst.bad = bad;
  return true;
}

constexpr double h = 0x1p-17;
constexpr int turns = 6, fewest_turns = 2;             // one of all elements, one of a single one
constexpr double enough = 6;                           // seconds for all tensors, after which two turns do
constexpr double dear = 0x1p32;                        // steps of the interpreter that nobody waits for unasked: ten to
                                                       // thirty seconds

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Rounding of L over h, the third derivative, and the type in which the derivative was computed.
double allowed_difference(double magnitude, double largest, double type_error) {
  return 0x1p-50 * magnitude / h + (1e-6 + type_error) * largest + 1e-9;
}

std::pair<double, double> product(const Array& a, const Array& b) {  // Σ a·b and Σ |a·b|
  double sum = 0, magnitude = 0;
  for (std::size_t n = 0; n < a.reals.size(); ++n) {
    sum += a.reals[n] * b.reals[n];
    magnitude += std::fabs(a.reals[n] * b.reals[n]);
  }
  return {sum, magnitude};
}

// What the gradient by one input claims, along a few directions.
std::optional<Comparison> check_input(const Callable& function, std::vector<Argument> arguments, std::size_t which,
    const Weights& cotangents, const std::string& name, const Array& gradient, double type_error,
    lang::Diagnostics& diagnostics, double seconds, const poly::Progress& progress) {
  const Array x = runtime::to_array(*arguments[which].tensor);
  std::mt19937_64 generator(42);
  Comparison worst{name, {}, "difference"};
  const double start = now();
  int turn = 0;
  for (; turn < turns && (turn < fewest_turns || now() - start < seconds); ++turn) {
    if (progress) progress(static_cast<double>(turn) / turns);
    const Array v = direction(x, turn, generator);
    double values[2] = {}, magnitude = 0;
    for (int side = 0; side < 2; ++side) {
      arguments[which].tensor = moved(arguments[which].name, x, v, side == 0 ? h : -h);
      const std::optional<Evaluation> value = evaluate(function, arguments, diagnostics);
      if (!value) return std::nullopt;
      const auto [sum, absolute] = loss(*value, cotangents);
      values[side] = sum;
      magnitude = std::max(magnitude, absolute);
    }
    const double difference = (values[0] - values[1]) / (2 * h);
    const auto [claimed, claimed_magnitude] = product(gradient, v);
    add(worst, std::fabs(difference - claimed),
        allowed_difference(magnitude, std::max(claimed_magnitude, std::fabs(difference)), type_error));
  }
  worst.with = fmt::format("finite differences along {} directions", turn);
  return worst;
}

// What a tangent claims of one output, as a few weighted sums of its elements. `sides`: the function at x + h·t and at
// x - h·t.
Comparison check_output(const Evaluation (&sides)[2], const std::string& output, const std::string& name,
    const Array& tangent, double type_error) {
  std::mt19937_64 generator(42);
  Comparison worst{name, fmt::format("finite differences in {} weighted sums", turns), "difference"};
  for (int turn = 0; turn < turns; ++turn) {
    const Weights weights{{output, direction(tangent, turn, generator)}};
    const auto [above, above_magnitude] = loss(sides[0], weights);
    const auto [below, below_magnitude] = loss(sides[1], weights);
    const double difference = (above - below) / (2 * h);
    const auto [claimed, claimed_magnitude] = product(tangent, weights[0].second);
    add(worst, std::fabs(difference - claimed),
        allowed_difference(std::max(above_magnitude, below_magnitude),
            std::max(claimed_magnitude, std::fabs(difference)), type_error));
  }
  return worst;
}

const Argument* find(const std::vector<Argument>& arguments, const std::string& name) {
  const auto at = std::ranges::find(arguments, name, &Argument::name);
  return at == arguments.end() ? nullptr : &*at;
}

std::vector<std::string> float_names(const poly::Program& program, const std::vector<poly::TensorId>& ids) {
  std::vector<std::string> names;
  for (const poly::TensorId id : ids)
    if (lang::is_float(program.tensor(id).dtype)) names.push_back(runtime::without_mark(program.tensor(id).name));
  return names;
}

// A derivative and what it is the derivative of, the second in f64; and both by name: what is differentiated, by what.
struct Pair {
  std::shared_ptr<const Callable> function, derivative;
  poly::Program outline;                               // of the derivative
  bool forward;
  std::vector<std::string> of, wrt, parameters, results;  // parameters: cotangents of `of`, or tangents of `wrt`
};

std::optional<Pair> pair_of(const Callable& callable, const codegen::Derivative& otherwise,
    const std::vector<Argument>& arguments, lang::Diagnostics& diagnostics) {
  codegen::Request whole = callable.request(), plain;
  whole.outputs.clear();
  if (whole.derivatives.empty() || whole.derivatives.back().batch) {
    whole.derivatives.push_back(otherwise);
    whole.plan.reset();                                    // it is that of the function
  }
  plain = whole;
  plain.plan.reset();
  const codegen::Derivative last = whole.derivatives.back();
  plain.derivatives.pop_back();
  const auto derivative = std::make_shared<const Callable>(callable.sources(), callable.file(), whole);
  const auto function = std::make_shared<const Callable>(callable.sources(), in_double(callable.file()), plain);
  codegen::Request unused;
  const auto base = Callable(callable.sources(), callable.file(), plain).outline(arguments, unused, diagnostics);
  const auto outline = base ? derivative->outline(arguments, unused, diagnostics) : std::nullopt;
  if (!outline) return std::nullopt;
  Pair pair{function, derivative, *outline, last.forward, last.of, last.wrt, {}, {}};
  for (auto* names : {&pair.of, &pair.wrt})
    for (std::string& name : *names) name = runtime::without_mark(name);
  if (pair.of.empty()) pair.of = float_names(*base, base->outputs);
  if (pair.wrt.empty()) pair.wrt = float_names(*base, base->inputs);
  for (std::size_t k = base->inputs.size(); k < outline->inputs.size(); ++k)
    pair.parameters.push_back(runtime::without_mark(outline->tensor(outline->inputs[k]).name));
  for (const poly::TensorId id : outline->outputs)
    pair.results.push_back(runtime::without_mark(outline->tensor(id).name));
  return pair;
}

// Cotangents of the outputs, or tangents of the inputs, in f64. Those that the call has not are random, and added to
// `arguments` in the type that the derivative takes.
std::optional<Weights> parameters_of(const Pair& pair, const std::vector<Argument>& doubles,
    std::vector<Argument>& arguments, lang::Diagnostics& diagnostics) {
  std::optional<Evaluation> value;
  if (!pair.forward) value = evaluate(*pair.function, doubles, diagnostics);
  if (!pair.forward && !value) return std::nullopt;
  const auto shape_of = [&](const std::string& name) {
    if (pair.forward) {
      const Argument* argument = find(doubles, name);
      return argument != nullptr && argument->tensor ? argument->tensor->shape : std::vector<std::int64_t>{};
    }
    const auto port = std::ranges::find(value->ports, name, &runtime::Port::name);
    if (port == value->ports.end())
      throw lang::InternalError(fmt::format("`{}` is no output of what is differentiated", name));
    return port->shape;
  };
  Weights weights;
  for (std::size_t k = 0; k < pair.parameters.size(); ++k) {
    const std::string& source = pair.forward ? pair.wrt[k] : pair.of[k];
    const std::string& name = pair.parameters[k];
    const Argument* given = find(arguments, name);
    Argument argument{name, std::nullopt, false, 0, 0};
    if (given != nullptr && given->tensor) argument = *given;
    else {
      argument.tensor = runtime::allocate(name, DType::F64, shape_of(source));
      if (given != nullptr) runtime::from_array({DType::F64, {}, {given->real}, {}}, *argument.tensor);
      else fill_random(*argument.tensor, name, 0);
      for (const poly::TensorId id : pair.outline.inputs)
        if (runtime::without_mark(pair.outline.tensor(id).name) == name)
          argument.tensor = runtime::convert(name, *argument.tensor, pair.outline.tensor(id).dtype);
      if (given == nullptr) arguments.push_back(argument);
    }
    weights.emplace_back(source, runtime::to_array(as_double(name, *argument.tensor)));
  }
  return weights;
}

std::optional<std::vector<Comparison>> compare_reverse(const Pair& pair, const std::vector<Argument>& doubles,
    const Weights& cotangents, const Evaluation& gradient, lang::Diagnostics& diagnostics,
    const poly::Progress& progress) {
  std::vector<Comparison> compared;
  const auto count = static_cast<double>(gradient.ports.size());
  for (std::size_t k = 0; k < gradient.ports.size(); ++k) {
    const auto overall = [&](double done) {
      if (progress) progress((static_cast<double>(k) + done) / count);
    };
    const auto at = std::ranges::find(doubles, pair.wrt[k], &Argument::name);
    if (at == doubles.end() || !at->tensor) continue;      // absent, or a plain number
    const auto which = static_cast<std::size_t>(at - doubles.begin());
    const auto one = check_input(*pair.function, doubles, which, cotangents, gradient.ports[k].name,
        runtime::to_array(gradient.outputs[k]), 256 * epsilon(gradient.ports[k].dtype), diagnostics, enough / count,
        overall);
    if (!one) return std::nullopt;
    compared.push_back(*one);
  }
  return compared;
}

std::optional<std::vector<Comparison>> compare_forward(const Pair& pair, const std::vector<Argument>& doubles,
    const Weights& tangents, const Evaluation& tangent, lang::Diagnostics& diagnostics) {
  Evaluation sides[2];
  for (int side = 0; side < 2; ++side) {
    std::vector<Argument> at = doubles;
    const double step = side == 0 ? h : -h;
    for (Argument& argument : at) {
      const auto moves = std::ranges::find(tangents, argument.name, [](const auto& t) { return t.first; });
      if (moves == tangents.end()) continue;
      if (argument.tensor)
        argument.tensor = moved(argument.name, runtime::to_array(*argument.tensor), moves->second, step);
      else argument = {argument.name, std::nullopt, false, 0, argument.real + step * moves->second.reals.at(0)};
    }
    auto value = evaluate(*pair.function, at, diagnostics);
    if (!value) return std::nullopt;
    sides[side] = std::move(*value);
  }
  std::vector<Comparison> compared;
  for (std::size_t k = 0; k < tangent.ports.size(); ++k)
    compared.push_back(check_output(sides, pair.of[k], tangent.ports[k].name, runtime::to_array(tangent.outputs[k]),
        256 * epsilon(tangent.ports[k].dtype)));
  return compared;
}

}  // namespace

lang::File in_double(lang::File file) {
  const auto widen = [](lang::Target& target) {
    if (!target.dtype) return;
    const std::optional<DType> type = lang::dtype_named(target.dtype->text);
    if (type && lang::is_float(*type)) target.dtype->text = "f64";
  };
  for (auto& item : file.items) {
    auto* function = std::get_if<lang::Function>(&item);
    if (function == nullptr) continue;
    for (lang::Input& input : function->inputs) widen(input.target);
    for (lang::Target& result : function->results) widen(result);
    for (lang::Statement& statement : function->statements) {
      if (auto* assignment = std::get_if<lang::Assignment>(&statement.node)) widen(assignment->target);
      if (auto* contraction = std::get_if<lang::Contraction>(&statement.node)) widen(contraction->target);
    }
  }
  return file;
}

std::vector<Argument> in_double(std::vector<Argument> arguments) {
  for (Argument& argument : arguments)
    if (argument.tensor) argument.tensor = as_double(argument.name, *argument.tensor);
  return arguments;
}

std::string element_name(const std::vector<std::int64_t>& shape, std::size_t n) {
  if (shape.empty()) return {};
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    at[d] = static_cast<std::int64_t>(n) % shape[d];
    n /= static_cast<std::size_t>(shape[d]);
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

std::optional<double> off_by(const Array& got, const Array& wanted, std::size_t n) {
  if (!lang::is_float(got.dtype)) {
    if (got.integers[n] == wanted.integers[n]) return std::nullopt;
    return std::fabs(static_cast<double>(got.integers[n]) - static_cast<double>(wanted.integers[n]));
  }
  const double a = got.reals[n], b = wanted.reals[n];
  if (a == b || (std::isnan(a) && std::isnan(b))) return std::nullopt;
  if (std::isinf(a) && a == -b) return std::nan("");  // however large the terms were
  const double error = std::fabs(a - b);
  return std::isnan(error) ? HUGE_VAL : error;
}

Comparison compare(std::string name, const Array& got, const Array& wanted, const std::vector<double>& allowed,
    const poly::Needed& which) {
  Comparison worst{std::move(name), "the interpreter"};
  double largest = 0;
  for (const double value : wanted.reals)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  const auto look_at = [&](std::size_t n) {
    const std::optional<double> error = off_by(got, wanted, n);
    if (!error && !std::isfinite(allowed[n])) return;    // equal values agree, whatever is known of their rounding
    const bool of_other_sign = error && std::isnan(*error);
    if (lang::is_float(got.dtype) && !std::isfinite(allowed[n]) && !std::isfinite(got.reals[n]) && !of_other_sign) {
      if (worst.undecided.empty())
        worst.undecided = fmt::format("at {}: {}", got.shape.empty() ? "[]" : element_name(got.shape, n), got.reals[n]);
      return;
    }
    if (error && lang::is_float(got.dtype) && *error <= allowed[n] && allowed[n] > largest) ++worst.open;
    if (add(worst, error.value_or(0), allowed[n])) worst.at = element_name(got.shape, n);
  };
  for (std::size_t n = 0; which.all && n < static_cast<std::size_t>(got.count()); ++n) look_at(n);
  for (const std::size_t n : which.elements) look_at(n);
  return worst;
}

std::vector<double> allowed_errors(DType type, const std::vector<double>& magnitudes) {
  std::vector<double> allowed = magnitudes;
  if (lang::is_float(type))
    for (double& a : allowed) a *= 8 * epsilon(type);
  return allowed;
}

std::string describe(const Comparison& one) {
  if (!one.skipped.empty()) return fmt::format("{}: not compared with {}: {}", one.name, one.with, one.skipped);
  const bool unknown = one.bad && !std::isfinite(one.allowed) && !std::isnan(one.error);
  const std::string verdict = fmt::format("{}: {} {}", one.name,
      unknown       ? "cannot be compared with"
          : one.bad ? "disagrees with"
                    : "agrees with",
      one.with);
  if (unknown && one.measure == "difference")
    return fmt::format("{}: a difference of {:.3g} that has no bound", verdict, one.error);
  if (!one.bad && !one.undecided.empty())
    return fmt::format("{}: cannot be compared with {} {} where terms together leave the type or are infinite{}",
        one.name, one.with, one.undecided, one.part < 0 ? "" : "; the others agree");
  if (!one.bad || one.measure == "difference")
    return fmt::format("{}, largest {} {:.3g} (allowed {:.3g}){}{}", verdict, one.measure, one.error, one.allowed,
        one.open == 0 ? ""
                      : fmt::format("; of {} that says nothing: more is allowed than the largest value",
                            one.open == 1 ? "1 element" : fmt::format("{} elements", one.open)),
        one.extent);
  const std::string place = fmt::format("{} at {}", verdict, one.at.empty() ? "[]" : one.at);
  if (std::isnan(one.error)) return place + ": the infinity of the other sign";
  if (unknown)
    return fmt::format(
        "{}: off by {:.3g} where nothing is known of the rounding error{}", place, one.error, one.extent);
  return fmt::format("{}: off by {:.3g}, allowed {:.3g}{}", place, one.error, one.allowed, one.extent);
}

std::vector<Comparison> compare_with_interpreter(const runtime::Specialisation& made, const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& outputs, const std::optional<poly::Effort>& effort, const poly::Progress& progress) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : inputs) arrays.push_back(runtime::to_array(tensor));
  const poly::Program& program = *made.stages.bounded;
  const poly::Selection selection = effort ? poly::select(program, *effort) : poly::everything(program);
  std::vector<Comparison> compared;
  if (effort && effort->steps > 0 && selection.steps > dear) {
    const std::string why = fmt::format(
        "its smallest part takes about {:.1g} steps of the interpreter; `--check=all` takes them", selection.steps);
    for (const runtime::Port& port : made.module->outputs)
      compared.push_back({.name = port.name, .with = "the interpreter", .bad = true, .skipped = why});
    return compared;
  }
  const poly::Interpretation wanted = poly::interpret(program, arrays, selection, progress);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const runtime::Port& port = made.module->outputs[k];
    const poly::Needed& which = selection.tensors[static_cast<std::size_t>(program.outputs[k])];
    compared.push_back(compare(port.name, runtime::to_array(outputs[k]), wanted.outputs[k],
        allowed_errors(port.dtype, wanted.magnitudes[k]), which));
    if (!which.all)
      compared.back().extent = fmt::format("; checked {} of {} elements, chosen at random by seed {}",
          which.elements.size(), wanted.outputs[k].count(), effort->seed);
  }
  return compared;
}

std::optional<std::vector<Comparison>> compare_with_differences(const Callable& callable,
    const codegen::Derivative& otherwise, const std::vector<Argument>& arguments, lang::Diagnostics& diagnostics,
    const poly::Progress& progress) {
  const std::optional<Pair> pair = pair_of(callable, otherwise, arguments, diagnostics);
  if (!pair) return std::nullopt;
  std::vector<Argument> doubles, all = arguments;
  for (const Argument& argument : arguments) {
    if (contains(pair->parameters, argument.name)) continue;
    doubles.push_back(argument);
    if (argument.tensor) doubles.back().tensor = as_double(argument.name, *argument.tensor);
  }
  const std::optional<Weights> weights = parameters_of(*pair, doubles, all, diagnostics);
  const std::optional<Evaluation> value = weights ? evaluate(*pair->derivative, all, diagnostics) : std::nullopt;
  if (!value) return std::nullopt;
  return pair->forward ? compare_forward(*pair, doubles, *weights, *value, diagnostics)
                       : compare_reverse(*pair, doubles, *weights, *value, diagnostics, progress);
}

}  // namespace tilec::cli
