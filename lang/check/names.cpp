#include "lang/check/names.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/idiom.h"
#include "lang/messages.h"
#include "lang/type.h"

namespace tilec::lang::checking {

Names::Names(const File& in, const Function& f, int& all_unfound, Diagnostics& found)
    : file(in), diagnostics(found), function(&f), unfound(all_unfound) {
  declare_all(f);
  note_integers(f);
}

std::string_view described(Role role) {
  switch (role) {
    case Role::Elementwise: return "an elementwise statement";
    case Role::Body: return "a body";
    case Role::Index: return "an index";
    case Role::Constraint: return "a constraint";
    case Role::Size: return "a size";
    default: return "a signature";
  }
}

void Names::declare(const Name& name, Known fresh) {
  const auto [at, is_new] = known.emplace(name.spelled(), fresh);
  if (!is_new)
    diagnostics.report(name.span, messages::redeclared, name.spelled())
        .label(at->second.where, "declared here")
        .hint("every name is given once: choose another");
}

void Names::declare_all(const Function& f) {
  for (const Parameter& p : f.parameters) declare(p.name, {Known::Kind::Parameter, p.name.span});
  for (const Input& i : f.inputs)
    declare(i.target.name,
        {Known::Kind::Input, i.target.name.span, -1, i.sizes ? i.sizes->size() : 0, i.sizes ? &*i.sizes : nullptr});
  for (const Input& i : f.inputs)
    for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
      if (const auto* v = size.as<Variable>()) declare_size(*v);
  int statement = 0;
  for (const Statement& s : f.statements) {
    std::visit(Overloaded{[](std::monostate) {},
                   [&](const Assignment& a) {
                     declare(a.target.name, {Known::Kind::Assigned, a.target.name.span, statement});
                   },
                   [&](const TupleAssignment& t) {
                     for (const Target& each : t.targets)
                       declare(each.name, {Known::Kind::Assigned, each.name.span, statement});
                   },
                   [&](const Contraction& c) {
                     declare(c.target.name,
                         {Known::Kind::Assigned, c.target.name.span, statement, c.element.size(), &c.sizes});
                   }},
        s.node);
    ++statement;
  }
}

void Names::declare_size(const Variable& size) {
  const Name& name = size.name;
  const auto at = known.find(name.spelled());
  const bool taken = at != known.end() && size.pack && at->second.kind != Known::Kind::Size;
  if (at == known.end() || taken || (at->second.kind == Known::Kind::Input && at->second.rank > 0))
    return declare(name, {.kind = Known::Kind::Size, .where = name.span, .pack = size.pack});
  if (at->second.kind == Known::Kind::Size) as_declared(size, at->second);
}

void Names::note_integers(const Function& f) {
  integers.clear();
  const auto note = [&](const Target& t) {
    const auto type = t.dtype ? dtype_named(t.dtype->text) : std::nullopt;
    if (type && !is_float(*type)) integers.insert(t.name.spelled());
  };
  for (const Input& i : f.inputs) note(i.target);
  for (const Target& r : f.results) note(r);
  for (const Statement& s : f.statements)
    std::visit(Overloaded{[](std::monostate) {},
                   [&](const TupleAssignment& t) { std::for_each(t.targets.begin(), t.targets.end(), note); },
                   [&](const auto& a) { note(a.target); }},
        s.node);
}

bool Names::as_declared(const Variable& v, const Known& known) {
  if (known.kind != Known::Kind::Size || known.pack == v.pack) return true;
  const std::string name = v.name.spelled();
  if (v.pack)
    diagnostics.report(v.name.span, messages::pack_marked, name)
        .label(known.where, "declared here")
        .hint(fmt::format("write `{}` here, or `{}...` there", name, name));
  else
    diagnostics.report(v.name.span, messages::pack_unmarked, name, name + "...")
        .label(known.where, "declared here")
        .hint(fmt::format("write `{}...`", name));
  return false;
}

void Names::unknown(const Name& name, std::string_view otherwise) {
  auto entry = diagnostics.report(name.span, messages::no_such_value, name.spelled());
  if (const auto idiom = hint_for(Idiom::Kind::Value, name.text)) entry.hint(*idiom);
  else if (const auto near = meant(name, [&](const Known& known) { return known.statement < now; }))
    entry.hint(fmt::format("did you mean `{}`?", *near));
  else if (!otherwise.empty()) entry.hint(std::string(otherwise));
}

const Known* Names::use(const Name& name, std::string_view otherwise) {
  const Known* known = find(name);
  if (!known) unknown(name, otherwise);
  else if (known->statement >= now && known->kind == Known::Kind::Assigned) {
    auto entry = diagnostics.report(name.span, messages::used_early, name.spelled());
    entry.label(known->where, "assigned here");
    if (known->statement > now)
      entry.hint("statements stand in the order of computation: move that one in front of this");
    else if (known->rank > 0)
      entry.hint(
          "no element is made of others of the same tensor: running sums and products are `cumsum(X)` and `cumprod(X)`, or `+(X[k]), k <= i`; what is repeated is a function: `iterate<step, 20>(X)`");
    else entry.hint(fmt::format("a name gets its value once, from others: call this one `{}2`", name.spelled()));
    return nullptr;
  }
  return known;
}

}  // namespace tilec::lang::checking
