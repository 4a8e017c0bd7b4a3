#include "lang/check/expression.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lang/builtin.h"
#include "lang/check/arithmetic.h"
#include "lang/check/functions.h"
#include "lang/check/packs.h"
#include "lang/choice.h"
#include "lang/idiom.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/op.h"
#include "lang/print.h"

namespace tilec::lang::checking {
namespace {

bool not_affine(Names& here, const Expr& e, const std::string& why) {
  auto entry = here.diagnostics.report(e.span(), messages::not_affine, why);
  const auto quote = why.find('`', 1);
  const std::string name = why.starts_with('`') ? why.substr(1, quote - 1) : "product";
  if (const auto idiom = hint_for(Idiom::Kind::Index, name)) entry.hint(*idiom);
  return false;                                        // said once, not at every level above
}

// Does `e` depend on an index?
bool depends(Names& here, const Expr& e) {
  if (choice_test(*here.function, e)) return false;
  const auto any = [&](const std::vector<Expr>& list) {
    return std::any_of(list.begin(), list.end(), [&](const Expr& each) { return depends(here, each); });
  };
  return e.match([](const Number&) { return false; }, [&](const Variable& v) { return here.is_index(v.name); },
      [&](const Unary& u) {
        const bool inside = depends(here, u.operand);
        return inside && u.op != Op::Neg ? not_affine(here, e, fmt::format("`{}` of an index", info(u.op).symbol))
                                         : inside;
      },
      [&](const Binary& b) {
        const bool left = depends(here, b.left), right = depends(here, b.right);
        if (b.op == Op::Mul && left && right) return not_affine(here, e, "a product of indices");
        if (b.op == Op::Div && right) return not_affine(here, e, "division by an index");
        const bool plain = b.op == Op::Add || b.op == Op::Sub || b.op == Op::Mul || b.op == Op::Div;
        return !plain && (left || right) ? not_affine(here, e, fmt::format("`{}` of an index", info(b.op).symbol))
                                         : left || right;
      },
      [](const Access&) { return false; },
      [&](const Call& c) {
        return any(c.arguments) ? not_affine(here, e, fmt::format("`{}` of an index", c.function.spelled())) : false;
      },
      [&](const Select& s) {
        const bool inside = any({s.condition, s.then}) || (s.otherwise && depends(here, *s.otherwise));
        return inside ? not_affine(here, e, "`?:` of an index") : false;
      });
}

// `mode == zeros`: of the names that the parameter may be.
bool choice(Names& here, const Expr& e) {
  const auto test = choice_test(*here.function, e);
  if (!test) return false;
  const auto& choices = choices_of(*here.function, *test->parameter);
  const auto* name = test->other->as<Variable>();
  if (name && std::find(choices.begin(), choices.end(), name->name) != choices.end()) return true;
  auto entry = here.diagnostics.report(test->other->span(), messages::no_such_choice, test->parameter->spelled(),
      lang::listed(choices), print(*test->other));
  std::vector<std::string> all;
  for (const Name& each : choices) all.push_back(each.spelled());
  if (const auto near = name ? nearest(name->name.text, all) : std::nullopt)
    entry.hint(fmt::format("did you mean `{}`?", *near));
  return true;
}

std::string sample_indices(std::size_t rank) {
  static constexpr std::string_view letters[] = {"i", "j", "k"};
  if (rank > 3) return "…";
  std::string out;
  for (std::size_t d = 0; d < rank; ++d) out.append(d ? ", " : "").append(letters[d]);
  return out;
}

void variable(Names& here, const Variable& v, Role role) {
  const Name& name = v.name;
  if (v.pack) return misplaced(here, name, described(role));
  if (!as_indexed(here, v)) return;
  const bool has_indices = role == Role::Body || role == Role::Index || role == Role::Constraint;
  if (here.is_index(name)) {
    const bool constant =
        (role == Role::Body || role == Role::Elementwise) && (name.text == "inf" || name.text == "nan");
    if (!constant && !has_indices)
      here.unknown(name,
          role == Role::Elementwise ? "indices are for contractions: `O[i: N] = =(…);`"
                                    : "an index is not known where sizes are");
    return;
  }
  if (const Known* size = here.find(name); size && !here.as_declared(v, *size)) return;
  if (const auto& choices = choices_of(*here.function, name); !choices.empty()) {
    here.diagnostics
        .report(name.span, messages::parameter_kind, name.spelled(), "one of " + lang::listed(choices), "a value")
        .hint(fmt::format("ask which: `{} == {} ? … : …`", name.spelled(), choices.back().spelled()));
    return;
  }
  const Known* known = here.use(name,
      has_indices ? "an index begins with a lower-case letter"
          : role == Role::Size
          ? fmt::format("sizes are named in the heading, by an input such as `X[{}]`", name.spelled())
          : "");
  if (known && role == Role::Body && known->rank > 0)
    here.diagnostics.report(name.span, messages::whole_tensor, name.spelled()).label(known->where, "declared here")
        .hint(fmt::format("read an element: `{}[{}]`", name.spelled(), sample_indices(known->rank)));
}

// `X[0]` of X[M, N]: `T[j: N] = =(X[0, j]);`
std::string read_by_contraction(const Access& a, const std::vector<Expr>& sizes) {
  static constexpr std::string_view letters[] = {"i", "j", "k", "l"};
  std::string target, extents, read;
  const auto add = [](std::string& list, std::string_view text) {
    list.append(list.empty() ? "" : ", ").append(text);
  };
  for (std::size_t d = 0; d < std::max(sizes.size(), a.element.size()); ++d) {
    const std::string index =
        d < a.element.size() ? print(a.element[d]) : std::string(letters[std::min<std::size_t>(d, 3)]);
    const bool kept =
        d >= a.element.size() || (a.element[d].as<Variable>() && !a.element[d].as<Variable>()->name.upper);
    add(read, index);
    if (kept && d < sizes.size()) add(target, index), add(extents, print(sizes[d]));
  }
  return fmt::format("T[{}{}{}] = =({}[{}]);", target, target.empty() ? "" : ": ", extents, a.tensor.spelled(), read);
}

void access(Names& here, const Access& a, const Expr& e, Role role) {
  const Known* known = here.use(a.tensor);
  if (role == Role::Body) {
    elements(here, a.element, Role::Index, [&](const Expr& index) { affine(here, index, Role::Index); });
    if (known && known->sizes) pack_missed(here, a.element, *known->sizes, a.tensor.spelled());
    return;
  }
  if (a.element.empty() && role != Role::Elementwise) return;  // `S[]`, a scalar
  auto entry = here.diagnostics.report(e.span(), messages::element_misplaced, print(e), described(role));
  if (role != Role::Elementwise) return;
  if (a.element.empty()) entry.hint(fmt::format("write `{}`", a.tensor.spelled()));
  else if (known && known->sizes)
    entry.hint(fmt::format("write `{}` for all of it, or a contraction: `{}`", a.tensor.spelled(),
        read_by_contraction(a, *known->sizes)));
  else entry.hint(fmt::format("write `{}` for all of it, or a contraction: `O[i: N] = =(…);`", a.tensor.spelled()));
  if (known) entry.label(known->where, "declared here");
}

// `reshape(X, B..., N)`: of a built-in function that takes any number of sizes.
bool takes_pack(const Call& c, std::size_t k) {
  const Builtin* builtin = builtin_named(c.function.text);
  return builtin && k >= builtin->sizes_from && builtin->arguments.most >= any_number;
}

void call(Names& here, const Call& c, const Expr& e, Role role) {
  const std::string& name = c.function.text;
  if (counts_pack(c) && !is_function(here, c.function))
    return pack_in_list(here, *c.arguments[0].as<Variable>(), Role::Size);
  if (!is_known(here, c.function)) return no_function(here, c.function);  // what it would take is not known either
  for (std::size_t k = 0; k < c.arguments.size(); ++k) {
    const Expr& size = pack_of_ones(c.arguments[k]) ? c.arguments[k].as<Call>()->arguments[0] : c.arguments[k];
    if (pack(size) && takes_pack(c, k) && !is_function(here, c.function)) {
      pack_in_list(here, *size.as<Variable>(), Role::Size);
      continue;
    }
    // of a whole tensor, of which nothing is read
    const bool is_named = name == "given" || (k == 1 && takes_type_of(name));
    expression(here, c.arguments[k], is_named && role == Role::Body ? Role::Elementwise : role);
  }
  for (const Argument& parameter : c.parameters)
    if (const auto* computed = std::get_if<Expr>(&parameter.value)) expression(here, *computed, Role::Size);
  taken_and_given(here, c, e);
}

// Values, not sizes or indices alone.
bool computes(const Names& here, Role role) {
  return role == Role::Body || (role == Role::Elementwise && here.has_values);
}

}  // namespace

void expression(Names& here, const Expr& e, Role role) {
  if (choice(here, e)) return;
  e.match([](const Number&) {}, [&](const Variable& v) { variable(here, v, role); },
      [&](const Unary& u) { expression(here, u.operand, role); },
      [&](const Binary& b) {
        expression(here, b.left, role), expression(here, b.right, role);
        if (b.op == Op::Xor) power(here, b, e);
        if (!computes(here, role)) return;
        if (b.op == Op::Div) quotient(here, b, e);
        quotient_beside_float(here, b);
      },
      [&](const Access& a) { access(here, a, e, role); },
      [&](const Call& c) {
        call(here, c, e, role);
        if (computes(here, role)) quotient_in_float(here, c);
      },
      [&](const Select& s) {
        expression(here, s.condition, role), expression(here, s.then, role);
        if (s.otherwise) expression(here, *s.otherwise, role);
      });
}

void affine(Names& here, const Expr& e, Role role) {
  expression(here, e, role);
  depends(here, e);
}

}  // namespace tilec::lang::checking
