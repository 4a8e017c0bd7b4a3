// The obvious translation of an operator is one LLVM instruction; this file is about where that instruction has no
// meaning.
//
//   sdiv by 0, INT_MIN / -1, a shift by the width    poison in LLVM, a number in Tile: guarded, unless the divisor is a
//                                                    constant
//   sdiv of vectors                                  no machine has it. Up to 32 bits a float type of twice the digits
//                                                    divides exactly: where x/y is no integer it is at least 1/y away
//                                                    from one, more than rounding moves it
//   fptosi of NaN or 1e30                            llvm.fptosi.sat
//   max(NaN, 1), max(-0, 0)                          x86 `maxps` gives one operand: a select puts the NaN back, `and`
//                                                    of both ways round 0
//   f64 → f16                                        through f32 it would round twice: 1 + 2^-11 + 2^-40 goes to the
//                                                    even neighbour.
//                                                    Rounding to odd in between keeps the sticky bit (Boldo, Melquiond
//                                                    2008)
//   f32 → bf16                                       no instruction that keeps subnormals: integer arithmetic
#include "codegen/llvm/arith.h"

#include <llvm/IR/Intrinsics.h>

#include "codegen/llvm/shared.h"
#include "codegen/llvm/vector_math.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

using llvm::Intrinsic::ID;
using llvm::Type;
using llvm::Value;

Type* element_type(llvm::LLVMContext& context, DType type) {
  switch (type) {
    case DType::F32: return Type::getFloatTy(context);
    case DType::F64: return Type::getDoubleTy(context);
    case DType::Bool: return Type::getInt1Ty(context);
    default: return Type::getIntNTy(context, static_cast<unsigned>(lang::bits(type)));
  }
}

Type* storage_type(llvm::LLVMContext& context, DType type) {
  return type == DType::Bool ? Type::getInt8Ty(context) : element_type(context, type);
}

Type* like(Type* element, Value* shape) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape->getType());
  return vector ? static_cast<Type*>(llvm::FixedVectorType::get(element, vector->getNumElements())) : element;
}

llvm::Constant* constant(Type* type, double value) { return llvm::ConstantFP::get(type, value); }
llvm::Constant* constant_integer(Type* type, std::int64_t value) {
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value), true);
}

Value* to_storage(Builder& b, Value* value, DType type) {
  return type == DType::Bool ? b.CreateZExt(value, like(b.getInt8Ty(), value)) : value;
}

Value* from_storage(Builder& b, Value* value, DType type) {
  return type == DType::Bool ? b.CreateICmpNE(value, constant_integer(value->getType(), 0)) : value;
}

namespace {

[[noreturn]] void no_such(Op op, DType type) {
  throw lang::InternalError(
      std::string("LLVM emitter: `") + std::string(lang::info(op).name) + "` on " + std::string(lang::name(type)));
}

bool is_constant_nonzero(Value* v) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (!c) return false;
  // none where lanes differ
  const auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(v->getType()->isVectorTy() ? c->getSplatValue() : c);
  return number && !number->isZero();
}

bool is_minus_one(Value* v) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(v);
  return c && c->isAllOnesValue();
}

// x / y toward zero, in f32 or f64.
Value* quotient_of_reals(Builder& b, bool is_signed, Value* x, Value* y) {
  const Builder::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  Type* real = like(x->getType()->getScalarSizeInBits() <= 16 ? b.getFloatTy() : b.getDoubleTy(), x);
  const auto to_real = [&](Value* v) { return is_signed ? b.CreateSIToFP(v, real) : b.CreateUIToFP(v, real); };
  Value* quotient = b.CreateFDiv(to_real(x), to_real(y));
  return is_signed ? b.CreateFPToSI(quotient, x->getType()) : b.CreateFPToUI(quotient, x->getType());
}

