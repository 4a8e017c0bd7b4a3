// Names first (inputs, sizes, assigned names and compile-time parameters of a function share one space), then one walk
// over the statements in which an expression is always read in a role: an elementwise value, a contraction's body, an
// index expression, a constraint or a size. The role decides what a name may be and whether an access may stand there.
//
//   Y = A[i] + b;       an elementwise value reads whole tensors: write `Y[i: N] = =(A[i] + …)`
//   Y[i: N] = +(A);     a body reads elements: write `A[…]`
//
// A lower-case name that the function does not declare is an index; only contractions have indices.

#include "lang/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/calls.h"
#include "lang/check/arithmetic.h"
#include "lang/check/attributes.h"
#include "lang/check/contraction.h"
#include "lang/check/expression.h"
#include "lang/check/functions.h"
#include "lang/check/names.h"
#include "lang/check/packs.h"
#include "lang/dimension.h"
#include "lang/idiom.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/type.h"

namespace tilec::lang {
namespace {

using namespace checking;

void type(Names& here, const Target& t) {
  if (!t.dtype || dtype_named(t.dtype->text)) return;
  auto entry = here.diagnostics.report(t.dtype->span, messages::unknown_type, t.dtype->spelled());
  std::vector<std::string> all;
  std::string text;
  for (const DType each : all_dtypes) {
    all.emplace_back(name(each));
    text += (text.empty() ? "" : " ") + all.back();
  }
  if (const auto idiom = hint_for(Idiom::Kind::Type, t.dtype->text)) entry.hint(*idiom);
  else if (const auto near = nearest(t.dtype->text, all)) entry.hint(fmt::format("did you mean `{}`?", *near));
  else entry.hint("element types are " + text);
}

// A default is known where the parameter is declared: an earlier parameter, a function, an aggregation or a constant.
// Of `K - 2` a name is an earlier parameter.
void default_name(
    Names& here, const Parameter& p, const Name& name, const std::set<std::string>& earlier, bool is_computed) {
  const Known* known = here.find(name);
  if (known && known->kind == Known::Kind::Parameter) {
    if (!earlier.contains(name.spelled()))
      here.diagnostics.report(name.span, messages::used_early, name.spelled())
          .label(known->where, "declared here")
          .hint("a default uses parameters that stand in front of it");
    return;
  }
  if (known || is_computed) {
    auto entry = here.diagnostics.report(
        name.span, messages::parameter_kind, p.name.spelled(), fmt::format("`{}`", name.spelled()), "a default");
    if (known) entry.label(known->where, "declared here");
    entry.hint("a default is a number, a function, an aggregation or an earlier parameter, or computed from these");
    return;
  }
  if (may_stand_in_parameters(here, name)) return;
  auto entry = here.diagnostics.report(name.span, messages::unknown_function, name.spelled());
  if (const auto near = nearest(name.text, function_names(here.file)))
    entry.hint(fmt::format("did you mean `{}`?", *near));
  else
    entry.hint(fmt::format(
        "names to choose from stand in braces, the default first: `{}={{{}, …}}`", p.name.spelled(), name.spelled()));
}

// Names to choose from are no defaults.
void parameters(Names& here, const Function& f) {
  std::set<std::string> earlier;
  for (const Parameter& p : f.parameters) {
    std::map<std::string, Span> names;
    for (const Name& each : p.choices)
      if (const auto [at, is_new] = names.emplace(each.spelled(), each.span); !is_new)
        here.diagnostics.report(each.span, messages::redeclared, each.spelled())
            .label(at->second, "declared here")
            .hint("every name to choose from is given once");
    if (p.value && p.choices.empty()) {
      const auto* computed = std::get_if<Expr>(&p.value->value);
      if (const auto* name = std::get_if<Name>(&p.value->value)) default_name(here, p, *name, earlier, false);
      if (computed)
        each_variable(*computed, [&](const Variable& v) { default_name(here, p, v.name, earlier, true); });
    }
    earlier.insert(p.name.spelled());
  }
}

void signature(Names& here, const Input& i) {
  type(here, i.target);
  const auto* name = i.value ? std::get_if<Name>(&i.value->value) : nullptr;
  if (name && (name->upper || (name->text != "inf" && name->text != "nan")))
    here.diagnostics.report(name->span, messages::input_default, i.target.name.spelled(), name->spelled())
        .hint("a default is a number, `inf`, `-inf` or `nan`");
  for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
    if (!size.as<Variable>()) expression(here, size, Role::Signature);
}

void result(Names& here, const Target& r) {
  type(here, r);
  if (here.find(r.name)) return;
  auto entry = here.diagnostics.report(r.name.span, messages::result_missing, r.name.spelled());
  if (const auto near = here.meant(r.name, [](const Known& known) { return known.kind == Known::Kind::Assigned; }))
    entry.hint(fmt::format("did you mean `{}`?", *near));
}

void elementwise(Names& here, const Expr& value) {
  here.has_values = of_values(here, value);
  expression(here, value, Role::Elementwise);
}

// Names of the function first, then one walk over its statements.
void function(const File& file, const Function& f, int& unfound, Diagnostics& diagnostics) {
  Names here(file, f, unfound, diagnostics);
  note_packs(here, f);
  parameters(here, f);
  check_attributes(f, diagnostics);
  for (const Input& i : f.inputs) signature(here, i);
  for (const Statement& s : f.statements) {
    ++here.now;
    std::visit(Overloaded{[](std::monostate) {},
                   [&](const Assignment& a) {
                     type(here, a.target);
                     elementwise(here, a.value);
                   },
                   [&](const TupleAssignment& t) {
                     for (const Target& each : t.targets) type(here, each);
                     elementwise(here, t.value);
                   },
                   [&](const Contraction& c) {
                     type(here, c.target);
                     contraction(here, c);
                   }},
        s.node);
  }
  for (const Target& r : f.results) result(here, r);
  names_of_packs(here, f);
}

void distinct(const File& file, Diagnostics& diagnostics) {
  std::map<std::pair<Function::Role, std::string>, Span> seen;
  for (const auto& item : file.items) {
    const auto* f = std::get_if<Function>(&item);
    if (!f) continue;
    const Span where = f->name ? f->name->span : Span{f->span.begin, f->span.begin + 1, f->span.source};
    const auto [at, is_new] = seen.emplace(std::pair(f->role, f->name ? f->name->spelled() : ""), where);
    const std::string_view role = f->role == Function::Role::Function ? ""
        : f->role == Function::Role::Gradient                         ? "the gradient of "
                                                                      : "the tangent of ";
    if (is_new) continue;
    diagnostics
        .report(where, messages::function_redefined,
            f->name ? fmt::format("{}`{}`", role, f->name->spelled()) : "the unnamed function")
        .label(at->second, "first defined here");
  }
}

}  // namespace

bool check(const File& file, Diagnostics& diagnostics) {
  Diagnostics found;
  distinct(file, found);
  int unfound = 0;
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item)) function(file, *f, unfound, found);
  check_calls(file, found);
  check_dimensions(file, found);
  std::vector<Diagnostic> sorted = found.all();
  std::stable_sort(sorted.begin(), sorted.end(),
      [](const Diagnostic& a, const Diagnostic& b) { return a.span.begin < b.span.begin; });
  const std::vector<Allowed> allowed = allowed_warnings(file);
  for (Diagnostic& diagnostic : sorted)
    if (diagnostic.severity != Severity::Warning || !is_allowed(allowed, diagnostic.code, diagnostic.span))
      diagnostics.add(std::move(diagnostic));
  return !found.has_errors();
}

}  // namespace tilec::lang
