// Elementary functions by range reduction and a polynomial, spelled as LLVM instructions.
//
// exp, as an example. x = n·ln 2 + r with n the nearest integer, so |r| <= 0.347 and exp(x) = 2ⁿ·exp(r). n comes from
// adding 1.5·2²³, whose last bits then hold n (no conversion, and a NaN stays a NaN instead of becoming poison); n·ln 2
// is subtracted in two pieces, because one float of ln 2 loses 8 digits for n = 100; 2ⁿ is two factors, because 2^-149
// is no normal number and 2^128 none at all. The input is clamped where the result has become 0 or infinity, so every
// lane takes the same way.
//
// Where f32 has little room (pow, sinh, asin, …) the work is done in f64, which is two vectors for one and no case
// distinctions: a relative error of 2^-53/x still rounds right when x > 2^-20, and below that f(x) = x. What has no
// polynomial here (f64 beyond exp, log, tanh, sigmoid, sin, cos; huge angles) calls libm, lane by lane.
//
// Coefficients: f32 minimax polynomials by N. Juffa (public posts), f64 kernels of fdlibm (Sun, 1993), Cephes atanf
//               (Moshier).
#include "codegen/llvm/vector_math.h"

#include <fmt/format.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <array>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "codegen/llvm/shared.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

using llvm::Type;
using llvm::Value;

namespace {

const char* libm_name(Op op) {
  switch (op) {
    case Op::Pow: return "pow";
    case Op::Mod: return "fmod";
    case Op::Exp: return "exp";
    case Op::Log: return "log";
    case Op::Erf: return "erf";
    case Op::Sin: return "sin";
    case Op::Cos: return "cos";
    case Op::Tan: return "tan";
    case Op::Asin: return "asin";
    case Op::Acos: return "acos";
    case Op::Atan: return "atan";
    case Op::Sinh: return "sinh";
    case Op::Cosh: return "cosh";
    case Op::Tanh: return "tanh";
    case Op::Asinh: return "asinh";
    case Op::Acosh: return "acosh";
    case Op::Atanh: return "atanh";
    case Op::Atan2: return "atan2";
    default: throw lang::InternalError("LLVM emitter: no function `" + std::string(lang::info(op).name) + "`");
  }
}

// `callee` for every lane, as a function of the module that is not inlined: its calls would fill the kernel.
llvm::FunctionCallee lane_by_lane(
    const Builder& b, llvm::FunctionCallee callee, const llvm::FixedVectorType* type, std::size_t count) {
  const llvm::Function* kernel = b.GetInsertBlock()->getParent();
  llvm::Module* module = b.GetInsertBlock()->getModule();
  const std::string name =
      "lanes" + std::to_string(type->getNumElements()) + "_" + std::string(callee.getCallee()->getName());
  if (llvm::Function* known = module->getFunction(name)) return known;
  Type* vector = callee.getFunctionType()->getReturnType();
  vector = llvm::FixedVectorType::get(vector, type->getNumElements());
  auto* function = llvm::Function::Create(llvm::FunctionType::get(vector, std::vector<Type*>(count, vector), false),
      llvm::GlobalValue::InternalLinkage, name, module);
  function->setAttributes(llvm::AttributeList().addFnAttributes(
      b.getContext(), llvm::AttrBuilder(b.getContext(), kernel->getAttributes().getFnAttrs())));
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::IRBuilder<> inside(llvm::BasicBlock::Create(b.getContext(), "", function));
  Value* result = llvm::PoisonValue::get(vector);
  for (std::uint64_t lane = 0; lane < type->getNumElements(); ++lane) {
    std::vector<Value*> arguments;
    for (llvm::Argument& x : function->args()) arguments.push_back(inside.CreateExtractElement(&x, lane));
    result = inside.CreateInsertElement(result, inside.CreateCall(callee, arguments), lane);
  }
  inside.CreateRet(result);
  return function;
}

// One call per lane.
Value* libm(Builder& b, Op op, std::span<Value* const> v) {
  Type* element = v[0]->getType()->getScalarType();
  llvm::Module* module = b.GetInsertBlock()->getModule();
  const std::string name = std::string(libm_name(op)) + (element->isFloatTy() ? "f" : "");
  auto callee =
      module->getOrInsertFunction(name, llvm::FunctionType::get(element, std::vector<Type*>(v.size(), element), false));
  llvm::cast<llvm::Function>(callee.getCallee())->addFnAttr(llvm::Attribute::NoUnwind);
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v[0]->getType());
  const std::vector<Value*> arguments(v.begin(), v.end());
  return b.CreateCall(type ? lane_by_lane(b, callee, type, arguments.size()) : callee, arguments);
}

