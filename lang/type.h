// Element types, and the rules by which two of them meet.
//
// Source: docs/language.md#types. Literals are weakly typed and have no DType until they meet a typed operand.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilec::lang {

enum class DType : std::uint8_t { Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64 };

inline constexpr DType all_dtypes[] = {DType::Bool, DType::U8, DType::U16, DType::U32, DType::U64, DType::I8,
    DType::I16, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64};

std::string_view name(DType type);                     // "f32"
std::optional<DType> dtype_named(std::string_view text);
int bits(DType type);                                  // of storage; Bool is stored in 8
inline int bytes(DType type) { return bits(type) / 8; }
bool is_float(DType type);
bool is_integer(DType type);                           // not Bool
bool is_signed(DType type);                            // floats and signed integers

// The type of an elementwise result of two typed operands; symmetric.
//
//   bool with x                       x
//   integer with float                the float's type, whatever the widths (i64 with f16: f16)
//   float with float                  the wider; f16 with bf16: f32, because neither holds the other
//   same signedness                   the wider
//   signed with unsigned, as NumPy    u8: at least i16   u16: at least i32   u32: i64
//                                     u64: f64, because no integer type holds both
DType promote(DType a, DType b);

// What Sum and Product accumulate in: at least i32 / u32 / f32; f64 for f64, 64-bit integers for themselves, i32 for
// Bool.
DType accumulator(DType type);

}  // namespace tilec::lang
