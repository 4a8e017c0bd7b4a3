// Random small programs, differentiated and compared with central differences.
//
// Each has one to four statements over random affine maps (strides, negative coefficients, fractions, diagonals, broadcasts,
// repeated reads, reads of earlier targets and of the tensor a `default` names), random smooth bodies with selects and index
// values, and every aggregation that has a rule. The print of every gradient is also parsed, built and run: it computes the same. TILEC_SEED and TILEC_CASES choose others.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdlib>

#include "differences.h"
#include "lang/check.h"
#include "lang/parse.h"
#include "poly/build.h"
#include "autodiff/term.h"
#include "poly/verify.h"

using namespace tilec;
using namespace tilec::autodiff::term;
using namespace tilec::poly;

namespace {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random(seed) {}

  Program program() {
    Program result;
    result.name = "f";
    for (int n = below(2) + 1, k = 0; k < n; ++k) result.inputs.push_back(tensor(result, "A" + std::to_string(k), shape()));
    const int statements = 1 + below(4);
    for (int k = 0; k < statements; ++k) statement(result, "T" + std::to_string(k));
    result.outputs = {static_cast<TensorId>(result.tensors.size()) - 1};
    if (statements > 1 && chance(3)) result.outputs.push_back(result.outputs[0] - 1);
    return result;
  }

  std::mt19937_64 random;

 private:
  int below(int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }
  bool chance(int n) { return below(n) == 0; }
  std::vector<Size> shape() {
    std::vector<Size> sizes;
    for (int rank = below(3), d = 0; d < rank; ++d) sizes.emplace_back(1 + below(4));
    return sizes;
  }
  static TensorId tensor(Program& program, std::string name, std::vector<Size> shape) {
    program.tensors.push_back({std::move(name), DType::F64, std::move(shape), {}});
    return static_cast<TensorId>(program.tensors.size()) - 1;
  }

  Affine form(std::size_t indices) {
    Affine affine = Affine::of(0, indices);
    if (indices > 0 && !chance(8)) {
      affine.coefficients[static_cast<std::size_t>(below(static_cast<int>(indices)))] = chance(4) ? 2 : chance(6) ? -1 : 1;
      if (chance(3)) affine.coefficients[static_cast<std::size_t>(below(static_cast<int>(indices)))] = chance(3) ? -1 : 1;
    }
    if (chance(3)) affine.constant = below(4) - 1;
    if (chance(8)) affine.divisor = 2;
    return affine;
  }
  Access access(const Program& program, Statement& statement, TensorId id) {
    Access made{id, {}};
    for (const auto& extent : program.tensor(id).shape) {
      made.element.push_back(form(statement.indices.size()));
      statement.domain.push_back({made.element.back(), extent});
    }
    return made;
  }

  Expr leaf(const Statement& statement) {
    if (chance(8)) return number(DType::F64, 0.5 + below(3));
    if (chance(12) && !statement.indices.empty()) return Cast{Index{form_of_index(statement), DType::I64}, DType::F64};
    return Read{below(static_cast<int>(statement.reads.size())), DType::F64};
  }
  Affine form_of_index(const Statement& statement) {
    return Affine::index(static_cast<std::size_t>(below(static_cast<int>(statement.indices.size()))), statement.indices.size());
  }
  Expr positive(const Expr& x) { return add(number(DType::F64, 1.5), mul(x, x)); }
  Expr value(const Statement& statement, int depth) {
    if (depth == 0) return leaf(statement);
    const Expr a = value(statement, depth - 1);
    switch (below(16)) {
      case 0: return add(a, value(statement, depth - 1));
      case 1: return sub(a, value(statement, depth - 1));
      case 2: case 3: case 4: return mul(a, value(statement, depth - 1));
      case 5: return div(a, positive(value(statement, depth - 1)));
      case 6: return call(Op::Sin, a);
      case 7: return call(Op::Tanh, a);
      case 8: return call(Op::Exp, call(Op::Tanh, a));
      case 9: return call(Op::Sqrt, positive(a));
      case 10: return call(Op::Pow, positive(a), number(DType::F64, below(4) - 1));
      case 11: return call(Op::Log, positive(a));
      case 12: return call(chance(2) ? Op::Max : Op::Min, a, value(statement, depth - 1));
      case 13: return call(chance(2) ? Op::Abs : Op::Sigmoid, a);
      case 14: return select(compare(Op::Gt, leaf(statement), leaf(statement)), a, value(statement, depth - 1));
      default: return a;
    }
  }