class Math {
 public:
  Math(Builder& b, Type* type) : b(b), type_(type), double_(type->getScalarType()->isDoubleTy()) {
    Type* bits = double_ ? b.getInt64Ty() : b.getInt32Ty();
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    bits_ = vector ? static_cast<Type*>(llvm::FixedVectorType::get(bits, vector->getNumElements())) : bits;
  }

  Value* exp(Value* x);
  Value* log(Value* x);
  Value* tanh(Value* x) { return double_ ? tanh64(x) : tanh32(x); }
  Value* sigmoid(Value* x);
  Value* erf32(Value* x);
  Value* sine(Op op, Value* x);
  Value* pow32(Value* x, Value* y);
  Value* by_f64(Op op, Value* x);

 private:
  llvm::Constant* c(double value) const { return constant(type_, value); }
  llvm::Constant* n(std::int64_t value) const { return constant_integer(bits_, value); }
  Value* fma(Value* x, Value* y, Value* z) { return b.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {x, y, z}); }
  Value* abs(Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  Value* sqrt(Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  Value* with_sign(Value* x, Value* of) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, of); }
  // a NaN stays
  Value* at_least(Value* x, double low) { return b.CreateSelect(b.CreateFCmpOGT(c(low), x), c(low), x); }
  Value* at_most(Value* x, double high) { return b.CreateSelect(b.CreateFCmpOLT(c(high), x), c(high), x); }
  Value* horner(Value* x, std::initializer_list<double> highest_first) {
    const double* at = highest_first.begin();
    Value* sum = c(*at++);
    while (at != highest_first.end()) sum = fma(sum, x, c(*at++));
    return sum;
  }
  double magic() const { return double_ ? 0x1.8p52 : 0x1.8p23; }

  struct Reduced { Value *n, *bits, *r; };             // x = n·step + r; the low bits of `bits` are n
  Reduced reduce(Value* x, double inverse, std::initializer_list<double> step);
  Value* scale(Value* p, const Reduced& x);
  Value* expm1_over(const Reduced& x);
  Value* tanh32(Value* x);
  Value* tanh64(Value* x);
  Value* angle(Op op, Value* x);
  Value* atan64(Value* x);

  Builder& b;
  Type *type_, *bits_;
  bool double_;
};

Math::Reduced Math::reduce(Value* x, double inverse, std::initializer_list<double> step) {
  Value* shifted = fma(x, c(inverse), c(magic()));
  Value* whole = b.CreateFSub(shifted, c(magic()));
  Value* r = x;
  for (const double piece : step) r = fma(whole, c(-piece), r);
  return {whole, b.CreateBitCast(shifted, bits_), r};
}

// p · 2ⁿ, |n| up to twice the exponent range.
Value* Math::scale(Value* p, const Reduced& x) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
  const llvm::Function* function = b.GetInsertBlock()->getParent();
  const bool wide = llvm::Triple(function->getParent()->getTargetTriple()).isX86() &&
      function->getFnAttribute("prefer-vector-width").getValueAsString() == "512";
  if (wide && vector && vector->getPrimitiveSizeInBits() == 512) {
    const auto id =
        double_ ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512 : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
    Value* all = double_ ? static_cast<Value*>(b.getInt8(0xff)) : b.getInt16(0xffff);
    return b.CreateIntrinsic(id, {}, {p, x.n, p, all, b.getInt32(4)});
  }
  const int mantissa = double_ ? 52 : 23;
  Value* whole = b.CreateSub(x.bits, b.CreateBitCast(c(magic()), bits_));
  Value* half = b.CreateAShr(whole, n(1));
  const auto power = [&](Value* e) {
    return b.CreateBitCast(b.CreateShl(b.CreateAdd(e, n(double_ ? 1023 : 127)), n(mantissa)), type_);
  };
  return b.CreateFMul(b.CreateFMul(p, power(half)), power(b.CreateSub(whole, half)));
}