// Quotient or remainder.
Value* divide(Builder& b, bool remainder, bool is_signed, Value* x, Value* y) {
  const auto operation = [&](Value* divisor) {
    if (!is_constant_nonzero(divisor) && x->getType()->isVectorTy() && x->getType()->getScalarSizeInBits() <= 32) {
      Value* quotient = quotient_of_reals(b, is_signed, x, divisor);
      return remainder ? b.CreateSub(x, b.CreateMul(quotient, divisor)) : quotient;
    }
    if (remainder) return is_signed ? b.CreateSRem(x, divisor) : b.CreateURem(x, divisor);
    return is_signed ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor);
  };
  Type* type = x->getType();
  llvm::Constant* zero = constant_integer(type, 0);
  if (is_signed && is_minus_one(y)) return remainder ? zero : b.CreateNeg(x);
  if (is_constant_nonzero(y)) return operation(y);
  Value* by_zero = b.CreateICmpEQ(y, zero);
  Value* trap = by_zero;
  if (is_signed) {
    Value* lowest = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(type->getScalarSizeInBits()));
    trap = b.CreateOr(by_zero, b.CreateAnd(b.CreateICmpEQ(x, lowest), b.CreateICmpEQ(y, constant_integer(type, -1))));
  }
  // min / 1 = min is what wrapping gives; min % 1 = 0 too.
  Value* result = operation(b.CreateSelect(trap, constant_integer(type, 1), y));
  return b.CreateSelect(by_zero, zero, result);
}

// By squaring, every bit of the exponent spelled out: no lane waits for another.
Value* power(Builder& b, bool is_signed, Value* base, Value* exponent) {
  Type* type = base->getType();
  llvm::Constant *zero = constant_integer(type, 0), *one = constant_integer(type, 1),
                 *minus_one = constant_integer(type, -1);
  Value *result = one, *square = base;
  for (unsigned bit = 0; bit + (is_signed ? 1 : 0) < type->getScalarSizeInBits(); ++bit) {
    Value* set = b.CreateICmpNE(b.CreateAnd(exponent, constant_integer(type, std::int64_t{1} << bit)), zero);
    result = b.CreateSelect(set, b.CreateMul(result, square), result);
    square = b.CreateMul(square, square);
  }
  if (!is_signed) return result;
  Value* alternating = b.CreateSelect(b.CreateICmpEQ(b.CreateAnd(exponent, one), zero), one, minus_one);
  Value* inverse = b.CreateSelect(
      b.CreateICmpEQ(base, one), one, b.CreateSelect(b.CreateICmpEQ(base, minus_one), alternating, zero));
  return b.CreateSelect(b.CreateICmpSLT(exponent, zero), inverse, result);
}

// `spell` of x and y, with a name that tells signed from unsigned.
template <typename Spell>
Value* shared(Builder& b, Op op, bool is_signed, Value* x, Value* y, Spell spell) {
  Value* const operands[] = {x, y};
  return spelled_or_called(b, std::string(lang::info(op).name) + (is_signed ? ".signed" : ".unsigned"), operands,
      [&](Builder& at, std::span<Value* const> v) { return spell(at, v[0], v[1]); });
}

Value* quotient(Builder& b, Op op, bool is_signed, Value* x, Value* y) {
  if (llvm::isa<llvm::Constant>(y)) return divide(b, op == Op::Mod, is_signed, x, y);
  return shared(b, op, is_signed, x, y,
      [&](Builder& at, Value* of, Value* by) { return divide(at, op == Op::Mod, is_signed, of, by); });
}

// A constant exponent folds to its products.
Value* integer_power(Builder& b, bool is_signed, Value* base, Value* exponent) {
  if (llvm::isa<llvm::Constant>(exponent)) return power(b, is_signed, base, exponent);
  return shared(b, Op::Pow, is_signed, base, exponent,
      [&](Builder& at, Value* x, Value* y) { return power(at, is_signed, x, y); });
}

Value* shift(Builder& b, Op op, bool is_signed, Value* x, Value* by) {
  Type* type = x->getType();
  const std::int64_t width = type->getScalarSizeInBits();
  Value* fits = b.CreateICmpULT(by, constant_integer(type, width));  // a negative count is a huge one
  if (op == Op::Shr && is_signed) return b.CreateAShr(x, b.CreateSelect(fits, by, constant_integer(type, width - 1)));
  Value* safe = b.CreateSelect(fits, by, constant_integer(type, 0));
  Value* shifted = op == Op::Shl ? b.CreateShl(x, safe) : b.CreateLShr(x, safe);
  return b.CreateSelect(fits, shifted, constant_integer(type, 0));
}

Value* compare(Builder& b, Op op, DType type, Value* x, Value* y) {
  using P = llvm::CmpInst::Predicate;
  const bool real = lang::is_float(type), is_signed = lang::is_signed(type);
  const auto pick = [&](P f, P s, P u) { return real ? f : is_signed ? s : u; };
  P p = P::FCMP_OEQ;
  switch (op) {
    case Op::Eq: p = pick(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ); break;
    case Op::Ne: p = pick(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE); break;
    case Op::Lt: p = pick(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT); break;
    case Op::Le: p = pick(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE); break;
    case Op::Gt: p = pick(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT); break;
    case Op::Ge: p = pick(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE); break;
    default: no_such(op, type);
  }
  return b.CreateCmp(p, x, y);
}

