// The table of foreign idioms: each row is found in its own example, and what its hint says to type compiles.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <map>
#include <string>
#include <vector>

#include "lang/builtin.h"
#include "lang/idiom.h"
#include "lang/load.h"
#include "lang/repair.h"
#include "lang/render.h"
#include "lang/type.h"
#include "poly/build.h"
#include "runtime/find.h"

using namespace tilec;

namespace {

std::string program_of(std::string_view text) {
  if (text.find("function") != std::string_view::npos) return std::string(text);
  return "function f(X[N], Z[N], A[M, K], B[K, N], I[J], S[]) -> (O) { " + std::string(text) + "\n}";
}

bool is_syntax(const lang::Idiom& row) {
  return row.kind == lang::Idiom::Kind::Syntax || row.kind == lang::Idiom::Kind::Item;
}
std::string wrong_program(const lang::Idiom& row) {
  return row.kind == lang::Idiom::Kind::Item ? std::string(row.wrong) : program_of(row.wrong);
}

struct Compiled { bool built = false; lang::Diagnostics diagnostics; std::string said; };

// As far as `tilec check` goes.
Compiled compile(const std::string& text) {
  Compiled result;
  std::vector<lang::Source> sources;
  const auto file = lang::load({"idiom.tile", text}, runtime::find_in({}), sources, result.diagnostics);
  if (file) {
    poly::Signature signature;
    for (const auto& item : file->items)
      if (const auto* f = std::get_if<lang::Function>(&item); f != nullptr && f->name)
        signature.function = f->name->text;
    result.built = poly::build(*file, signature, result.diagnostics).has_value();
  }
  result.built = result.built && !result.diagnostics.has_errors();
  result.said = lang::render(result.diagnostics, sources);
  return result;
}

std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\n') out += c;
  return out;
}

std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> spans;
  for (std::size_t at = text.find('`'); at != std::string::npos;) {
    const std::size_t end = text.find('`', at + 1);
    if (end == std::string::npos) break;
    spans.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('`', end + 1);
  }
  return spans;
}

// With what the hint says to write in place of the statement that is at fault, or in front of all.
bool mends(const std::string& wrong, const Compiled& shown, const std::string& hint, std::vector<std::string> texts) {
  const auto statement = lang::StatementTexts(wrong).at(shown.diagnostics.all().at(0).span.begin);
  if (!statement || !texts.back().ends_with(';')) return false;
  const bool imports = hint.find("in front of the functions") != std::string::npos;
  std::string text = wrong;
  if (!imports || texts.size() > 1)
    text = wrong.substr(0, statement->begin) + texts.back() + wrong.substr(statement->end);
  const Compiled compiled = compile(imports ? texts[0] + text : text);
  CAPTURE(compiled.said);
  CHECK(compiled.built);
  return true;
}

// What is typed elsewhere than in a program.
bool is_command(const std::string& span) {
  return span.starts_with("tilec ") || span.starts_with("program.") || span == "->" || span == "and" || span == "or" ||
      span == "import \"std/nn.tile\";";
}

std::vector<std::string> hints(const Compiled& compiled) {
  std::vector<std::string> all;
  for (const lang::Diagnostic& d : compiled.diagnostics.all()) all.insert(all.end(), d.hints.begin(), d.hints.end());
  return all;
}

}  // namespace

TEST_CASE("every idiom is recognised in its own example, and once") {
  for (const lang::Idiom& row : lang::idioms()) {
    CAPTURE(row.pattern);
    const std::string wrong = wrong_program(row);
    const Compiled compiled = compile(wrong);
    CAPTURE(wrong);
    CAPTURE(compiled.said);
    CHECK_FALSE(compiled.built);
    const auto said = hints(compiled);
    REQUIRE_FALSE(said.empty());
    int errors = 0;
    for (const lang::Diagnostic& d : compiled.diagnostics.all()) errors += d.code == "E0109" || d.code == "E0101";
    CHECK(errors <= 1);
    if (is_syntax(row)) {
      CHECK(errors == 1);
      CHECK(compiled.diagnostics.all()[0].code == "E0109");
    }
    for (const std::string& hint : said) CHECK(hint.find('{' + std::string("0}")) == std::string::npos);
  }
}

TEST_CASE("what a hint quotes stands in a program that compiles") {
  for (const lang::Idiom& row : lang::idioms()) {
    CAPTURE(row.pattern);
    CAPTURE(row.right);
    const std::string right = program_of(row.right);
    const Compiled compiled = compile(right);
    CAPTURE(compiled.said);
    CHECK(compiled.built);
    CHECK(compiled.diagnostics.all().empty());
    if (row.hint.find("{call}") != std::string_view::npos || row.hint.find("{name}") != std::string_view::npos)
      continue;
    // As the example brings it out.
    const std::string wrong = wrong_program(row);
    const Compiled shown = compile(wrong);
    for (const std::string& hint : hints(shown)) {
      CAPTURE(hint);
      if (hint.starts_with("write `") && squeezed(right).find(squeezed(quoted(hint)[0])) == std::string::npos) {
        if (mends(wrong, shown, hint, quoted(hint))) continue;
      }
      for (const std::string& span : quoted(hint)) {
        CAPTURE(span);
        // a heading of std/
        const bool described = span.find("->") != std::string::npos && span.find("function") == std::string::npos;
        const bool known = is_command(span) || described || squeezed(right).find(squeezed(span)) != std::string::npos ||
            squeezed(row.wrong).find(squeezed(span)) != std::string::npos || lang::dtype_named(span) ||
            (span.size() <= 2 && span.find_first_of("/&|*-<>=!+") == 0) || span == "+( )" || span == "=( )";
        CHECK(known);
      }
    }
  }
}

