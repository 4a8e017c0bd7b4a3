// What editors ask of a text, also of one that is no program.
#include <doctest/doctest.h>

#include <string>

#include "lang/at.h"
#include "lang/load.h"

using namespace tilec::lang;
using Kind = Mention::Kind;
using Where = Surroundings::Where;

namespace {

File outline_of(const std::string& text) {
  std::vector<Source> sources;
  return outline({"f.tile", text}, [](const std::string&, const std::string&) { return Found{}; }, sources);
}

std::vector<std::string> function_names(const std::string& text) {
  std::vector<std::string> names;
  const File file = outline_of(text);
  for (const auto& item : file.items)
    if (const auto* function = std::get_if<Function>(&item))
      names.push_back(function->name ? function->name->text : "");
  return names;
}

const std::string text =
    "function f<S=1>(f16 A[N, M]) -> (B) {\n  [[name(x)]] B[i: N] = +(A[i, S*k] * exp(A[i, k])), k < M default inf;\n}\n";

}  // namespace

TEST_CASE("a name is what its place makes of it") {
  const File file = outline_of(text);
  const auto kind = [&](const std::string& mark) {
    const auto mention = mention_at(file, text.find(mark));
    REQUIRE(mention);
    return mention->kind;
  };
  CHECK(kind("f<S") == Kind::Function);
  CHECK(kind("S=1") == Kind::Parameter);
  CHECK(kind("f16") == Kind::Type);
  CHECK(kind("A[N") == Kind::Tensor);
  CHECK(kind("N, M") == Kind::Size);
  CHECK(kind("name(") == Kind::Attribute);
  CHECK(kind("S*k") == Kind::Parameter);
  CHECK(kind("k] * exp") == Kind::Index);
  CHECK(kind("exp") == Kind::Function);
  CHECK(kind("M default") == Kind::Size);
  CHECK(kind("inf") == Kind::Constant);
  CHECK(mention_at(file, text.find("A[N") + 1)->kind == Kind::Tensor);
  CHECK(!mention_at(file, text.find("->") + 1));
}

TEST_CASE("names that a value in < > is computed from are parameters and sizes") {
  const std::string text = "function g<k=1>(X) -> (Y) { Y = X; }\nfunction f<K=3>(X[N]) -> (Y) { Y = g<(K - 2)*N>(X); }\n";
  const File file = outline_of(text);
  CHECK(mention_at(file, text.find("K - 2"))->kind == Kind::Parameter);
  CHECK(mention_at(file, text.find("N>"))->kind == Kind::Size);
  CHECK(mention_at(file, text.find("g<("))->kind == Kind::Function);
}

TEST_CASE("a prefix, the name behind it and a label are three names") {
  const std::string text =
      "import \"part.tile\" as part;\nfunction f(X[N]) -> (Y) { Y = part.g<s=2>(X, B=h<part.k>(X)); }\nfunction h<u=1>(X) -> (Y) { Y = X; }\n";
  std::vector<Source> sources;
  const auto find = [](const std::string& path, const std::string&) {
    return Found{
        Source{path, "function g<s=1>(X[N], B[N]=0) -> (Y) { Y = s * X + B; }\nfunction k(X) -> (Y) { Y = X; }"}, {}};
  };
  const File file = outline({"f.tile", text}, find, sources);
  const auto at = [&](const std::string& mark) {
    const auto mention = mention_at(file, text.find(mark));
    REQUIRE(mention);
    return *mention;
  };
  CHECK(at("part;").kind == Kind::Prefix);
  CHECK(at("part.g").kind == Kind::Prefix);
  CHECK(at("part.g").import == at("part;").import);
  CHECK(at("g<s").kind == Kind::Function);
  CHECK(at("g<s").name.text == "part.g");
  CHECK(at("g<s").span.begin == text.find("g<s"));
  CHECK(definitions(file, at("k>(X)").name).size() == 1);
  CHECK(definitions(file, Name{"g", false, {}}).empty());
  for (const std::string label : {"s=2", "B=h"}) {
    CHECK(at(label).kind == Kind::Label);
    REQUIRE(at(label).callee);
    CHECK(at(label).callee->name->text == "g");
    CHECK(declaration(at(label))->source == 1);
  }
}

TEST_CASE("a name leads to where it gets its meaning") {
  const File file = outline_of(text);
  const auto goes = [&](const std::string& mark) {
    const auto mention = mention_at(file, text.find(mark));
    REQUIRE(mention);
    return declaration(*mention).value_or(Span{}).begin;
  };
  CHECK(goes("A[i, k]") == text.find("A[N"));
  CHECK(goes("M default") == text.find("M])"));
  CHECK(goes("S*k") == text.find("S=1"));
  CHECK(goes("k]))") == text.find("k] * exp"));
  CHECK(goes("B) {") == text.find("B[i"));
}

TEST_CASE("an outline leaves out what is at fault and nothing else") {
  CHECK(function_names("function a(X) -> (Y) { Y = ; Z = X; }\nfunction b(X) -> (Y) { Y = X; }") ==
      std::vector<std::string>{"a", "b"});
  CHECK(function_names("function a(X -> (Y) { Y = X; }\nfunction b(X) -> (Y) { Y = X; }") ==
      std::vector<std::string>{"b"});
  CHECK(function_names("// { ; }\nfunction a(X) -> (Y) { Y = X /* } */ + }\nfunction b(X) -> (Y) { Y = X; }") ==
      std::vector<std::string>{"a", "b"});
  CHECK(function_names("function a(X) -> (Y) { Y = X;").size() <= 1);
  CHECK(function_names("").empty());
  const std::string broken = "function a(X[N]) -> (Y) { T = (X; Y = X; }";
  const File file = outline_of(broken);
  CHECK(mention_at(file, broken.find("X; }"))->kind == Kind::Tensor);
  CHECK(!mention_at(file, broken.find("T =")));
}

TEST_CASE("surroundings tell comments, strings, headings and bodies apart") {
  const auto where = [](const std::string& before) { return surroundings(before, before.size()).where; };
  CHECK(where("") == Where::Top);
  CHECK(where("fun") == Where::Top);
  CHECK(where("// fun") == Where::Comment);
  CHECK(where("/* a\n b") == Where::Comment);
  CHECK(where("// a\n") == Where::Top);
  CHECK(where("import \"std/") == Where::ImportPath);
  CHECK(where("function f(A[") == Where::Heading);
  CHECK(where("function f(A[N]) -> (B) { ") == Where::Body);
  CHECK(where("function f(A[N]) -> (B) { [[") == Where::Attribute);
  CHECK(where("function f(A[N]) -> (B) { [[save]] B") == Where::Body);
  CHECK(where("function f(A[N]) -> (B) { B = A; } ") == Where::Top);
}

TEST_CASE("a comment stands directly above, without its cases") {
  const std::string commented = "// far\n\n// One.\n//   Two.\n// ==\n// input { }\nfunction f";
  CHECK(comment_above(commented, commented.find("function")) == "One.\nTwo.");
  CHECK(comment_above("function f", 0).empty());
}
