#include "lang/check/packs.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>

#include "lang/messages.h"
#include "lang/pack.h"
#include "lang/print.h"
#include "lang/walk.h"

namespace tilec::lang::checking {
namespace {

std::string listed(const std::vector<Expr>& all) {
  std::string text;
  for (const Expr& e : all) text += (text.empty() ? "" : ", ") + print(e);
  return text;
}

}  // namespace

void note_packs(Names& here, const Function& f) {
  here.index_packs.clear();
  const auto note = [&](const std::string& tensor, const std::vector<Expr>& element) {
    for (const Expr& e : element)
      if (const Name* name = pack(e); name && here.is_index(*name))
        here.index_packs.try_emplace(name->spelled(), *name, fmt::format("{}[{}]", tensor, listed(element)));
  };
  for (const Statement& s : f.statements)
    if (const auto* c = std::get_if<Contraction>(&s.node)) {
      note(c->target.name.spelled(), c->element);
      each_access(c->body, [&](const Access& a, const Expr&) { note(a.tensor.spelled(), a.element); });
    }
}

bool as_indexed(Names& here, const Variable& v) {
  const auto at = here.index_packs.find(v.name.spelled());
  if (at == here.index_packs.end() || v.pack || here.find(v.name)) return true;
  here.diagnostics.report(v.name.span, messages::pack_unmarked, v.name.spelled(), at->second.second)
      .label(at->second.first.span, "written with `...` here")
      .hint(fmt::format("write `{}...`", v.name.spelled()));
  return false;
}

void misplaced(Names& here, const Name& name, std::string_view where) {
  auto entry = here.diagnostics.report(name.span, messages::pack_misplaced, name.spelled(), where);
  entry.hint(here.is_index(name)
          ? fmt::format("a pack of indices stands alone between brackets, as in `X[{}...]`", name.spelled())
          : fmt::format(
                "a pack of sizes stands alone: in `X[{0}...]` of the heading, in `Y[i...: {0}...]`, `reshape(X, {0}...)`, `product({0}...)` is how many elements they hold, and `dims({0}...)` how many dimensions they are",
                name.spelled()));
}

void pack_in_list(Names& here, const Variable& v, Role role) {
  const Name& name = v.name;
  const Known* known = here.find(name);
  if (role == Role::Index) {
    if (name.upper && !known)
      here.diagnostics.report(name.span, messages::no_such_value, name.spelled())
          .hint("an index begins with a lower-case letter");
    else if (known) misplaced(here, name, "an index");
    return;
  }
  if (known && known->kind == Known::Kind::Size) {
    here.as_declared(v, *known);
    return;
  }
  auto entry = here.diagnostics.report(name.span, messages::pack_undeclared, name.spelled());
  const auto near = here.meant(name, [](const Known& each) { return each.pack; });
  if (near) entry.hint(fmt::format("did you mean `{}...`?", *near));
  else entry.hint(fmt::format("name them in the heading, by an input such as `X[{}...]`", name.spelled()));
}

void pack_missed(
    Names& here, const std::vector<Expr>& element, const std::vector<Expr>& sizes, std::string_view tensor) {
  if (element.size() != sizes.size()) return;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const Name* many = pack(sizes[d]);
    const auto* one = element[d].as<Variable>();
    const Known* declared = many ? here.find(*many) : nullptr;
    if (!declared || !declared->pack || !one || one->pack || one->name.upper || !here.is_index(one->name) ||
        here.index_packs.contains(one->name.spelled()))
      continue;
    here.diagnostics
        .report(
            element[d].span(), messages::pack_unmarked, many->spelled(), fmt::format("{}[{}]", tensor, listed(sizes)))
        .label(many->span, "any number of dimensions")
        .hint(fmt::format("write `{}...`", one->name.spelled()));
  }
}

void names_of_packs(Names& here, const Function& f) {
  std::vector<Name> packs = packs_of(f);
  for (const auto& [text, written] : here.index_packs) packs.push_back(written.first);
  if (packs.empty()) return;
  std::set<std::string> seen;
  const auto see = [&](const Name& name) {
    const auto taken = pack_of_dimension(name, packs);
    if (taken && seen.insert(name.spelled()).second)
      here.diagnostics.report(name.span, messages::pack_name_taken, name.spelled(), taken->spelled())
          .label(taken->span, "the pack")
          .hint("choose another name");
  };
  const auto all = [&](const std::vector<Expr>& list) {
    for (const Expr& e : list) each_name(*here.function, e, see);
  };
  for (const Parameter& p : f.parameters) see(p.name);
  for (const Input& i : f.inputs) {
    see(i.target.name);
    if (i.sizes) all(*i.sizes);
  }
  for (const Statement& s : f.statements)
    std::visit(Overloaded{[](std::monostate) {}, [&](const Assignment& a) { see(a.target.name); },
                   [&](const TupleAssignment& t) {
                     for (const Target& each : t.targets) see(each.name);
                   },
                   [&](const Contraction& c) {
                     see(c.target.name), all(c.element), all(c.sizes), each_name(*here.function, c.body, see);
                     for (const Constraint& k : c.constraints) {
                       if (k.low) each_name(*here.function, *k.low, see);
                       each_name(*here.function, k.polynomial, see), each_name(*here.function, k.bound, see);
                     }
                   }},
        s.node);
}

}  // namespace tilec::lang::checking
