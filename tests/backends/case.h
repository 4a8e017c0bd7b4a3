// One random program with its data and what the interpreter makes of it; and how a result is judged.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "codegen/pipeline.h"
#include "lang/check.h"
#include "lang/parse.h"
#include "lang/render.h"
#include "poly/interpret.h"
#include "programs.h"
#include "runtime/tensor.h"

namespace backends {

namespace poly = tilec::poly;
namespace lang = tilec::lang;
namespace codegen = tilec::codegen;
namespace runtime = tilec::runtime;

struct Case {
  std::uint64_t seed = 0, number = 0;
  Program program;
  bool gradient = false;
  lang::File file;
  codegen::Request request;                            // without a target
  poly::Program bounded;
  std::vector<poly::Array> inputs;                     // in the program's order
  poly::Interpretation wanted;
  bool refused = false;
  std::string refusal;
  std::string plan;                                    // that it is compiled as, for messages
  std::string title() const {
    return fmt::format("--seed {} --case {}{}  {}", seed, number, gradient ? "  (gradient)" : "", program.kind);
  }
};

// `finite`: an infinity times a sum is not the sum of infinities (docs/decisions/factored_sums.md), so there is none.
inline poly::Array random_array(Random& random, DType type, const Shape& shape, bool finite = false) {
  poly::Array a{type, shape, {}, {}};
  const bool special = random.chance(12);
  for (std::int64_t k = 0; k < a.count(); ++k) {
    if (lang::is_float(type)) {
      double x = random.chance(4) ? random.between(-4, 4) / 2.0 : (random.below(4001) - 2000) / 1024.0;
      if (special && random.chance(16))
        x = finite ? random.pick<double>({std::nan(""), -0.0})
                   : random.pick<double>({HUGE_VAL, -HUGE_VAL, std::nan(""), -0.0, 1e30});
      a.reals.push_back(poly::round_to(type, x));
    } else {
      a.integers.push_back(
          poly::wrap_to(type, random.chance(8) ? static_cast<std::int64_t>(random.bits()) : random.between(-9, 9)));
    }
  }
  return a;
}

// A batch of some inputs; for a gradient before or behind it.
inline void add_batch(Case& c) {
  Random random(c.seed * 991 + c.number * 2 + c.gradient);
  codegen::Derivative batch;
  batch.batch = true;
  batch.extent = random.between(1, 4);
  const bool all = random.chance(3);                     // cotangents too, behind
  for (const Input& i : c.program.inputs)
    if (!all && random.chance(2)) batch.wrt.push_back(i.name);
  c.request.derivatives.insert(random.chance(2) ? c.request.derivatives.begin() : c.request.derivatives.end(), batch);
}

// Parses, builds and bounds the program. The error text when it is refused.
inline Case make_case(std::uint64_t seed, std::uint64_t number, bool gradient, bool vmap = false, bool narrow = false) {
  Random random(seed * 1'000'003 + number * 2 + gradient);
  Case c;
  c.seed = seed, c.number = number, c.gradient = gradient;
  c.program = random_program(random, gradient, narrow);
  lang::Diagnostics diagnostics;
  const lang::Source source{"random.tile", c.program.text};
  const auto refuse = [&] { c.refused = true, c.refusal = lang::render(diagnostics, {source}, {}); return c; };
  if (gradient && !c.program.real) return refuse();
  std::optional<lang::File> file = lang::parse(source, diagnostics);
  if (!file || !lang::check(*file, diagnostics)) return refuse();
  for (const Input& i : c.program.inputs) {
    poly::Given given{i.name, i.dtype, std::vector<poly::Size>{}, {}, false};
    for (const std::int64_t n : i.shape) given.shape->emplace_back(n);
    c.request.signature.inputs.push_back(std::move(given));
  }
  if (gradient) c.request.derivatives.emplace_back();
  if (vmap) add_batch(c);
  c.request.target = *codegen::target_named("reference");
  std::optional<codegen::Stages> stages = codegen::compile(*file, c.request, codegen::Until::Bound, diagnostics);
  if (!stages) return refuse();
  c.file = std::move(*file);
  c.bounded = std::move(*stages->bounded);
  for (const poly::TensorId id : c.bounded.inputs) {
    const poly::Tensor& t = c.bounded.tensor(id);
    Shape shape;
    for (const poly::Size& n : t.shape) shape.push_back(n.get());
    c.inputs.push_back(random_array(random, t.dtype, shape, c.program.finite));
  }
  return c;
}

// The elements of a batch, each by itself, where the batch was made last: what the interpreter gives for them is a part
// of `wanted`, bit for bit. In words what is not; empty when all is.
inline std::string differs_from_elements(const Case& c) {
  if (c.request.derivatives.empty() || !c.request.derivatives.back().batch) return "";
  codegen::Request single = c.request;
  const std::int64_t extent = *single.derivatives.back().extent;
  single.derivatives.pop_back();
  lang::Diagnostics diagnostics;
  const auto stages = codegen::compile(c.file, single, codegen::Until::Bound, diagnostics);
  if (!stages) return "refused alone: " + diagnostics.all().back().message;
  const auto part = [](const poly::Array& whole, std::int64_t b) {
    poly::Array one{whole.dtype, {whole.shape.begin() + 1, whole.shape.end()}, {}, {}};
    const auto cut = [&](const auto& from, auto& to) {
      if (!from.empty()) to.assign(from.begin() + b * one.count(), from.begin() + (b + 1) * one.count());
    };
    cut(whole.reals, one.reals), cut(whole.integers, one.integers);
    return one;
  };
  for (std::int64_t b = 0; b < extent; ++b) {
    std::vector<poly::Array> inputs;
    for (std::size_t k = 0; k < c.inputs.size(); ++k) {
      const auto rank = stages->bounded->tensor(stages->bounded->inputs.at(k)).shape.size();
      inputs.push_back(c.inputs[k].shape.size() > rank ? part(c.inputs[k], b) : c.inputs[k]);
    }
    const poly::Interpretation alone = poly::interpret(*stages->bounded, inputs);
    for (std::size_t o = 0; o < alone.outputs.size(); ++o) {
      const poly::Array got = part(c.wanted.outputs[o], b);
      const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
      if (got.shape != alone.outputs[o].shape || got.integers != alone.outputs[o].integers ||
          !std::equal(
              got.reals.begin(), got.reals.end(), alone.outputs[o].reals.begin(), alone.outputs[o].reals.end(), same))
        return fmt::format("element {} of the batch is another than alone, in output {}", b, o);
    }
  }
  return "";
}

inline double epsilon(DType type) {
  return type == DType::F64 ? 0x1p-52 : type == DType::F16 ? 0x1p-10 : type == DType::BF16 ? 0x1p-7 : 0x1p-23;
}

// The first element that is wrong, in words; empty when all are right.
inline std::string compare(const poly::Array& got, const poly::Array& wanted, const std::vector<double>& magnitudes) {
  const bool real = lang::is_float(wanted.dtype);
  if (got.dtype != wanted.dtype || got.shape != wanted.shape) return "another type or shape";
  std::int64_t wrong = 0, first = 0;
  std::string text;
  for (std::size_t n = 0; n < static_cast<std::size_t>(wanted.count()); ++n) {
    const double a = real ? got.reals[n] : static_cast<double>(got.integers[n]),
                 b = real ? wanted.reals[n] : static_cast<double>(wanted.integers[n]);
    if (real ? a == b || (std::isnan(a) && std::isnan(b)) : got.integers[n] == wanted.integers[n]) continue;
    const bool opposite = real && std::isinf(a) && a == -b;  // infinities tell a zero's sign
    // Nothing is known of the digits; that there are any is, or that it is infinite or NaN (docs/language.md#types).
    if (!opposite && !std::isfinite(magnitudes[n]) && std::isfinite(a) == std::isfinite(b)) continue;
    if (std::isfinite(magnitudes[n]) &&
        std::fabs(a - b) <= (real ? 8 * epsilon(got.dtype) * magnitudes[n] : magnitudes[n]))
      continue;
    // Beyond the largest finite number a rounding error away is infinity.
    if (real && std::isfinite(magnitudes[n]) &&
        std::fabs(b) + 8 * epsilon(got.dtype) * magnitudes[n] >= (got.dtype == DType::F16          ? 65504.0
                                                                         : got.dtype == DType::F64 ? 1.7e308
                                                                                                   : 3.38e38))
      continue;
    if (wrong++ == 0) {
      first = static_cast<std::int64_t>(n);
      text = fmt::format("element {}: {} where the interpreter has {} (magnitude {})", first, a, b, magnitudes[n]);
    }
  }
  return wrong ? fmt::format("{} of {} elements wrong; {}", wrong, wanted.count(), text) : "";
}

}  // namespace backends
