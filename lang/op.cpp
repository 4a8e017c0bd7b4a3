#include "lang/op.h"

#include <utility>

namespace tilec::lang {
namespace {

using enum Result;

// In the order of Op. The names of operators are those that Tile's call form writes: `cmp_lt(A, B)` is `A < B`.
constexpr OpInfo table[] = {
    {Op::Add, "add", "+", 2, Promoted, false},
    {Op::Sub, "sub", "-", 2, Promoted, false},
    {Op::Mul, "mul", "*", 2, Promoted, false},
    {Op::Div, "div", "/", 2, Promoted, false},
    {Op::Neg, "neg", "-", 1, Promoted, false},
    {Op::Eq, "cmp_eq", "==", 2, Boolean, false},
    {Op::Ne, "cmp_ne", "!=", 2, Boolean, false},
    {Op::Lt, "cmp_lt", "<", 2, Boolean, false},
    {Op::Le, "cmp_le", "<=", 2, Boolean, false},
    {Op::Gt, "cmp_gt", ">", 2, Boolean, false},
    {Op::Ge, "cmp_ge", ">=", 2, Boolean, false},
    {Op::And, "bit_and", "&", 2, Promoted, true},
    {Op::Or, "bit_or", "|", 2, Promoted, true},
    {Op::Xor, "bit_xor", "^", 2, Promoted, true},
    {Op::Not, "bit_not", "~", 1, Promoted, true},
    {Op::Shl, "bit_left", "<<", 2, Promoted, true},
    {Op::Shr, "bit_right", ">>", 2, Promoted, true},
    {Op::Select, "cond", "?", 3, SecondAndThird, false},
    {Op::Abs, "abs", "", 1, Promoted, false},
    {Op::Max, "max", "", 2, Promoted, false},
    {Op::Min, "min", "", 2, Promoted, false},
    {Op::Pow, "pow", "", 2, Promoted, false},
    {Op::Mod, "mod", "", 2, Promoted, false},
    {Op::Fma, "fma", "", 3, Promoted, false},
    {Op::Recip, "recip", "", 1, Float, false},
    {Op::Relu, "relu", "", 1, Promoted, false},
    {Op::Sigmoid, "sigmoid", "", 1, Float, false},
    {Op::Sign, "sign", "", 1, Promoted, false},
    {Op::Exp, "exp", "", 1, Float, false},
    {Op::Log, "log", "", 1, Float, false},
    {Op::Sqrt, "sqrt", "", 1, Float, false},
    {Op::Erf, "erf", "", 1, Float, false},
    {Op::Sin, "sin", "", 1, Float, false},
    {Op::Cos, "cos", "", 1, Float, false},
    {Op::Tan, "tan", "", 1, Float, false},
    {Op::Asin, "asin", "", 1, Float, false},
    {Op::Acos, "acos", "", 1, Float, false},
    {Op::Atan, "atan", "", 1, Float, false},
    {Op::Sinh, "sinh", "", 1, Float, false},
    {Op::Cosh, "cosh", "", 1, Float, false},
    {Op::Tanh, "tanh", "", 1, Float, false},
    {Op::Asinh, "asinh", "", 1, Float, false},
    {Op::Acosh, "acosh", "", 1, Float, false},
    {Op::Atanh, "atanh", "", 1, Float, false},
    {Op::Atan2, "atan2", "", 2, Float, false},
    {Op::Ceil, "ceil", "", 1, Promoted, false},
    {Op::Floor, "floor", "", 1, Promoted, false},
    {Op::Round, "round", "", 1, Promoted, false},
    {Op::Trunc, "trunc", "", 1, Promoted, false},
    {Op::IsNan, "isnan", "", 1, Boolean, false},
    {Op::IsFinite, "isfinite", "", 1, Boolean, false},
    {Op::Between, "between", "", 3, Float, false},
    {Op::Tf32, "tf32", "", 1, Float, false},
};

constexpr bool in_order() {
  int at = 0;
  for (const OpInfo& entry : table)
    if (static_cast<int>(entry.op) != at++) return false;
  return at == static_cast<int>(Op::Tf32) + 1;
}
static_assert(in_order(), "the table follows the order of Op");

}  // namespace

const OpInfo& info(Op op) { return table[static_cast<std::size_t>(op)]; }

std::optional<Op> function_named(std::string_view name) {
  constexpr std::pair<std::string_view, Op> aliases[] = {{"mad", Op::Fma}, {"select", Op::Select}, {"eq", Op::Eq},
      {"ne", Op::Ne}, {"lt", Op::Lt}, {"le", Op::Le}, {"gt", Op::Gt}, {"ge", Op::Ge}, {"bit_shl", Op::Shl},
      {"bit_shr", Op::Shr}};
  for (const auto& [alias, op] : aliases)
    if (alias == name) return op;
  for (const OpInfo& entry : table)
    if (entry.name == name && entry.op < Op::Between) return entry.op;
  return std::nullopt;
}

}  // namespace tilec::lang
