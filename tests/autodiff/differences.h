// Compares a gradient Program with central differences of the forward Program, in f64 on the interpreter.
//
// f(x) = Σ u · O(x) for random cotangents u. For each input element: (f(x + h) − f(x − h)) / 2h in two step sizes;
// where the two disagree the function has a kink there (a tie, a branch) and the element is counted as skipped.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "autodiff/reverse.h"
#include "poly/interpret.h"
#include "poly/print.h"

namespace tilec::test {

using poly::Array;
using poly::Program;
using poly::TensorId;

struct Outcome {
  int checked = 0, skipped = 0;
  std::string failure;                                 // empty: all agree
};

inline Array array_of(const Program& program, TensorId id, std::mt19937_64& random, double low = -1, double high = 1) {
  const auto& tensor = program.tensor(id);
  Array array{tensor.dtype, {}, {}, {}};
  for (const auto& size : tensor.shape) array.shape.push_back(size.get());
  const auto count = static_cast<std::size_t>(array.count());
  if (lang::is_float(tensor.dtype)) {
    std::uniform_real_distribution<double> value(low, high);
    for (std::size_t k = 0; k < count; ++k) array.reals.push_back(poly::round_to(tensor.dtype, value(random)));
  } else {
    for (std::size_t k = 0; k < count; ++k)
      array.integers.push_back(poly::wrap_to(tensor.dtype, static_cast<std::int64_t>(random() % 3)));
  }
  return array;
}

inline std::vector<Array> arrays_of(const Program& program, std::mt19937_64& random, double low = -1, double high = 1) {
  std::vector<Array> all;
  for (TensorId id : program.inputs) all.push_back(array_of(program, id, random, low, high));
  return all;
}

inline double weighted(const Program& program, const std::vector<Array>& inputs, const std::vector<Array>& cotangents) {
  const auto outputs = poly::interpret(program, inputs).outputs;
  double sum = 0;
  for (std::size_t o = 0, c = 0; o < outputs.size(); ++o) {
    if (!lang::is_float(outputs[o].dtype)) continue;
    for (std::size_t k = 0; k < outputs[o].reals.size(); ++k) sum += outputs[o].reals[k] * cotangents[c].reals[k];
    ++c;
  }
  return sum;
}

inline double difference(const Program& program, std::vector<Array> inputs, const std::vector<Array>& cotangents,
    std::size_t input, std::size_t k, double h) {
  const double x = inputs[input].reals[k];
  inputs[input].reals[k] = x + h;
  const double above = weighted(program, inputs, cotangents);
  inputs[input].reals[k] = x - h;
  return (above - weighted(program, inputs, cotangents)) / (2 * h);
}

// `gradient` is reverse(program, {}, {}); both bound; the program's float tensors are f64.
inline Outcome compare(
    const Program& program, const Program& gradient, const std::vector<Array>& inputs, std::mt19937_64& random) {
  Outcome outcome;
  std::vector<Array> all = inputs, cotangents;
  for (std::size_t p = inputs.size(); p < gradient.inputs.size(); ++p)
    cotangents.push_back(array_of(gradient, gradient.inputs[p], random));
  all.insert(all.end(), cotangents.begin(), cotangents.end());
  const auto results = poly::interpret(gradient, all).outputs;

  const double value = weighted(program, inputs, cotangents);
  std::size_t r = 0;
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    if (!lang::is_float(inputs[input].dtype)) continue;
    const auto& result = results.at(r++);
    for (std::size_t k = 0; k < inputs[input].reals.size(); ++k) {
      const double rough = difference(program, inputs, cotangents, input, k, 2e-5),
                   fine = difference(program, inputs, cotangents, input, k, 1e-5);
      const double expected = fine + (fine - rough) / 3;
      // the last: what subtraction cancels, over h
      const double scale = 1 + std::fabs(expected) + 1e-4 * std::fabs(value);
      if (!(std::fabs(fine - rough) <= 1e-5 * scale)) {
        ++outcome.skipped;
        continue;
      }
      ++outcome.checked;
      if (!(std::fabs(result.reals[k] - expected) <= 2e-6 * scale) && outcome.failure.empty())
        outcome.failure =
            fmt::format("d{}[{}] is {} but differences say {}\n{}{}", program.tensor(program.inputs[input]).name, k,
                result.reals[k], expected, poly::print(program), poly::print(gradient));
    }
  }
  return outcome;
}

}  // namespace tilec::test
