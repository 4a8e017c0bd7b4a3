// Random small programs, differentiated and compared with central differences.
//
// The print of every derivative is also parsed, built and run: it computes the same. TILEC_SEED and TILEC_CASES choose
// others.
#include <fmt/core.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/forward.h"
#include "differences.h"
#include "lang/check.h"
#include "lang/parse.h"
#include "poly/build.h"
#include "poly/verify.h"
#include "random_program.h"

using namespace tilec;
using namespace tilec::poly;
using test::Generator;
using test::setting;

namespace {

// Gathers and scatters of any rank of batch are in Programs only.
bool has_text(const Program& program) {
  return std::none_of(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
    const auto* intrinsic = std::get_if<Intrinsic>(&node);
    return intrinsic && intrinsic->op != IntrinsicOp::Reshape;
  });
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
      // indices in another order: another sum
      if (!(std::fabs(a[k].reals[n] - b.at(k).reals.at(n)) <= 1e-8 * (1 + std::fabs(a[k].reals[n]))))
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
    const auto tangent = autodiff::forward(program, {}, {}, diagnostics);
    REQUIRE(tangent);
    for (const Program* derived : {&*gradient, &*tangent}) {
      if (!has_text(*derived)) continue;
      const auto again = reread(*derived);
      REQUIRE_MESSAGE(
          std::holds_alternative<Program>(again), "seed " << seed + k << ": " << std::get<std::string>(again));
      const auto inputs = test::arrays_of(*derived, generator.random);
      const auto differs =
          difference_of(interpret(*derived, inputs).outputs, interpret(std::get<Program>(again), inputs).outputs);
      CHECK_MESSAGE(differs.empty(),
          "seed " << seed + k << ": " << differs << "\n"
                  << print(*derived) << print(std::get<Program>(again)));
    }
    const auto outcome =
        test::compare(program, *gradient, test::arrays_of(program, generator.random), generator.random);
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