  void statement(Program& program, std::string name) {
    Statement made{.target = {}, .indices = {}, .domain = {}, .aggregation = Aggregation::Sum, .value = number(DType::F64, 0), .reads = {},
                   .fill = poly::Number{DType::F64}, .ties = Ties::Split, .kernel_name = {}, .span = {}};
    constexpr const char* names[] = {"i", "j", "k"};
    const int count = 1 + below(3);
    for (int k = 0; k < count; ++k) made.indices.emplace_back(names[k]);
    for (int k = 0; k < count; ++k) made.domain.push_back({Affine::index(static_cast<std::size_t>(k), made.indices.size()), Size(1 + below(4))});
    const int tensors = static_cast<int>(program.tensors.size());
    for (int reads = 1 + below(3), k = 0; k < reads; ++k) made.reads.push_back(access(program, made, below(tensors)));
    made.reads.push_back(access(program, made, tensors - 1));
    made.value = value(made, 1 + below(3));

    constexpr Aggregation kinds[] = {Aggregation::Sum, Aggregation::Sum, Aggregation::Max, Aggregation::Min, Aggregation::Assign};
    made.aggregation = kinds[below(5)];
    made.ties = chance(4) ? Ties::First : Ties::Split;
    if (made.aggregation == Aggregation::Assign) {
      std::vector<Size> extents;
      for (int k = 0; k < count; ++k) extents.emplace_back(*made.domain[static_cast<std::size_t>(k)].extent + Size(below(3)));
      made.target.tensor = tensor(program, std::move(name), extents);
      for (int k = 0; k < count; ++k) made.target.element.push_back(Affine::index(static_cast<std::size_t>(k), made.indices.size()).plus(Affine::of(chance(3) ? 1 : 0, made.indices.size())));
      for (int k = 0; k < count; ++k) made.domain.push_back({made.target.element[static_cast<std::size_t>(k)], extents[static_cast<std::size_t>(k)]});
    } else {
      const bool over = chance(3);
      const TensorId fill = below(tensors);
      const TensorId target = tensor(program, std::move(name), over ? program.tensor(fill).shape : shape());
      made.target = access(program, made, target);
      if (over) made.fill = fill;
    }
    program.nodes.emplace_back(std::move(made));
  }
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// What the print says, built from text; or the complaint about it.
std::variant<Program, std::string> reread(const Program& program) {
  lang::Diagnostics diagnostics;
  const auto file = lang::parse({"<printed>", print(program)}, diagnostics);
  std::optional<Program> again;
  if (file && lang::check(*file, diagnostics)) again = build(*file, {}, diagnostics);
  if (again && !diagnostics.has_errors()) return *again;
  std::string text;
  for (const auto& d : diagnostics.all()) text += d.code + ": " + d.message + "\n";
  return text + print(program);
}

std::string difference_of(const std::vector<Array>& a, const std::vector<Array>& b) {
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t n = 0; n < a[k].reals.size(); ++n)
      if (!(std::fabs(a[k].reals[n] - b.at(k).reals.at(n)) <= 1e-8 * (1 + std::fabs(a[k].reals[n]))))   // indices in another order: another sum
        return fmt::format("result {}[{}] is {}, but {} when read back", k, n, a[k].reals[n], b[k].reals[n]);
  return {};
}

}  // namespace

TEST_CASE("gradients of random programs agree with differences") {
  const std::uint64_t seed = setting("TILEC_SEED", 20261121), cases = setting("TILEC_CASES", 800);
  MESSAGE("seed " << seed);
  int checked = 0, skipped = 0, failed = 0;
  for (std::uint64_t k = 0; k < cases && failed < 3; ++k) {
    Generator generator(seed + k);
    const Program program = generator.program();
    verify(program, Stage::Bound);
    lang::Diagnostics diagnostics;
    const auto gradient = autodiff::reverse(program, {}, {}, diagnostics);
    REQUIRE(gradient);
    verify(*gradient, Stage::Bound);
    const auto again = reread(*gradient);
    REQUIRE_MESSAGE(std::holds_alternative<Program>(again), "seed " << seed + k << ": " << std::get<std::string>(again));
    const auto inputs = test::arrays_of(*gradient, generator.random);
    const auto differs = difference_of(interpret(*gradient, inputs).outputs, interpret(std::get<Program>(again), inputs).outputs);
    CHECK_MESSAGE(differs.empty(), "seed " << seed + k << ": " << differs << "\n" << print(*gradient) << print(std::get<Program>(again)));
    const auto outcome = test::compare(program, *gradient, test::arrays_of(program, generator.random), generator.random);
    checked += outcome.checked;
    skipped += outcome.skipped;
    failed += !outcome.failure.empty();
    CHECK_MESSAGE(outcome.failure.empty(), "seed " << seed + k << ": " << outcome.failure);
  }
  MESSAGE("elements checked: " << checked << ", skipped at kinks: " << skipped);
  CHECK(skipped * 20 < checked);
}

TEST_CASE("gradients of gradients of random programs agree with differences") {
  const std::uint64_t seed = setting("TILEC_SEED", 20261121) + 1000000, cases = setting("TILEC_CASES", 800) / 10;
  MESSAGE("seed " << seed);
  int checked = 0, skipped = 0;
  for (std::uint64_t k = 0; k < cases; ++k) {
    Generator generator(seed + k);
    lang::Diagnostics diagnostics;
    const auto once = autodiff::reverse(generator.program(), {}, {}, diagnostics);
    REQUIRE(once);
    const auto twice = autodiff::reverse(*once, {}, {}, diagnostics);
    REQUIRE(twice);
    verify(*twice, Stage::Bound);
    const auto outcome = test::compare(*once, *twice, test::arrays_of(*once, generator.random), generator.random);
    checked += outcome.checked;
    skipped += outcome.skipped;
    CHECK_MESSAGE(outcome.failure.empty(), "seed " << seed + k << ": " << outcome.failure);
  }
  MESSAGE("elements checked: " << checked << ", skipped at kinks: " << skipped);
  CHECK(skipped * 10 < checked);
}