// y where it is beyond x, else x: one `maxps`.
Value* beyond(Builder& b, Op op, DType type, Value* x, Value* y) {
  return b.CreateSelect(compare(b, op == Op::Max ? Op::Gt : Op::Lt, type, y, x), y, x);
}

const llvm::ConstantFP* real_constant(const Value* v) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(v);
  return c ? llvm::dyn_cast_or_null<llvm::ConstantFP>(v->getType()->isVectorTy() ? c->getSplatValue() : c) : nullptr;
}

// A NaN is kept and -0 lies below 0, so that the order of operands is not seen. `maxps y, x` gives x where both are
// zeros, or one is NaN: where the operands are equal the two ways round differ in a sign at most, and `and` takes the
// sign that is plus. A constant needs one.
Value* extreme_float(Builder& b, Op op, DType type, Value* x, Value* y) {
  if (real_constant(x)) std::swap(x, y);
  const llvm::ConstantFP* number = real_constant(y);
  if (number && !number->isNaN()) {
    const bool wins = number->isZero() && number->isNegative() == (op == Op::Min);
    Value* result = wins ? beyond(b, op, type, y, x) : beyond(b, op, type, x, y);
    return wins ? b.CreateSelect(b.CreateFCmpUNO(x, x), x, result) : result;
  }
  const auto bits = [&](Value* v) {
    return b.CreateBitCast(v, like(b.getIntNTy(v->getType()->getScalarSizeInBits()), v));
  };
  Value *one = bits(beyond(b, op, type, x, y)), *other = bits(beyond(b, op, type, y, x));
  Value* both = b.CreateBitCast(op == Op::Max ? b.CreateAnd(one, other) : b.CreateOr(one, other), x->getType());
  return b.CreateSelect(b.CreateFCmpUNO(x, y), llvm::ConstantFP::getNaN(x->getType()), both);
}

Value* extreme(Builder& b, Op op, DType type, Value* x, Value* y) {
  if (type == DType::Bool) return op == Op::Max ? b.CreateOr(x, y) : b.CreateAnd(x, y);
  return lang::is_float(type) ? extreme_float(b, op, type, x, y) : beyond(b, op, type, x, y);
}

Value* sign(Builder& b, DType type, Value* x) {
  if (lang::is_float(type)) {
    Value* magnitude = b.CreateSelect(
        b.CreateFCmpOEQ(x, constant(x->getType(), 0)), constant(x->getType(), 0), constant(x->getType(), 1));
    Value* one = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, x);
    Value* unsigned_zero =
        b.CreateSelect(b.CreateFCmpOEQ(x, constant(x->getType(), 0)), constant(x->getType(), 0), one);
    return b.CreateSelect(b.CreateFCmpUNO(x, x), x, unsigned_zero);
  }
  Value* positive = b.CreateZExt(compare(b, Op::Gt, type, x, constant_integer(x->getType(), 0)), x->getType());
  if (!lang::is_signed(type)) return positive;
  return b.CreateSub(positive, b.CreateZExt(b.CreateICmpSLT(x, constant_integer(x->getType(), 0)), x->getType()));
}

// Half away from zero, as C: x + copysign(largest number below 1/2) truncated, which no addition of 1/2 gets right near
// 1/2.
Value* round_half_away(Builder& b, Value* x) {
  const bool is_double = x->getType()->getScalarType()->isDoubleTy();
  Value* half = constant(x->getType(), is_double ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2);
  Value* moved = b.CreateFAdd(x, b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, half, x));
  Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, moved);
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, whole, x);
}

Value* is_finite(Builder& b, Value* x) {
  return b.CreateFCmpOLT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x), llvm::ConstantFP::getInfinity(x->getType()));
}

