// Reverse mode on programs from text: against differences, for its conventions, and for what it refuses.
#include <doctest/doctest.h>

#include "differences.h"
#include "from_text.h"

using namespace tilec;
using namespace tilec::poly;
using namespace tilec::test;

namespace {

std::string refusal(const std::string& text, const Names& of = {}, const Names& wrt = {}) {
  lang::Diagnostics diagnostics;
  CHECK_FALSE(autodiff::reverse(built(text), of, wrt, diagnostics));
  return messages(diagnostics);
}

// The gradient of the text's function, run on inputs and cotangents.
std::vector<Array> run(const std::string& text, const Sizes& sizes, const std::vector<Array>& inputs) {
  return interpret(bound(gradient_of(built(text)), sizes), inputs).outputs;
}

struct Row { std::string name, text; Sizes sizes; double low = -1, high = 1; };

const std::vector<Row> programs{
    {"matrix product", "function f(f64 A[M, K], f64 B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        {{"M", 3}, {"K", 4}, {"N", 2}}},
    {"strided, dilated, padded convolution",
        "function f(f64 I[N, X, C], f64 K[KX, C, O]) -> (R) { R[n, x, o: N, (X + 2)/3, O] = +(I[n, 3*x + 2*k - 2, c] * K[k, c, o]); }",
        {{"N", 2}, {"X", 11}, {"C", 2}, {"KX", 3}, {"O", 2}}},
    {"convolution with a stride that is a size",
        "function f(f64 I[X], f64 K[KX], f64 Z[S]) -> (R) { R[x: (X + S - 1)/S] = +(I[S*x + k - 1] * K[k]); }",
        {{"X", 9}, {"KX", 3}, {"S", 2}}},
    {"softmax",
        "function f(f64 X[M, N]) -> (Y) { Mx[i: M] = >(X[i, j]); E[i, j: M, N] = =(exp(X[i, j] - Mx[i])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }",
        {{"M", 3}, {"N", 5}}},
    {"softmax of whole tensors",
        "function f(f64 X[M, N]) -> (Y) { Mx[i, 0: M, 1] = >(X[i, j]); E = exp(X - Mx); S[i, 0: M, 1] = +(E[i, j]); Y = E / S; }",
        {{"M", 3}, {"N", 4}}},
    {"layer norm",
        "function f(f64 X[M, N], f64 G[N], f64 B[N]) -> (Y) { S[i, 0: M, 1] = +(X[i, j]); D = X - S / N; V[i, 0: M, 1] = +(D[i, j] * D[i, j]); Y = D / sqrt(V / N + 0.00001) * G + B; }",
        {{"M", 3}, {"N", 4}}},
    {"overlapping max-pool",
        "function f(f64 I[X, Y]) -> (O) { O[x, y: (X + 1)/2, (Y + 1)/2] = >(I[2*x + i, 2*y + j]), i < 3, j < 3; }",
        {{"X", 6}, {"Y", 7}}},
    {"L1 distance", "function f(f64 A[M, K], f64 B[N, K]) -> (D) { D[i, j: M, N] = +(abs(A[i, k] - B[j, k])); }",
        {{"M", 3}, {"N", 2}, {"K", 4}}},
    {"general body",
        "function f(f64 A[M, K], f64 W[K], f64 Mx[M]) -> (S) { S[i: M] = +(exp(A[i, k] - Mx[i]) * W[k]); }",
        {{"M", 3}, {"K", 4}}},
    {"sum of operands keeps bounds and multiplicity",
        "function f(f64 A[N], f64 B[M]) -> (O) { O[i: N] = +(A[i] + B[i + j]), j < 3; }", {{"N", 5}, {"M", 6}}},
    {"default tensor under a stride", "function f(f64 A[N], f64 B[M]) -> (O) { O[2*i + 1: N] = =(B[i]) default A; }",
        {{"N", 7}, {"M", 3}}},
    {"concatenation as a chain of defaults",
        "function f(f64 A[M], f64 B[N], f64 Z[L]) -> (O) { T[i: M + N] = =(A[i]); U[i + M: M + N] = =(B[i]) default T; O[i: M + N] = +(U[i] * U[i]); }",
        {{"M", 3}, {"N", 2}, {"L", 1}}},
    {"default under a reduction", "function f(f64 A[N], f64 B[M, K]) -> (O) { O[i: N] = >(B[i, k]) default A; }",
        {{"N", 5}, {"M", 3}, {"K", 2}}},
    {"conditional combination",
        "function f(f64 A[N], f64 B[M], f64 C[M]) -> (O) { O[i: N] = +(A[i] < B[j] ? C[j] : A[i] * B[j]); }",
        {{"N", 4}, {"M", 3}}},
    {"chain", "function f(f64 A[N]) -> (O) { B = tanh(A); C = B * B + sin(A); O[] = +(C[i] * B[i]); }", {{"N", 5}}},
    {"broadcasting", "function f(f64 A[M, N], f64 B[N], f64 C[M, 1], f64 D[]) -> (O) { O = (A + B) * C - D; }",
        {{"M", 3}, {"N", 4}}},
    {"two uses of one tensor", "function f(f64 A[N, N]) -> (O) { O[i, j: N, N] = +(A[i, k] * A[k, j]); }", {{"N", 3}}},
    {"slices", "function f(f64 A[N, M]) -> (O) { O[i: N - 2] = =(A[i + 1, 0] * A[i, 2]); }", {{"N", 5}, {"M", 3}}},
    {"diagonal", "function f(f64 A[N, N]) -> (O) { D[i: N] = =(A[i, i]); O[i, i: N, N] = =(D[i] * D[i]); }",
        {{"N", 4}}},
    {"fractional index", "function f(f64 A[N]) -> (O) { O[i: 2*N] = +(A[(i - j)/2] * A[j]), j < 2; }", {{"N", 4}}},
    {"minimum of a product", "function f(f64 A[M, K], f64 B[K, N]) -> (C) { C[i, j: M, N] = <(A[i, k] * B[k, j]); }",
        {{"M", 3}, {"K", 4}, {"N", 2}}},
    {"cumulative sum", "function f(f64 A[N]) -> (O) { O[i: N] = +(A[j]), j <= i, 0 <= i - j < N; }", {{"N", 5}}},
    {"several outputs, one read later", "function f(f64 A[N]) -> (S, O) { S[] = +(A[i] * A[i]); O = A / S; }",
        {{"N", 4}}},
    {"powers", "function f(f64 A[N], f64 B[N]) -> (O) { O = pow(A, 2) + pow(B, A) + pow(B, 0.5); }", {{"N", 4}}, 0.2,
        2},
    {"a cubic mean", "function f(f64 A[N]) -> (O) { S[] = +(pow(A[i], 3)); O = pow(S / N, 1.0 / 3.0); }", {{"N", 4}},
        0.2, 2},
    {"product of rows", "function f(f64 A[M, N]) -> (P) { P[i: M] = *(A[i, j]); }", {{"M", 3}, {"N", 4}}},
    {"product of strided windows",
        "function f(f64 A[N], f64 B[K]) -> (P) { P[n: (N + 1)/2] = *(A[2*n + k - 1] + B[k]) default 0.5; }",
        {{"N", 7}, {"K", 3}}},
    {"product over two indices", "function f(f64 A[M, N], f64 B[N]) -> (P) { P[] = *(A[i, j] * B[j]); }",
        {{"M", 3}, {"N", 2}}},
    {"product bounded on one side",
        "function f(f64 A[N], f64 B[N]) -> (P) { P[i: N] = *(A[i + j] + B[j]), i >= 0, j >= 0; }", {{"N", 4}}},
    {"product over a default", "function f(f64 A[N], f64 B[M]) -> (P) { P[2*i: N] = *(B[i + j]), j < 2 default A; }",
        {{"N", 7}, {"M", 4}}},
    {"cumulative product", "function f(f64 A[N]) -> (P) { P[i: N] = *(A[j]), j <= i, 0 <= i - j < N; }", {{"N", 5}}},
    {"product of squares with a size for a stride",
        "function f(f64 A[N], f64 Z[S]) -> (P) { P[i: N/S] = *(A[S*i + j] * A[S*i + j]), j < S; }",
        {{"N", 6}, {"S", 3}}},
    {"reshape", "function f(f64 A[M, N]) -> (O) { B = reshape(A, M * N); O[i: M] = +(B[i + j] * B[j]), j < 3; }",
        {{"M", 3}, {"N", 2}}},
};

}  // namespace

TEST_CASE("gradients agree with differences, and read back from their print") {
  std::mt19937_64 random(7);
  for (const auto& row : programs) {
    CAPTURE(row.name);
    const Program program = built(row.text), gradient = gradient_of(program);
    const Program forward = bound(program, row.sizes), backward = bound(gradient, row.sizes);
    const auto inputs = test::arrays_of(forward, random, row.low, row.high);
    const auto outcome = test::compare(forward, backward, inputs, random);
    CHECK_MESSAGE(outcome.failure.empty(), outcome.failure);
    CHECK(outcome.checked > 0);
    CHECK(outcome.skipped == 0);

    auto all = inputs;
    for (std::size_t p = inputs.size(); p < backward.inputs.size(); ++p)
      all.push_back(test::array_of(backward, backward.inputs[p], random));
    const auto direct = interpret(backward, all).outputs;
    const Program again = bound(built(print(gradient)), row.sizes), simple = bound(simplify(gradient), row.sizes);
    REQUIRE(again.inputs.size() == all.size());
    const auto reread = interpret(again, all).outputs, simplified = interpret(simple, all).outputs;
    for (std::size_t k = 0; k < direct.size(); ++k) {
      CHECK_MESSAGE(reread[k].reals == direct[k].reals, print(gradient));
      CHECK(simplified[k].reals == direct[k].reals);
    }
  }
}

TEST_CASE("the gradient of a gradient agrees with differences") {
  std::mt19937_64 random(8);
  for (const std::size_t k : {std::size_t{0}, std::size_t{3}, std::size_t{6}, std::size_t{10}, std::size_t{14},
           std::size_t{16}, std::size_t{25}, std::size_t{26}, std::size_t{28}, std::size_t{30}}) {
    CAPTURE(programs[k].name);
    const Program once = gradient_of(built(programs[k].text)), twice = gradient_of(once);
    const Program forward = bound(once, programs[k].sizes), backward = bound(twice, programs[k].sizes);
    const auto outcome = test::compare(forward, backward, test::arrays_of(forward, random), random);
    CHECK_MESSAGE(outcome.failure.empty(), outcome.failure);
    CHECK(outcome.checked > 0);
  }
}

TEST_CASE("equal maxima share the cotangent") {
  const std::string pool = "function f(f64 A[N]) -> (O) { O[i: N - 1] = >(A[i + j]), j < 2; }";
  const std::vector<Array> inputs{reals({4}, {1, 1, 1, 0}), reals({3}, {2, 4, 6})};
  CHECK(run(pool, {{"N", 4}}, inputs)[0].reals == Doubles{1, 3, 8, 0});
  const auto with = [&](const std::string& ties) {
    return run("function f(f64 A[N]) -> (O) { [[ties(" + ties + ")]] O[i: N - 1] = >(A[i + j]), j < 2; }", {{"N", 4}},
        inputs)[0]
        .reals;
  };
  CHECK(with("split") == Doubles{1, 3, 8, 0});
  CHECK(with("first") == Doubles{2, 4, 6, 0});
  CHECK(with("all") == Doubles{2, 6, 10, 0});
}

TEST_CASE("70,000 equal f16 values get a 70,000th each") {
  const auto result = run("function f(f16 A[N]) -> (O) { O[] = >(A[i]); }", {{"N", 70000}},
      {reals({70000}, Doubles(70000, 0.5), DType::F16), reals({}, {1}, DType::F16)})[0];
  CHECK(result.dtype == DType::F16);
  CHECK(result.reals[0] == round_to(DType::F16, 1.0 / 70000));
  CHECK(result.reals[0] == result.reals[69999]);
}

TEST_CASE("NaN wins no maximum and gets no gradient") {
  const auto result =
      run("function f(f64 A[N]) -> (O) { O[] = >(A[i]); }", {{"N", 3}}, {reals({3}, {1, NAN, 3}), reals({}, {1})})[0];
  CHECK(result.reals == Doubles{0, 0, 0});
}

TEST_CASE("elements that no point reaches hand their cotangent to the default only") {
  const auto result = run("function f(f64 A[N], f64 B[M]) -> (O) { O[2*i: N] = =(B[i]) default A; }",
      {{"N", 5}, {"M", 2}}, {reals({5}, {0, 0, 0, 0, 0}), reals({2}, {0, 0}), reals({5}, {1, 2, 3, 4, 5})});
  CHECK(result[0].reals == Doubles{0, 2, 0, 4, 5});
  CHECK(result[1].reals == Doubles{1, 3});
}

TEST_CASE("an input that no output depends on gets zeros") {
  const auto result = run("function f(f64 A[N], f64 B[M]) -> (O) { O = A * 2.0; }", {{"N", 2}, {"M", 3}},
      {reals({2}, {1, 1}), reals({3}, {1, 1, 1}), reals({2}, {1, 2})});
  CHECK(result[0].reals == Doubles{2, 4});
  CHECK(result[1].reals == Doubles{0, 0, 0});
}

TEST_CASE("an output may be an input, and an output that is read later has two shares") {
  const auto same = run("function f(f64 A[N]) -> (A) { }", {{"N", 2}}, {reals({2}, {1, 1}), reals({2}, {5, 6})});
  CHECK(same[0].reals == Doubles{5, 6});
  const auto both = run("function f(f64 A[N]) -> (B, C) { B = A * 2.0; C = B * 3.0; }", {{"N", 2}},
      {reals({2}, {1, 1}), reals({2}, {1, 10}), reals({2}, {100, 1000})});
  CHECK(both[0].reals == Doubles{602, 6020});
}

TEST_CASE("parts are summed in the wide type and rounded once") {
  const Program gradient =
      gradient_of(built("function f(f16 A[N], f16 B[N]) -> (O) { O[] = +(A[i] * B[j] + A[N - 1 - i]); }"));
  for (TensorId id : gradient.outputs) CHECK(gradient.tensor(id).dtype == DType::F16);
  int parts = 0;
  for (const auto& tensor : gradient.tensors)
    if (tensor.name.starts_with("dA_")) {
      CHECK(tensor.dtype == DType::F32);
      ++parts;
    }
  CHECK(parts == 2);
}

TEST_CASE("generated names avoid what the text has") {
  const Program gradient =
      gradient_of(built("function f(f64 A[N], f64 dA[N]) -> (O) { Cnt = A * dA; O[] = >(Cnt[dO]); }"));
  Names names;
  for (TensorId id : gradient.inputs) names.push_back(gradient.tensor(id).name);
  for (TensorId id : gradient.outputs) names.push_back(gradient.tensor(id).name);
  CHECK(names == Names{"A", "dA", "dO_1", "dA_1", "ddA"});
}

TEST_CASE("what has no gradient is refused by name") {
  const std::string product = "function f(f64 A[N]) -> (P) { P[] = *(A[i + j]), 2*i >= j, 2*j >= i; }",
                    plain =
                        "function f(f64 Weight[N], i32 L[N]) -> (Loss, C) { Loss[] = +(Weight[i]); C[] = +(L[i]); }";
  CHECK(refusal(product).starts_with(
      "E0307: the factors of `P` cannot be ordered: too few of its indices are bounded on both sides"));
  CHECK(refusal(plain, {"Los"}).starts_with("E0301: `Los` is no output of `f`\nhint: did you mean `Loss`?"));
  CHECK(refusal(plain, {}, {"Wight"}).starts_with("E0302: `Wight` is no input of `f`\nhint: did you mean `Weight`?"));
  CHECK(refusal(plain, {}, {"Loss"}) == "E0302: `Loss` is no input of `f`\nhint: there are `Weight`, `L`\n");
  CHECK(refusal(plain, {}, {"L"}) == "E0303: input `L` is i32: only floats have a derivative\n");
  CHECK(refusal(plain, {"C"}) == "E0304: output `C` is i32: only floats have a derivative\n");
  CHECK(refusal("function f(i32 A[N]) -> (O) { O = A + 1; }") ==
      "E0305: `f` has no float output to differentiate\nE0306: `f` has no float input to differentiate by\n");
  // Not in the way of this gradient.
  lang::Diagnostics diagnostics;
  CHECK(autodiff::reverse(
      built("function f(f64 A[N], f64 B[N]) -> (P, S) { P[] = *(A[i + j]), 2*i >= j, 2*j >= i; S[] = +(B[i]); }"),
      {"S"}, {}, diagnostics));
}

TEST_CASE("ties without an order are refused") {
  Program open = built("function f(f64 A[]) -> (O) { [[ties(first)]] O[] = >(A[] * i * j), 0 <= i < 3, 0 <= j < 3; }");
  for (auto& row : std::get<Statement>(open.nodes[0]).domain) row.extent.reset();
  lang::Diagnostics refused;
  CHECK_FALSE(autodiff::reverse(open, {}, {}, refused));
  CHECK(messages(refused).starts_with("E0309: `ties(first)` cannot order the points of `O`"));
}
