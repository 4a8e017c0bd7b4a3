#include <doctest/doctest.h>

#include <random>

#include "lang/messages.h"
#include "poly/bind.h"
#include "poly/print.h"
#include "poly/simplify.h"
#include "poly/verify.h"
#include "tests/poly/built.h"

using namespace tilec;
using namespace tilec::poly;
using test::built;

namespace {

const Size M = Size::named("M"), N = Size::named("N"), K = Size::named("K");
Size max(Size a, Size b) { return Size::apply(Size::Kind::Max, {a, b}); }
Size cond(Size c, Size a, Size b) { return Size::apply(Size::Kind::Cond, {c, a, b}); }
Size less(Size a, Size b) { return Size::apply(Size::Kind::Less, {a, b}); }

// A size read back by build, as the extent of an output.
Size read_back(const std::string& text) {
  const auto program = built("function f(A[M], B[N], C[K]) -> (O) { O[i: " + text + "] = +(A[i]); }");
  return program.tensor(program.outputs[0]).shape[0];
}

std::vector<std::string> errors(const std::string& text, const std::map<std::string, std::int64_t>& sizes) {
  lang::Diagnostics diagnostics;
  const auto bound = poly::bind(built(text), sizes, diagnostics);
  CHECK(bound.has_value() == diagnostics.all().empty());
  std::vector<std::string> all;
  for (const auto& d : diagnostics.all()) all.push_back(d.code + ": " + d.message);
  return all;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("sums and products are equal however they are written") {
  CHECK(M + N == N + M);
  CHECK((M + N) * K == K * N + M * K);
  CHECK((M + 1) * (M - 1) == M * M - 1);
  CHECK(M - M == Size(0));
  CHECK(2 * M / 2 == M);
  CHECK((2 * M + 2) / 4 == (M + 1) / 2);
  CHECK(M / 2 / 3 == M / 6);
  CHECK((M - N) / 2 == -((N - M) / 2));
  CHECK(M / -2 == -(M / 2));
  CHECK(max(M, N) == max(N, M));
  CHECK(max(max(M, N), K) == max(M, max(N, K)));
  CHECK(max(M, M + 1) == M + 1);
  CHECK(max(M, 3) != M);
  CHECK(less(M, M + 1) == Size(1));
  CHECK(cond(less(M, N), 1, 0) == less(M, N));
  CHECK(cond(less(M, N), K, K) == K);
}

TEST_CASE("a size folds when its names are known") {
  CHECK(((N + 1) / 2).substitute({{"N", 224}}) == Size(112));
  CHECK(((N + 1) / 2).substitute({{"M", 224}}) == (N + 1) / 2);
  CHECK((Size(-7) / 2).get() == -3);
  CHECK(max(M, N).substitute({{"M", 3}, {"N", 5}}).get() == 5);
  CHECK(cond(less(M, N), M / 2, N / K).substitute({{"M", 4}, {"N", 5}, {"K", 0}}).get() == 2);
  CHECK((N * K - M * K).substitute({{"N", INT64_MAX}, {"M", INT64_MAX - 1}, {"K", 5}}).get() == 5);
}

TEST_CASE("overflow and division by zero are errors that name the operation") {
  CHECK_THROWS_WITH_AS(Size(INT64_MAX) + Size(1), "`9223372036854775807 + 1` does not fit a 64-bit size", SizeError);
  CHECK_THROWS_AS(Size(INT64_MAX) * Size(2), SizeError);
  CHECK_THROWS_AS(Size(INT64_MIN) / Size(-1), SizeError);
  CHECK_THROWS_AS(-Size(INT64_MIN), SizeError);
  CHECK_THROWS_WITH_AS(M / Size(0), "`M / 0` divides by zero", SizeError);
  CHECK_THROWS_WITH_AS((M / N).substitute({{"M", 5}, {"N", 0}}), "`5 / 0` divides by zero", SizeError);
  CHECK_THROWS_AS((M * M).substitute({{"M", std::int64_t{1} << 32}}), SizeError);
}

TEST_CASE("sizes print as Tile") {
  CHECK(((N + 1) / 2).print() == "(N + 1)/2");
  CHECK(((N + 1) / 2).print(true) == "div(N + 1, 2)");
  CHECK((2 * N - 1).print() == "2*N - 1");
  CHECK((Size(1) - N).print() == "1 - N");
  CHECK((-N).print() == "-N");
  CHECK((2 * (N / 2) + M * K).print() == "K*M + 2*(N/2)");
  CHECK(max(M, N / 2 + 1).print() == "max(N/2 + 1, M)");
  CHECK(cond(less(M, N), 3, M / 2).print() == "((M < N) ? 3 : (M/2))");
  CHECK(cond(less(M, N), 3, M / 2).print(true) == "cond((M < N), 3, M/2)");
  CHECK(Size(0).print() == "0");
  CHECK(Size(INT64_MIN).print() == "-9223372036854775808");
}

TEST_CASE("a printed size reads back to an equal one") {
  std::mt19937 random(20240607);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto make = [&](const auto& self, int depth) -> Size {
    if (depth == 0 || pick(4) == 0)
      return pick(2) ? Size(pick(9) - 3) : std::vector{M, N, K}[static_cast<std::size_t>(pick(3))];
    const auto a = self(self, depth - 1), b = self(self, depth - 1);
    switch (pick(8)) {
      case 0: return a + b;
      case 1: return a - b;
      case 2: return a * b;
      case 3: return a / Size(pick(5) + 1);
      case 4: return max(a, b);
      case 5: return Size::apply(Size::Kind::Min, {a, b});
      case 6: return Size::apply(Size::Kind::Mod, {a, Size(pick(4) + 2)});
      default: return cond(pick(2) ? less(a, b) : Size::apply(Size::Kind::Equal, {a, b}), a, b);
    }
  };
  for (int k = 0; k < 300; ++k) {
    const auto size = make(make, 3);
    if (size.value() && *size.value() < 0) continue;
    CHECK_MESSAGE(read_back(size.print()) == size, size.print());
    CHECK_MESSAGE(read_back(size.print(true)) == size, size.print(true));
    const std::map<std::string, std::int64_t> values{{"M", pick(9)}, {"N", pick(9)}, {"K", pick(9)}};
    CHECK_MESSAGE(size.substitute({{"M", values.at("M")}}).substitute(values) == size.substitute(values), size.print());
  }
}

TEST_CASE("affine forms keep one shape") {
  const auto i = Affine::index(0, 2), j = Affine::index(1, 2);
  const std::vector<std::string> names{"i", "j"};
  auto half = i.times(2).plus(Affine::of(4, 2));
  half.divisor = 2;
  CHECK(half.times(1) == i.plus(Affine::of(2, 2)));
  CHECK(i.times(2).plus(j).plus(Affine::of(-1, 2)).print(names) == "2*i + j - 1");
  CHECK(i.times(-1).plus(Affine::of(N - 1, 2)).print(names) == "N - i - 1");
  CHECK(i.times(N).plus(j.times(M + 1)).print(names) == "N*i + (M + 1)*j");
  CHECK(i.times(-1).plus(j).plus(Affine::of(N / 2, 2)).print(names) == "j + div(N, 2) - i");
  auto third = i.plus(Affine::of(1, 2));
  third.divisor = 3;
  CHECK(third.print(names) == "(i + 1)/3");
  CHECK(third.plus(j).print(names) == "(i + 3*j + 1)/3");
  CHECK(third.single_index() == std::nullopt);
  const std::vector<Affine> map{Affine::index(0, 1).times(3).plus(Affine::of(2, 1)), Affine::of(7, 1)};
  CHECK(third.compose(map, 1) == Affine::index(0, 1).plus(Affine::of(1, 1)));
}

TEST_CASE("bind names what is missing, negative, too large or unequal") {
  const std::string text = "function f(A[N], B[M]) -> (O) { C = A + B; O[i: N - 3] = +(C[i]); }";
  CHECK(errors(text, {{"N", 4}, {"M", 4}}).empty());
  CHECK(errors(text, {{"N", 4}}) == Strings{"E0252: `M` has no value"});
  CHECK(errors(text, {}) == Strings{"E0252: `M`, `N` have no value"});
  CHECK(errors(text, {{"N", 2}, {"M", 2}}) == Strings{"E0210: size `N - 3` is negative: -1"});
  const auto unequal = errors(text, {{"N", 4}, {"M", 5}});
  REQUIRE(unequal.size() == 1);
  CHECK(unequal[0].starts_with("E0250: "));
  CHECK(unequal[0].ends_with(" is 4 and `M` is 5"));
  CHECK(errors("function f(A[N]) -> (O) { O[i: N*N] = +(A[i]); }", {{"N", std::int64_t{1} << 31}}) ==
      Strings{"E0253: `O` is [4611686018427387904] of `f32`, more bytes than 63 bits count"});
  CHECK(errors("function f(A[N]) -> (O) { O[i: N*N] = +(A[i]); }", {{"N", std::int64_t{1} << 32}})[0].starts_with(
      "E0209: "));
  CHECK(errors("function f(A[N]) -> (O) { O[i: 8/N] = +(A[i]); }", {{"N", 0}}).at(0) ==
      "E0209: size arithmetic: `8 / 0` divides by zero");
}

TEST_CASE("bind folds coefficients and divisors") {
  lang::Diagnostics diagnostics;
  const auto bound = poly::bind(
      built("function f(A[N], K[Q]) -> (O) { O[u: N] = +(A[Q*u + r]), r < Q; }"), {{"N", 9}, {"Q", 2}}, diagnostics);
  REQUIRE(bound);
  verify(*bound, Stage::Bound);
  CHECK(print(*bound) ==
      "function f(f32 A[9], f32 K[2]) -> (f32 O) {\n  O[u: 9] = +(A[2*u + r]), 0 <= r < 2;  // domain 0 <= u < 9, 0 <= 2*u + r < 9\n}\n");
}

TEST_CASE("verify finds what a pass may break") {
  const auto good = built("function f(A[N], B[N]) -> (O) { T[i: N] = +(A[k] * B[i + k]); O = T + A; }");
  CHECK_NOTHROW(verify(good, Stage::Symbolic));
  const auto broken = [&](const auto& change) {
    auto program = good;
    change(program, std::get<Statement>(program.nodes[0]));
    CHECK_THROWS_AS(verify(program, Stage::Symbolic), lang::InternalError);
  };
  broken([](Program& p, Statement&) { p.tensors[1].name = "A"; });
  broken([](Program& p, Statement&) { std::swap(p.nodes[0], p.nodes[1]); });
  broken([](Program& p, Statement&) { p.nodes.push_back(p.nodes[0]); });
  broken([](Program& p, Statement&) { p.nodes.pop_back(); });
  broken([](Program& p, Statement&) { p.sizes.clear(); });
  broken([](Program&, Statement& s) { s.domain.pop_back(); });
  broken([](Program&, Statement& s) { s.indices.pop_back(); });
  broken([](Program&, Statement& s) { s.reads[0].element.clear(); });
  broken([](Program&, Statement& s) { s.value = Read{7, DType::F32}; });
  broken([](Program&, Statement& s) { s.value = Read{0, DType::F64}; });
  broken([](Program&, Statement& s) { s.value = Apply{Op::Add, {s.value, Number{DType::I32}}, DType::F32}; });
  broken([](Program&, Statement& s) { s.fill = Number{DType::I32}; });
  broken([](Program&, Statement& s) { s.target.element[0].divisor = 2; });
  CHECK_THROWS_AS(verify(good, Stage::Bound), lang::InternalError);
}

TEST_CASE("simplify reads through copies and folds what is constant") {
  const auto simplified = [](const std::string& text) {
    const auto program = simplify(built(text));
    verify(program, Stage::Symbolic);
    const auto printed = print(program);
    return printed.substr(printed.find("{\n") + 2, printed.rfind('}') - printed.find("{\n") - 2);
  };
  CHECK(simplified("function f(X[N]) -> (Y) { T[i: N] = =(X[i]); S[i: N] = +(T[i] * 1.0); U = S; Y = U + 0; }") ==
      "  Y[i: N] = =(X[i] + 0.0);\n");
  CHECK(simplified("function f(i32 X[N]) -> (Y) { Y = (X + 0)*1 - 0; }") == "  Y[i: N] = =(X[i]);\n");
  CHECK(simplified("function f(X[M, N]) -> (Y) { T[j, i: N, M] = =(X[i, j]); Y[j: N] = +(T[j, i]); }")
            .find("Y[j: N] = +(X[i, j]);") != std::string::npos);
  CHECK(simplified("function f(X[N]) -> (Y) { W[i: N] = >(1); Y = W ? 0 : X; }") == "  Y[i: N] = =(0.0);\n");
  CHECK(simplified("function f(X[N]) -> (Y, Z) { A = exp(X); B = exp(X); Y = A + B; Z = B; }") ==
      "  Z[i: N] = =(exp(X[i]));\n  Y[i: N] = =(Z[i] + Z[i]);\n");
  CHECK(simplified("function f(X[N]) -> (Y, Z) { Y = X; Z = X; }") == "  Y[i: N] = =(X[i]);\n  Z[i: N] = =(X[i]);\n");
  CHECK(simplified("function f(X[N, 1]) -> (Y) { Y[i: N] = +(X[i, k]); }") == "  Y[i: N] = =(X[i, 0]);\n");
  CHECK(simplified("function f(X[N]) -> (Y) { D = exp(X); Y = X; }") == "  Y[i: N] = =(X[i]);\n");
}
