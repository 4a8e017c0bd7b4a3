// The two Programs of split compute what the one does, on random programs; and what is saved or made again follows the
// rule.
#include <doctest/doctest.h>

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "autodiff/reverse.h"
#include "autodiff/split.h"
#include "differences.h"
#include "poly/bind.h"
#include "poly/bounds.h"
#include "poly/simplify.h"
#include "poly/verify.h"
#include "tests/poly/built.h"

using namespace tilec;
using namespace tilec::autodiff;
using namespace tilec::poly;
using test::built;

namespace {

std::optional<Split> split_of(
    const std::string& text, const std::map<std::string, std::int64_t>& sizes, std::string* error = nullptr,
    const Prices& prices = {}) {
  const auto forward = built(text);
  lang::Diagnostics diagnostics;
  const auto gradient = reverse(forward, {}, {}, diagnostics);
  REQUIRE(gradient);
  const auto joint = poly::bind(joined(forward, *gradient), sizes, diagnostics);
  REQUIRE(joint);
  const auto bounded = bounds(simplify(*joint), diagnostics);
  REQUIRE(bounded);
  verify(*bounded, Stage::Bounded);
  const auto result = split(*bounded, forward.inputs.size(), forward.outputs.size(), prices, diagnostics);
  if (!result) {
    REQUIRE(error);
    *error = diagnostics.all().back().code;
    return result;
  }
  verify(result->forward, Stage::Bounded);
  verify(result->backward, Stage::Bounded);
  return result;
}

std::optional<Way> way(const Split& split, const std::string& name) {
  for (const auto& r : split.residuals)
    if (split.joint.tensor(r.tensor).name == name) return r.way;
  return std::nullopt;
}

// Forward, then backward on what it hands over by name; against the joint Program.
void check_same(const Split& split, std::mt19937_64& random) {
  const auto inputs = test::arrays_of(split.joint, random);
  const auto whole = interpret(split.joint, inputs);
  std::map<std::string, Array> known;
  for (std::size_t k = 0; k < inputs.size(); ++k) known[split.joint.tensor(split.joint.inputs[k]).name] = inputs[k];
  const auto gather = [&](const Program& program) {
    std::vector<Array> arrays;
    for (const auto id : program.inputs) arrays.push_back(known.at(program.tensor(id).name));
    return arrays;
  };
  const auto first = interpret(split.forward, gather(split.forward)).outputs;
  for (std::size_t k = 0; k < first.size(); ++k) known[split.forward.tensor(split.forward.outputs[k]).name] = first[k];
  const auto second = interpret(split.backward, gather(split.backward)).outputs;
  REQUIRE(split.forward_outputs + second.size() == whole.outputs.size());
  for (std::size_t k = 0; k < whole.outputs.size(); ++k) {
    const auto& other = k < split.forward_outputs ? first[k] : second[k - split.forward_outputs];
    CHECK(whole.outputs[k].integers == other.integers);
    REQUIRE(whole.outputs[k].reals.size() == other.reals.size());
    for (std::size_t e = 0; e < other.reals.size(); ++e) {   // the same statements in the same order: the same bits
      const double a = whole.outputs[k].reals[e], b = other.reals[e];
      CHECK((a == b || (std::isnan(a) && std::isnan(b))));
    }
  }
}

// Statements over [4, 4] tensors: contractions, maps, extremes, row sums; integers beside.
std::string random_text(std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  std::vector<std::string> known{"A", "B"};
  const auto any = [&] { return known[static_cast<std::size_t>(below(static_cast<int>(known.size())))]; };
  std::string text = "function f(A[N, N], B[N, N], i32 I[N, N]) -> (";
  std::string statements;
  const int count = 2 + below(6);
  for (int k = 0; k < count; ++k) {
    const auto name = fmt::format("T{}", k), a = any(), b = any();
    statements +=
        std::vector<std::string>{"", "", "", "[[save]] ", "[[recompute]] "}[static_cast<std::size_t>(below(5))];
    switch (below(8)) {
      case 0: statements += fmt::format("{}[i, j: N, N] = +({}[i, k] * {}[k, j]); ", name, a, b); break;
      case 1: statements += fmt::format("{} = tanh({}) * {}; ", name, a, b); break;
      case 2: statements += fmt::format("{}[i, j: N, N] = >({}[i, k] * {}[k, j]); ", name, a, b); break;
      case 3: statements += fmt::format("{}[i, j: N, N] = +({}[i, k]), k < 3, 0 <= j < N; ", name, a); break;
      case 4: statements += fmt::format("{} = I > 0 ? {} / (1.5 + {} * {}) : {}; ", name, a, b, b, b); break;
      case 5: statements += fmt::format("{} = {} + sin({}); ", name, a, b); break;
      case 6: statements += fmt::format("{}[2*i, j: N, N] = =({}[i, j] * 0.5), i < 2 default {}; ", name, a, b); break;
      default: statements += fmt::format("{}[j, i: N, N] = =(exp({}[i, j] * 0.25)); ", name, a); break;
    }
    known.push_back(name);
  }
  text += fmt::format("T{}", count - 1);
  if (below(3) == 0) text += fmt::format(", T{}", count - 2);
  return text + ") { " + statements + "}";
}

}  // namespace