Value* Math::exp(Value* x) {
  x = double_ ? at_most(at_least(x, -746), 710) : at_most(at_least(x, -104), 89);
  const Reduced y = double_ ? reduce(x, std::numbers::log2e, {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56})
                            : reduce(x, std::numbers::log2e, {0x1.62e430p-1, -0x1.05c610p-29});
  Value* p = double_ ? horner(y.r,
                           {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0, 1 / 40320.0,
                               1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 0.5, 1, 1})
                     : horner(y.r, {1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1, 1});
  return scale(p, y);
}

// x = 2ᵉ·m with m near 1; a subnormal is multiplied up first.
Value* Math::log(Value* x) {
  const int mantissa = double_ ? 52 : 23;
  Value* small = b.CreateFCmpOLT(x, c(double_ ? 0x1p-1022 : 0x1p-126));
  Value* normal = b.CreateSelect(small, b.CreateFMul(x, c(double_ ? 0x1p54 : 0x1p23)), x);
  Value* bias = b.CreateSelect(small, c(double_ ? -54 : -23), c(0));
  Value* bits = b.CreateBitCast(normal, bits_);
  Value* middle = b.CreateBitCast(c(double_ ? std::numbers::sqrt2 / 2 : 0.666666667), bits_);
  Value* e =
      b.CreateAnd(b.CreateSub(bits, middle), n(double_ ? std::int64_t(0xfff0000000000000) : std::int64_t(0xff800000)));
  Value* f = b.CreateFSub(b.CreateBitCast(b.CreateSub(bits, e), type_), c(1));
  Value* k = b.CreateFAdd(b.CreateSIToFP(b.CreateAShr(e, n(mantissa)), type_), bias);
  Value* result = nullptr;
  if (double_) {
    Value* s = b.CreateFDiv(f, b.CreateFAdd(f, c(2)));
    Value* z = b.CreateFMul(s, s);
    Value* R = b.CreateFMul(z,
        horner(z,
            {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
                2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01}));
    Value* half = b.CreateFMul(b.CreateFMul(f, f), c(0.5));
    Value* inner = fma(s, b.CreateFAdd(half, R), b.CreateFMul(k, c(1.90821492927058770002e-10)));
    result = b.CreateFSub(b.CreateFMul(k, c(6.93147180369123816490e-01)), b.CreateFSub(b.CreateFSub(half, inner), f));
  } else {
    Value* s = b.CreateFMul(f, f);
    Value* r = horner(s, {-0.130310059, -0.121484190, -0.166846052, -0.249996200});
    Value* t = horner(s, {0.140869141, 0.139814854, 0.200120345});
    r = fma(fma(fma(t, f, r), f, c(0.333331972)), f, c(-0.5));
    result = fma(k, c(0.693147182), fma(r, s, f));
  }
  // Infinity and NaN are their own results, 0 is -inf, the negative NaN.
  const double infinity = std::numeric_limits<double>::infinity();
  result = b.CreateSelect(b.CreateFCmpOLT(x, c(infinity)), result, x);
  result = b.CreateSelect(b.CreateFCmpOEQ(x, c(0)), c(-infinity), result);
  return b.CreateSelect(b.CreateFCmpOLT(x, c(0)), c(std::numeric_limits<double>::quiet_NaN()), result);
}

// 1/(1 + e) for x >= 0 and e/(1 + e) below, with e = exp(-|x|) <= 1: nothing overflows, subnormal results come out. The
// roundings of 1 + e and of the quotient q are known exactly and made good, so that only those of e and of the result
// remain; what divides them again, 1/(1 + e), is q or 1 - q.
Value* Math::sigmoid(Value* x) {
  Value *e = exp(b.CreateFNeg(abs(x))), *below = b.CreateFCmpOLT(x, c(0));
  Value *top = b.CreateSelect(below, e, c(1)), *bottom = b.CreateFAdd(e, c(1));
  Value* lost = b.CreateFAdd(b.CreateFSub(c(1), bottom), e);
  Value* q = b.CreateFDiv(top, bottom);
  Value* rest = fma(b.CreateFNeg(q), lost, fma(b.CreateFNeg(q), bottom, top));
  return fma(rest, b.CreateSelect(below, b.CreateFSub(c(1), q), q), q);
}