Value* apply_float(Builder& b, Op op, DType type, std::span<Value* const> v) {
  Value* x = v[0];
  switch (op) {
    case Op::Add: return b.CreateFAdd(x, v[1]);
    case Op::Sub: return b.CreateFSub(x, v[1]);
    case Op::Mul: return b.CreateFMul(x, v[1]);
    case Op::Div: return b.CreateFDiv(x, v[1]);
    case Op::Neg: return b.CreateFNeg(x);
    case Op::Abs: return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    case Op::Fma: return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, v[1], v[2]});
    case Op::Recip: return b.CreateFDiv(constant(x->getType(), 1), x);
    // 0 > x ? 0 : x keeps a NaN and is one instruction.
    case Op::Relu: return b.CreateSelect(b.CreateFCmpOGT(constant(x->getType(), 0), x), constant(x->getType(), 0), x);
    case Op::Sign: return sign(b, type, x);
    case Op::Sqrt: return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case Op::Ceil: return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
    case Op::Floor: return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
    case Op::Trunc: return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
    case Op::Round: return round_half_away(b, x);
    case Op::IsNan: return b.CreateFCmpUNO(x, x);
    case Op::IsFinite: return is_finite(b, x);
    default: return vector_math(b, op, v);
  }
}

Value* apply_integer(Builder& b, Op op, DType type, std::span<Value* const> v) {
  Value* x = v[0];
  const bool is_signed = lang::is_signed(type);
  llvm::Constant* zero = constant_integer(x->getType(), 0);
  switch (op) {
    case Op::Add: return b.CreateAdd(x, v[1]);
    case Op::Sub: return b.CreateSub(x, v[1]);
    case Op::Mul: return b.CreateMul(x, v[1]);
    case Op::Div:
    case Op::Mod: return quotient(b, op, is_signed, x, v[1]);
    case Op::Recip: return quotient(b, Op::Div, is_signed, constant_integer(x->getType(), 1), x);
    case Op::Neg: return b.CreateNeg(x);
    case Op::Fma: return b.CreateAdd(b.CreateMul(x, v[1]), v[2]);
    case Op::Abs: return is_signed ? b.CreateSelect(b.CreateICmpSLT(x, zero), b.CreateNeg(x), x) : x;
    case Op::Relu: return is_signed ? b.CreateSelect(b.CreateICmpSLT(x, zero), zero, x) : x;
    case Op::Sign: return sign(b, type, x);
    case Op::Pow: return type == DType::Bool ? b.CreateOr(x, b.CreateNot(v[1])) : integer_power(b, is_signed, x, v[1]);
    case Op::Shl:
    case Op::Shr: return shift(b, op, is_signed, x, v[1]);
    case Op::Sqrt:
    case Op::Ceil:
    case Op::Floor:
    case Op::Trunc:
    case Op::Round: if (op != Op::Sqrt) return x; no_such(op, type);
    case Op::IsNan: return constant_integer(like(b.getInt1Ty(), x), 0);
    case Op::IsFinite: return constant_integer(like(b.getInt1Ty(), x), 1);
    default: no_such(op, type);
  }
}

}  // namespace

Value* apply(Builder& b, Op op, DType type, std::span<Value* const> v) {
  switch (op) {
    case Op::Select: return b.CreateSelect(v[0], v[1], v[2]);
    case Op::Eq:
    case Op::Ne:
      if (type == DType::F16 || type == DType::BF16) no_such(op, type);
      return compare(b, op, type, v[0], v[1]);
    default: break;
  }
  if (type == DType::F16 || type == DType::BF16) no_such(op, type);
  switch (op) {
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge: return compare(b, op, type, v[0], v[1]);
    case Op::And: return b.CreateAnd(v[0], v[1]);
    case Op::Or: return b.CreateOr(v[0], v[1]);
    case Op::Xor: return b.CreateXor(v[0], v[1]);
    case Op::Not: return b.CreateNot(v[0]);
    case Op::Max:
    case Op::Min: return extreme(b, op, type, v[0], v[1]);
    default: break;
  }
  return lang::is_float(type) ? apply_float(b, op, type, v) : apply_integer(b, op, type, v);
}

Value* combine(Builder& b, Aggregation how, DType type, Value* x, Value* y) {
  Value* const both[] = {x, y};
  switch (how) {
    case Aggregation::Assign: return y;
    case Aggregation::Sum: return apply(b, Op::Add, type, both);
    case Aggregation::Product: return apply(b, Op::Mul, type, both);
    case Aggregation::Max: return apply(b, Op::Max, type, both);
    case Aggregation::Min: return apply(b, Op::Min, type, both);
  }
  return y;
}

// ---- casts