TEST_CASE("forward and backward together compute what the joint Program does, bit for bit on the interpreter") {
  const char* setting = std::getenv("TILEC_CASES");
  const std::uint64_t cases = setting ? std::strtoull(setting, nullptr, 10) : 150;
  int split_count = 0, saved = 0, again = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    std::mt19937_64 random(seed);
    const auto text = random_text(random);
    CAPTURE(text);
    std::string error;
    const auto result = split_of(text, {{"N", 4}}, &error);
    if (!result) {
      CHECK(error == "E0330");
      ++refused;
      continue;
    }
    check_same(*result, random);
    ++split_count;
    for (const auto& r : result->residuals) {
      saved += r.way == Way::Saved;
      again += r.way == Way::Recomputed;
      if (r.asked == Keep::Recompute) CHECK(r.way == Way::Recomputed);
      if (r.asked == Keep::Save) CHECK(r.way != Way::Recomputed);
    }
  }
  MESSAGE(
      split_count << " programs, " << refused << " refused, " << saved << " tensors saved, " << again << " recomputed");
  CHECK(saved > 30);
  CHECK(again > 50);
  CHECK(refused * 5 < split_count);
}

TEST_CASE("cheap maps are made again, contractions and row sums are saved") {
  const auto result = split_of(
      "function softmax(A[M, K], B[K, N]) -> (Y, Mx) { S[i, j: M, N] = +(A[i, k] * B[k, j]); Mx[i: M] = >(S[i, j]); E[i, j: M, N] = =(exp(S[i, j] - Mx[i])); Z[i: M] = +(E[i, j]); Y = E / reshape(Z, M, 1); }",
      {{"M", 16}, {"N", 128}, {"K", 64}});  // Mx is a result, so the gradient compares S with it
  REQUIRE(result);
  CHECK(way(*result, "S") == Way::Saved);              // 128 operations an element against 40 for its bytes
  CHECK(way(*result, "E") == Way::Recomputed);         // 9 against 40
  CHECK(way(*result, "Z") == Way::Saved);
  CHECK(way(*result, "A") == Way::Input);
  CHECK(result->forward.outputs.size() > 1);
}

TEST_CASE("where results do not depend on a maximum, its values may be made again and the maximum saved") {
  const std::string text =
      "function softmax(A[M, K], B[K, N]) -> (Y) { S[i, j: M, N] = +(A[i, k] * B[k, j]); Mx[i: M] = >(S[i, j]); E[i, j: M, N] = =(exp(S[i, j] - Mx[i])); Z[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / Z[i]); }";
  const auto short_sums = split_of(text, {{"M", 64}, {"N", 64}, {"K", 4}});
  REQUIRE(short_sums);
  CHECK(way(*short_sums, "S") == Way::Recomputed);
  CHECK(way(*short_sums, "Mx") == Way::Saved);
  const auto long_sums = split_of(text, {{"M", 64}, {"N", 64}, {"K", 64}});
  REQUIRE(long_sums);
  CHECK(way(*long_sums, "E") == Way::Saved);           // to make it again takes S, which has as many bytes
}

