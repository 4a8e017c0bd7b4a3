// Attention and its gradients in passes on tensor cores: what is chosen for long rows, run for short ones on a
// simulated GPU, against the interpreter. Of f16 and bf16; whole, causal, with a bias; elements that the text rounds,
// and f32 that may be.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "codegen/finishing.h"
#include "codegen/pipeline.h"
#include "lang/parse.h"
#include "lang/render.h"
#include "poly/interpret.h"
#include "runtime/assemble.h"
#include "runtime/device.h"
#include "runtime/module.h"
#include "tests/backends/case.h"

namespace tilec::test {
namespace {

using namespace codegen;
using lang::DType;
using backends::Random;

// `more`: the result is scaled by rows and columns too, and goes on; logarithms of the sums are a result. `weight`: the
// type that P is rounded to: f16 by a statement of its own, bf16 when it is divided by its sum already; scores are
// divided by no power of two then.
struct Kind {
  const char* name;
  std::string type, bounds, bias, weight;
  const char* target;
  bool more = false;
  std::int64_t features = 24;                          // D
};

std::string attention(const Kind& k) {
  const bool divided = k.weight == "bf16";
  const std::string product = k.weight.empty() ? "P[h, t, s]"
      : divided                                ? "f32(bf16(P[h, t, s] / Z[h, t]))"
                                               : "f32(W[h, t, s])";
  std::string text =
      fmt::format("function f({0} Q[H, T, D], {0} K[H, S, D], {0} V[H, S, E]{1}{2}) -> ({0} O{3}) {{\n", k.type,
          k.bias.empty() ? "" : ", B[T, S]", k.more ? ", G[T, E]" : "", k.more ? ", L, R" : "");
  text += fmt::format("  X[h, t, s: H, T, S] = +(f32(Q[h, t, d]) * f32(K[h, s, d])){};\n", k.bounds);
  text += fmt::format("  Y[h, t, s: H, T, S] = =(X[h, t, s] / {}{}){};\n", k.weight.empty() ? "4" : "sqrt(f32(D))",
      k.bias, k.bounds);
  text += fmt::format(
      "  M[h, t: H, T] = >(Y[h, t, s]){0};\n  P[h, t, s: H, T, S] = =(exp(Y[h, t, s] - M[h, t])){0};\n  Z[h, t: H, T] = +(P[h, t, s]){0};\n",
      k.bounds);
  if (k.weight == "f16") text += fmt::format("  W[h, t, s: H, T, S] = =({}(P[h, t, s])){};\n", k.weight, k.bounds);
  text += fmt::format(
      "  U[h, t, e: H, T, E] = +({} * f32(V[h, s, e])){};\n  O[h, t, e: H, T, E] = =({}(U[h, t, e]{}{}));\n",
      product, k.bounds, k.type, divided ? "" : " / Z[h, t]", k.more ? " * G[t, e]" : "");
  if (k.more)
    text +=
        "  L[h, t: H, T] = =(M[h, t] + log(Z[h, t]));\n  R[t, e, h: T, E, H] = =(f32(O[h, t, e]) + Z[h, t] * f32(Q[h, t, 0]));\n";
  return text + "}\n";
}

Stages compiled(const std::string& text, std::int64_t rows, std::int64_t columns, bool gradient, Until until,
    const std::string& plan, const Kind& kind, Request& request) {
  lang::Diagnostics diagnostics;
  const lang::Source source{"test.tile", text};
  const auto file = lang::parse(source, diagnostics);
  REQUIRE_MESSAGE(file, lang::render(diagnostics, {source}, {}));
  request.sizes = {{"H", 2}, {"T", rows}, {"S", columns}, {"D", kind.features}, {"E", 40}};
  request.target = *runtime::target_here(kind.target);
  if (gradient) request.derivatives.emplace_back();
  if (!plan.empty()) request.plan = PlanText{plan};
  auto stages = codegen::compile(*file, request, until, diagnostics);
  REQUIRE_MESSAGE(stages, lang::render(diagnostics, {source}, {}), plan);
  return std::move(*stages);
}

// A plan of which smaller sizes choose nothing: where no statements share rows, that is said.
std::string for_other_sizes(const Plan& plan) {
  const std::string text = print(plan);
  return text.find("share ") == std::string::npos ? "no share\n" + text : text;
}

// Products and sums in passes, and how many of them are on tensor cores.
std::pair<int, int> passes(const Plan& plan) {
  int all = 0, cores = 0;
  for (const Group& group : plan.groups)
    for (const Compute& leaf : group.body)
      if (const auto* online = leaf.as<forms::Online>(); online && !leaf.k.empty())
        ++all, cores += !online->instruction.empty();
  return {all, cores};
}

// Whether all products of passes on tensor cores read shared memory.
bool by_groups(const Plan& plan) {
  return std::ranges::all_of(plan.groups, [](const Group& group) {
    return std::ranges::all_of(group.body, [](const Compute& leaf) {
      const auto* online = leaf.as<forms::Online>();
      const MatrixInstruction* i = online ? matrix_instruction(online->instruction) : nullptr;
      return !i || i->from_shared();
    });
  });
}

// Where factors are rounded to bf16, by what whole rows are: an element may be a small difference of large ones.
std::string compare_rounded(const poly::Array& found, const poly::Array& right) {
  double most = 0;
  for (const double x : right.reals) if (std::isfinite(x)) most = std::max(most, std::fabs(x));
  for (std::size_t i = 0; i < right.reals.size(); ++i) {
    const double x = found.reals[i], y = right.reals[i];
    if (std::isnan(x) == std::isnan(y) && (std::isnan(y) || x == y || std::fabs(x - y) <= most / 32)) continue;
    return fmt::format("element {}: {} where the interpreter has {}", i, x, y);
  }
  return {};
}

// Random inputs, changed so, as the interpreter has it.
void check_run(const poly::Program& program, const runtime::Module& module, Random& random,
    const std::function<void(std::vector<poly::Array>&)>& change = {}, bool rounds = false) {
  std::vector<poly::Array> inputs;
  std::vector<runtime::Tensor> in, out;
  std::vector<void*> from, to;
  for (const poly::TensorId id : program.inputs) {
    backends::Shape shape;
    for (const poly::Size& n : program.tensor(id).shape) shape.push_back(n.get());
    inputs.push_back(backends::random_array(random, program.tensor(id).dtype, shape, true));
  }
  if (change) change(inputs);
  for (const poly::Array& a : inputs) {
    in.push_back(runtime::allocate("input", a.dtype, a.shape));
    runtime::from_array(a, in.back());
    from.push_back(in.back().data);
  }
  const poly::Interpretation right = poly::interpret(program, inputs);
  for (const poly::Array& a : right.outputs)
    out.push_back(runtime::allocate("output", a.dtype, a.shape)), to.push_back(out.back().data);
  module.run(from.data(), to.data());
  for (std::size_t o = 0; o < out.size(); ++o)
    if (rounds) CHECK(compare_rounded(runtime::to_array(out[o]), right.outputs[o]) == "");
    else CHECK(backends::compare(runtime::to_array(out[o]), right.outputs[o], right.magnitudes[o]) == "");
}

// Scores grow along the columns, slowly or so that a turn's maximum is far above the one before.
void grow(std::vector<poly::Array>& inputs, double by) {
  poly::Array& k = inputs[1];
  const std::int64_t columns = k.shape[1], features = k.shape[2];
  for (std::size_t i = 0; i < k.reals.size(); ++i) {
    const auto s = static_cast<std::int64_t>(i) / features % columns;
    k.reals[i] = poly::round_to(k.dtype, k.reals[i] * (1 + by * static_cast<double>(s) / static_cast<double>(columns)));
  }
}

void check(const Kind& kind, bool gradient, int wanted, Random& random, std::string plan = "") {
  CAPTURE(kind.name);
  CAPTURE(gradient);
  const std::string text = attention(kind);
  Request large, small;
  if (plan.empty()) plan = for_other_sizes(*compiled(text, 4096, 4096, gradient, Until::Plan, "", kind, large).plan);
  CAPTURE(plan);
  const Stages stages = compiled(text, 70, 50, gradient, Until::Lowered, plan, kind, small);
  CHECK(passes(*stages.plan) == std::pair(wanted, kind.type == "f32" ? 0 : wanted));
  // What is f32 beside f16 has columns in two parts, which lie in registers.
  const bool hopper = small.target.arch == "sm_90a", columns_in_parts = kind.type == "f16" && kind.weight.empty();
  if (hopper && !columns_in_parts) CHECK(by_groups(*stages.plan));
  if (!gradient) CHECK(stages.plan->groups.size() == 1);
  if (!gradient) CHECK(finishes(stages.plan->groups.back()));
  if (!kind.weight.empty()) {                          // what others read of folds first, and factors of one part
    CHECK(plan.find("online M Z U  rows h t  over s\n") != std::string::npos);
    CHECK(plan.find("  twice\n") != std::string::npos);
    for (const Step& step : stages.lowered->steps) CHECK(print(step.loops).find("in 3 parts") == std::string::npos);
  }
  check_run(*stages.bounded, *runtime::load_device(runtime::assemble(*stages.lowered, small)), random);
}

}  // namespace

TEST_CASE("attention and its gradients are passes on tensor cores, and right") {
  Random random(3);
  const std::string causal = ", s <= t";
  const Kind kinds[] = {{"bf16", "bf16", "", "", "", "cuda"},
                        {"f16, causal", "f16", causal, "", "", "cuda"},
                        {"bf16, causal, bias", "bf16", causal, " + B[t, s]", "", "cuda"},
                        {"f16, may be rounded", "f16", "", "", "", "cuda:math=tf32"},
                        {"bf16, rounded", "bf16", causal, "", "bf16", "cuda"},
                        {"f16, rounded", "f16", "", "", "f16", "cuda"},
                        {"bf16, more", "bf16", causal, "", "", "cuda", true},
                        {"f32, more", "f32", "", "", "", "cuda", true},
                        {"f32, causal", "f32", causal, "", "", "cuda"}};
  for (const Kind& kind : kinds) {
    check(kind, false, 2, random);
    if (kind.weight.empty() && !kind.more && kind.type != "f32") check(kind, true, 9, random);
  }
}

// A turn, and five, or three of twice the columns, of which the last has a part. Groups of warps alone have halves.
TEST_CASE("a turn that is taken in two halves is right, whatever maxima do from turn to turn") {
  Random random(6);
  const std::string causal = ", s <= t";
  const Kind kinds[] = {{"bf16", "bf16", "", "", "", "cuda"},
                        {"bf16, may be rounded", "bf16", "", "", "", "cuda:math=bf16"},
                        {"bf16, causal, may be rounded", "bf16", causal, "", "", "cuda:math=bf16"},
                        {"bf16, causal, bias", "bf16", causal, " + B[t, s]", "", "cuda", true},
                        {"bf16, bias, may be rounded", "bf16", "", " + B[t, s]", "", "cuda:math=bf16"}};
  for (const Kind& kind : kinds)
    for (const bool gradient : {false, true}) {
      if (gradient && (kind.more || !kind.bias.empty())) continue;
      CAPTURE(kind.name);
      CAPTURE(gradient);
      Request large;
      const std::string text = attention(kind);
      const Stages chosen = compiled(text, 4096, 4096, gradient, Until::Plan, "", kind, large);
      if (!by_groups(*chosen.plan)) continue;
      const std::string plan = for_other_sizes(*chosen.plan);
      CAPTURE(plan);
      const bool rounds = std::string_view(kind.target).ends_with("bf16");
      for (const std::int64_t columns : {50, 300}) {
        if (columns == 50 && (gradient ? &kind != kinds : !kind.bounds.empty() || !kind.bias.empty())) continue;
        CAPTURE(columns);
        Request small;
        const Stages stages = compiled(text, kind.bounds.empty() ? 70 : 300, columns, gradient, Until::Lowered, plan,
            kind, small);
        const auto module = runtime::load_device(runtime::assemble(*stages.lowered, small));
        for (const double by : {0.0, 4.0, 40.0}) {
          CAPTURE(by);
          check_run(*stages.bounded, *module, random, [&](auto& inputs) { grow(inputs, by); }, rounds);
          if (gradient || columns < 300) break;
        }
        if (gradient || columns < 300) continue;
        const double infinity = std::numeric_limits<double>::infinity();
        for (const auto& [first, second] : {std::pair(infinity, std::nan("")), std::pair(-infinity, infinity)}) {
          CAPTURE(first);                              // a head has one of them
          check_run(*stages.bounded, *module, random,
              [&](auto& inputs) {
                poly::Array& k = inputs[1];
                k.reals[250 * 24 + 7] = first, k.reals[(300 + 250) * 24 + 7] = second;
              },
              rounds);
        }
      }
    }
}

TEST_CASE("a thread has a row of the scores and other rows of the sums, which it divides") {
  Random random(4);
  const auto plan = [](const std::string& tile, int lanes) {
    std::string text = "online M Z U  rows h t  over s\nfinish U O\ngroup O  local X Y M P Z U  threads 128\n";
    text += fmt::format("  online X  over h  m t  n s  k d  {}  stage 64\n", tile);
    for (const char* element : {"Y", "M", "P", "Z"})
      text += fmt::format("  online {}  over h  m t  n s  block 1x1  lanes {}  stage 64\n", element, lanes);
    return text + fmt::format("  online U  over h  m t  n e  k s  {}  stage 64\n  finish O\n", tile);
  };
  for (const char* bounds : {"", ", s <= t"}) {
    const Kind kind{"f32", "f32", bounds, "", "", "cuda"};
    check(kind, false, 2, random, plan("block 8x8  lanes 8", 1));
    check(kind, false, 2, random, plan("block 8x4  lanes 16", 2));
  }
}

TEST_CASE("by threads, columns of a product are in shared memory once, for what sums them too") {
  Random random(6);
  for (const char* bounds : {"", ", s <= t"}) {
    const Kind kind{"f32", "f32", bounds, "", "", "cuda", false, 32};
    check(kind, true, 9, random);
    Request request;
    const Stages stages = compiled(attention(kind), 4096, 4096, true, Until::Lowered, "", kind, request);
    for (const Step& step : stages.lowered->steps) {
      const std::string loops = print(step.loops);
      const bool of_keys = loops.find(" dQ[") != std::string::npos, of_queries = loops.find(" dK[") != std::string::npos;
      if (of_keys || of_queries) CHECK_MESSAGE(loops.find("columns_2") == std::string::npos, loops);
    }
  }
}

TEST_CASE("a product of a pass is 0 where it has no point, though what sums it has one") {
  Random random(7);
  const std::string text =
      "function f(G[H, T, E], V[H, S, E], K[H, S, D]) -> (Q) {\n"
      "  A[h, t, s: H, T, S] = +(G[h, t, e] * V[h, s, e]), s <= t;\n"
      "  Q[h, t, d: H, T, D] = +(A[h, t, s] * K[h, s, d]);\n}\n";
  const std::string plan =
      "online Q  rows h t  over s\ngroup Q  local A  threads 128\n"
      "  online A  over h  m t  n s  k e  block 4x4  lanes 16  stage 64\n"
      "  online Q  over h  m t  n d  k s  block 4x4  lanes 16  stage 64\n";
  for (const std::int64_t rows : {64, 70}) {           // turns are whole tiles, or not
    Request request;
    const Stages stages =
        compiled(text, rows, rows, false, Until::Lowered, plan, {"f32", "f32", "", "", "", "cuda"}, request);
    check_run(*stages.bounded, *runtime::load_device(runtime::assemble(*stages.lowered, request)), random);
  }
}

TEST_CASE("blocks with more turns begin first, those of all heads together") {
  const auto first_row = [](const char* bounds) {
    const Kind kind{"f32", "f32", bounds, "", "", "cuda"};
    Request request;
    const Stages stages = compiled(attention(kind), 4096, 4096, false, Until::Lowered, "", kind, request);
    const std::string loops = print(stages.lowered->steps.front().loops), word = "let t_0 = ";
    const std::size_t from = loops.find(word) + word.size();
    return loops.substr(from, loops.find('\n', from) - from);
  };
  CHECK(first_row("") == "mod(p, 128) * 32");
  CHECK(first_row(", s <= t + 4096") == "mod(p, 128) * 32");
  CHECK(first_row(", t <= s") == "mod(p / 2, 128) * 32");
  CHECK(first_row(", s <= t") == "((0 - mod(p / 2, 128)) + 127) * 32");
}

TEST_CASE("exp(x - M) of a maximum M is the device's own, of anything else it is exact") {
  const auto kernels = [](bool maximum, bool gradient) {
    const Kind kind{"", "bf16", "", "", "", "cuda"};
    std::string text = attention(kind);
    if (!maximum) {                                     // M is given
      const std::size_t at = text.find("  M[h, t: H, T]");
      text.erase(at, text.find('\n', at) + 1 - at).replace(text.find(") -> ("), 1, ", M[H, T])");
    }
    Request request;
    std::string all;
    const Stages stages = compiled(text, 2048, 2048, gradient, Until::Lowered, "", kind, request);
    for (const Step& step : stages.lowered->steps) all += print(step.loops);
    return all;
  };
  const std::string below = "exp_below(", exact = " exp(";
  for (const bool gradient : {false, true}) {
    CHECK(kernels(true, gradient).find(below) != std::string::npos);
    CHECK(kernels(true, gradient).find("= exp(t") == std::string::npos);
    CHECK(kernels(false, gradient).find(below) == std::string::npos);
    CHECK(kernels(false, gradient).find(exact) != std::string::npos);
  }
}

TEST_CASE("what divides rows and columns of a pass is found once, and a reciprocal that is no normal number is none") {
  Random random(5);
  const std::string text =
      "function f(bf16 Q[T, D], bf16 K[S, D], bf16 V[S, E], A[T], B[S], G[S]) -> (O) {\n"
      "  X[t, s: T, S] = +(f32(Q[t, d]) * f32(K[s, d]));\n"
      "  P[t, s: T, S] = =((X[t, s] / 3 + G[s]) / A[t] / B[s]);\n"
      "  O[t, e: T, E] = +(P[t, s] * f32(V[s, e]));\n}\n";
  const Kind kind{"", "bf16", "", "", "", "cuda"};
  Request large, small;
  const std::string plan = for_other_sizes(*compiled(text, 4096, 4096, false, Until::Plan, "", kind, large).plan);
  CAPTURE(plan);
  const Stages stages = compiled(text, 70, 50, false, Until::Lowered, plan, kind, small);
  CHECK(passes(*stages.plan) == std::pair(2, 2));
  const std::string loops = print(stages.lowered->steps.front().loops);
  const auto count = [&](std::string_view word) {
    std::size_t found = 0;
    for (std::size_t at = loops.find(word); at != std::string::npos; at = loops.find(word, at + 1)) ++found;
    return found;
  };
  CHECK(count("quotient(") >= 3);
  CHECK(count(" = G + ") == 0);
  const auto module = runtime::load_device(runtime::assemble(*stages.lowered, small));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double special : {3.0, 0.0, infinity, -infinity, 0x1p-140, 0x1p-126, 0x1p127, -0x1.8p126, std::nan("")})
    for (const bool of_row : {false, true}) {
      CAPTURE(special);
      CAPTURE(of_row);
      check_run(*stages.bounded, *module, random, [&](std::vector<poly::Array>& inputs) {
        for (const std::size_t divisor : {std::size_t{3}, std::size_t{4}})
          for (double& x : inputs[divisor].reals) x = x < 0 ? x - 1 : x + 1;
        inputs[of_row ? 3 : 4].reals[37] = special;
      });
    }
}

}  // namespace tilec::test
