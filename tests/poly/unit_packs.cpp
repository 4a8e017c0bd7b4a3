// Random functions with packs build the same Programs as the same functions with every dimension written out.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "lang/print.h"
#include "poly/build.h"
#include "poly/print.h"
#include "tests/poly/built.h"

using namespace tilec;
using namespace tilec::poly;

namespace {

// A dimension of a random tensor: a size of its own, or a pack.
struct Dimension { std::string size; bool pack = false; bool operator==(const Dimension&) const = default; };
using Dimensions = std::vector<Dimension>;
struct Tensor_ { std::string name; Dimensions dimensions; };

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

// Writes a function twice: with packs, and with ranks[p] dimensions in the place of pack p.
class Writer {
 public:
  Writer(std::mt19937_64& random, std::map<std::string, std::size_t> ranks, bool packed)
      : random_(random), ranks_(std::move(ranks)), packed_(packed) {}

  std::string function() {
    const Dimensions all{{"A", true}, {"B", true}, {"K"}, {"M"}, {"N"}};
    std::string inputs, statements;
    // Inputs that have one pack alone tell how many dimensions it stands for; the others mix.
    tensors_ = {{"P", {{"A", true}, {"K"}}}, {"Q", {{"N"}, {"B", true}}}};
    for (const std::string name : {"X", "Y"}) tensors_.push_back({name, some(all)});
    for (const Tensor_& t : tensors_)
      inputs += (inputs.empty() ? "" : ", ") + t.name + '[' + list(t.dimensions, false) + ']';
    // Statements that tell how many dimensions each pack of indices stands for, together or one at a time.
    const Dimensions a{{"A", true}}, both{{"A", true}, {"B", true}};
    if (pick(2))
      statements += "  " + contraction("Both", both, '+', read(tensors_[0]) + " * " + read(tensors_[1])) + '\n';
    else
      statements += "  " + contraction("One", a, '>', read(tensors_[0])) + "\n  " +
          contraction("Other", {}, '+', read(tensors_[1])) + '\n';
    const std::size_t count = 2 + pick(3);
    for (std::size_t k = 0; k < count; ++k)
      statements += "  " + statement("T" + std::string(1, static_cast<char>('a' + k))) + '\n';
    const std::string results = tensors_[tensors_.size() - 1].name + ", " + tensors_[tensors_.size() - 2].name;
    return "function f(" + inputs + ") -> (" + results + ") {\n" + statements + "}\n";
  }

 private:
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  Dimensions some(Dimensions from) {
    std::shuffle(from.begin(), from.end(), random_);
    from.resize(pick(from.size() + 1));
    return from;
  }

  std::vector<std::string> written(const Dimension& d, bool index) const {
    const std::string name = index ? lower(d.size) : d.size;
    if (!d.pack) return {name};
    if (packed_) return {name + "..."};
    std::vector<std::string> names;
    for (std::size_t k = 0; k < ranks_.at(d.size); ++k) names.push_back(name + std::to_string(k));
    return names;
  }

  std::string list(const Dimensions& dimensions, bool index) const {
    std::string text;
    for (const Dimension& d : dimensions)
      for (const std::string& each : written(d, index)) text += (text.empty() ? "" : ", ") + each;
    return text;
  }

  // How many elements a pack's dimensions hold.
  std::string product(const std::string& pack) const {
    if (packed_) return "product(" + pack + "...)";
    std::string text;
    for (std::size_t k = 0; k < ranks_.at(pack); ++k) text += (text.empty() ? "" : "*") + pack + std::to_string(k);
    return text.empty() ? "1" : '(' + text + ')';
  }

  std::string read(const Tensor_& t) const { return t.name + '[' + list(t.dimensions, true) + ']'; }

