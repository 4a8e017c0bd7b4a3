// The names of a function: inputs, sizes, assigned names and compile-time parameters share one space. A lower-case name
// that none of these has is an index.
//
//   function f<p=1>(A[N]) -> (B) { B[i: N] = +(A[i] * p); }
//     ⇒  `p` a parameter, `A` an input of one dimension, `N` a size, `B` assigned by statement 0; `i` an index
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lang/ast.h"
#include "lang/choice.h"
#include "lang/diagnostic.h"
#include "lang/nearest.h"
#include "lang/walk.h"

namespace tilec::lang::checking {

// What an expression is read as.
enum class Role { Elementwise, Body, Index, Constraint, Size, Signature };
std::string_view described(Role role);

// What a name of the function is.
struct Known {
  enum class Kind { Parameter, Input, Size, Assigned } kind;
  Span where;
  int statement = -1;                                  // that assigns it; -1 in the signature
  std::size_t rank = 0;                                // where the text shows it; else 0
  const std::vector<Expr>* sizes = nullptr;            // where the text shows them
  bool pack = false;                                   // of a size
};

// One function while it is checked.
struct Names {
  const File& file;
  Diagnostics& diagnostics;
  const Function* function;
  int& unfound;                                        // names of the file that nothing has
  std::map<std::string, Known> known = {};             // by the name as spelled
  std::set<std::string> integers = {};                 // names with an integer type in the text
  std::map<std::string, std::pair<Name, std::string>> index_packs = {};  // with what they are first written in
  int now = -1;                                        // the statement being checked
  bool has_values = false;                             // does it compute more than a size, as `P = K/2 + 1;` does?

  Names(const File& file, const Function& f, int& unfound, Diagnostics& diagnostics);  // reports what is declared twice

  const Known* find(const Name& name) const {
    const auto at = known.find(name.spelled());
    return at == known.end() ? nullptr : &at->second;
  }
  bool is_index(const Name& name) const { return !name.upper && !find(name); }
  // A name that must be declared. Null after a report.
  const Known* use(const Name& name, std::string_view otherwise = "");
  void unknown(const Name& name, std::string_view otherwise);
  // A name is a pack wherever the function writes it, or nowhere.
  bool as_declared(const Variable& v, const Known& known);

  bool may_search() { return ++unfound <= 100; }       // each mistyped word is compared with every name there is
  // The known name of a kind that a mistyped one was meant to be.
  template <class Fits> std::optional<std::string> meant(const Name& name, Fits fits) {
    if (!may_search()) return std::nullopt;
    std::vector<std::string> all;
    for (const auto& [spelled, each] : known)
      if (fits(each)) all.push_back(spelled);
    return nearest(name.text, all);
  }

 private:
  void declare(const Name& name, Known fresh);
  void declare_all(const Function& f);
  void declare_size(const Variable& size);             // may repeat, and may be a scalar input or a parameter
  void note_integers(const Function& f);               // inputs, results and assigned names with an integer type
};

// The names in an expression, but for those that a choice is asked for: `mode == zeros`.
template <class Visit> void each_name(const Function& f, const Expr& e, const Visit& visit) {
  if (choice_test(f, e)) return;
  if (const auto* variable = e.as<Variable>()) visit(variable->name);
  each_child(e, [&](const Expr& inner) { each_name(f, inner, visit); });
}

}  // namespace tilec::lang::checking
