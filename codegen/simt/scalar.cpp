// What C leaves open is spelled out: signed overflow goes through unsigned, division and shifts through helpers that
// test their right operand, float → int through comparisons. NaN and inf are bit patterns, because there are no
// headers.
//
// f64 → f16 rounds twice if it passes through f32: 1 + 2^-11 + 2^-40 would become the tie 1 + 2^-11, then 1. The first
// step therefore rounds to odd (Boldo and Melquiond 2008): an inexact f32 gets its last bit set, so no tie can appear.
#include "codegen/simt/scalar.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace tilec::codegen::simt {
namespace {

using lang::bits;
using lang::is_float;
using lang::is_integer;
using lang::is_signed;

bool is_half(DType type) { return type == DType::F16 || type == DType::BF16; }

std::string tag(DType type) { return std::string(lang::name(type)); }

// Tile's symbols are those of both dialects.
std::string between(const std::vector<std::string>& o, Op op) {
  return fmt::format("({} {} {})", o[0], lang::info(op).symbol, o[1]);
}

// The nearest f16 or bf16 of a double, ties to even.
unsigned half_bits(double x, DType type) {
  const int digits = type == DType::F16 ? 10 : 7, bias = type == DType::F16 ? 15 : 127;
  const unsigned infinity = type == DType::F16 ? 0x7c00 : 0x7f80;
  const unsigned sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return infinity | (1U << (digits - 1));
  const double a = std::fabs(x);
  if (std::isinf(x)) return sign | infinity;
  const int exponent = a == 0 ? 1 - bias : std::max(std::ilogb(a), 1 - bias);
  // with the hidden bit, if normal
  const auto mantissa = static_cast<unsigned>(std::nearbyint(std::ldexp(a, digits - exponent)));
  if (exponent > bias) return sign | infinity;
  const unsigned magnitude = (static_cast<unsigned>(exponent + bias - 1) << digits) + mantissa;
  return sign | std::min(magnitude, infinity);
}

std::string real_text(double x, bool single, const char* suffix) {
  std::string text =
      single ? fmt::format("{:.9g}", static_cast<double>(static_cast<float>(x))) : fmt::format("{:.17g}", x);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return x < 0 || text[0] == '-' ? fmt::format("({}{})", text, suffix) : text + suffix;
}

std::string call(const std::string& function, const std::vector<std::string>& operands) {
  return fmt::format("{}({})", function, fmt::join(operands, ", "));
}

}  // namespace

std::string Scalars::type(DType type) { return type == DType::Bool ? "bool" : storage(type); }

std::string Scalars::storage(DType type) {
  switch (type) {
    case DType::Bool: case DType::U8: return "unsigned char";
    case DType::U16: case DType::F16: case DType::BF16: return "unsigned short";
    case DType::U32: return "unsigned int";
    case DType::U64: return unsigned_index();
    case DType::I8: return "signed char";
    case DType::I16: return "short";
    case DType::I32: return "int";
    case DType::I64: return index();
    case DType::F32: return "float";
    case DType::F64: uses_double_ = true; return "double";
  }
  return {};
}

std::string Scalars::integer(std::int64_t value, bool narrow) const {
  const char* suffix = narrow ? "" : dialect_ == Dialect::Cuda ? "ll" : "l";
  if (value == std::numeric_limits<std::int64_t>::min()) return fmt::format("(-9223372036854775807{0} - 1{0})", suffix);
  if (narrow && value == std::numeric_limits<std::int32_t>::min()) return "(-2147483647 - 1)";
  return value < 0 ? fmt::format("({}{})", value, suffix) : fmt::format("{}{}", value, suffix);
}

