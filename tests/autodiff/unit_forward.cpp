// Forward mode on programs from text: names, conventions, and products with zeros by values worked out by hand, to
// second order.
#include "from_text.h"

using namespace tilec;
using namespace tilec::poly;
using namespace tilec::test;

namespace {

const std::string product_of_all = "function f(f64 A[N]) -> (P) { P[] = *(A[i]); }";
const std::string written_out = "function f(f64 A[N], f64 B[N]) -> (P) { P[] = *(A[i] * B[i]); }";

Doubles gradient_at(const std::string& text, const std::vector<Doubles>& inputs) {
  std::vector<Array> all;
  const auto count = static_cast<std::int64_t>(inputs[0].size());
  for (const auto& input : inputs) all.push_back(reals({count}, input));
  all.push_back(reals({}, {1}));
  return interpret(bound(gradient_of(built(text)), {{"N", count}}), all).outputs[0].reals;
}

// H v of the product of the elements.
Doubles hessian_times(const Doubles& a, const Doubles& v, bool over_reverse) {
  const auto count = static_cast<std::int64_t>(a.size());
  const Program gradient = gradient_of(built(product_of_all));
  const Program hessian = over_reverse ? tangent_of(gradient, {}, {"A"}) : gradient_of(gradient, {}, {"A"});
  return interpret(bound(hessian, {{"N", count}}), {reals({count}, a), reals({}, {1}), reals({count}, v)})
      .outputs[0]
      .reals;
}

// Σ over all but the k-th, l-th … of products that leave out both, by definition.
Doubles by_definition(const Doubles& a, const Doubles& v) {
  Doubles result(a.size());
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t l = 0; l < a.size(); ++l) {
      double others = k == l ? 0 : 1;
      for (std::size_t n = 0; n < a.size(); ++n) others *= n == k || n == l ? 1 : a[n];
      result[k] += others * v[l];
    }
  return result;
}

}  // namespace

TEST_CASE("the inputs are the program's, then a tangent for each; the outputs are tangents") {
  const Program tangent = tangent_of(
      built("function f(f64 A[N], f64 B[N], i32 L[N]) -> (O, C, S) { O = A * B; C = L + 1; S[] = +(O[i]); }"));
  CHECK(input_names(tangent) == Names{"A", "B", "L", "tA", "tB"});
  CHECK(output_names(tangent) == Names{"tO", "tS"});
  CHECK(tangent.name == "f_tangent");
  const Program some =
      tangent_of(built("function f(f64 A[N], f64 B[N], f64 tA[N]) -> (O, S) { O = A * B * tA; S[] = +(O[i]); }"), {"S"},
          {"B", "A"});
  CHECK(input_names(some) == Names{"A", "B", "tA", "tB", "tA_1"});
  CHECK(output_names(some) == Names{"tS"});
}

TEST_CASE("an output that no tangent reaches gets zeros, and an output may be an input") {
  const Program tangent =
      bound(tangent_of(built("function f(f64 A[N], f64 B[N]) -> (A, O) { O = B * 2.0; }"), {}, {"A"}), {{"N", 2}});
  const auto outputs = interpret(tangent, {reals({2}, {1, 1}), reals({2}, {1, 1}), reals({2}, {5, 6})}).outputs;
  CHECK(outputs[0].reals == Doubles{5, 6});
  CHECK(outputs[1].reals == Doubles{0, 0});
}

TEST_CASE("elements written take the statement's tangent, others the default's") {
  const Program tangent =
      bound(tangent_of(built("function f(f64 A[N], f64 B[M]) -> (O) { O[2*i: N] = =(B[i] * B[i]) default A; }")),
          {{"N", 5}, {"M", 2}});
  const auto output = interpret(
      tangent, {reals({5}, Doubles(5, 0)), reals({2}, {3, 4}), reals({5}, {1, 2, 3, 4, 5}), reals({2}, {10, 100})})
                          .outputs[0];
  CHECK(output.reals == Doubles{60, 2, 800, 4, 5});
}