Value* Math::tanh32(Value* x) {
  Value* t = abs(x);
  Value* far = b.CreateFDiv(c(-2), b.CreateFAdd(exp(b.CreateFAdd(t, t)), c(1)));
  Value* large = b.CreateFAdd(far, c(1));
  Value* s = b.CreateFMul(x, x);
  Value* p = b.CreateFMul(horner(s, {1.57394409e-2, -5.23025580e-2, 1.33152470e-1, -3.33327681e-1}), s);
  return with_sign(b.CreateSelect(b.CreateFCmpOGE(t, c(0.599609375)), large, fma(p, x, x)), x);  // of -0 too
}

// exp(y) - 1 = 2ⁿ·(exp(r) - 1) + (2ⁿ - 1), for 0 <= n <= 62.
Value* Math::expm1_over(const Reduced& y) {
  Value* p = horner(y.r,
      {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0, 1 / 40320.0, 1 / 5040.0,
          1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 0.5});
  Value* q = fma(b.CreateFMul(y.r, y.r), p, y.r);
  Value* power = scale(c(1), y);
  return fma(power, q, b.CreateFSub(power, c(1)));
}

Value* Math::tanh64(Value* x) {
  Value* t = at_most(abs(x), 20);
  Value* e = expm1_over(reduce(b.CreateFAdd(t, t), std::numbers::log2e, {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}));
  return with_sign(b.CreateFDiv(e, b.CreateFAdd(e, c(2))), x);
}

Value* Math::erf32(Value* x) {
  Value *t = abs(x), *s = b.CreateFMul(x, x);
  Value* r = fma(c(-1.72853470e-5), t, c(3.83197126e-4));
  Value* u = fma(c(-3.88396438e-3), t, c(2.42546219e-2));
  r = fma(r, s, u);
  r = fma(r, t, c(-1.06777877e-1));
  r = fma(r, t, c(-6.34846687e-1));
  r = fma(r, t, c(-1.28717512e-1));
  r = fma(r, t, b.CreateFNeg(t));
  Value* large = with_sign(b.CreateFSub(c(1), exp(r)), x);
  Value* p = horner(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
  return b.CreateSelect(b.CreateFCmpOGT(t, c(0.927734375)), large, fma(p, x, x));
}

// sin, cos or (f64 only) tan of an angle whose quadrant number is exact. x = n·π/2 + r; n mod 4 says which of ±sin r,
// ±cos r.
Value* Math::angle(Op op, Value* x) {
  const Reduced y = double_
      ? reduce(x, 2 / std::numbers::pi, {0x1.921fb54442d18p0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110})
      : reduce(x, 2 / std::numbers::pi, {0x1.921fb0p0, 0x1.5110b4p-22, 0x1.846988p-48});
  Value* z = b.CreateFMul(y.r, y.r);
  Value *sin = nullptr, *cos = nullptr;
  if (double_) {
    Value* p = horner(z,
        {1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
            -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01});
    sin = fma(b.CreateFMul(p, z), y.r, y.r);
    Value* q = horner(z,
        {-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
            2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02});
    Value* half = b.CreateFMul(z, c(0.5));
    Value* w = b.CreateFSub(c(1), half);
    cos = b.CreateFAdd(w, fma(b.CreateFMul(z, z), q, b.CreateFSub(b.CreateFSub(c(1), w), half)));
  } else {
    sin = fma(horner(z, {2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1}), b.CreateFMul(y.r, z), y.r);
    cos = horner(z, {2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -0.5, 1});
  }
  sin = b.CreateSelect(b.CreateFCmpOEQ(z, c(0)), x, sin);  // -0, whose terms add up to +0
  Value* quadrant = op == Op::Cos ? b.CreateAdd(y.bits, n(1)) : y.bits;
  Value* odd = b.CreateICmpNE(b.CreateAnd(quadrant, n(1)), n(0));
  if (op == Op::Tan) return b.CreateSelect(odd, b.CreateFDiv(b.CreateFNeg(cos), sin), b.CreateFDiv(sin, cos));
  Value* value = b.CreateSelect(odd, cos, sin);
  return b.CreateSelect(b.CreateICmpNE(b.CreateAnd(quadrant, n(2)), n(0)), b.CreateFNeg(value), value);
}

// Lanes with an angle beyond the reduction's reach (or infinite) are computed again by libm, if there are any.
Value* Math::sine(Op op, Value* x) {
  Value* computed = op == Op::Tan && !double_ ? by_f64(op, x) : angle(op, x);
  Value* near = b.CreateFCmpOLE(abs(x), c(double_ || op == Op::Tan ? 1e6 : 71476));
  Value* good = b.CreateOr(near, b.CreateFCmpUNO(x, x));
  Value* all_good = good;
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_)) {
    Value* bits = b.CreateBitCast(good, b.getIntNTy(vector->getNumElements()));
    all_good = b.CreateICmpEQ(bits, llvm::Constant::getAllOnesValue(bits->getType()));
  }
  llvm::BasicBlock* before = b.GetInsertBlock();
  const auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(b.getContext(), name, before->getParent());
  };
  llvm::BasicBlock *far = block("far"), *after = block("angle");
  b.CreateCondBr(all_good, after, far, llvm::MDBuilder(b.getContext()).createLikelyBranchWeights());
  b.SetInsertPoint(far);
  Value* mixed = b.CreateSelect(good, computed, libm(b, op, std::array{x}));
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* result = b.CreatePHI(type_, 2);
  result->addIncoming(computed, before);
  result->addIncoming(mixed, far);
  return result;
}

