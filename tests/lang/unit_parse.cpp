// The grammar against the examples of its specification, the formatter against the grammar, and both against noise.
#include <fmt/core.h>

#include <doctest/doctest.h>

#include <random>

#include "lang/check.h"
#include "lang/parse.h"
#include "lang/print.h"
#include "lang/render.h"
#include "tests/lang/examples.h"

using namespace tilec::lang;

namespace {

struct Parsed { std::optional<File> file; Diagnostics diagnostics; Source source; };
Parsed read(std::string text) {
  Parsed out{{}, {}, {"x.tile", std::move(text)}};
  out.file = parse(out.source, out.diagnostics);
  return out;
}
std::string shown(const Parsed& p) { return render(p.diagnostics, {p.source}); }

// With every operator in parentheses.
std::string grouped(const Expr& e) {
  const auto list = [](const std::vector<Expr>& all) {
    std::string out;
    for (const Expr& each : all) out += (out.empty() ? "" : ", ") + grouped(each);
    return out;
  };
  return e.match([](const Number& n) { return n.text; }, [](const Variable& v) { return v.name.spelled(); },
      [](const Unary& u) { return fmt::format("({}{})", info(u.op).symbol, grouped(u.operand)); },
      [](const Binary& b) { return fmt::format("({} {} {})", grouped(b.left), info(b.op).symbol, grouped(b.right)); },
      [&](const Access& a) { return a.tensor.spelled() + '[' + list(a.element) + ']'; },
      [&](const Call& c) {
        std::string parameters;
        for (const Argument& p : c.parameters) {
          const auto* computed = std::get_if<Expr>(&p.value);
          parameters += (parameters.empty() ? "<" : ", ") + (computed ? grouped(*computed) : print(p));
        }
        return c.function.spelled() + parameters + (parameters.empty() ? "(" : ">(") + list(c.arguments) + ')';
      },
      [](const Select& s) {
        return fmt::format(
            "({} ? {} : {})", grouped(s.condition), grouped(s.then), s.otherwise ? grouped(*s.otherwise) : "");
      });
}

const Function& only(const File& file) { return std::get<Function>(file.items.at(0)); }

void round_trip(const std::string& text) {
  const Parsed first = read(text);
  if (!first.file) return;
  const std::string printed = print(*first.file);
  const Parsed second = read(printed);
  INFO(text);
  INFO(printed);
  INFO(shown(second));
  REQUIRE(second.file);
  CHECK(dump(*second.file) == dump(*first.file));
  CHECK(print(*second.file) == printed);
}

}  // namespace

TEST_CASE("every good line of the specification parses") {
  for (const std::string_view line : examples::good) {
    const Parsed p = read(examples::program(line));
    INFO(line);
    INFO(shown(p));
    CHECK(p.file);
  }
}

TEST_CASE("every bad line is refused with a place and a message") {
  for (const std::string_view line : examples::bad) {
    const Parsed p = read(examples::program(line));
    INFO(line);
    CHECK_FALSE(p.file);
    REQUIRE(p.diagnostics.has_errors());
    CHECK(p.diagnostics.all().size() <= 2);
    for (const Diagnostic& d : p.diagnostics.all()) CHECK_FALSE(d.span.empty());
  }
}

TEST_CASE("an element type is a lower-case word") {
  CHECK(read("function f(f32 A) -> (f16 O) { O = A; }").file);
  CHECK_FALSE(read("function f(F32 A) -> (O) { O = A; }").file);
}

TEST_CASE("operators group as the specification says") {
  for (const examples::Grouping& g : examples::groups) {
    const Parsed p = read(examples::program("Y = " + std::string(g.text) + ";"));
    INFO(g.text);
    REQUIRE(p.file);
    CHECK(grouped(std::get<Assignment>(only(*p.file).statements.at(0).node).value) == g.grouped);
  }
}

TEST_CASE("printing reads back, and printing twice changes nothing") {
  for (const std::string_view line : examples::good) round_trip(examples::program(line));
  round_trip("function f(A[N]) -> (O) { O[i: N] = +(max((i < A[i]), j > (2)) + max((i < K), j > (2 + K) * 3)); }");
  round_trip(
      "function f(A[N]) -> (O) { O[i: N] = +(A[4/2i + -2i - 2*e1 - 2/(2 e)]), 2 e < 3; O = (A | B) ^ C; O = A - (B - C) / (D / E); O = -(-A); }");
  round_trip("function f(A[N]) -> (O) { O[i: N] = +(A[2 e1', (2 e1), 3 - 2 e1/4]); }");
  round_trip(
      "function f(A[N]) -> (O) { O[i: N] = +((A[i] ? B[i] : C[i]) ? D[i]); O = (A < B) < C; O = A ? (B ? C : D) : (E ? F : G); }");
}

TEST_CASE("comments survive formatting") {
  const std::string text =
      "// first\n\nimport \"a\"; // behind\n// of f\nfunction f(A /* inside */, B) -> (O) { // open\n\n  // one\n\n\n  O = A /* mid */ + B; // end\n  /* two\n lines */ P = O;\n"
      "  // last\n} // closed\n\n// the end";
  round_trip(text);
  const std::string printed = print(*read(text).file);
  for (const std::string_view comment : {"// first\n\nimport \"a\";  // behind\n", "\n// of f\n", "/* inside */",
           "{  // open\n  // one\n\n  /* mid */\n  O = A + B;  // end\n",
           "  /* two\n lines */\n  P = O;\n  // last\n}  // closed\n\n// the end\n"}) {
    INFO(printed);
    INFO(comment);
    CHECK(printed.find(comment) != std::string::npos);
  }
}