TEST_CASE("a short contraction is made again, and then the maximum of its values is too") {
  const auto text =
      "function f(A[M, K], B[K, N]) -> (Y) { S[i, j: M, N] = +(A[i, k] * B[k, j]); Y[i: M] = >(S[i, j]); }";
  const auto result = split_of(text, {{"M", 64}, {"N", 64}, {"K", 4}});
  REQUIRE(result);
  CHECK(way(*result, "S") == Way::Recomputed);
  CHECK(way(*result, "Y") == Way::Recomputed);         // compared with S: of one rounding
  const auto longer = split_of(text, {{"M", 64}, {"N", 64}, {"K", 64}});
  REQUIRE(longer);
  CHECK(way(*longer, "S") == Way::Saved);
  CHECK(way(*longer, "Y") == Way::Output);
}

TEST_CASE("sums of products of 16 bits are made again where they are cheap, and a maximum stays known as one") {
  const std::string text =
      "function (bf16 Q[T, D], bf16 K[S, D], V[S, E]) -> (O) { X[t, s: T, S] = +(f32(Q[t, d]) * f32(K[s, d])); M[t: T] = >(X[t, s]); P[t, s: T, S] = =(exp(X[t, s] - M[t])); Z[t: T] = +(P[t, s]); U[t, e: T, E] = +(P[t, s] * V[s, e]); O[t, e: T, E] = =(U[t, e] / Z[t]); }";
  const std::map<std::string, std::int64_t> sizes{{"T", 70}, {"S", 50}, {"D", 64}, {"E", 64}};
  const auto plain = split_of(text, sizes, nullptr, {{17, 1}, {}}),
             cores = split_of(text, sizes, nullptr, {{17, 15}, {}});
  REQUIRE(plain);
  REQUIRE(cores);
  const auto keeps_scores = [](const Split& split) {
    return way(split, "X") == Way::Saved || way(split, "P") == Way::Saved;
  };
  CHECK(keeps_scores(*plain));
  CHECK_FALSE(keeps_scores(*cores));
  for (const TensorId id : cores->backward.inputs)
    CHECK(cores->backward.tensor(id).maximum == (cores->backward.tensor(id).name == "M"));
}

TEST_CASE("the order of a sort is saved") {
  const auto split = split_of(
      "function (X[N], W[N]) -> (L) { I = argsort(X); S = gather(X, I); L[] = +(S[n] * W[n]); }", {{"N", 1000}});
  REQUIRE(split);
  CHECK(way(*split, "I") == Way::Saved);
}

TEST_CASE("products over intervals, which nobody has in memory, are not saved") {
  const auto split = split_of(
      "function (A[T, D], B[T, D]) -> (H) { P[t, s, d: T, T, D] = *(A[u, d]), s + 1 <= u, u <= t default 1; H[t, d: T, D] = +(P[t, s, d] * B[s, d]), s <= t; }",
      {{"T", 50}, {"D", 4}});
  REQUIRE(split);
  CHECK(way(*split, "P") == Way::Recomputed);
}

TEST_CASE("what the text asks for decides, and a contradiction is an error") {
  const std::map<std::string, std::int64_t> sizes{{"M", 64}, {"N", 64}, {"K", 64}};
  const auto saved = split_of("function f(X[M, N]) -> (Y) { [[save]] E = exp(X); Y = E * E; }", sizes);
  REQUIRE(saved);
  CHECK(way(*saved, "E") == Way::Saved);
  const auto again = split_of(
      "function f(A[M, K], B[K, N]) -> (Y) { [[recompute]] S[i, j: M, N] = +(A[i, k] * B[k, j]); Y = S * S; }", sizes);
  REQUIRE(again);
  CHECK(way(*again, "S") == Way::Recomputed);
  std::string error;
  CHECK(!split_of(
      "function f(A[M, K], B[K, N]) -> (Y) { [[recompute]] S[i, j: M, N] = +(A[i, k] * B[k, j]); [[save]] Y[i: M] = >(S[i, j]); }",
      sizes, &error));
  CHECK(error == "E0330");
}

TEST_CASE("a statement of forward and gradient is in the joint Program once") {
  const auto result =
      split_of("function f(X[N], W[N]) -> (Y) { E = exp(X); S[] = +(E[i] * W[i]); Y = E / S; }", {{"N", 100}});
  REQUIRE(result);
  int made = 0;
  for (const auto& tensor : result->joint.tensors) made += tensor.name.starts_with("E");
  CHECK(made == 1);
}
