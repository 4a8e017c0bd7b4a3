#include "lang/check/arithmetic.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "lang/messages.h"
#include "lang/op.h"
#include "lang/print.h"
#include "lang/type.h"

namespace tilec::lang::checking {
namespace {

const Expr& first_of(const Expr& e) {
  const Binary* binary = e.as<Binary>();
  return binary ? first_of(binary->left) : e;
}

// What `^` would raise if it were a power, which binds tighter than Tile's `^`: `X` in `3*X^2` and `-X^2`, `X + 1` in
// `3*(X + 1)^2`. Null: the tree does not tell where parentheses stood.
const Expr* base(const Expr& whole, const Expr& left) {
  const Binary* binary = left.as<Binary>();
  const Unary* unary = left.as<Unary>();
  if (!binary && !unary) return &left;
  const bool begins_grouped = first_of(left).span().begin != whole.span().begin;
  if (begins_grouped) return binary && binary->left.as<Binary>() ? nullptr : &left;
  const Expr& last = binary ? binary->right : unary->operand;
  const bool last_grouped = last.span().end != left.span().end || first_of(last).span().begin != last.span().begin;
  return last_grouped ? &last : base(last, last);
}

// Does the text say that this is an integer: a declared type, a cast, another operation on bits?
bool of_integers(const Names& here, const Expr& e) {
  const auto named = [&](const Name& name) { return here.integers.contains(name.spelled()); };
  return e.match([](const Number&) { return true; }, [&](const Variable& v) { return named(v.name); },
      [&](const Unary& u) { return u.op == Op::Not || of_integers(here, u.operand); },
      [&](const Binary& b) {
        return info(b.op).integers_only || of_integers(here, b.left) || of_integers(here, b.right);
      },
      [&](const Access& a) { return named(a.tensor); },
      [&](const Call& c) {
        const auto type = dtype_named(c.function.text);
        return (type && !is_float(*type)) || c.function.text == "as_int" || c.function.text == "as_uint";
      },
      [&](const Select& s) { return of_integers(here, s.then) || (s.otherwise && of_integers(here, *s.otherwise)); });
}

// Of indices, sizes and literals alone.
bool is_integer(const Names& here, const Expr& e) {
  const auto go = [&](const Expr& each) { return is_integer(here, each); };
  return e.match([](const Number& n) { return !n.is_float; },
      [&](const Variable& v) {
        const Known* known = here.find(v.name);
        return known ? known->kind == Known::Kind::Size : here.is_index(v.name);
      },
      [&](const Unary& u) { return u.op == Op::Neg && go(u.operand); },
      [&](const Binary& b) { return info(b.op).result == Result::Promoted && go(b.left) && go(b.right); },
      [](const Access&) { return false; }, [](const Call&) { return false; }, [](const Select&) { return false; });
}

bool is_literal(const Expr& e) {
  const Unary* unary = e.as<Unary>();
  return unary ? is_literal(unary->operand) : e.as<Number>() != nullptr;
}

// A quotient of integers that sums, differences and products take as it is. Of two literals `quotient` tells.
const Expr* truncated(const Names& here, const Expr& e) {
  if (const Unary* u = e.as<Unary>()) return u->op == Op::Neg ? truncated(here, u->operand) : nullptr;
  const Binary* b = e.as<Binary>();
  if (!b || info(b->op).result != Result::Promoted || info(b->op).integers_only) return nullptr;
  if (b->op == Op::Div && is_integer(here, b->left) && is_integer(here, b->right))
    return is_literal(b->left) ? nullptr : &e;
  const Expr* left = truncated(here, b->left);
  return left ? left : truncated(here, b->right);
}

void report_truncated(Names& here, const Expr& whole) {
  const Expr* found = of_values(here, whole) ? nullptr : truncated(here, whole);
  if (!found) return;
  const Binary& b = *found->as<Binary>();
  here.diagnostics.report(found->span(), messages::integer_quotient, print(*found), "truncated")
      .hint(fmt::format("write `1.0 * {} / {}`; where the whole number is meant, `div({}, {})`", print(b.left),
          print(b.right), print(b.left), print(b.right)));
}

// Of integer literals alone.
std::optional<std::int64_t> constant(const Expr& e) {
  if (const Number* n = e.as<Number>())
    return n->is_float || n->integer > 1'000'000'000 ? std::nullopt
                                                     : std::optional(static_cast<std::int64_t>(n->integer));
  if (const Unary* u = e.as<Unary>(); u && u->op == Op::Neg)
    if (const auto value = constant(u->operand)) return -*value;
  return std::nullopt;
}

}  // namespace

void power(Names& here, const Binary& b, const Expr& e) {
  // `X^2 + 1` reads as `X ^ (2 + 1)`.
  const Expr* right = &b.right;
  while (const Binary* sum = right->as<Binary>()) right = &sum->left;
  const auto exponent = [](const Expr& side, std::uint64_t least, std::uint64_t most) {
    const Number* number = side.as<Number>();
    return number && !number->is_float && number->integer >= least && number->integer <= most;
  };
  const bool looks = (exponent(*right, 2, 10) && !of_integers(here, b.left)) ||
      (exponent(b.left, 2, 2) && !of_integers(here, b.right)) ||
      (exponent(b.left, 10, 10) && !of_integers(here, b.right));
  if (!looks) return;
  const Expr* of = base(e, b.left);
  here.diagnostics.report(e.span(), messages::xor_power)
      .hint(fmt::format("a power is `pow({}, {})`", of ? print(*of) : "x", print(*right)))
      .hint("where integers are meant, declare them, as in `u32 X[N]`, or cast: `u32(x) ^ 2`");
}

void quotient(Names& here, const Binary& b, const Expr& e) {
  const auto left = constant(b.left), right = constant(b.right);
  const auto* size = b.right.as<Variable>();
  const Known* known = size ? here.find(size->name) : nullptr;
  const bool by_size = known && known->kind == Known::Kind::Size && left && (*left == 1 || *left == -1);
  const bool truncates = left && right && *right != 0 && *left % *right != 0;
  if (!truncates && !by_size) return;
  const std::string value = by_size ? fmt::format("0 wherever `{}` is more than 1", size->name.spelled())
                                    : fmt::format("{}", *left / *right);
  here.diagnostics.report(e.span(), messages::integer_quotient, print(e), value)
      .hint(fmt::format("write `{}.0/{}`", *left, right ? print(b.right) : size->name.spelled()));
}

void quotient_beside_float(Names& here, const Binary& b) {
  if (info(b.op).result != Result::Promoted) return;
  const auto is_float = [&](const Expr& e) { return of_values(here, e) && !of_integers(here, e); };
  if (is_float(b.right)) report_truncated(here, b.left);
  if (is_float(b.left)) report_truncated(here, b.right);
}

void quotient_in_float(Names& here, const Call& c) {
  const auto op = function_named(c.function.text);
  if (!op || info(*op).result != Result::Float) return;
  for (const Expr& argument : c.arguments) report_truncated(here, argument);
}

bool of_values(const Names& here, const Expr& e) {
  const auto go = [&](const Expr& each) { return of_values(here, each); };
  return e.match([](const Number& n) { return n.is_float; },
      [&](const Variable& v) {
        const Known* known = here.find(v.name);
        return known && (known->kind == Known::Kind::Input || known->kind == Known::Kind::Assigned);
      },
      [&](const Unary& u) { return go(u.operand); }, [&](const Binary& b) { return go(b.left) || go(b.right); },
      [](const Access&) { return true; },
      [&](const Call& c) { return std::any_of(c.arguments.begin(), c.arguments.end(), go); },
      [&](const Select& s) { return go(s.condition) || go(s.then) || (s.otherwise && go(*s.otherwise)); });
}

}  // namespace tilec::lang::checking
