// Two languages reserve more words than either lists: keywords of C and C++, OpenCL's types, qualifiers and built-in
// functions, CUDA's variables. A name on the list is escaped like one with foreign characters:
//
//   A ⇒ A      double ⇒ tn_double      #a ⇒ tn__23_a      tn_x ⇒ tn_tn__x      x_y ⇒ x_y
//
// Escaped text starts with `tn_`, and no other identifier does, so the map is injective; in it `_` is doubled and any
// other byte that is no letter or digit is `_HH_`, which a doubled `_` cannot start.
#include "codegen/simt/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

namespace tilec::codegen::simt {
namespace {

// Sorted at first use. OpenCL built-ins are here because a kernel of that name would declare them again.
const std::set<std::string_view>& reserved() {
  static const std::set<std::string_view> words = {// C and C++
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
      "char16_t", "char32_t", "char8_t", "class", "compl", "concept", "const", "const_cast", "consteval", "constexpr",
      "constinit", "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete", "do", "double",
      "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
      "inline", "int", "long", "main", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
      "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires",
      "restrict", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "std", "struct",
      "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof",
      "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq", "linux", "unix",
      "i386",
      // OpenCL: types and qualifiers
      "global", "local", "constant", "generic", "kernel", "pipe", "read_only", "write_only", "read_write", "uniform",
      "half", "quad", "complex", "imaginary", "uchar", "ushort", "uint", "ulong", "size_t", "ptrdiff_t", "intptr_t",
      "uintptr_t", "event_t", "sampler_t", "queue_t", "ndrange_t", "clk_event_t", "reserve_id_t", "cl_mem_fence_flags",
      "image1d_t", "image2d_t", "image3d_t", "image1d_array_t", "image1d_buffer_t", "image2d_array_t",
      "image2d_depth_t", "vec_step", "memory_scope", "memory_order",
      // OpenCL: macros
      "NULL", "INFINITY", "NAN", "HUGE_VAL", "HUGE_VALF", "MAXFLOAT", "CHAR_BIT", "CHAR_MAX", "CHAR_MIN", "INT_MAX",
      "INT_MIN", "LONG_MAX", "LONG_MIN", "SCHAR_MAX", "SCHAR_MIN", "SHRT_MAX", "SHRT_MIN", "UCHAR_MAX", "USHRT_MAX",
      "UINT_MAX", "ULONG_MAX", "FLT_DIG", "FLT_MANT_DIG", "FLT_MAX", "FLT_MIN", "FLT_EPSILON", "FLT_RADIX",
      "FLT_MAX_EXP", "FLT_MIN_EXP", "DBL_DIG", "DBL_MANT_DIG", "DBL_MAX", "DBL_MIN", "DBL_EPSILON", "M_E", "M_PI",
      "M_PI_2", "M_PI_4", "M_1_PI", "M_2_PI", "M_LN2", "M_LN10", "M_LOG2E", "M_LOG10E", "M_SQRT2", "M_SQRT1_2",
      "M_2_SQRTPI",
      // built-in functions of OpenCL and CUDA
      "abs", "abs_diff", "acos", "acosh", "acospi", "add_sat", "all", "any", "asin", "asinh", "asinpi",
      "async_work_group_copy", "atan", "atan2", "atan2pi", "atanh", "atanpi", "atomic_add", "atomic_and",
      "atomic_cmpxchg", "atomic_dec", "atomic_inc", "atomic_max", "atomic_min", "atomic_or", "atomic_sub",
      "atomic_xchg", "atomic_xor", "barrier", "bitselect", "cbrt", "ceil", "clamp", "clock", "clock64", "clz",
      "copysign", "cos", "cosh", "cospi", "cross", "ctz", "cyl_bessel_i0", "cyl_bessel_i1", "degrees", "distance",
      "dot", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp", "exp10", "exp2", "expm1", "fabs", "fast_distance",
      "fast_length", "fast_normalize", "fdim", "fdivide", "floor", "fma", "fmax", "fmin", "fmod", "fract", "free",
      "frexp", "get_global_id", "get_global_size", "get_group_id", "get_image_width", "get_local_id", "get_local_size",
      "get_num_groups", "get_work_dim", "hadd", "hypot", "ilogb", "isequal", "isfinite", "isgreater", "isgreaterequal",
      "isinf", "isless", "islessequal", "islessgreater", "isnan", "isnormal", "isnotequal", "isordered", "isunordered",
      "j0", "j1", "jn", "ldexp", "length", "lgamma", "lgamma_r", "llabs", "llrint", "llround", "log", "log10", "log1p",
      "log2", "logb", "lrint", "lround", "mad", "mad24", "mad_hi", "mad_sat", "malloc", "max", "maxmag", "mem_fence",
      "memcpy", "memset", "min", "minmag", "mix", "modf", "mul24", "mul_hi", "nan", "nearbyint", "nextafter", "norm",
      "norm3d", "norm4d", "normalize", "normcdf", "normcdfinv", "popcount", "pow", "powi", "pown", "powr", "prefetch",
      "printf", "radians", "rcbrt", "read_imagef", "read_mem_fence", "remainder", "remquo", "rhadd", "rhypot", "rint",
      "rnorm", "rnorm3d", "root", "rootn", "rotate", "round", "rsqrt", "scalbln", "scalbn", "select", "shuffle",
      "shuffle2", "sign", "signbit", "sin", "sincos", "sinh", "sinpi", "smoothstep", "sqrt", "step", "sub_sat", "tan",
      "tanh", "tanpi", "tgamma", "trap", "trunc", "upsample", "vload_half", "vstore_half", "wait_group_events",
      "write_mem_fence", "y0", "y1", "yn",
      // CUDA's variables and types
      "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "dim3", "cudaError_t"};
  return words;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// `float4`, `expf`, `half_sin`, `as_int`, `native_exp`: families no list holds. Twice-underscored names belong to the
// compilers.
bool is_family(std::string_view name) {
  using namespace std::string_view_literals;
  if (name.starts_with("tn_") || name.starts_with("tc_") || name.starts_with("__") ||
      name.find("__") != std::string_view::npos)
    return true;
  if (name[0] == '_') return true;
  for (std::string_view prefix :
      {"as_"sv, "convert_"sv, "vload"sv, "vstore"sv, "native_"sv, "half_"sv, "atomic"sv, "atom_"sv, "cl_"sv, "CL_"sv,
          "CLK_"sv, "cuda"sv, "make_"sv, "FP_"sv, "tex"sv, "surf"sv, "sub_group"sv, "work_group"sv}) {
    if (name.starts_with(prefix)) return true;
  }
  // a reserved word with a vector width or CUDA's `f` behind it
  std::string_view stem = name;
  while (!stem.empty() && std::isdigit(static_cast<unsigned char>(stem.back())) != 0) stem.remove_suffix(1);
  if (stem.size() != name.size() && reserved().contains(stem)) return true;
  return name.size() > 2 && name.back() == 'f' && reserved().contains(name.substr(0, name.size() - 1));
}

bool is_plain(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_word) &&
      std::isdigit(static_cast<unsigned char>(name[0])) == 0 && !reserved().contains(name) && !is_family(name);
}

}  // namespace

std::string identifier(std::string_view name) {
  if (is_plain(name)) return std::string(name);
  std::string text = "tn_";
  for (char c : name) {
    if (c == '_') text += "__";
    else if (std::isalnum(static_cast<unsigned char>(c)) != 0) text += c;
    else fmt::format_to(std::back_inserter(text), "_{:02x}_", static_cast<unsigned char>(c));
  }
  return text;
}

std::string Identifiers::fresh(std::string_view name) {
  const std::string base = identifier(name);
  std::string text = base;
  for (int n = 1; !taken_.insert(text).second; ++n) text = fmt::format("{}_{}", base, n);
  return text;
}

}  // namespace tilec::codegen::simt
