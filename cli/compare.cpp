#include "cli/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cli/arguments.h"
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

// A copy of the text's tree in which every float that is declared is an f64: differences of f32 are mostly noise.
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

Tensor as_double(const std::string& name, const Tensor& tensor) { return lang::is_float(tensor.dtype) ? runtime::convert(name, tensor, DType::F64) : tensor; }

struct Evaluation { std::vector<runtime::Port> ports; std::vector<Tensor> outputs; };

std::optional<Evaluation> evaluate(const Callable& callable, const std::vector<Argument>& arguments, lang::Diagnostics& diagnostics) {
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

// What one input's gradient claims, along a few directions.
std::optional<Comparison> check_input(const Callable& forward, std::vector<Argument> arguments, std::size_t which, const std::vector<std::pair<std::string, Array>>& cotangents, const Array& gradient, double type_error, lang::Diagnostics& diagnostics) {
  const std::string name = arguments[which].name;
  const Array x = runtime::to_array(*arguments[which].tensor);
  std::mt19937_64 generator(42);
  constexpr int turns = 6;
  Comparison worst{"d" + name, fmt::format("finite differences along {} directions", turns), "difference", false, 0, 0, std::nullopt};
  for (int turn = 0; turn < turns; ++turn) {
    const Array v = direction(x, turn, generator);
    constexpr double h = 0x1p-17;
    double values[2] = {}, magnitude = 0;
    for (int side = 0; side < 2; ++side) {
      arguments[which].tensor = moved(name, x, v, side == 0 ? h : -h);
      const std::optional<Evaluation> value = evaluate(forward, arguments, diagnostics);
      if (!value) return std::nullopt;
      const auto [sum, absolute] = loss(*value, cotangents);
      values[side] = sum;
      magnitude = std::max(magnitude, absolute);
    }
    const double difference = (values[0] - values[1]) / (2 * h);
    double claimed = 0, claimed_magnitude = 0;
    for (std::size_t n = 0; n < v.reals.size(); ++n) {
      claimed += gradient.reals[n] * v.reals[n];
      claimed_magnitude += std::fabs(gradient.reals[n] * v.reals[n]);
    }
    // Rounding of L over h, the third derivative, and the gradient's own type.
    const double allowed = 0x1p-50 * magnitude / h + (1e-6 + type_error) * std::max(claimed_magnitude, std::fabs(difference)) + 1e-9;
    const double error = std::fabs(difference - claimed);
    const bool bad = !(error <= allowed);
    if (error > worst.error || bad) {
      worst.error = error;
      worst.allowed = allowed;
    }
    worst.bad = worst.bad || bad;
  }
  return worst;
}

// The cotangents of the call in f64; random ones where the call has none.
std::vector<std::pair<std::string, Array>> cotangents_of(const Evaluation& value, const Callable& callable, const std::vector<Argument>& arguments, std::vector<Argument>& added) {
  std::vector<std::pair<std::string, Array>> cotangents;
  const std::vector<std::string>& of = callable.request().of;
  for (const runtime::Port& port : value.ports) {
    if (!lang::is_float(port.dtype) || (!of.empty() && std::ranges::count(of, port.name) == 0)) continue;
    const auto given = std::ranges::find(arguments, "d" + port.name, &Argument::name);
    Argument argument{"d" + port.name, std::nullopt, false, 0, 0};
    if (given != arguments.end() && given->tensor) argument = *given;
    else {
      argument.tensor = runtime::allocate(argument.name, DType::F64, port.shape);
      fill_random(*argument.tensor, argument.name, 0);
      added.push_back(argument);
    }
    cotangents.emplace_back(port.name, runtime::to_array(as_double(argument.name, *argument.tensor)));
  }
  return cotangents;
}

std::vector<std::int64_t> element_at(const std::vector<std::int64_t>& shape, std::size_t n) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    at[d] = static_cast<std::int64_t>(n) % shape[d];
    n /= static_cast<std::size_t>(shape[d]);
  }
  return at;
}

}  // namespace

