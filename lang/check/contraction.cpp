#include "lang/check/contraction.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>

#include "lang/builtin.h"
#include "lang/check/expression.h"
#include "lang/check/packs.h"
#include "lang/messages.h"
#include "lang/op.h"
#include "lang/print.h"
#include "lang/walk.h"

namespace tilec::lang::checking {
namespace {

// `-inf` is the number, and there is no `-T` of a tensor; so not where `inf` is one.
void default_value(Names& here, const Default& d) {
  const auto* name = std::get_if<Name>(&d.value);
  const auto* number = std::get_if<Number>(&d.value);
  if (number && (number->text == "-inf" || number->text == "-nan") &&
      here.find(Name{number->text.substr(1), false, {}}))
    here.diagnostics.report(
        d.span, messages::syntax, "a number or a tensor", fmt::format("`{}` of a tensor", number->text));
  if (const Known* known = name ? here.find(*name) : nullptr; known && known->pack)
    return misplaced(here, *name, "`default`");
  if (name && (here.find(*name) || (name->text != "inf" && name->text != "nan")))
    here.use(*name, "`default` takes a number or a tensor");
}

// The size of the dimension that the body reads at exactly this index.
std::optional<std::string> size_read_with(Names& here, const Expr& body, const Expr& index) {
  std::optional<std::string> found;
  each_access(body, [&](const Access& a, const Expr&) {
    const Known* known = here.find(a.tensor);
    for (std::size_t d = 0; known && known->sizes && d < std::min(known->sizes->size(), a.element.size()); ++d)
      if (!found && a.element[d] == index) found = print((*known->sizes)[d]);
  });
  return found;
}

void counts(Names& here, const Contraction& c) {
  // counted once ranks are known
  const bool open = !c.sizes.empty() &&
      (std::any_of(c.element.begin(), c.element.end(), pack) || std::any_of(c.sizes.begin(), c.sizes.end(), pack));
  if (c.element.size() == c.sizes.size() || open) return;
  auto entry = here.diagnostics.report(c.target.name.span, messages::sizes_count, c.target.name.spelled(),
      counted(c.element.size(), "index"), counted(c.sizes.size(), "size"));
  std::string list;
  std::string sizes;
  for (const Expr& e : c.element) {
    list += (list.empty() ? "" : ", ") + print(e);
    sizes += (sizes.empty() ? "" : ", ") + size_read_with(here, c.body, e).value_or("…");
  }
  if (c.sizes.empty())
    entry.hint(fmt::format("sizes follow the indices: `{}[{}: {}]`", c.target.name.spelled(), list, sizes));
}

void aggregation(Names& here, const Contraction& c) {
  if (!c.aggregation_name) return;
  const Name& name = *c.aggregation_name;
  const Known* known = here.find(name);
  if ((known && known->kind == Known::Kind::Parameter) || is_aggregation(name.text)) return;
  here.diagnostics.report(name.span, messages::unknown_aggregation, name.spelled())
      .hint("aggregations are `+ * > < =`, by name sum product max min assign");
}

// `A[…] == B[…] ? C[…]`; Tile took `+` and `*` for `==` there
void half_select(Names& here, const Select& s) {
  const Binary* pair = s.condition.as<Binary>();
  const bool known_form = pair && (pair->op == Op::Eq || pair->op == Op::Add || pair->op == Op::Mul) &&
      pair->left.as<Access>() && pair->right.as<Access>();
  if (!known_form)
    here.diagnostics.report(s.condition.span(), messages::half_select_form).hint("say what the rest is: `a ? b : 0`");
  else if (pair->op != Op::Eq)
    here.diagnostics.report(s.condition.span(), messages::half_select_operator, info(pair->op).symbol)
        .hint(fmt::format("write `{} == {}`", print(pair->left), print(pair->right)));
  expression(here, s.condition, Role::Body);
  expression(here, s.then, Role::Body);
}

// An index that only constraints mention ranges over something only if one of them is two-sided.
void indices(Names& here, const Contraction& c) {
  std::set<std::string> bounded;
  const auto collect = [&](const Expr& e) {
    each_name(*here.function, e, [&](const Name& n) { bounded.insert(n.spelled()); });
  };
  for (const Expr& e : c.element) collect(e);
  collect(c.body);
  for (const Constraint& k : c.constraints)
    if (k.low) collect(k.polynomial);
  for (const Constraint& k : c.constraints)
    for (const Expr* side : {&k.polynomial, &k.bound})
      each_name(*here.function, *side, [&](const Name& n) {
        if (!here.is_index(n) || !bounded.insert(n.spelled()).second) return;
        here.diagnostics.report(n.span, messages::constraint_only_index, n.spelled())
            .hint(fmt::format("use it in an access, or bound it on both sides: `0 <= {} < 3`", n.spelled()));
      });
}

}  // namespace

void contraction(Names& here, const Contraction& c) {
  elements(here, c.element, Role::Index, [&](const Expr& e) { affine(here, e, Role::Index); });
  elements(here, c.sizes, Role::Size, [&](const Expr& e) { expression(here, e, Role::Size); });
  pack_missed(here, c.element, c.sizes, c.target.name.spelled());
  counts(here, c);
  aggregation(here, c);
  const Select* half = c.body.as<Select>();
  if (half && !half->otherwise) half_select(here, *half);
  else expression(here, c.body, Role::Body);
  for (const Constraint& k : c.constraints) {
    if (k.low) affine(here, *k.low, Role::Constraint);
    affine(here, k.polynomial, Role::Constraint);
    affine(here, k.bound, Role::Constraint);
  }
  indices(here, c);
  if (c.default_value) default_value(here, *c.default_value);
}

}  // namespace tilec::lang::checking
