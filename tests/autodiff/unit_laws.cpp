// Laws between the two modes, on random programs, in f64 on the interpreter.
//
//   ⟨u, J v⟩ = ⟨Jᵀ u, v⟩            reverse and forward mode are one matrix: at ties and zeros too, which half of the
//                                   cases are full of
//   ⟨w, H v⟩ = ⟨v, H w⟩             H = forward over reverse
//   J v = (f(x + h v) − f(x − h v)) / 2h
//
// The first also of derivatives: of a gradient (reverse over reverse against forward over reverse) and of a tangent
// program. TILEC_SEED and TILEC_CASES choose others.
#include <fmt/core.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/forward.h"
#include "checked.h"
#include "differences.h"
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

Program derived(const Program& program, bool forward, const std::vector<std::string>& wrt = {}) {
  lang::Diagnostics diagnostics;
  return checked(
      forward ? autodiff::forward(program, {}, wrt, diagnostics) : autodiff::reverse(program, {}, wrt, diagnostics),
      diagnostics, program);
}

// Elements that are often equal, and often 0.
Array quantized(Array array, std::mt19937_64& random) {
  for (double& x : array.reals) x = 0.5 * (static_cast<double>(random() % 5) - 2);
  return array;
}

// Inputs `from` and on of a derivative: cotangents or tangents.
Arrays parameters(const Program& program, std::size_t from, std::mt19937_64& random) {
  Arrays arrays;
  for (std::size_t k = from; k < program.inputs.size(); ++k)
    arrays.push_back(test::array_of(program, program.inputs[k], random));
  return arrays;
}

Interpretation run(const Program& program, Arrays inputs, const Arrays& more) {
  inputs.insert(inputs.end(), more.begin(), more.end());
  return interpret(program, inputs);
}

struct Product { double value = 0, size = 0; };        // size: what rounding errors are to be compared with

Product inner(const Arrays& a, const Interpretation& b) {
  Product product;
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t n = 0; n < a[k].reals.size(); ++n) {
      product.value += a[k].reals[n] * b.outputs[k].reals[n];
      product.size += std::fabs(a[k].reals[n]) * b.magnitudes[k][n];
    }
  return product;
}

struct Tally { int checked = 0, skipped = 0, too_long = 0; };

// Hardly any were left out.
void check_most(const Tally& tally, const char* what) {
  MESSAGE(what << " checked: " << tally.checked << ", not finite: " << tally.skipped << ", too long: " << tally.too_long);
  CHECK(tally.skipped * 20 < tally.checked);
  CHECK(tally.too_long * 20 < tally.checked);
}

// Empty when the two products agree.
std::string compared(const Product& left, const Product& right, double precision, Tally& tally) {
  if (!std::isfinite(left.value) || !std::isfinite(right.value)) return ++tally.skipped, "";
  ++tally.checked;
  const double values = 1 + std::fabs(left.value) + std::fabs(right.value), errors = left.size + right.size;
  // a bound that has run away bounds nothing
  const double size = values + std::min(1e4 * values, std::isfinite(errors) ? errors : 0);
  return std::fabs(left.value - right.value) <= precision * size
      ? ""
      : fmt::format("{} is not {}, both about {}", left.value, right.value, size);
}

template <class Law> std::string unless_too_long(Tally& tally, Law law) try {
  return law();
} catch (TooLong) {
  ++tally.too_long;
  return "";
}

std::string adjoint_law(
    const Program& program, const Arrays& inputs, double precision, std::mt19937_64& random, Tally& tally) {
  const Program gradient = derived(program, false), tangent = derived(program, true);
  const Arrays u = parameters(gradient, inputs.size(), random), v = parameters(tangent, inputs.size(), random);
  const auto differs =
      compared(inner(u, run(tangent, inputs, v)), inner(v, run(gradient, inputs, u)), precision, tally);
  return differs.empty() ? differs : differs + "\n" + print(program) + print(gradient) + print(tangent);
}

Arrays inputs_of(const Program& program, bool ties, std::mt19937_64& random) {
  Arrays inputs = test::arrays_of(program, random);
  for (Array& array : inputs)
    if (ties && lang::is_float(array.dtype)) array = quantized(array, random);
  return inputs;
}

std::string hessian_law(Generator& generator, bool ties, Tally& tally) {
  const Program program = generator.program(), gradient = derived(program, false);
  std::vector<std::string> names;
  for (TensorId id : program.inputs) names.push_back(program.tensor(id).name);
  const Program hessian = derived(gradient, true, names);
  const Arrays inputs = inputs_of(gradient, ties, generator.random);
  const Arrays v = parameters(hessian, inputs.size(), generator.random),
               w = parameters(hessian, inputs.size(), generator.random);
  const auto differs = compared(inner(w, run(hessian, inputs, v)), inner(v, run(hessian, inputs, w)), 1e-10, tally);
  return differs.empty() ? differs : differs + "\n" + print(program) + print(hessian);
}

}  // namespace