TEST_CASE("no row stands behind one that takes its place") {
  std::set<std::string> names;
  for (const lang::Idiom& row : lang::idioms()) {
    const std::string kind = std::to_string(static_cast<int>(row.kind)) + " ";
    if (is_syntax(row)) {
      CHECK(names.insert(kind + std::string(row.pattern) + std::string(row.expected)).second);
      continue;
    }
    std::string_view rest = row.pattern;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      CAPTURE(rest.substr(0, end));
      CHECK(names.insert(kind + std::string(rest.substr(0, end))).second);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
}

TEST_CASE("other names stand for functions that are there") {
  for (const lang::Alias& alias : lang::aliases()) {
    CAPTURE(alias.foreign);
    const auto standard = lang::standard_names();
    const bool in_std = std::any_of(
        standard.begin(), standard.end(), [&](const lang::StandardName& each) { return each.name == alias.name; });
    CHECK((lang::function_named(alias.name) || lang::builtin_named(alias.name) != nullptr || in_std));
    const auto said_there = [&](const lang::OtherName& each) {
      return each.other == alias.foreign && each.name == alias.name;
    };
    CHECK(std::ranges::none_of(lang::other_standard_names(), said_there));
    const Compiled compiled = compile("function f(X[N]) -> (O) { O = " + std::string(alias.foreign) + "(X, 1.0); }");
    REQUIRE(compiled.diagnostics.all().size() == 1);
    REQUIRE_FALSE(compiled.diagnostics.all()[0].hints.empty());
    CHECK(compiled.diagnostics.all()[0].hints[0].find(std::string(alias.name)) != std::string::npos);
  }
}

TEST_CASE("a function that std/ has is imported as the hint says") {
  std::map<std::string, std::string> calls;            // by file, which is read once
  for (const lang::StandardName& each : lang::standard_names()) {
    CAPTURE(each.name);
    const std::string call = "function probe_f(X[N]) -> (O) { O = " + std::string(each.name) + "(); }";
    const Compiled compiled = compile(call);
    if (lang::builtin_named(each.name) != nullptr || lang::function_named(each.name)) continue;
    REQUIRE_FALSE(compiled.diagnostics.all().empty());
    CHECK(compiled.diagnostics.all()[0].code == "E0116");
    const auto said = hints(compiled);
    REQUIRE_FALSE(said.empty());
    const auto rows = lang::idioms();
    const auto has_row = [&](const lang::Idiom& row) {
      return row.kind == lang::Idiom::Kind::Function &&
          (" " + std::string(row.pattern) + " ").find(" " + std::string(each.name) + " ") != std::string::npos;
    };
    if (std::any_of(rows.begin(), rows.end(), has_row)) continue;  // a contraction says it
    const auto aliases = lang::aliases();
    const bool built_in = std::any_of(aliases.begin(), aliases.end(), [&](const lang::Alias& alias) {
      return alias.foreign == each.name &&
          (lang::builtin_named(alias.name) != nullptr || lang::function_named(alias.name));
    });
    if (built_in) continue;                            // a text says it without an import
    CHECK(said[0].find("import \"std/" + std::string(each.file) + ".tile\";") != std::string::npos);
    calls[std::string(each.file)] +=
        "function probe_" + std::string(each.name) + "(X[N]) -> (O) { O = " + std::string(each.name) + "(); }\n";
  }
  for (const auto& [file, all] : calls) {
    CAPTURE(file);
    // Only what nobody has is said to be nowhere: behind all calls, so that each was looked at.
    const Compiled imported = compile("import \"std/" + file + ".tile\";\n" + all +
        "function probe_(X[N]) -> (O) { O = nobody_has_this(); }");
    std::vector<std::string> unknown;
    for (const lang::Diagnostic& d : imported.diagnostics.all()) if (d.code == "E0116") unknown.push_back(d.message);
    REQUIRE(unknown.size() == 1);
    CHECK(unknown[0].find("nobody_has_this") != std::string::npos);
  }
}

TEST_CASE("texts without idioms are read as before") {
  for (const char* text : {"O = X + ;", "O = exp(X;", "O[i: N = =(X[i]);", "O = (X + Z;"}) {
    const Compiled compiled = compile(program_of(text));
    CAPTURE(compiled.said);
    REQUIRE_FALSE(compiled.diagnostics.all().empty());
    CHECK(compiled.diagnostics.all()[0].code == "E0101");
  }
}

TEST_CASE("a missing semicolon is one error, and the statements behind it are read") {
  const Compiled compiled = compile("function f(X[N]) -> (Y) {\n  A = X + 1\n  B = A * 2\n  Y = B ** 2;\n}");
  REQUIRE(compiled.diagnostics.all().size() == 3);
  CHECK(compiled.diagnostics.all()[0].code == "E0119");
  CHECK(compiled.diagnostics.all()[0].hints[0] == "write `A = X + 1;`");
  CHECK(compiled.diagnostics.all()[1].code == "E0119");
  CHECK(compiled.diagnostics.all()[2].code == "E0109");
  CHECK(compile("function f(X[N]) -> (Y) { Y = X }").diagnostics.all()[0].code == "E0119");
}

TEST_CASE("a file that is no text is one error") {
  for (const std::string& bytes :
      {std::string("\x93NUMPY\x01\x00v\x00{'descr'", 18), std::string("PK\x03\x04\x14\x00", 6),
          std::string("\x7f"
                      "ELF\x02\x01",
              6),
          std::string("f\0u\0n\0", 6),
          std::string("\xff\xfe"
                      "f\0",
              4)}) {
    const Compiled compiled = compile(bytes);
    REQUIRE(compiled.diagnostics.all().size() == 1);
    CHECK(compiled.diagnostics.all()[0].code == "E0136");
    CHECK(compiled.diagnostics.all()[0].hints.size() == 1);
  }
}