  std::string statement(const std::string& name) {
    const Tensor_ first = tensors_[pick(tensors_.size())], second = tensors_[pick(tensors_.size())];
    if (pick(4) == 0) {                                 // whose dimensions no brackets show
      tensors_.push_back({name, first.dimensions});
      return name + " = tanh(" + first.name + ");";
    }
    if (pick(6) == 0) {
      const bool has_pack =
          std::any_of(first.dimensions.begin(), first.dimensions.end(), [](const Dimension& d) { return d.pack; });
      tensors_.push_back({name, first.dimensions});
      const std::string sizes = list(first.dimensions, false);
      return name + " = reshape(" + first.name + (sizes.empty() ? "" : ", ") + sizes + ") / f32(" +
          (has_pack ? product(pick(2) ? "A" : "B") : "K") + ");";
    }
    Dimensions read_by = first.dimensions;
    for (const Dimension& d : second.dimensions)
      if (std::find(read_by.begin(), read_by.end(), d) == read_by.end()) read_by.push_back(d);
    const Dimensions kept = some(read_by);
    tensors_.push_back({name, kept});
    return contraction(name, kept, kept.size() == read_by.size() ? '=' : "+><"[pick(3)],
        read(first) + (pick(2) ? " * " : " + ") + read(second));
  }

  std::string contraction(
      const std::string& name, const Dimensions& kept, char aggregation, const std::string& body) const {
    const std::string sizes = list(kept, false), left = sizes.empty() ? "" : list(kept, true) + ": " + sizes;
    return name + '[' + left + "] = " + aggregation + '(' + body + ");";
  }

  std::mt19937_64& random_;
  std::map<std::string, std::size_t> ranks_;
  bool packed_;
  std::vector<Tensor_> tensors_ = {};
};

std::string printed(const std::string& text, const Signature& signature) {
  const std::string canonical = lang::print(test::parsed(text));
  CHECK(lang::print(test::parsed(canonical)) == canonical);
  return print(test::built(text, signature));
}

std::vector<Size> shape(std::size_t rank) { return std::vector<Size>(rank, Size(3)); }

}  // namespace

TEST_CASE("a function with packs is the function with as many dimensions written out") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const std::map<std::string, std::size_t> ranks{{"A", seed % 4}, {"B", seed / 4 % 5}};
    std::mt19937_64 one(seed), same(seed);
    const std::string packed = Writer(one, ranks, true).function(), plain = Writer(same, ranks, false).function();
    REQUIRE(packed.find("...") != std::string::npos);
    REQUIRE(plain.find("...") == std::string::npos);
    // Of names, told by --rank; of numbers, told by two inputs.
    Signature asked;
    for (const auto& [name, rank] : ranks) asked.ranks[name] = static_cast<std::int64_t>(rank);
    CHECK_MESSAGE(printed(packed, asked) == printed(plain, {}), packed << plain);
    Signature given;
    given.inputs = {{.name = "P", .shape = shape(ranks.at("A") + 1)}, {.name = "Q", .shape = shape(ranks.at("B") + 1)}};
    CHECK_MESSAGE(printed(packed, given) == printed(plain, given), packed << plain);
  }
}

TEST_CASE("what a call is given tells the packs of what is called") {
  const std::string softmax = R"(function softmax(X[B..., N]) -> (Y) {
  M[b...: B...] = >(X[b..., n]);
  E[b..., n: B..., N] = =(exp(X[b..., n] - M[b...]));
  Z[b...: B...] = +(E[b..., n]);
  Y[b..., n: B..., N] = =(E[b..., n] / Z[b...]);
}

)";
  const std::string by_hand = R"(function softmax(X[M, N]) -> (Y) {
  Mx[i: M] = >(X[i, n]);
  E[i, n: M, N] = =(exp(X[i, n] - Mx[i]));
  Z[i: M] = +(E[i, n]);
  Y[i, n: M, N] = =(E[i, n] / Z[i]);
}

)";
  const std::string rows = "function f(X[P, Q]) -> (Y) {\n  Y = softmax(X);\n}\n";
  const auto nameless = [](std::string text) {           // the largest of a row is `M` in one text, `Mx` in the other
    for (std::size_t at; (at = text.find("Mx[")) != std::string::npos;) text.erase(at + 1, 1);
    for (std::size_t at; (at = text.find("b0")) != std::string::npos;) text.replace(at, 2, "i");
    return text;
  };
  CHECK(nameless(printed(softmax + rows, {.function = "f", .inputs = {}, .defines = {}})) ==
      nameless(printed(by_hand + rows, {.function = "f", .inputs = {}, .defines = {}})));
}
