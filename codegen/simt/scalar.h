// Scalar arithmetic as text of a dialect, total as docs/language.md#types asks, and the helper functions it needs.
//
//   apply(Op::Div, I32, {"a", "b"})  ⇒  tc_div_i32(a, b)      and the definition of tc_div_i32 goes into helpers()
//
// f16 and bf16 are `unsigned short` bits in both dialects; a computation on them converts to f32 and rounds its result.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "codegen/loops.h"
#include "codegen/simt/emit.h"

namespace tilec::codegen::simt {

class Scalars {
 public:
  explicit Scalars(Dialect dialect) : dialect_(dialect) {}

  std::string type(DType type);                        // of a value: `float`, `bool`, `unsigned short` for f16
  std::string storage(DType type);                     // of an element in memory: Bool is `unsigned char`
  std::string index() const { return dialect_ == Dialect::Cuda ? "long long" : "long"; }
  std::string unsigned_index() const { return dialect_ == Dialect::Cuda ? "unsigned long long" : "unsigned long"; }

  std::string constant(const Constant& constant);
  std::string integer(std::int64_t value, bool narrow) const;  // an i64 constant, or an `int` where narrow
  std::string convert(const std::string& text, DType from, DType to);
  // `type`: of the operands (of the arms of Select)
  std::string apply(Op op, DType type, std::vector<std::string> operands);

  std::string exp_below_maximum(const std::vector<std::string>& operands);
  // Max or Min of integers none of which is -x (see `apart`).
  std::string extreme(Op op, DType type, const std::vector<std::string>& operands);
  // An integer of up to 32 bits that is -x, or the max or min of what may be: the same.
  std::string apart(DType type, const std::string& text);
  std::string tf32_bits();                             // name of the helper: (x), its 32 bits as tensor cores take them
  // (a, b, 1 / b) of f32. `any`: a may be infinite.
  std::string quotient(const std::vector<std::string>& operands, bool any);

  // Defined among `helpers` the first time. Returns the name.
  std::string helper(
      const std::string& name, const std::string& result, const std::string& parameters, const std::string& body);
  const std::string& helpers() const { return helpers_; }
  bool uses_double() const { return uses_double_; }

 private:
  std::string function(const std::string& name, DType type) const;  // `exp` as the dialect calls it for f32 or f64
  std::string unsigned_of(DType type) const;
  std::string wrap(DType type, const std::string& text);
  std::string nan_keeping(const char* name, DType type) const;
  std::string common_bits(DType type, const char* op) const;
  std::string by_double(Op op, std::size_t count) const;  // an f32 function, rounded once
  std::string floats(Op op, DType type, const std::vector<std::string>& operands);
  std::string integers(Op op, DType type, const std::vector<std::string>& operands);
  std::string booleans(Op op, const std::vector<std::string>& operands);
  std::string saturate(DType from, DType to);          // name of the helper
  std::string widen(DType from);                       // f16, bf16 → f32
  std::string narrow(DType from, DType to);            // f32, f64 → f16, bf16
  std::string integer_to_bf16(DType from);
  std::string double_to_odd();                         // f64 → f32 rounded so that a second rounding is the right one

  Dialect dialect_;
  std::string helpers_;
  std::set<std::string> defined_;
  bool uses_double_ = false;
};

}  // namespace tilec::codegen::simt