std::string Scalars::constant(const Constant& c) {
  const bool cuda = dialect_ == Dialect::Cuda;
  switch (c.type) {
    case DType::Bool: return c.integer != 0 ? "true" : "false";
    case DType::F16: case DType::BF16: return fmt::format("((unsigned short)0x{:04x})", half_bits(c.real, c.type));
    case DType::F32: {
      const auto x = static_cast<float>(c.real);
      if (std::isfinite(x)) return real_text(c.real, true, "f");
      const unsigned pattern = std::isnan(x) ? 0x7fc00000 : x < 0 ? 0xff800000 : 0x7f800000;
      return fmt::format(fmt::runtime(cuda ? "__uint_as_float(0x{:08x}u)" : "as_float(0x{:08x}u)"), pattern);
    }
    case DType::F64: {
      uses_double_ = true;
      if (std::isfinite(c.real)) return real_text(c.real, false, "");
      const unsigned long long pattern = std::isnan(c.real) ? 0x7ff8000000000000
          : c.real < 0                                      ? 0xfff0000000000000
                                                            : 0x7ff0000000000000;
      return fmt::format(fmt::runtime(cuda ? "__longlong_as_double(0x{:016x}ll)" : "as_double(0x{:016x}ul)"), pattern);
    }
    case DType::I64: return integer(c.integer, false);
    case DType::U64: return fmt::format("{}{}", static_cast<std::uint64_t>(c.integer), cuda ? "ull" : "ul");
    case DType::U32: return fmt::format("{}u", static_cast<std::uint32_t>(c.integer));
    case DType::I32: return integer(static_cast<std::int32_t>(c.integer), true);
    case DType::U8: return fmt::format("((unsigned char){})", static_cast<std::uint8_t>(c.integer));
    case DType::U16: return fmt::format("((unsigned short){})", static_cast<std::uint16_t>(c.integer));
    case DType::I8: return fmt::format("((signed char){})", static_cast<int>(static_cast<std::int8_t>(c.integer)));
    case DType::I16: return fmt::format("((short){})", static_cast<int>(static_cast<std::int16_t>(c.integer)));
  }
  return {};
}

std::string Scalars::helper(
    const std::string& name, const std::string& result, const std::string& parameters, const std::string& body) {
  if (defined_.insert(name).second) {
    helpers_ += fmt::format("{} {} {}({}) {{ {} }}\n",
        dialect_ == Dialect::Cuda ? "static __device__ __forceinline__" : "static inline", result, name, parameters,
        body);
  }
  return name;
}

std::string Scalars::function(const std::string& name, DType type) const {
  return dialect_ == Dialect::Cuda && type == DType::F32 ? name + "f" : name;
}

std::string Scalars::unsigned_of(DType type) const { return bits(type) == 64 ? unsigned_index() : "unsigned int"; }

std::string Scalars::wrap(DType t, const std::string& text) { return fmt::format("(({}){})", type(t), text); }

// ---- conversions

std::string Scalars::widen(DType from) {
  if (from == DType::BF16) {
    return helper("tc_bf16_f32", "float", "unsigned short x",
        dialect_ == Dialect::Cuda ? "return __uint_as_float((unsigned int)x << 16);"
                                  : "return as_float((unsigned int)x << 16);");
  }
  return helper("tc_f16_f32", "float", "unsigned short x",
                dialect_ == Dialect::Cuda ? "float r; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x)); return r;"
                                          : "return vload_half(0, (__private const half*)&x);");
}

std::string Scalars::double_to_odd() {
  const bool cuda = dialect_ == Dialect::Cuda;
  uses_double_ = true;
  return helper("tc_f64_odd", "float", "double x",
                fmt::format("float f = (float)x; if (x != x || (double)f == x) return f; unsigned int u = {}(f); "
                            "if ((f < 0 ? -(double)f : (double)f) > (x < 0 ? -x : x)) u -= 1; return {}(u | 1u);",
                            cuda ? "__float_as_uint" : "as_uint", cuda ? "__uint_as_float" : "as_float"));
}

std::string Scalars::narrow(DType from, DType to) {
  if (from == DType::F64) {
    const std::string odd = double_to_odd(), single = narrow(DType::F32, to);
    return helper("tc_f64_" + tag(to), "unsigned short", "double x", fmt::format("return {}({}(x));", single, odd));
  }
  const bool cuda = dialect_ == Dialect::Cuda;
  if (to == DType::F16) {
    return helper("tc_f32_f16", "unsigned short", "float x",
                  cuda ? "unsigned short r; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x)); return r;"
                       : "unsigned short r; vstore_half_rte(x, 0, (__private half*)&r); return r;");
  }
  return helper("tc_f32_bf16", "unsigned short", "float x",
      fmt::format(
          "{}unsigned int u = {}(x); return x != x ? (unsigned short)((u >> 16) | 0x40u) : (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);",
          cuda
              ? "\n#if __CUDA_ARCH__ >= 800\n  unsigned short r; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x)); return r;\n#endif\n  "
              : "",
          cuda ? "__float_as_uint" : "as_uint"));
}