TEST_CASE("reverse and forward mode are transposes of each other") {
  const std::uint64_t seed = setting("TILEC_SEED", 20261122), cases = setting("TILEC_CASES", 400);
  MESSAGE("seed " << seed);
  Tally tally;
  int failed = 0;
  for (std::uint64_t k = 0; k < cases && failed < 3; ++k) {
    const bool narrow = k % 4 == 3;
    Generator generator(seed + k, narrow ? Kind::Narrow : Kind::Any);
    const Program program = generator.program();
    verify(program, Stage::Bound);
    const auto differs = adjoint_law(
        program, inputs_of(program, k % 2 == 1, generator.random), narrow ? 1e-5 : 1e-10, generator.random, tally);
    failed += !differs.empty();
    CHECK_MESSAGE(differs.empty(), "seed " << seed + k << ": " << differs);
  }
  check_most(tally, "products");
}

TEST_CASE("derivatives of derivatives are transposes of each other") {
  const std::uint64_t seed = setting("TILEC_SEED", 20261122) + 1000000, cases = setting("TILEC_CASES", 400) / 4;
  Tally tally;
  int failed = 0;
  for (std::uint64_t k = 0; k < cases && failed < 3; ++k)
    for (const bool forward : {false, true}) {
      Generator generator(seed + k, Kind::Any);
      const auto differs = unless_too_long(tally, [&] {
        const Program once = derived(generator.program(), forward);
        return adjoint_law(once, inputs_of(once, k % 2 == 1, generator.random), 1e-10, generator.random, tally);
      });
      failed += !differs.empty();
      CHECK_MESSAGE(
          differs.empty(), "seed " << seed + k << (forward ? ", of the tangent: " : ", of the gradient: ") << differs);
    }
  check_most(tally, "products");
}

TEST_CASE("Hessians are symmetric") {
  const std::uint64_t seed = setting("TILEC_SEED", 20261122) + 2000000, cases = setting("TILEC_CASES", 400) / 2;
  Tally tally;
  int failed = 0;
  for (std::uint64_t k = 0; k < cases && failed < 3; ++k) {
    Generator generator(seed + k, Kind::Any);
    const auto differs = unless_too_long(tally, [&] { return hessian_law(generator, k % 2 == 1, tally); });
    failed += !differs.empty();
    CHECK_MESSAGE(differs.empty(), "seed " << seed + k << ": " << differs);
  }
  check_most(tally, "Hessians");
}

TEST_CASE("tangents of random programs agree with differences") {
  const std::uint64_t seed = setting("TILEC_SEED", 20261122) + 3000000, cases = setting("TILEC_CASES", 400);
  int checked = 0, skipped = 0, failed = 0;
  for (std::uint64_t k = 0; k < cases && failed < 3; ++k) {
    Generator generator(seed + k);
    const Program program = generator.program(), tangent = derived(program, true);
    const Arrays inputs = test::arrays_of(program, generator.random),
                 v = parameters(tangent, inputs.size(), generator.random);
    const auto moved = [&](double h) {
      Arrays there = inputs;
      for (std::size_t a = 0; a < v.size(); ++a)
        for (std::size_t n = 0; n < v[a].reals.size(); ++n) there[a].reals[n] += h * v[a].reals[n];
      return interpret(program, there).outputs;
    };
    const auto exact = run(tangent, inputs, v).outputs, a = moved(1e-5), b = moved(-1e-5), c = moved(2e-5),
               d = moved(-2e-5), here = moved(0);
    for (std::size_t o = 0; o < exact.size(); ++o)
      for (std::size_t n = 0; n < exact[o].reals.size(); ++n) {
        const double fine = (a[o].reals[n] - b[o].reals[n]) / 2e-5, rough = (c[o].reals[n] - d[o].reals[n]) / 4e-5,
                     expected = fine + (fine - rough) / 3;
        const double scale = 1 + std::fabs(expected) + 1e-4 * std::fabs(here[o].reals[n]);
        if (!(std::fabs(fine - rough) <= 1e-5 * scale)) {
          ++skipped;
          continue;
        }
        ++checked;
        const bool agrees = std::fabs(exact[o].reals[n] - expected) <= 2e-6 * scale;
        failed += !agrees;
        CHECK_MESSAGE(agrees,
            "seed " << seed + k << ": output " << o << " at " << n << " is " << exact[o].reals[n]
                    << " but differences say " << expected << "\n"
                    << print(program) << print(tangent));
      }
  }
  MESSAGE("elements checked: " << checked << ", skipped at kinks: " << skipped);
  CHECK(skipped * 20 < checked);
}
