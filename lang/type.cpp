#include "lang/type.h"

#include <algorithm>

namespace tilec::lang {
namespace {

struct TypeInfo { std::string_view name; int bits; DType type; bool is_float, is_signed; };

constexpr TypeInfo table[] = {
    {"bool", 8, DType::Bool, false, false},
    {"u8", 8, DType::U8, false, false},
    {"u16", 16, DType::U16, false, false},
    {"u32", 32, DType::U32, false, false},
    {"u64", 64, DType::U64, false, false},
    {"i8", 8, DType::I8, false, true},
    {"i16", 16, DType::I16, false, true},
    {"i32", 32, DType::I32, false, true},
    {"i64", 64, DType::I64, false, true},
    {"f16", 16, DType::F16, true, true},
    {"bf16", 16, DType::BF16, true, true},
    {"f32", 32, DType::F32, true, true},
    {"f64", 64, DType::F64, true, true},
};

const TypeInfo& info(DType type) { return table[static_cast<std::size_t>(type)]; }

DType signed_of(int width) {
  return width <= 8 ? DType::I8 : width == 16 ? DType::I16 : width == 32 ? DType::I32 : DType::I64;
}

}  // namespace

std::string_view name(DType type) { return info(type).name; }

std::optional<DType> dtype_named(std::string_view text) {
  for (const TypeInfo& entry : table)
    if (entry.name == text) return entry.type;
  return std::nullopt;
}

int bits(DType type) { return info(type).bits; }
bool is_float(DType type) { return info(type).is_float; }
bool is_integer(DType type) { return !is_float(type) && type != DType::Bool; }
bool is_signed(DType type) { return info(type).is_signed; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) return bits(a) == bits(b) ? DType::F32 : bits(a) > bits(b) ? a : b;
  if (is_signed(a) == is_signed(b)) return bits(a) > bits(b) ? a : b;
  const int with_sign = bits(is_signed(a) ? a : b), without = bits(is_signed(a) ? b : a);
  if (without == 64) return DType::F64;
  return signed_of(std::max(with_sign, 2 * without));
}

DType accumulator(DType type) {
  if (type == DType::Bool) return DType::I32;
  if (bits(type) >= 32) return type;
  return is_float(type) ? DType::F32 : is_signed(type) ? DType::I32 : DType::U32;
}

}  // namespace tilec::lang
