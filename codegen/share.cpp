#include "codegen/share.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>

#include "lang/op.h"
#include "lang/type.h"

namespace tilec::codegen {
namespace {

void declared_in(const Body& body, std::set<std::string>& names) {
  for (const Stmt& s : body)
    std::visit(poly::Overloaded{[&](const For& x) { names.insert(x.index), declared_in(x.body, names); },
                                [&](const If& x) { declared_in(x.then, names), declared_in(x.otherwise, names); },
                                [&](const Let& x) { names.insert(x.name); }, [&](const View& x) { names.insert(x.name); },
                                [&](const Allocate& x) { names.insert(x.name); }, [&](const Fold& x) { names.insert(x.name); }, [](const auto&) {}},
               s.node);
}

std::set<std::string> declared_in(const Loops& loops) {
  std::set<std::string> names;
  for (const Table& table : loops.tables) names.insert(table.name);
  for (const Function& f : loops.functions) {
    names.insert(f.name);
    for (const ViewParameter& view : f.views) names.insert(view.name);
    names.insert(f.integers.begin(), f.integers.end());
    declared_in(f.body, names);
  }
  return names;
}

// A name that print() may also use as a word of its own; such loops are shared with nobody.
bool is_word(const std::string& name) {
  static const std::set<std::string> words{"fn",     "in",   "out",    "inout",  "align", "table", "for",  "serial", "unroll",   "vector",    "parallel", "block", "thread", "advance",
                                           "by",     "if",   "else",   "let",    "view",  "register", "local", "shared", "fold", "over", "barrier", "prefetch", "call", "streaming", "async",
                                           "max",    "min",  "true",   "false",  "inf",   "nan"};
  return words.contains(name) || lang::function_named(name) || lang::dtype_named(name);
}

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '\'' || c == '#' || c == '$'; }

// The printed loops with every declared name replaced by its number in order of appearance; empty when a name is ambiguous.
std::string shape_of(const Loops& loops) {
  const std::set<std::string> declared = declared_in(loops);
  for (const std::string& name : declared)
    if (is_word(name)) return {};
  const std::string text = print(loops);
  std::map<std::string, std::size_t> numbers;
  std::string shape;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && in_name(text[end])) ++end;
    const std::string word = text.substr(at, end - at);
    if (declared.contains(word)) shape += fmt::format("%{}", numbers.try_emplace(word, numbers.size()).first->second);
    else shape += end > at ? word : std::string(1, text[at]);
    at = std::max(end, at + 1);
  }
  return shape;
}

}  // namespace

Lowered share_kernels(Lowered package) {
  std::map<std::string, std::size_t> first;
  for (std::size_t k = 0; k < package.steps.size(); ++k) {
    const std::string shape = shape_of(package.steps[k].loops);
    if (shape.empty()) continue;
    const auto [at, is_new] = first.emplace(shape, k);
    if (is_new) continue;
    package.steps[k].kernel = package.steps[at->second].kernel;
    package.steps[k].loops = package.steps[at->second].loops;
  }
  return package;
}

}  // namespace tilec::codegen