Comparison compare(std::string name, const Array& got, const Array& wanted, const std::vector<double>& allowed) {
  Comparison worst{std::move(name), "the interpreter", "error", false, 0, 0, std::nullopt};
  double most = -1;
  const bool real = lang::is_float(got.dtype);
  for (std::size_t n = 0; n < static_cast<std::size_t>(got.count()); ++n) {
    const double a = real ? got.reals[n] : static_cast<double>(got.integers[n]), b = real ? wanted.reals[n] : static_cast<double>(wanted.integers[n]);
    const bool equal = real ? a == b || (std::isnan(a) && std::isnan(b)) : got.integers[n] == wanted.integers[n];
    if (equal) continue;
    const double error = std::fabs(a - b);
    const bool bad = !(error <= allowed[n]);
    const double part = bad ? HUGE_VAL : allowed[n] > 0 ? error / allowed[n] : 0;
    if (part > most || (bad && !worst.bad)) {
      most = part;
      worst.error = error;
      worst.allowed = allowed[n];
      worst.at = element_at(got.shape, n);
      worst.bad = bad;
    }
  }
  return worst;
}

std::vector<double> allowed_errors(DType type, const std::vector<double>& magnitudes) {
  std::vector<double> allowed = magnitudes;
  if (lang::is_float(type))
    for (double& a : allowed) a *= 8 * epsilon(type);
  return allowed;
}

std::string describe(const Comparison& one) {
  const std::string verdict = fmt::format("{}: {} {}", one.name, one.bad ? "disagrees with" : "agrees with", one.with);
  if (!one.bad || !one.at) return fmt::format("{}, largest {} {:.3g} (allowed {:.3g})", verdict, one.measure, one.error, one.allowed);
  return fmt::format("{} at [{}]: off by {:.3g}, allowed {:.3g}", verdict, fmt::join(*one.at, ", "), one.error, one.allowed);
}

std::vector<Comparison> compare_with_interpreter(const runtime::Specialisation& made, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : inputs) arrays.push_back(runtime::to_array(tensor));
  const poly::Interpretation wanted = poly::interpret(*made.stages.bounded, arrays);
  std::vector<Comparison> compared;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const runtime::Port& port = made.module->outputs[k];
    compared.push_back(compare(port.name, runtime::to_array(outputs[k]), wanted.outputs[k], allowed_errors(port.dtype, wanted.magnitudes[k])));
  }
  return compared;
}

std::optional<std::vector<Comparison>> compare_with_differences(const Callable& callable, const std::vector<Argument>& arguments, lang::Diagnostics& diagnostics) {
  codegen::Request plain = callable.request();
  plain.gradient = false;
  const std::vector<std::string> of = plain.of, wrt = plain.wrt;
  plain.of.clear();
  plain.wrt.clear();
  const Callable forward(callable.source(), in_double(callable.file()), plain);
  std::vector<Argument> doubles, inputs_only, all = arguments;
  for (const Argument& argument : arguments) {
    if (std::ranges::count(callable.input_names(), argument.name) == 0) continue;
    inputs_only.push_back(argument);
    doubles.push_back(argument);
    if (argument.tensor) doubles.back().tensor = as_double(argument.name, *argument.tensor);
  }
  const std::optional<Evaluation> value = evaluate(forward, doubles, diagnostics);
  if (!value) return std::nullopt;
  std::vector<Argument> added;
  const auto cotangents = cotangents_of(*value, callable, arguments, added);

  codegen::Request reverse = callable.request();
  reverse.gradient = true;
  const Callable backward(callable.source(), callable.file(), reverse);
  codegen::Request outline_request;
  const std::optional<poly::Program> outline = backward.outline(inputs_only, outline_request, diagnostics);
  if (!outline) return std::nullopt;
  for (Argument& argument : added) {                     // in the type the gradient takes
    for (const poly::TensorId id : outline->inputs)
      if (runtime::without_mark(outline->tensor(id).name) == argument.name) argument.tensor = runtime::convert(argument.name, *argument.tensor, outline->tensor(id).dtype);
    all.push_back(argument);
  }
  const std::optional<Evaluation> gradients = evaluate(backward, all, diagnostics);
  if (!gradients) return std::nullopt;
  std::vector<Comparison> compared;
  for (std::size_t k = 0; k < gradients->ports.size(); ++k) {
    const runtime::Port& port = gradients->ports[k];
    for (std::size_t n = 0; n < doubles.size(); ++n) {
      if ("d" + doubles[n].name != port.name || !doubles[n].tensor) continue;
      const std::optional<Comparison> one = check_input(forward, doubles, n, cotangents, runtime::to_array(gradients->outputs[k]), 256 * epsilon(port.dtype), diagnostics);
      if (!one) return std::nullopt;
      compared.push_back(*one);
    }
  }
  return compared;
}

}  // namespace tilec::cli
