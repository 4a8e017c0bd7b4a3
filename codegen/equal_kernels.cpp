#include "codegen/equal_kernels.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <unordered_map>

#include "lang/op.h"
#include "lang/type.h"

namespace tilec::codegen {
namespace {

// what Loops declare; 1, 2, … in order of appearance, 0 before
using Names = std::unordered_map<std::string_view, std::size_t>;

void declared_in(const Body& body, Names& names) {
  for (const Stmt& s : body)
    std::visit(
        poly::Overloaded{[&](const For& x) { names.emplace(x.index, 0), declared_in(x.body, names); },
            [&](const If& x) { declared_in(x.then, names), declared_in(x.otherwise, names); },
            [&](const Let& x) { names.emplace(x.name, 0); }, [&](const View& x) { names.emplace(x.name, 0); },
            [&](const Aligned& x) { names.emplace(x.name, 0); }, [&](const Allocate& x) { names.emplace(x.name, 0); },
            [&](const Fold& x) { names.emplace(x.name, 0); }, [](const auto&) {}},
        s.node);
}

Names declared_in(const Loops& loops) {
  Names names;
  for (const Table& table : loops.tables) names.emplace(table.name, 0);
  for (const Function& f : loops.functions) {
    names.emplace(f.name, 0);
    for (const ViewParameter& view : f.views) names.emplace(view.name, 0);
    for (const std::string& name : f.integers) names.emplace(name, 0);
    declared_in(f.body, names);
  }
  return names;
}

// A name that print() may also use as a word of its own; such loops are shared with nobody.
bool is_word(const std::string& name) {
  static const std::set<std::string> words{"fn", "in", "out", "inout", "align", "table", "for", "serial", "unroll",
      "vector", "parallel", "block", "thread", "advance", "by", "if", "else", "let", "view", "register", "local",
      "shared", "fold", "over", "barrier", "prefetch", "call", "streaming", "async", "max", "min", "true", "false",
      "inf", "nan"};
  return words.contains(name) || lang::function_named(name) || lang::dtype_named(name);
}

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '\'' || c == '#' || c == '$';
}

// The printed loops with every declared name replaced by its number in order of appearance; empty when a name is
// ambiguous.
std::string shape_of(const Loops& loops) {
  Names declared = declared_in(loops);
  for (const auto& [name, number] : declared)
    if (is_word(std::string(name))) return {};
  const std::string text = print(loops);
  std::size_t numbers = 0;
  std::string shape;
  shape.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && in_name(text[end])) ++end;
    const std::string_view word = std::string_view(text).substr(at, std::max<std::size_t>(end - at, 1));
    const auto known = end > at ? declared.find(word) : declared.end();
    if (known == declared.end()) shape += word;
    else {
      if (known->second == 0) known->second = ++numbers;
      shape += '%';
      shape += std::to_string(known->second);
    }
    at += word.size();
  }
  return shape;
}

// Which statements stand in which, without names and expressions: loops that are shared have the same. Printing takes
// ten times as long.
std::size_t skeleton(const Body& body) {
  std::size_t hash = body.size();
  const auto add = [&](std::size_t value) { hash = hash * 0x9e3779b97f4a7c15 + value; };
  for (const Stmt& s : body) {
    add(s.node.index());
    if (const auto* loop = std::get_if<For>(&s.node)) add(skeleton(loop->body));
    if (const auto* branch = std::get_if<If>(&s.node)) add(skeleton(branch->then)), add(skeleton(branch->otherwise));
  }
  return hash;
}

std::size_t skeleton(const Loops& loops) {
  std::size_t hash = loops.functions.size();
  for (const Function& f : loops.functions) hash = hash * 31 + skeleton(f.body) + f.views.size();
  return hash;
}

}  // namespace

Lowered share_kernels(Lowered package) {
  std::unordered_map<std::size_t, int> alike;
  for (const Step& step : package.steps) ++alike[skeleton(step.loops)];
  std::unordered_map<std::string, std::size_t> first;
  for (std::size_t k = 0; k < package.steps.size(); ++k) {
    if (alike[skeleton(package.steps[k].loops)] < 2) continue;
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