// What no float holds is kept as an odd last bit, so that the rounding to bf16 is the only one. To f16 none is needed:
// what a float rounds is infinite there.
std::string Scalars::integer_to_bf16(DType from) {
  const std::string u = unsigned_of(from), rounded = narrow(DType::F32, DType::BF16);
  const std::string magnitude = is_signed(from) ? fmt::format("x < 0 ? ({0})0 - ({0})x : ({0})x", u) : "x",
                    sign = is_signed(from) ? "x < 0 ? -f : f" : "f";
  return helper(fmt::format("tc_{}_bf16", tag(from)), "unsigned short", type(from) + " x",
      fmt::format(
          "{} u = {}; int e = 0; for (; u >> 24; e++) u = (u >> 1) | (u & 1); float f = {}((float)u, e); return {}({});",
          u, magnitude, function("ldexp", DType::F32), rounded, sign));
}

// Bounds are powers of two, exact in either float type.
std::string Scalars::saturate(DType from, DType to) {
  const int width = bits(to);
  const double high = std::ldexp(1.0, is_signed(to) ? width - 1 : width), low = is_signed(to) ? -high : 0;
  const std::int64_t max = is_signed(to) ? static_cast<std::int64_t>((std::uint64_t{1} << (width - 1)) - 1)
                                         : static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - width));
  const std::int64_t min = is_signed(to) ? -max - 1 : 0;
  const std::string name = fmt::format("tc_{}_{}", tag(from), tag(to)), t = type(to);
  const std::string body = fmt::format("return x != x ? ({0})0 : x <= {1} ? {2} : x >= {3} ? {4} : ({0})x;", t,
      constant({from, 0, low}), constant({to, min, 0}), constant({from, 0, high}), constant({to, max, 0}));
  return helper(name, t, type(from) + " x", body);
}

std::string Scalars::convert(const std::string& text, DType from, DType to) {
  if (from == to) return text;
  if (is_half(from)) return convert(fmt::format("{}({})", widen(from), text), DType::F32, to);
  if (to == DType::Bool) return fmt::format("({} != 0)", text);
  if (is_half(to)) {
    if (!is_float(from) && to == DType::BF16 && bits(from) > 16)
      return fmt::format("{}({})", integer_to_bf16(from), text);
    if (!is_float(from)) return convert(fmt::format("((float){})", text), DType::F32, to);
    return fmt::format("{}({})", narrow(from, to), text);
  }
  if (is_float(from) && is_integer(to)) return fmt::format("{}({})", saturate(from, to), text);
  return wrap(to, text);
}

// ---- operations

std::string Scalars::apply(Op op, DType t, std::vector<std::string> operands) {
  if (op == Op::Select) return fmt::format("({} ? {} : {})", operands[0], operands[1], operands[2]);
  if (is_half(t)) {
    for (std::string& x : operands) x = convert(x, t, DType::F32);
    const std::string result = floats(op, DType::F32, operands);
    return lang::info(op).result == lang::Result::Boolean ? result : convert(result, DType::F32, t);
  }
  if (lang::info(op).result == lang::Result::Boolean && lang::info(op).arity == 2) return between(operands, op);
  return t == DType::Bool ? booleans(op, operands) : is_float(t) ? floats(op, t, operands) : integers(op, t, operands);
}

// One instruction where the GPU has it.
std::string Scalars::nan_keeping(const char* name, DType t) const {
  if (dialect_ != Dialect::Cuda || t != DType::F32) return {};
  return fmt::format(
      "\n#if __CUDA_ARCH__ >= 800\n  float r; asm(\"{}.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r;\n#endif\n  ",
      name);
}

// Of equal a and b, which differ in the sign of a zero at most.
std::string Scalars::common_bits(DType t, const char* op) const {
  const bool cuda = dialect_ == Dialect::Cuda, single = t == DType::F32;
  const char* to = cuda ? (single ? "__float_as_int" : "__double_as_longlong") : single ? "as_int" : "as_long";
  const char* from = cuda ? (single ? "__int_as_float" : "__longlong_as_double") : single ? "as_float" : "as_double";
  return fmt::format("{0}({1}(a) {2} {1}(b))", from, to, op);
}