namespace {

// f64 → f32 to the odd neighbour when inexact: a later rounding to at most 22 bits is then the only one.
Value* narrow_to_odd(Builder& b, Value* x) {
  Value* near = b.CreateFPTrunc(x, like(b.getFloatTy(), x));
  Value* back = b.CreateFPExt(near, x->getType());
  Value* bits = b.CreateBitCast(near, like(b.getInt32Ty(), x));
  Value* even =
      b.CreateICmpEQ(b.CreateAnd(bits, constant_integer(bits->getType(), 1)), constant_integer(bits->getType(), 0));
  Value* inexact = b.CreateFCmpONE(back, x);
  const auto magnitude = [&](Value* v) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  Value* above = b.CreateFCmpOGT(magnitude(back), magnitude(x));
  Value* step = b.CreateSelect(above, constant_integer(bits->getType(), -1), constant_integer(bits->getType(), 1));
  Value* odd = b.CreateSelect(b.CreateAnd(even, inexact), b.CreateAdd(bits, step), bits);
  return b.CreateBitCast(odd, near->getType());
}

Value* f32_to_bf16(Builder& b, Value* x) {
  Value* bits = b.CreateBitCast(x, like(b.getInt32Ty(), x));
  const auto number = [&](std::int64_t n) { return constant_integer(bits->getType(), n); };
  Value* upper = b.CreateLShr(bits, number(16));
  Value* rounded =
      b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(b.CreateAnd(upper, number(1)), number(0x7fff))), number(16));
  Value* quiet = b.CreateOr(upper, number(0x40));      // adding could carry a NaN into infinity
  return b.CreateTrunc(b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded), like(b.getInt16Ty(), x));
}

Value* half_to_f32(Builder& b, Value* x, DType from) {
  if (from == DType::F16) return b.CreateFPExt(b.CreateBitCast(x, like(b.getHalfTy(), x)), like(b.getFloatTy(), x));
  Value* wide = b.CreateShl(b.CreateZExt(x, like(b.getInt32Ty(), x)), constant_integer(like(b.getInt32Ty(), x), 16));
  return b.CreateBitCast(wide, like(b.getFloatTy(), x));
}

// An integer that is exact in f64 where x is; else floor(x / 2¹¹) with what is left as an odd last bit: at most 53 bits
// again.
Value* integer_to_odd(Builder& b, Value* x, DType from) {
  if (lang::bits(from) < 64) return x;
  const auto number = [&](std::int64_t n) { return constant_integer(x->getType(), n); };
  constexpr std::int64_t exact = std::int64_t{1} << 53, low = 0x7ff;
  Value* fits = lang::is_signed(from) ? b.CreateICmpULE(b.CreateAdd(x, number(exact)), number(2 * exact))
                                      : b.CreateICmpULE(x, number(exact));
  Value* odd = b.CreateOr(b.CreateAnd(x, number(~low)), number(low + 1));
  Value* whole = b.CreateICmpEQ(b.CreateAnd(x, number(low)), number(0));
  return b.CreateSelect(b.CreateOr(fits, whole), x, odd);
}

Value* to_half(Builder& b, Value* x, DType from, DType to) {
  if (!lang::is_float(from)) {
    x = convert(b, integer_to_odd(b, x, from), from, DType::F64);
    from = DType::F64;
  }
  if (from == DType::F64) x = narrow_to_odd(b, x);
  if (to == DType::BF16) return f32_to_bf16(b, x);
  return b.CreateBitCast(b.CreateFPTrunc(x, like(b.getHalfTy(), x)), like(b.getInt16Ty(), x));
}

Value* float_to_integer(Builder& b, Value* x, DType to) {
  Type* type = like(element_type(b.getContext(), to), x);
  const ID id = lang::is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return b.CreateIntrinsic(id, {type, x->getType()}, {x});
}

}  // namespace

Value* convert(Builder& b, Value* x, DType from, DType to) {
  if (from == to) return x;
  if (from == DType::F16 || from == DType::BF16) {
    x = half_to_f32(b, x, from);
    from = DType::F32;
    if (from == to) return x;
  }
  if (to == DType::F16 || to == DType::BF16) return to_half(b, x, from, to);
  Type* type = like(element_type(b.getContext(), to), x);
  if (to == DType::Bool) {
    if (lang::is_float(from)) return b.CreateFCmpUNE(x, constant(x->getType(), 0));
    return b.CreateICmpNE(x, constant_integer(x->getType(), 0));
  }
  const bool from_signed = lang::is_signed(from);      // Bool is unsigned
  if (lang::is_float(from)) return lang::is_float(to) ? b.CreateFPCast(x, type) : float_to_integer(b, x, to);
  if (lang::is_float(to)) return from_signed ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
  return b.CreateIntCast(x, type, from_signed);
}

}  // namespace tilec::codegen::llvm_backend
