// Built-ins that make tensors: what they print reads back, what they mean is what their statements compute.
#include <doctest/doctest.h>

#include "poly/print.h"
#include "tests/poly/built.h"

using namespace tilec;
using namespace tilec::poly;
using test::built;

namespace {

std::string statements(const Program& program) {
  auto text = print(program);
  for (auto at = text.find("  // assumes"); at != std::string::npos; at = text.find("  // assumes"))
    text.erase(at, text.find('\n', at) + 1 - at);
  return text.substr(text.find("{\n") + 2);
}

// The body of a program with the inputs `inputs` that returns Y; it reads back to the same text.
std::string body(const std::string& inputs, const std::string& text) {
  const auto program = built("function (" + inputs + ") -> (Y) { " + text + " }");
  CHECK(statements(built(print(program))) == statements(program));
  return statements(program);
}

}  // namespace

TEST_CASE("gather, scatter and sorting read back") {
  CHECK(body("D[V, R], i32 I[J, K]", "Y = gather(D, I);") == "  Y = gather(D, I);\n}\n");
  CHECK(body("D[B, V, R], u8 I[B, J]", "Y = gather<1>(D, I);") == "  Y = gather<1>(D, I);\n}\n");
  CHECK(body("E[J, R], i64 I[J]", "Y = scatter(E, I, 2*J + 1);") == "  Y = scatter(E, I, 2*J + 1);\n}\n");
  CHECK(body("E[B, J, R], i32 I[B, J], D[B, V, R]", "Y = scatter<1>(E, I, D);") == "  Y = scatter<1>(E, I, V);\n}\n");
  CHECK(body("X[M, N]", "Y = argsort(X);") == "  Y = argsort(X);\n}\n");
  CHECK(body("X[M, N]", "Y = argsort_descending(X);") == "  Y = argsort_descending(X);\n}\n");
}

TEST_CASE("a size that scatter alone mentions is one, and a tensor there is not") {
  CHECK(body("E[J, R], i32 I[J], N", "Y = scatter(E, I, N);") == "  Y = scatter(E, I, N);\n}\n");
  CHECK(body("E[J, R], i32 I[J], N", "P = N/2; Y = scatter(E, I, P);") == "  Y = scatter(E, I, N/2);\n}\n");
  const auto program = built("function (E, I, V) -> (Y) { Y = scatter(E, I, V); }",
      {.function = {},
          .inputs = {{.name = "E", .dtype = DType::F32, .shape = std::vector<Size>{3, 4}},
              {.name = "I", .dtype = DType::I32, .shape = std::vector<Size>{3}},
              {.name = "V", .dtype = DType::F32, .shape = std::vector<Size>{7, 9}}},
          .defines = {}});
  CHECK(program.tensor(program.outputs[0]).shape == std::vector<Size>{7, 4});
}

TEST_CASE("shapes of gather and scatter") {
  const auto shape = [](const std::string& inputs, const std::string& text) {
    const auto program = built("function (" + inputs + ") -> (Y) { " + text + " }");
    std::string all;
    for (const auto& size : program.tensor(program.outputs[0]).shape) all += (all.empty() ? "" : " ") + size.print();
    return all;
  };
  CHECK(shape("D[V, R, S], i32 I[J, K]", "Y = gather(D, I);") == "J K R S");
  CHECK(shape("D[V], i32 I[]", "Y = gather(D, I);") == "");
  CHECK(shape("D[B, V, R], i32 I[B, J, K]", "Y = gather<1>(D, I);") == "B J K R");
  CHECK(shape("E[J, K, R], i32 I[J, K]", "Y = scatter(E, I, 5);") == "5 R");
  CHECK(shape("E[B, J, K, R], i32 I[B, J, K]", "Y = scatter<1>(E, I, 5);") == "B 5 R");
}

TEST_CASE("names that a built-in makes avoid those of its caller") {
  CHECK(body("Best[i, j]", "Y = argmax(Best, 1);") ==
      "  Best_1[i_1: i] = >(Best[i_1, j_1]);  // domain 0 <= i_1 < i, 0 <= j_1 < j\n"
      "  Y[i_1: i] = <(Best[i_1, j_1] == Best_1[i_1] | isnan(Best[i_1, j_1]) ? j_1 : j);  // domain 0 <= i_1 < i, 0 <= j_1 < j\n}\n");
  CHECK(body("X[M]", "Y_1 = exp(X); Y = cumsum(Y_1) + cumsum(X + Y_1);") ==
      "  Y_1[i: M] = =(exp(X[i]));\n  Y_2[i: M] = +(Y_1[j]), i - j >= 0;  // domain 0 <= i < M, 0 <= j < M\n"
      "  Y_3_1[i: M] = =(X[i] + Y_1[i]);\n  Y_3[i: M] = +(Y_3_1[j]), i - j >= 0;  // domain 0 <= i < M, 0 <= j < M\n  Y[i: M] = =(Y_2[i] + Y_3[i]);\n}\n");
}

TEST_CASE("the name a call's result gets is not one its own statements take") {
  CHECK(body("X[M, N]", "Best = 1 + argmax(X, 1); Y = Best + argmin(X, 1);").find("Best_1[i: M] = <(") !=
      std::string::npos);
}

TEST_CASE("reverse_grad has a rule each way") {
  const auto program = built("function (X[N], C[]) -> (Y, Z) { Y = reverse_grad(X, 2); Z = reverse_grad(X, C); }");
  REQUIRE(program.rules.size() == 2);
  CHECK(statements(program.derivatives->at(*program.rules[0].gradient)) == "  DX[i: N] = =(-2.0 * DY[i]);\n}\n");
  CHECK(statements(program.derivatives->at(*program.rules[0].tangent)) == "  TY[i: N] = =(-2.0 * TX[i]);\n}\n");
  CHECK(program.derivatives->at(*program.rules[0].gradient).inputs.size() == 3);
  CHECK(program.rules[1].operands.size() == 2);
  CHECK(statements(program.derivatives->at(*program.rules[1].gradient)) ==
      "  DX[i: N] = =(-C[] * DY[i]);\n  DC[] = =(0.0);\n}\n");
  CHECK(program.derivatives->at(*program.rules[1].gradient).inputs.size() == 4);
  CHECK(program.derivatives->at(*program.rules[1].tangent).inputs.size() == 5);
  CHECK(built("function (i32 X[N]) -> (Y) { Y = reverse_grad(X, 2); }").rules.empty());
}

TEST_CASE("a tuple that a built-in gives stands in an expression by its components") {
  CHECK(body("X[M, N]", "Y = element(top_k<2>(X), 0);").find("gather<1>") != std::string::npos);
}