TEST_CASE("equal maxima share the tangent as they share the cotangent") {
  const auto with = [&](const std::string& ties) {
    const Program tangent = bound(
        tangent_of(built("function f(f64 A[N]) -> (O) { [[ties(" + ties + ")]] O[i: N - 1] = >(A[i + j]), j < 2; }")),
        {{"N", 4}});
    return interpret(tangent, {reals({4}, {1, 1, 1, 0}), reals({4}, {2, 4, 8, 100})}).outputs[0].reals;
  };
  CHECK(with("split") == Doubles{3, 6, 8});
  CHECK(with("first") == Doubles{2, 4, 8});
  CHECK(with("all") == Doubles{6, 12, 8});
}

TEST_CASE("the gradient of a product is exact with any number of zeros") {
  CHECK(gradient_at(product_of_all, {{2, 3, 5, 7}}) == Doubles{105, 70, 42, 30});
  CHECK(gradient_at(product_of_all, {{2, 0, 5, 7}}) == Doubles{0, 70, 0, 0});
  CHECK(gradient_at(product_of_all, {{2, 0, 0, 7}}) == Doubles{0, 0, 0, 0});
  CHECK(gradient_at(product_of_all, {{0, 0, 0, 7}}) == Doubles{0, 0, 0, 0});
  CHECK(gradient_at(product_of_all, {{3}}) == Doubles{1});
  // Factors that are written out first: d/dA of (A B) is B times the others.
  CHECK(gradient_at(written_out, {{2, 3, 5}, {1, 10, 1}}) == Doubles{150, 100, 60});
  CHECK(gradient_at(written_out, {{2, 0, 5}, {1, 10, 1}}) == Doubles{0, 100, 0});
  CHECK(gradient_at(written_out, {{2, 0, 0}, {1, 10, 1}}) == Doubles{0, 0, 0});
  CHECK(gradient_at(written_out, {{0, 0, 0}, {1, 10, 1}}) == Doubles{0, 0, 0});
}

TEST_CASE("the Hessian of a product is exact with any number of zeros, in either order of modes") {
  for (const Doubles& a :
      {Doubles{2, 3, 5, 7}, Doubles{2, 0, 5, 7}, Doubles{2, 0, 0, 7}, Doubles{0, 0, 0, 7}, Doubles{2, 3}})
    for (const bool over_reverse : {true, false}) {
      Doubles v{1, 10, 100, 1000};
      v.resize(a.size());
      CHECK(hessian_times(a, v, over_reverse) == by_definition(a, v));
    }
  CHECK(hessian_times({2, 3, 5, 7}, {1, 0, 0, 0}, true) == Doubles{0, 35, 21, 15});
  CHECK(hessian_times({0, 0, 5, 7}, {1, 0, 0, 0}, true) == Doubles{0, 35, 0, 0});
}

TEST_CASE("a product over nothing holds its fill and hands on nothing") {
  const Program gradient =
      bound(gradient_of(built("function f(f64 A[N], f64 B[M]) -> (P) { P[i: M] = *(A[j] * B[i]), 0 <= j < N - 3; }")),
          {{"N", 2}, {"M", 2}});
  const auto outputs = interpret(gradient, {reals({2}, {1, 2}), reals({2}, {4, 5}), reals({2}, {1, 1})}).outputs;
  CHECK(outputs[0].reals == Doubles{0, 0});
  CHECK(outputs[1].reals == Doubles{0, 0});
}

TEST_CASE("tangents are computed in the wide type and stored in the tensor's") {
  const Program tangent = tangent_of(built("function f(f16 A[N], f16 B[N]) -> (O) { O[] = +(A[i] * B[i]); }"));
  CHECK(tangent.tensor(tangent.outputs[0]).dtype == DType::F16);
  CHECK(std::get<Statement>(tangent.nodes.back()).value.type() == DType::F32);
}