// Vendors allow these f32 functions 3 to 16 ulp. In double they are rounded once; a device without doubles has its own.
std::string Scalars::by_double(Op op, std::size_t count) const {
  const std::string name(lang::info(op).name), more = count == 2 ? ", b" : "", wide = count == 2 ? ", (double)b" : "";
  std::string precise = fmt::format("return (float){}((double)a{});", name, wide);
  if (dialect_ == Dialect::Cuda) return precise;
  return fmt::format("\n#ifdef cl_khr_fp64\n  {}\n#else\n  return {}(a{});\n#endif\n", precise, name, more);
}

// ptxas of CUDA 12.6 to 13.3 makes one instruction (VIMNMX3, sm_90 and sm_100) of max(max(a, -b), c) of i32 or i16, and
// forgets the sign: max(max(a, b), c). It does not look behind another instruction, and keeps this one, which changes
// nothing.
std::string Scalars::apart(DType t, const std::string& text) {
  if (dialect_ == Dialect::OpenCl || bits(t) > 32) return text;
  const std::string result = call(helper("tc_apart", "int", "int x",
                                      "\n#if __CUDA_ARCH__ >= 900\n  int r; asm(\"lop3.b32 %0, %1, %1, %1, 0xf0;\" : \"=r\"(r) : \"r\"(x)); return r;\n#endif\n  return x;"),
      {t == DType::I32 ? text : "(int)" + text});
  return t == DType::I32 ? result : wrap(t, result);
}

// 2^(x log2 e) of the device: an error of x / 2^24 and of 2 ulp, and 0 for what is below the normal numbers. It takes
// two instructions, where an exact one takes eight. Of a - b, or a c - b, it takes two as well, and one for b.
std::string Scalars::exp_below_maximum(const std::vector<std::string>& operands) {
  if (operands.size() == 3)
    return call(helper("tc_exp_below_scaled", "float", "float x, float m, float c",
                    "float r; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(fmaf(x, c * 1.44269504f, m * -1.44269504f))); return r;"),
        operands);
  if (operands.size() == 2)
    return call(helper("tc_exp_below_apart", "float", "float x, float m",
                    "float r; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(fmaf(x, 1.44269504f, m * -1.44269504f))); return r;"),
        operands);
  if (dialect_ == Dialect::OpenCl) return floats(Op::Exp, DType::F32, operands);
  return call(helper("tc_exp_below", "float", "float x",
                  "float r; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(x * 1.44269504f)); return r;"),
      operands);
}

// What is left of a, times 1 / b, is what the product with 1 / b lacks (Markstein, "Computation of elementary functions
// on the IBM RISC System/6000 processor", 1990).
std::string Scalars::quotient(const std::vector<std::string>& operands, bool any) {
  const std::string fma = function("fma", DType::F32);
  return call(helper(any ? "tc_quotient_any" : "tc_quotient", "float", "float a, float b, float r",
                  fmt::format("float q = a * r, c = {0}({0}(q, -b, a), r, q); return {1};", fma,
                      any ? "q - q == 0.0f ? c : q" : "c")),
      operands);
}

std::string Scalars::tf32_bits() {
  return helper("tc_tf32", "unsigned int", "float x",
      "unsigned int r; asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(r) : \"f\"(x)); return r;");
}

