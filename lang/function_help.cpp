#include "lang/function_help.h"

#include <algorithm>

namespace tilec::lang {
namespace {

using enum Help::Kind;

constexpr Help table[] = {
    // numbers, element by element
    {Function, "abs", "abs(x)", "the magnitude; its derivative at 0 is 0"},
    {Function, "sign", "sign(x)", "-1, 0 or 1; derivative 0"},
    {Function, "neg", "neg(x)", "`-x`"},
    {Function, "floor", "floor(x)", "the largest integer that is not above; derivative 0"},
    {Function, "ceil", "ceil(x)", "the smallest integer that is not below; derivative 0"},
    {Function, "round", "round(x)", "the nearest integer, halves away from zero; derivative 0"},
    {Function, "trunc", "trunc(x)", "without what is behind the point; derivative 0"},
    {Function, "max", "max(x, y)", "the larger; a tie gives each half of the derivative"},
    {Function, "min", "min(x, y)", "the smaller; a tie gives each half of the derivative"},
    {Function, "relu", "relu(x)", "`max(x, 0)`, whose derivative at 0 is 0"},
    {Function, "clamp", "clamp(x, low, high)", "`min(max(x, low), high)`"},
    {Function, "cond", "cond(c, a, b)", "`c ? a : b`"},
    {Function, "select", "select(c, a, b)", "`c ? a : b`"},
    {Function, "add", "add(x, y)", "`x + y`"},
    {Function, "sub", "sub(x, y)", "`x - y`"},
    {Function, "mul", "mul(x, y)", "`x * y`"},
    {Function, "div", "div(x, y)", "`x / y`; of integers without what is behind the point, also in an index expression"},
    {Function, "mod", "mod(x, y)", "the remainder, with the sign of `x`: mod(-5, 3) is -2"},
    {Function, "fma", "fma(x, y, z)", "`x * y + z`, rounded once"},
    {Function, "mad", "mad(x, y, z)", "`fma(x, y, z)`"},
    {Function, "recip", "recip(x)", "`1 / x`"},
    {Function, "pow", "pow(x, y)", "`x` to the power of `y`; of integers with a negative `y` 0, unless `x` is 1 or -1"},
    {Function, "exp", "exp(x)", "e to the power of `x`"},
    {Function, "log", "log(x)", "the natural logarithm"},
    {Function, "sqrt", "sqrt(x)", "the square root"},
    {Function, "rsqrt", "rsqrt(x)", "`1 / sqrt(x)`"},
    {Function, "sigmoid", "sigmoid(x)", "`1 / (1 + exp(-x))`"},
    {Function, "tanh", "tanh(x)", "the hyperbolic tangent"},
    {Function, "erf", "erf(x)", "the error function"},
    {Function, "sin", "sin(x)", "the sine of an angle in radians"},
    {Function, "cos", "cos(x)", "the cosine of an angle in radians"},
    {Function, "tan", "tan(x)", "the tangent of an angle in radians"},
    {Function, "asin", "asin(x)", "the angle of that sine, in radians"},
    {Function, "acos", "acos(x)", "the angle of that cosine, in radians"},
    {Function, "atan", "atan(x)", "the angle of that tangent, in radians"},
    {Function, "atan2", "atan2(y, x)", "the angle of the point (x, y), in radians"},
    {Function, "sinh", "sinh(x)", "the hyperbolic sine"},
    {Function, "cosh", "cosh(x)", "the hyperbolic cosine"},
    {Function, "asinh", "asinh(x)", "the inverse of `sinh`"},
    {Function, "acosh", "acosh(x)", "the inverse of `cosh`"},
    {Function, "atanh", "atanh(x)", "the inverse of `tanh`"},
    {Function, "isnan", "isnan(x)", "whether it is no number"},
    {Function, "isfinite", "isfinite(x)", "whether it is neither infinite nor NaN"},
    {Function, "isinf", "isinf(x)", "whether it is infinite"},
    {Function, "cmp_eq", "cmp_eq(x, y)", "`x == y`"},
    {Function, "cmp_ne", "cmp_ne(x, y)", "`x != y`"},
    {Function, "cmp_lt", "cmp_lt(x, y)", "`x < y`"},
    {Function, "cmp_le", "cmp_le(x, y)", "`x <= y`"},
    {Function, "cmp_gt", "cmp_gt(x, y)", "`x > y`"},
    {Function, "cmp_ge", "cmp_ge(x, y)", "`x >= y`"},
    {Function, "bit_and", "bit_and(x, y)", "`x & y`, of integers and bool"},
    {Function, "bit_or", "bit_or(x, y)", "`x | y`, of integers and bool"},
    {Function, "bit_xor", "bit_xor(x, y)", "`x ^ y`, of integers and bool"},
    {Function, "bit_not", "bit_not(x)", "`~x`, of integers and bool"},
    {Function, "bit_left", "bit_left(x, y)", "`x << y`, of integers"},
    {Function, "bit_right", "bit_right(x, y)", "`x >> y`, of integers"},
    {Function, "ident", "ident(x)", "`x` itself"},
    {Function, "as_float", "as_float(x, 32)", "the float of so many bits; `as_float(x, X)`: of the float type of tensor `X`, f32 where it holds integers"},
    {Function, "as_int", "as_int(x, 32)", "the signed integer of so many bits"},
    {Function, "as_uint", "as_uint(x, 32)", "the unsigned integer of so many bits"},
    {Function, "as_bool", "as_bool(x)", "whether it is not 0"},
    // shapes and tuples
    {Function, "shape", "shape(X)", "the extents, an i32 vector"},
    {Function, "index", "index(X, axis)", "each element's own coordinate along an axis, i32"},
    {Function, "reshape", "reshape(X, d0, d1, …)", "the elements in row-major order under other sizes"},
    {Function, "tuple", "tuple(a, b, …)", "values together, not stored; `(A, B) = T;` takes them apart"},
    {Function, "element", "element(t, k)", "component `k` of a tuple, counted from 0"},
    {Function, "broadcast", "broadcast(N, M)", "of two sizes the one that is not 1"},
    {Function, "match", "match(N, M)", "either of two sizes, which must be equal"},
    // whole tensors
    {Function, "cumsum", "cumsum(X, axis)", "running sums along an axis; a vector needs no axis"},
    {Function, "cumprod", "cumprod(X, axis)", "running products along an axis; a vector needs no axis"},
    {Function, "argmax", "argmax(X, axis)", "i32 positions of the first largest, a NaN before all; without axis in the flattened tensor"},
    {Function, "argmin", "argmin(X, axis)", "i32 positions of the first smallest, a NaN before all; without axis in the flattened tensor"},
    {Function, "sort", "sort(X, axis)", "ascending, NaN last; along the last axis unless one is named"},
    {Function, "argsort", "argsort(X, axis)", "i32 positions in ascending order, equal elements in order, NaN last"},
    {Function, "argsort_descending", "argsort_descending(X, axis)", "i32 positions in descending order"},
    {Function, "top_k", "(V, I) = top_k<3>(X)", "the largest along the last axis, largest first, and their positions"},
    {Function, "gather", "gather(D, I)", "rows of D: `O[J, R] = D[I[J], R]`; `gather<1>(D, I)` within each of the first dimension"},
    {Function, "scatter", "scatter(E, I, N)", "rows of E, added into N rows at the positions I; N a size, or a tensor whose extent counts"},
    {Function, "simple_reduce", "simple_reduce(T, d0, d1, …)", "sums down to sizes aligned at the last dimension: the inverse of broadcasting"},
    {Function, "prng_step", "prng_step(S, d0, …)", "asks the random state `u32 S[3, L]` for numbers of that shape"},
    {Function, "prng_value", "prng_value(P)", "the numbers of a `prng_step`, f32 in [0, 1)"},
    {Function, "prng_state", "prng_state(P)", "the state to go on with after a `prng_step`"},
    {Function, "builtin_softmax", "builtin_softmax(X, M, N)", "the softmax of each row of X[M, N]"},
    {Function, "builtin_logsoftmax", "builtin_logsoftmax(X, M, N)", "the logarithm of the softmax of each row of X[M, N]"},
    {Function, "builtin_binary_crossentropy", "builtin_binary_crossentropy(P, T, n)", "the binary cross-entropy of predictions P and targets T; n has no effect"},
    {Function, "reverse_grad", "reverse_grad(X, c)", "X, whose cotangent is multiplied by -c"},
    {Function, "iterate", "iterate<f, 20>(X)", "f applied so many times, each time to what it gave"},
    {Function, "assert_", "Ok = assert_…(condition)", "a condition on sizes that must hold when the program is called"},
    // types
    {Type, "bool", "bool", "false or true, stored in a byte"},
    {Type, "u8", "u8", "an unsigned integer of 8 bits"},
    {Type, "u16", "u16", "an unsigned integer of 16 bits"},
    {Type, "u32", "u32", "an unsigned integer of 32 bits"},
    {Type, "u64", "u64", "an unsigned integer of 64 bits"},
    {Type, "i8", "i8", "a signed integer of 8 bits"},
    {Type, "i16", "i16", "a signed integer of 16 bits"},
    {Type, "i32", "i32", "a signed integer of 32 bits"},
    {Type, "i64", "i64", "a signed integer of 64 bits"},
    {Type, "f16", "f16", "a float of 16 bits, 11 of them its precision"},
    {Type, "bf16", "bf16", "a float of 16 bits with the range of f32 and 8 bits of precision"},
    {Type, "f32", "f32", "a float of 32 bits, 24 of them its precision"},
    {Type, "f64", "f64", "a float of 64 bits, 53 of them its precision"},
    // aggregations, as a parameter names them
    {Aggregation, "sum", "+", "adds over all points of an element"},
    {Aggregation, "product", "*", "multiplies over all points of an element"},
    {Aggregation, "max", ">", "the largest over all points of an element"},
    {Aggregation, "min", "<", "the smallest over all points of an element"},
    {Aggregation, "assign", "=", "the value of the one point of an element"},
    // attributes
    {Attribute, "name", "[[name(total)]]", "what kernels of the statement are called"},
    {Attribute, "ties", "[[ties(first)]]", "who gets the derivative among equal extremes: split, first or all"},
    {Attribute, "save", "[[save]]", "backward keeps the tensor"},
    {Attribute, "recompute", "[[recompute]]", "backward computes the tensor again"},
    {Attribute, "allow", "[[allow(W0210)]]", "warnings of these codes are not reported here"},
    {Attribute, "plan", "[[plan(\"…\")]]", "lines of the function's plan, as `--emit=plan` prints them; on a statement without effect"},
    {Attribute, "formerly", "[[formerly(\"S=stride\")]]", "names that parameters of the function had in an earlier version"},
    {Attribute, "before", "[[before(A, dim)]]", "the pack A has the dimensions in front of axis dim"},
    {Attribute, "after", "[[after(C, dim)]]", "the pack C has the dimensions behind axis dim"},
    {Attribute, "pid", "[[pid(…)]]", "accepted, without effect"},
    // keywords
    {Keyword, "function", "function f(X[N]) -> (Y) { … }", "a function: inputs, results, statements"},
    {Keyword, "gradient", "gradient f(X[N], Y, DY) -> (DX) { … }", "a derivative of one's own: inputs, results and cotangents give cotangents"},
    {Keyword, "tangent", "tangent f(X[N], DX, Y) -> (DY) { … }", "a forward derivative of one's own: inputs, tangents and results give tangents"},
    {Keyword, "import", "import \"std/nn.tile\";", "makes the functions of another file callable; under a prefix, `import \"std/nn.tile\" as nn;`, as `nn.relu`"},
    {Keyword, "dim", "dim Batch, Channel;", "names of sizes that are kept apart: an index over two of them is reported"},
    {Keyword, "default", "default -inf", "what an element holds that no point reaches: a number, or the same element of another tensor"},
    {Keyword, "no_defract", "no_defract", "accepted, without effect on results"},
    {Keyword, "no_reduce", "no_reduce", "accepted, without effect on results"},
    {Constant, "inf", "inf", "infinity"},
    {Constant, "nan", "nan", "no number"},
};

}  // namespace

std::span<const Help> all_help() { return table; }

const Help* help_for(Help::Kind kind, std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> aliases[] = {{"eq", "cmp_eq"}, {"ne", "cmp_ne"}, {"lt", "cmp_lt"}, {"le", "cmp_le"}, {"gt", "cmp_gt"}, {"ge", "cmp_ge"}, {"bit_shl", "bit_left"}, {"bit_shr", "bit_right"}};
  if (kind == Function && name.starts_with("assert_")) name = "assert_";
  for (const auto& [alias, meant] : aliases)
    if (kind == Function && alias == name) name = meant;
  const auto* at = std::ranges::find_if(table, [&](const Help& each) { return each.kind == kind && each.name == name; });
  return at == std::end(table) ? nullptr : at;
}

}  // namespace tilec::lang