TEST_CASE("long lines break after commas and before operators") {
  std::string sum = "Y = A";
  for (int i = 0; i < 40; ++i) sum += " + f(A, B) * Long_Name_" + std::to_string(i);
  const Parsed p = read(examples::program(sum + ";"));
  REQUIRE(p.file);
  round_trip(p.source.text);
  std::string printed = print(*p.file);
  for (std::size_t at = 0, end = 0; (end = printed.find('\n', at)) != std::string::npos; at = end + 1)
    CHECK(end - at <= 100);
}

TEST_CASE("one run shows several errors, at their places") {
  const Parsed p = read(
      "function f(A[N) -> (O) {\n  O = A +;\n  P = 1.;\n  Q = A @ B;\n  R = A;\n  S = A\n}\nfunction g(A) -> (O) { O = (A; }\n");
  INFO(shown(p));
  CHECK_FALSE(p.file);
  REQUIRE(p.diagnostics.all().size() == 6);
  std::vector<int> lines;
  for (const Diagnostic& d : p.diagnostics.all()) lines.push_back(position(p.source, d.span.begin).line);
  CHECK(lines == std::vector<int>{1, 2, 3, 4, 6, 8});
}

TEST_CASE("a span covers exactly the text it is about") {
  const Parsed p = read("function f(A[M, N]) -> (O) {\n  O[i: M] = +(A[i, 2*j] * -(B + C)), i < 3;\n}\n");
  REQUIRE(p.file);
  const auto text = [&](Span s) { return p.source.text.substr(s.begin, s.end - s.begin); };
  const Function& f = only(*p.file);
  CHECK(text(f.span) == p.source.text.substr(0, p.source.text.size() - 1));
  CHECK(text(f.inputs.at(0).span) == "A[M, N]");
  const Statement& s = f.statements.at(0);
  CHECK(text(s.span) == "O[i: M] = +(A[i, 2*j] * -(B + C)), i < 3;");
  const Contraction& c = std::get<Contraction>(s.node);
  CHECK(text(c.body.span()) == "A[i, 2*j] * -(B + C)");
  CHECK(text(c.body.as<Binary>()->left.span()) == "A[i, 2*j]");
  CHECK(text(c.body.as<Binary>()->right.span()) == "-(B + C)");
  CHECK(text(c.constraints.at(0).span) == "i < 3");
}

TEST_CASE("deep nesting is an error, not a crash") {
  for (const std::string_view piece : {"(", "-", "f(", "A ? ", "f<2>(", "max(A, "}) {
    std::string text = "Y = ";
    for (int i = 0; i < 100000; ++i) text += piece;
    const Parsed p = read(examples::program(text + "A;"));
    CHECK_FALSE(p.file);
    CHECK(p.diagnostics.all().at(0).code == "E0107");
  }
  std::string sum = "Y = A", attribute = "[[";
  for (int i = 0; i < 100000; ++i) sum += " + A", attribute += "a(";
  CHECK(read(examples::program(sum + ";")).diagnostics.all().at(0).code == "E0107");
  CHECK(read(examples::program(attribute + ";")).diagnostics.all().at(0).code == "E0107");
  std::string index = "O[i: N] = +(A[";
  for (int i = 0; i < 100000; ++i) index += "(-";
  CHECK(read(examples::program(index + ";")).diagnostics.all().at(0).code == "E0107");
  std::string fits = "Y = ";
  for (int i = 0; i < 256; ++i) fits += "(";
  fits += "A";
  for (int i = 0; i < 256; ++i) fits += ")";
  CHECK(read(examples::program(fits + ";")).file);
}

TEST_CASE("random bytes and mutated programs end in a tree or a message") {
  std::mt19937 random(20240607);
  std::vector<std::string> seeds;
  for (const std::string_view line : examples::good) seeds.push_back(examples::program(line));
  static constexpr std::string_view pieces[] = {"(", ")", "[", "]", "{", "}", ";", "//", "/*", "*/", "\"", "'", "#",
      "$", "<", ">", "<=", "==", "2e", "1.", "?", ":", "[[", "]]", "function ", "default ", "A", "i", "-", "~", "\n",
      "\xC3\xA9", "\xFF", "import "};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int trees = 0;
  for (int n = 0; n < 20000; ++n) {
    std::string text;
    if (n % 4 == 0) {
      for (std::size_t k = below(200); k > 0; --k) text += static_cast<char>(random());
    } else {
      text = seeds[below(seeds.size())];
      for (std::size_t k = 1 + below(4); k > 0 && !text.empty(); --k) {
        const std::size_t at = below(text.size());
        if (below(3) == 0) text.erase(at, 1 + below(5));
        else if (below(2) == 0) text.insert(at, pieces[below(std::size(pieces))]);
        else text[at] = static_cast<char>(random());
      }
    }
    const Parsed p = read(text);
    INFO(text);
    REQUIRE(p.file.has_value() == !p.diagnostics.has_errors());
    render(p.diagnostics, {p.source}, {true, false});
    render(p.diagnostics, {p.source}, {false, true});
    if (!p.file) continue;
    ++trees;
    if (n % 5 == 0) round_trip(text);
    Diagnostics found;
    (void)check(*p.file, found);
    render(found, {p.source});
  }
  CHECK(trees > 100);
}