std::string Scalars::floats(Op op, DType t, const std::vector<std::string>& o) {
  const std::string T = type(t), zero = constant({t, 0, 0}), one = constant({t, 0, 1});
  const auto shared = [&](const char* name, const std::string& body) {
    return call(helper(fmt::format("tc_{}_{}", name, tag(t)), T,
                    o.size() == 1 ? T + " a" : fmt::format("{0} a, {0} b", T), body),
        o);
  };
  switch (op) {
    case Op::Add: case Op::Sub: case Op::Mul: case Op::Div:
    case Op::Eq: case Op::Ne: case Op::Lt: case Op::Le: case Op::Gt: case Op::Ge: return between(o, op);
    case Op::Neg: return fmt::format("(-{})", o[0]);
    case Op::Abs: return call(function("fabs", t), o);
    // a NaN on the left is kept because nothing is greater, one on the right by the test; -0 lies below 0
    case Op::Max:
      return shared("max",
          nan_keeping("max", t) + fmt::format("return a == b ? {} : b > a || b != b ? b : a;", common_bits(t, "&")));
    case Op::Min:
      return shared("min",
          nan_keeping("min", t) + fmt::format("return a == b ? {} : b < a || b != b ? b : a;", common_bits(t, "|")));
    case Op::Mod: return call(function("fmod", t), o);
    case Op::Recip: return fmt::format("({} / {})", one, o[0]);
    case Op::Relu: return shared("relu", fmt::format("return a < {0} ? {0} : a;", zero));
    // exp(-a) overflows where the sigmoid is a small number still; the roundings of 1 + e and of the quotient are made
    // good
    case Op::Sigmoid: {
      const std::string f = function("fma", t);
      return shared("sigmoid",
          fmt::format(
              "{0} e = {2}(-{3}(a)), top = a < 0 ? e : {1}, bottom = {1} + e, lost = ({1} - bottom) + e, q = top / bottom; "
              "return {4}({4}(-q, lost, {4}(-q, bottom, top)), a < 0 ? {1} - q : q, q);",
              T, one, function("exp", t), function("fabs", t), f));
    }
    case Op::Sin: case Op::Cos:                        // CUDA keeps 2 ulp over all floats, OpenCL allows 4
      if (t == DType::F32 && dialect_ == Dialect::OpenCl)
        return shared(lang::info(op).name.data(), by_double(op, o.size()));
      return call(function(std::string(lang::info(op).name), t), o);
    case Op::Tan:
    case Op::Sinh:
    case Op::Cosh:
    case Op::Asinh:
    case Op::Acosh:
    case Op::Atanh:
    case Op::Pow:
    case Op::Atan2:
      if (t == DType::F32) return shared(lang::info(op).name.data(), by_double(op, o.size()));
      return call(function(std::string(lang::info(op).name), t), o);
    case Op::Sign:
      return shared("sign", fmt::format("return a > {0} ? {1} : a < {0} ? -{1} : a == {0} ? {0} : a;", zero, one));
    case Op::IsNan: return call(helper("tc_isnan_" + tag(t), "bool", T + " a", "return a != a;"), o);
    case Op::IsFinite:
      return call(helper("tc_isfinite_" + tag(t), "bool", T + " a", fmt::format("return a - a == {};", zero)), o);
    case Op::Tf32:
      if (dialect_ == Dialect::Cuda && t == DType::F32) return fmt::format("__uint_as_float({}({}))", tf32_bits(), o[0]);
      [[fallthrough]];
    case Op::And: case Op::Or: case Op::Xor: case Op::Not: case Op::Shl: case Op::Shr: case Op::Select:
      throw lang::InternalError(fmt::format("`{}` of {} values", lang::info(op).name, tag(t)));
    default: return call(function(std::string(lang::info(op).name), t), o);  // both dialects call it as Tile does
  }
}

std::string Scalars::extreme(Op op, DType t, const std::vector<std::string>& o) {
  const bool max = op == Op::Max;
  return call(helper(fmt::format("tc_{}_{}", max ? "max" : "min", tag(t)), type(t), fmt::format("{0} a, {0} b", type(t)),
                  fmt::format("return a {} b ? a : b;", max ? '>' : '<')),
      o);
}

