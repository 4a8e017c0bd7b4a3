// A batch is its elements, on random programs and their derivatives, in f64 on the interpreter: element b of every
// output of a batched program is bit for bit what the program makes of element b of its batched inputs.
//
//   batch(f), batch(batch(f)), batch(∇f), batch(tangent of f)     stacks of f, ∇f, the tangent of f
//   ∇batch(f)                                                      stacks of ∇f; of an input that is not batched, their
//                                                                  sum
//
// TILEC_SEED and TILEC_CASES choose others.
#include <fmt/core.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/batch.h"
#include "autodiff/forward.h"
#include "checked.h"
#include "differences.h"
#include "from_text.h"
#include "poly/print.h"
#include "poly/verify.h"
#include "random_program.h"

using namespace tilec;
using namespace tilec::poly;
using test::Generator;
using test::Kind;
using test::TooLong;
using test::checked;
using test::setting;

namespace {

using Arrays = std::vector<Array>;
constexpr std::int64_t length = 3;                       // of a batch

enum class Mode { Gradient, Tangent };
Program derived(const Program& program, Mode mode) {
  lang::Diagnostics diagnostics;
  auto result = mode == Mode::Tangent ? autodiff::forward(program, {}, {}, diagnostics)
                                      : autodiff::reverse(program, {}, {}, diagnostics);
  return checked(std::move(result), diagnostics, program);
}

// Names of some inputs, one at least.
std::vector<std::string> some_inputs(const Program& program, std::mt19937_64& random) {
  std::vector<std::string> names;
  for (TensorId id : program.inputs)
    if (random() % 3 != 0) names.push_back(program.tensor(id).name);
  if (names.empty()) names.push_back(program.tensor(program.inputs[random() % program.inputs.size()]).name);
  return names;
}

Program batched(const Program& program, const std::vector<std::string>& inputs) {
  lang::Diagnostics diagnostics;
  return checked(autodiff::batch(program, inputs, length, diagnostics), diagnostics, program);
}

bool is_batched(const Program& program, std::size_t input, const std::vector<std::string>& names) {
  return std::count(names.begin(), names.end(), program.tensor(program.inputs[input]).name) > 0;
}

Array element(const Array& array, std::int64_t b) {
  Array one{array.dtype, {array.shape.begin() + 1, array.shape.end()}, {}, {}};
  const auto count = one.count();
  if (lang::is_float(array.dtype))
    one.reals.assign(array.reals.begin() + b * count, array.reals.begin() + (b + 1) * count);
  else one.integers.assign(array.integers.begin() + b * count, array.integers.begin() + (b + 1) * count);
  return one;
}

bool same(const Array& a, const Array& b) {
  const auto equal = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return a.shape == b.shape && a.integers == b.integers &&
      std::equal(a.reals.begin(), a.reals.end(), b.reals.begin(), b.reals.end(), equal);
}

// Empty when every output of `many` is the stack of what `one` gives.
std::string compared(
    const Program& one, const Program& many, const std::vector<std::string>& names, const Arrays& inputs) {
  const Interpretation whole = interpret(many, inputs);
  for (std::int64_t b = 0; b < length; ++b) {
    Arrays own = inputs;
    for (std::size_t k = 0; k < own.size(); ++k)
      if (is_batched(one, k, names)) own[k] = element(own[k], b);
    const Interpretation single = interpret(one, own);
    for (std::size_t k = 0; k < single.outputs.size(); ++k)
      if (!same(element(whole.outputs[k], b), single.outputs[k]))
        return fmt::format("element {} of output {} differs\n{}{}", b, k, print(one), print(many));
  }
  return "";
}

std::string stack_law(const Program& program, std::mt19937_64& random) {
  const auto names = some_inputs(program, random);
  const Program many = batched(program, names);
  return compared(program, many, names, test::arrays_of(many, random));
}

struct Tally { int checked = 0, too_long = 0; };

template <class Law> void on_random_programs(std::uint64_t seed, int cases, Law law) {
  Tally tally;
  const auto first = setting("TILEC_SEED", seed);
  for (std::uint64_t k = first, end = first + setting("TILEC_CASES", static_cast<std::uint64_t>(cases)); k < end; ++k) {
    Generator generator(k, k % 3 == 0 ? Kind::Narrow : Kind::Any);
    const Program program = generator.program();
    try {
      const std::string wrong = law(program, generator.random);
      REQUIRE_MESSAGE(wrong.empty(), "TILEC_SEED=" << k << " TILEC_CASES=1\n" << wrong);
      ++tally.checked;
    } catch (TooLong) {
      ++tally.too_long;
    }
  }
  CHECK(tally.checked > tally.too_long);
}

// Of ∇batch(f), with the same cotangents for each element as ∇f gets.
std::string gradient_law(const Program& program, std::mt19937_64& random) {
  const auto names = some_inputs(program, random);
  const Program gradient = derived(program, Mode::Gradient), many = derived(batched(program, names), Mode::Gradient);
  const Arrays inputs = test::arrays_of(many, random);
  const Interpretation whole = interpret(many, inputs);
  std::vector<Array> sums(whole.outputs.size());
  std::vector<std::vector<double>> sizes(sums.size());
  for (std::int64_t b = 0; b < length; ++b) {
    Arrays own = inputs;
    for (std::size_t k = 0; k < own.size(); ++k)
      if (k >= program.inputs.size() || is_batched(program, k, names)) own[k] = element(own[k], b);
    const Interpretation single = interpret(gradient, own);
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const std::vector<double>& reals = single.outputs[k].reals;
      sums[k].reals.resize(reals.size()), sizes[k].resize(reals.size());
      for (std::size_t e = 0; e < reals.size(); ++e) {
        if (is_batched(program, k, names)) sums[k].reals[e] = sizes[k][e] = 0;
        sums[k].reals[e] += reals[e];
        sizes[k][e] += std::fabs(reals[e]) + single.magnitudes[k][e];
        if (!is_batched(program, k, names) && b + 1 < length) continue;
        const double got =
            is_batched(program, k, names) ? element(whole.outputs[k], b).reals[e] : whole.outputs[k].reals[e];
        const double allowed = 1e-12 * (1 + sizes[k][e]);
        if (std::isfinite(allowed) && std::isfinite(sums[k].reals[e]) &&
            !(std::fabs(got - sums[k].reals[e]) <= allowed))
          return fmt::format("element {} of gradient {}: {} is not {}\n{}{}", e, k, got, sums[k].reals[e],
              print(program), print(many));
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("a batch of a random program is a stack of its results") {
  on_random_programs(
      40000, 600, [](const Program& program, std::mt19937_64& random) { return stack_law(program, random); });
}

TEST_CASE("a batch of a batch is a stack of batches") {
  on_random_programs(41000, 200, [](const Program& program, std::mt19937_64& random) {
    return stack_law(batched(program, some_inputs(program, random)), random);
  });
}

TEST_CASE("a batch of a gradient or a tangent is a stack of them") {
  on_random_programs(42000, 200, [](const Program& program, std::mt19937_64& random) {
    const std::string wrong = stack_law(derived(program, Mode::Gradient), random);
    return wrong.empty() ? stack_law(derived(program, Mode::Tangent), random) : wrong;
  });
}

TEST_CASE("the gradient of a batch is a stack of gradients, and their sum by what is not of the batch") {
  on_random_programs(43000, 200, gradient_law);
}

TEST_CASE("a program is batched while its sizes are names, and a new size is called as nothing else is") {
  lang::Diagnostics diagnostics;
  const Program program =
      test::built("function f(A[M, K], B[K, Bt]) -> (C) { C[i, b: M, Bt] = +(A[i, k] * B[k, b]); }");
  const auto many = autodiff::batch(program, {"A"}, std::nullopt, diagnostics);
  REQUIRE(many);
  verify(*many, Stage::Symbolic);
  CHECK(print(*many).find("C[b1, i, b: Bt_1, M, Bt] = +(A[b1, i, k] * B[k, b]);") != std::string::npos);
}

TEST_CASE("a name that is none, or is given twice, and a program without inputs are errors") {
  const Program program = test::built("function f(A[N], S[]) -> (C) { C[i: N] = =(A[i] * S[]); }");
  const auto code = [](const Program& of, const std::vector<std::string>& names) {
    lang::Diagnostics diagnostics;
    CHECK(!autodiff::batch(of, names, std::nullopt, diagnostics));
    return diagnostics.all().at(0).code;
  };
  CHECK(code(program, {"Q"}) == "E0302");
  CHECK(code(program, {"A", "A"}) == "E0555");
  CHECK(code(test::built("function f(A[N], S) -> (C) { C[i: N] = =(A[i] * i), i < S; }"), {"S"}) == "E0342");
}