// Good to 1e-8, which is enough below an f32 result.
Value* Math::atan64(Value* x) {
  Value* t = abs(x);
  Value *far = b.CreateFCmpOGT(t, c(2.414213562373095)), *middle = b.CreateFCmpOGT(t, c(0.4142135623730950));
  Value* top = b.CreateSelect(far, c(-1), b.CreateSelect(middle, b.CreateFSub(t, c(1)), t));
  Value* bottom = b.CreateSelect(far, t, b.CreateSelect(middle, b.CreateFAdd(t, c(1)), c(1)));
  Value* r = b.CreateFDiv(top, bottom);
  Value* start = b.CreateSelect(far, c(std::numbers::pi / 2), b.CreateSelect(middle, c(std::numbers::pi / 4), c(0)));
  Value* z = b.CreateFMul(r, r);
  Value* p = b.CreateFMul(horner(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1}), z);
  return with_sign(b.CreateFAdd(start, fma(p, r, r)), x);
}

Value* Math::by_f64(Op op, Value* x32) {
  Type* wide = like(b.getDoubleTy(), x32);
  Math d(b, wide);
  Value* x = b.CreateFPExt(x32, wide);
  const auto twice_with = [&](Value* v) { return b.CreateFAdd(v, v); };
  Value *t = d.abs(x), *one = d.c(1), *y = nullptr;
  switch (op) {
    case Op::Tan: y = d.angle(op, x); break;
    case Op::Sinh:
    case Op::Cosh: {
      Value *e = d.exp(x), *inverse = d.exp(b.CreateFNeg(x));
      y = b.CreateFMul(op == Op::Sinh ? b.CreateFSub(e, inverse) : b.CreateFAdd(e, inverse), d.c(0.5));
      break;
    }
    case Op::Asinh: y = d.with_sign(d.log(b.CreateFAdd(t, d.sqrt(d.fma(t, t, one)))), x); break;
    case Op::Acosh:
      y = d.log(b.CreateFAdd(x, b.CreateFMul(d.sqrt(b.CreateFSub(x, one)), d.sqrt(b.CreateFAdd(x, one)))));
      break;
    case Op::Atanh: y = b.CreateFMul(d.log(b.CreateFDiv(b.CreateFAdd(one, x), b.CreateFSub(one, x))), d.c(0.5)); break;
    case Op::Atan: y = d.atan64(x); break;
    case Op::Asin:
      y = d.atan64(b.CreateFDiv(x, d.sqrt(b.CreateFMul(b.CreateFSub(one, x), b.CreateFAdd(one, x)))));
      break;
    case Op::Acos: y = twice_with(d.atan64(d.sqrt(b.CreateFDiv(b.CreateFSub(one, x), b.CreateFAdd(one, x))))); break;
    default: throw lang::InternalError("LLVM emitter: no f64 way for `" + std::string(lang::info(op).name) + "`");
  }
  Value* result = b.CreateFPTrunc(y, type_);
  if (op == Op::Cosh || op == Op::Acos || op == Op::Acosh || op == Op::Tan) return result;
  return b.CreateSelect(b.CreateFCmpOLT(abs(x32), c(0x1p-20)), x32, result);  // also keeps -0
}