std::string Scalars::integers(Op op, DType t, const std::vector<std::string>& o) {
  const std::string T = type(t), U = unsigned_of(t);
  const bool is_s = is_signed(t);
  const auto shared = [&](const char* name, const std::string& body) {
    return call(helper(fmt::format("tc_{}_{}", name, tag(t)), T,
                    o.size() == 1 ? T + " a" : fmt::format("{0} a, {0} b", T), body),
        o);
  };
  const auto modular = [&](const char* sign) {
    return wrap(t, fmt::format("(({0}){1} {2} ({0}){3})", U, o[0], sign, o[1]));
  };
  switch (op) {
    case Op::Add: return modular("+");
    case Op::Sub: return modular("-");
    case Op::Mul: return modular("*");
    case Op::Neg: return wrap(t, fmt::format("(({0})0 - ({0}){1})", U, o[0]));
    case Op::Div:
      return shared("div",
          is_s ? fmt::format("return b == 0 ? ({0})0 : b == -1 ? ({0})(({1})0 - ({1})a) : ({0})(a / b);", T, U)
               : fmt::format("return b == 0 ? ({0})0 : ({0})(a / b);", T));
    case Op::Mod:
      return shared("mod",
          is_s ? fmt::format("return b == 0 || b == -1 ? ({0})0 : ({0})(a % b);", T)
               : fmt::format("return b == 0 ? ({0})0 : ({0})(a % b);", T));
    case Op::And: return wrap(t, fmt::format("({} & {})", o[0], o[1]));
    case Op::Or: return wrap(t, fmt::format("({} | {})", o[0], o[1]));
    case Op::Xor: return wrap(t, fmt::format("({} ^ {})", o[0], o[1]));
    case Op::Not: return wrap(t, fmt::format("(~{})", o[0]));
    case Op::Shl:
      return shared("shl", fmt::format("return ({1})b >= {2}u ? ({0})0 : ({0})(({1})a << b);", T, U, bits(t)));
    case Op::Shr:
      return shared("shr",
          fmt::format(
              "return ({1})b >= {2}u ? ({0}){3} : ({0})(a >> b);", T, U, bits(t), is_s ? "(a < 0 ? -1 : 0)" : "0"));
    case Op::Abs: return is_s ? shared("abs", fmt::format("return a < 0 ? ({0})(({1})0 - ({1})a) : a;", T, U)) : o[0];
    case Op::Max: case Op::Min: {
      std::string result = extreme(op, t, o);
      return is_s && bits(t) > 8 ? apart(t, result) : result;
    }
    case Op::Recip: return integers(Op::Div, t, {constant({t, 1, 0}), o[0]});
    case Op::Relu: return is_s ? shared("relu", fmt::format("return a < 0 ? ({})0 : a;", T)) : o[0];
    case Op::Sign: return shared("sign", fmt::format("return ({})((a > 0) - ({}));", T, is_s ? "a < 0" : "0"));
    case Op::Pow: {
      const std::string negative =
          is_s ? fmt::format("if (b < 0) return ({0})(a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0); ", T) : "";
      return shared("pow",
          fmt::format("{2}{1} r = 1, x = ({1})a; while (b) {{ if (b & 1) r *= x; x *= x; b >>= 1; }} return ({0})r;", T,
              U, negative));
    }
    case Op::Ceil: case Op::Floor: case Op::Round: case Op::Trunc: return o[0];
    case Op::IsNan: return "false";
    case Op::IsFinite: return "true";
    default: throw lang::InternalError(fmt::format("`{}` of {} values", lang::info(op).name, tag(t)));
  }
}

std::string Scalars::booleans(Op op, const std::vector<std::string>& o) {
  switch (op) {
    // x / false is false
    case Op::And: case Op::Mul: case Op::Min: case Op::Div: return fmt::format("({} && {})", o[0], o[1]);
    case Op::Or: case Op::Add: case Op::Max: return fmt::format("({} || {})", o[0], o[1]);
    case Op::Xor: case Op::Sub: return fmt::format("({} != {})", o[0], o[1]);
    case Op::Not: return fmt::format("(!{})", o[0]);
    case Op::Fma: return fmt::format("(({} && {}) || {})", o[0], o[1], o[2]);
    case Op::Neg:
    case Op::Abs:
    case Op::Relu:
    case Op::Sign:
    case Op::Recip:
    case Op::Ceil:
    case Op::Floor:
    case Op::Round:
    case Op::Trunc: return o[0];
    case Op::Mod: case Op::IsNan: return "false";
    case Op::IsFinite: return "true";
    case Op::Shl: case Op::Shr: return fmt::format("({} && !{})", o[0], o[1]);
    case Op::Pow: return fmt::format("({} || !{})", o[0], o[1]);
    default: throw lang::InternalError(fmt::format("`{}` of bool values", lang::info(op).name));
  }
}

}  // namespace tilec::codegen::simt
