// The summary that `tilec explain` shows: its numbers, where they are known by hand.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "poly/analysis.h"
#include "poly/bind.h"
#include "poly/bounds.h"
#include "poly/interpret.h"
#include "poly/verify.h"
#include "tests/poly/built.h"

using namespace tilec;
using namespace tilec::poly;

namespace {

Analysis analysed(const std::string& text, int limit = class_limit) {
  lang::Diagnostics diagnostics;
  const auto bound = poly::bind(test::built(text), {}, diagnostics);
  REQUIRE(bound);
  const auto bounded = bounds(*bound, diagnostics);
  REQUIRE(bounded);
  Analysis result = analyse(*bounded, std::get<Statement>(bounded->nodes.back()), limit);
  MESSAGE(print(result));
  return result;
}

}  // namespace

TEST_CASE("stride 3, dilation 2: three classes with one tap each, nothing visited in vain") {
  const Analysis a = analysed("function (dO[75], K[3]) -> (dI) { dI[3*x + 2*k - 2: 224] = +(dO[x] * K[k]); }");
  CHECK(a.course == Course::Split);
  REQUIRE(a.parts.size() == 1);
  const AnalysedPart& part = a.parts[0];
  CHECK(part.indices == std::vector<std::string>{"x", "k"});
  CHECK(part.F == lattice::Matrix{{3, 2}});
  CHECK(part.f == lattice::Vector{-2});
  CHECK(part.taps == std::vector<std::string>{"0 <= k < 3"});
  CHECK(part.H == lattice::Matrix{{1}});
  CHECK(part.T == lattice::Matrix{{3}});
  CHECK(part.V == lattice::Matrix{{3}});
  CHECK(part.classes == 3);
  REQUIRE(a.classes.size() == 3);
  CHECK(a.classes[1].element == "dI[3*q + 1]");
  CHECK(a.classes[1].tap_list == std::vector<std::string>{"k = 0"});
  CHECK(a.classes[1].points == 74);
  CHECK(a.classes[1].guards.empty());
  CHECK(a.valid == 223);
  CHECK(a.executed == 223);
  CHECK(a.box == 225);
  CHECK(a.notes.empty());
}

TEST_CASE("what is not done is said: classes beyond the limit, no point at all") {
  const Analysis many = analysed("function (dO[60], K[5]) -> (dI) { dI[7*x + 3*k: 440] = +(dO[x] * K[k]); }", 4);
  CHECK(many.classes.size() == 1);
  CHECK_FALSE(many.classes[0].taps);
  CHECK(many.valid == 300);
  CHECK(many.executed == 300);
  CHECK(many.notes ==
      std::vector<std::string>{
          "x, k: not split into 7 classes (the limit is 4 per statement): the bounds of the reduction depend on the element"});
  const Analysis none = analysed("function (A[3]) -> (O) { O[2*i: 6] = +(A[(2*i + 1)/2]); }");
  CHECK(none.course == Course::Empty);
  CHECK(none.executed == 0);
  CHECK(none.notes == std::vector<std::string>{"no point: the result is the fill"});
}

TEST_CASE("a product is one class, its reduction the taps; a division changes the indices first") {
  const Analysis product = analysed("function (A[4, 6], B[6, 5]) -> (C) { C[i, j: 4, 5] = +(A[i, k] * B[k, j]); }");
  CHECK(product.course == Course::Reduced);
  CHECK(product.valid == 120);
  CHECK(product.executed == 120);
  CHECK(product.classes[0].taps == 6);
  const Analysis half = analysed("function (A[3]) -> (O) { O[i: 6] = +(A[(i - 1)/2]); }");
  CHECK(half.divisions == std::vector<std::string>{"i = 2*t + 1"});
  CHECK(half.classes[0].element == "O[2*q + 1]");
  CHECK(half.executed == 3);
}

// ---- the golden files of this stage, executed

namespace {

// `--size N=30,M=4` of a golden file's command.
std::map<std::string, std::int64_t> sizes_in(const std::string& command) {
  std::map<std::string, std::int64_t> sizes;
  const std::size_t at = command.find("--size ");
  if (at == std::string::npos) return sizes;
  std::istringstream words(command.substr(at + 7));
  for (std::string word; std::getline(words, word, ',');)
    sizes[word.substr(0, word.find('='))] = std::stoll(word.substr(word.find('=') + 1));
  return sizes;
}

std::vector<Array> small_integers(const Program& program) {
  std::vector<Array> inputs;
  for (const TensorId id : program.inputs) {
    const Tensor& tensor = program.tensor(id);
    Array array{tensor.dtype, {}, {}, {}};
    for (const Size& extent : tensor.shape) array.shape.push_back(extent.get());
    for (std::int64_t k = 0; k < array.count(); ++k)
      if (lang::is_float(tensor.dtype)) array.reals.push_back(static_cast<double>(k * 7 % 23 - 11));
      else array.integers.push_back(k % 3);
    inputs.push_back(std::move(array));
  }
  return inputs;
}

}  // namespace

TEST_CASE("every golden program of this stage computes the same before and after") {
  const char* golden = std::getenv("TILEC_GOLDEN");
  REQUIRE_MESSAGE(golden, "TILEC_GOLDEN is the folder of the golden files");
  int ran = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(golden) / "reduced")) {
    std::ifstream stream(entry.path());
    std::string text, command = "tilec FILE --emit=reduced";
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("// $ ")) command = line;
      if (!line.starts_with("//|")) text += line + "\n";
    }
    if (entry.path().filename().string().starts_with("bad_") || command.find("tilec FILE") == std::string::npos)
      continue;
    CAPTURE(entry.path());
    lang::Diagnostics diagnostics;
    const auto bound = poly::bind(test::built(text), sizes_in(command), diagnostics);
    REQUIRE(bound);
    const auto bounded = bounds(*bound, diagnostics);
    REQUIRE(bounded);
    const Program after = defract(*bounded);
    verify(after, Stage::Bounded);
    const std::vector<Array> inputs = small_integers(*bound);
    const Interpretation expected = interpret(*bound, inputs), seen = interpret(after, inputs);
    REQUIRE(expected.outputs.size() == seen.outputs.size());
    for (std::size_t o = 0; o < expected.outputs.size(); ++o) CHECK(expected.outputs[o].reals == seen.outputs[o].reals);
    ++ran;
  }
  CHECK(ran >= 9);
}