// |x|^y = exp(y·log|x|) in f64; then the sign, and the rows of the C standard where that formula says NaN.
Value* Math::pow32(Value* x, Value* y) {
  Type* wide = like(b.getDoubleTy(), x);
  Math d(b, wide);
  Value *a = abs(x), *infinite = c(std::numeric_limits<double>::infinity());
  Value* power = b.CreateFMul(b.CreateFPExt(y, wide), d.log(b.CreateFPExt(a, wide)));
  power = b.CreateSelect(b.CreateFCmpOEQ(a, c(1)), d.c(0), power);  // ±1 to the infinity
  Value* magnitude = b.CreateFPTrunc(d.exp(power), type_);
  const auto whole = [&](Value* v) { return b.CreateFCmpOEQ(b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v), v); };
  Value* is_whole = whole(y);
  Value* odd = b.CreateAnd(is_whole, b.CreateNot(whole(b.CreateFMul(y, c(0.5)))));
  Value* result = b.CreateSelect(odd, with_sign(magnitude, x), magnitude);
  Value* root_of_negative = b.CreateAnd(
      b.CreateAnd(b.CreateFCmpOLT(x, c(0)), b.CreateFCmpOGT(x, b.CreateFNeg(infinite))), b.CreateNot(is_whole));
  Value* nan = b.CreateOr(root_of_negative, b.CreateFCmpUNO(x, y));
  result = b.CreateSelect(nan, c(std::numeric_limits<double>::quiet_NaN()), result);
  return b.CreateSelect(b.CreateOr(b.CreateFCmpOEQ(x, c(1)), b.CreateFCmpOEQ(y, c(0))), c(1), result);
}

// x², x³ and x written as powers.
Value* small_power(Builder& b, Value* x, Value* y) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(y);
  if (!constant) return nullptr;
  const auto* number =
      llvm::dyn_cast_or_null<llvm::ConstantFP>(y->getType()->isVectorTy() ? constant->getSplatValue() : constant);
  if (!number) return nullptr;
  if (number->isExactlyValue(1)) return x;
  if (number->isExactlyValue(2)) return b.CreateFMul(x, x);
  if (number->isExactlyValue(3)) return b.CreateFMul(b.CreateFMul(x, x), x);
  return nullptr;
}

}  // namespace

namespace {

Value* spelled(Builder& b, Op op, std::span<Value* const> v) {
  Value* x = v[0];
  const bool f32 = x->getType()->getScalarType()->isFloatTy();
  Math math(b, x->getType());
  switch (op) {
    case Op::Exp: return math.exp(x);
    case Op::Log: return math.log(x);
    case Op::Tanh: return math.tanh(x);
    case Op::Sigmoid: return math.sigmoid(x);
    case Op::Sin:
    case Op::Cos: return math.sine(op, x);
    case Op::Tan: if (f32) return math.sine(op, x); break;
    case Op::Erf: if (f32) return math.erf32(x); break;
    case Op::Pow: if (f32) return math.pow32(x, v[1]); break;
    case Op::Sinh:
    case Op::Cosh:
    case Op::Asinh:
    case Op::Acosh:
    case Op::Atanh:
    case Op::Asin:
    case Op::Acos:
    case Op::Atan: if (f32) return math.by_f64(op, x); break;
    default: break;
  }
  return libm(b, op, v);
}

}  // namespace

Value* vector_math(Builder& b, Op op, std::span<Value* const> v) {
  if (op == Op::Pow)
    if (Value* product = small_power(b, v[0], v[1])) return product;
  return spelled_or_called(b, lang::info(op).name, v,
      [op](Builder& at, std::span<Value* const> operands) { return spelled(at, op, operands); });
}

}  // namespace tilec::codegen::llvm_backend
