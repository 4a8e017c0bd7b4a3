// Expressions: typed arithmetic, lane-affine integers, and loads by how their address moves with the lane.
//
//   x[16*j + l]    base + 1·lane    one vector load, masked under a varying If
//   x[16*j]        base             a scalar load; splat where a vector is needed
//   x[2*l + 1]     base + 2·lane    two vector loads and a shuffle (gathers are slow on every x86)
//   x[n*l], x[T[l]]                 a gather
#include <llvm/IR/Constants.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "codegen/llvm/body.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

using lang::InternalError;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

namespace {

bool is_vector(const Lanes& v) { return v.value->getType()->isVectorTy(); }
bool is_uniform(const Lanes& v) { return !v.stride && !is_vector(v); }
bool is_number(Value* v, std::int64_t n) {
  const auto* c = llvm::dyn_cast_or_null<ConstantInt>(v);
  return c && c->getSExtValue() == n;
}

std::int64_t half_bits(double value, DType type) {     // of an f16 or bf16 constant, rounded once
  llvm::APFloat number(value);
  bool inexact = false;
  number.convert(type == DType::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
      llvm::APFloat::rmNearestTiesToEven, &inexact);
  return static_cast<std::int64_t>(number.bitcastToAPInt().getZExtValue());
}

Value* literal(llvm::LLVMContext& context, const Constant& c) {
  Type* type = element_type(context, c.type);
  if (c.type == DType::F16 || c.type == DType::BF16) return constant_integer(type, half_bits(c.real, c.type));
  if (c.type == DType::F32) return constant(type, static_cast<float>(c.real));
  if (c.type == DType::F64) return constant(type, c.real);
  return constant_integer(type, c.type == DType::Bool ? c.integer != 0 : c.integer);
}

}  // namespace

Value* BodyEmitter::scalar(const Lanes& v) const {
  if (!is_uniform(v)) throw InternalError("LLVM emitter: a value that varies over lanes where a uniform one is needed");
  return v.value;
}

Value* BodyEmitter::uniform(const Expr& e) {
  const Lanes v = expr(e);
  if (!is_uniform(v)) throw InternalError("LLVM emitter: `" + print(e) + "` varies over lanes");
  return v.value;
}

Value* BodyEmitter::iota(Type* element) const {
  std::vector<llvm::Constant*> numbers;
  for (int i = 0; i < lanes_; ++i) numbers.push_back(ConstantInt::get(element, static_cast<std::uint64_t>(i)));
  return llvm::ConstantVector::get(numbers);
}

Value* BodyEmitter::vector(const Lanes& v) {
  if (is_vector(v)) return v.value;
  if (!lanes_) throw InternalError("LLVM emitter: a vector outside Vector");
  if (!v.stride) return mask_ && llvm::isa<llvm::LoadInst>(v.value) ? loaded_whole(splat(v.value)) : splat(v.value);
  return builder_.CreateAdd(splat(v.value), builder_.CreateMul(iota(builder_.getInt64Ty()), splat(v.stride)));
}

// The splat of an element that is read under a mask, kept out of the instruction that has the mask: with a memory
// operand that would read under the mask too, and for such reads a Zen 5 fetches nothing ahead. 14 rows of 64 MB: 28 ns
// a line, else 4.6.
Value* BodyEmitter::loaded_whole(Value* v) {
  const auto bits = static_cast<std::int64_t>(v->getType()->getPrimitiveSizeInBits().getFixedValue());
  if (around_.vector_bytes < 64 || !v->getType()->isFPOrFPVectorTy() || bits < 128 || bits > 512 ||
      !std::has_single_bit(static_cast<std::uint64_t>(bits)))
    return v;
  llvm::CallInst* call = builder_.CreateCall(
      llvm::InlineAsm::get(llvm::FunctionType::get(v->getType(), {v->getType()}, false), "", "=v,0", false), {v});
  call->setDoesNotAccessMemory();
  return call;
}

Value* BodyEmitter::add(Value* x, Value* y) {
  return is_number(x, 0) ? y : is_number(y, 0) ? x : builder_.CreateAdd(x, y);
}

Value* BodyEmitter::multiply(Value* x, Value* y) {
  if (is_number(x, 0) || is_number(y, 1)) return x;
  if (is_number(y, 0) || is_number(x, 1)) return y;
  return builder_.CreateMul(x, y);
}

Lanes BodyEmitter::expr(const Expr& e) {
  return e.match([&](const Constant& c) -> Lanes { return {c.type, literal(builder_.getContext(), c)}; },
                 [&](const Variable& v) -> Lanes {
                   const auto at = values_.find(v.name);
                   if (at == values_.end()) throw InternalError("LLVM emitter: `" + v.name + "` is not defined here");
                   return at->second;
                 },
                 [&](const Load& l) { return load(l); }, [&](const Operation& o) { return operation(o); },
                 [&](const Convert& c) -> Lanes {
                   const Lanes in = expr(c.operand);
                   if (c.type == in.type) return in;
                   return {c.type, convert(builder_, in.stride ? vector(in) : in.value, in.type, c.type)};
                 });
}

// ---- operations

Lanes BodyEmitter::operation(const Operation& o) {
  std::vector<Lanes> v;
  for (const Expr& e : o.operands) v.push_back(expr(e));
  if (std::any_of(v.begin(), v.end(), [](const Lanes& x) { return x.stride; }))
    if (auto result = affine(o.op, v)) return *result;
  if (o.type == DType::I64 && is_uniform(v[0]) && v.size() == 2 && is_uniform(v[1])) {
    if (o.op == Op::Add) return {DType::I64, add(v[0].value, v[1].value)};
    if (o.op == Op::Mul) return {DType::I64, multiply(v[0].value, v[1].value)};
    if (o.op == Op::Sub && is_number(v[1].value, 0)) return v[0];
  }
  const bool varies = std::any_of(v.begin(), v.end(), [](const Lanes& x) { return !is_uniform(x); });
  std::vector<Value*> operands;
  for (const Lanes& x : v) operands.push_back(varies ? vector(x) : x.value);
  // A mask that is known in part.
  if (o.type == DType::Bool && v.back().type == DType::Bool &&
      !std::all_of(operands.begin(), operands.end(), llvm::IsaPred<llvm::Constant>))
    for (Value*& operand : operands) operand = unknown(operand);
  return {o.type, apply(builder_, o.op, v.back().type, operands)};
}

// Keeps integers in the form base + stride · lane where the operation allows it; comparisons of such are masks of the
// first lanes.
std::optional<Lanes> BodyEmitter::affine(Op op, const std::vector<Lanes>& v) {
  if (std::any_of(v.begin(), v.end(), is_vector) || v.back().type != DType::I64) return std::nullopt;
  Value* zero = builder_.getInt64(0);
  const auto stride = [&](std::size_t i) { return v[i].stride ? v[i].stride : zero; };
  const auto make = [&](Value* base, Value* step) {
    return is_number(step, 0) ? Lanes{DType::I64, base} : Lanes{DType::I64, base, step};
  };
  switch (op) {
    case Op::Add: return make(add(v[0].value, v[1].value), add(stride(0), stride(1)));
    case Op::Sub: return make(builder_.CreateSub(v[0].value, v[1].value), builder_.CreateSub(stride(0), stride(1)));
    case Op::Neg: return make(builder_.CreateNeg(v[0].value), builder_.CreateNeg(stride(0)));
    case Op::Mul:
      if (v[0].stride && v[1].stride) return std::nullopt;
      if (v[0].stride) return make(multiply(v[0].value, v[1].value), multiply(v[0].stride, v[1].value));
      return make(multiply(v[0].value, v[1].value), multiply(v[0].value, v[1].stride));
    case Op::Max:
    case Op::Min: {
      if (stride(0) != stride(1)) return std::nullopt;
      Value* const bases[] = {v[0].value, v[1].value};
      return make(apply(builder_, op, DType::I64, bases), stride(0));
    }
    case Op::Select:
      if (!is_uniform(v[0]) || stride(1) != stride(2)) return std::nullopt;
      return make(builder_.CreateSelect(v[0].value, v[1].value, v[2].value), stride(1));
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge: return affine_compare(op, v[0], v[1]);
    default: return std::nullopt;
  }
}

// base + lane < n  ⇔  lane < n - base.
std::optional<Lanes> BodyEmitter::affine_compare(Op op, const Lanes& x, const Lanes& y) {
  if (x.stride && x.stride == y.stride) {
    Value* const bases[] = {x.value, y.value};
    return Lanes{DType::Bool, apply(builder_, op, DType::I64, bases)};
  }
  if (y.stride) {                                      // a < b is b > a
    if (x.stride) return std::nullopt;
    const Op mirrored = op == Op::Lt ? Op::Gt : op == Op::Le ? Op::Ge : op == Op::Gt ? Op::Lt : Op::Le;
    return affine_compare(mirrored, y, x);
  }
  if (!is_number(x.stride, 1)) return std::nullopt;
  Value* count = builder_.CreateSub(y.value, x.value);
  if (op == Op::Le || op == Op::Gt) count = add(count, builder_.getInt64(1));
  return Lanes{DType::Bool, first_lanes(count, op == Op::Lt || op == Op::Le)};
}

// The mask, but LLVM does not know it. LLVM 19 cuts a mask of which it knows lanes to be off into vectors of AVX2, and
// loads all lanes of a vector that is off as a whole: behind the end of the tensor.
Value* BodyEmitter::unknown(Value* mask) {
  const auto* known = llvm::dyn_cast<llvm::Constant>(mask);
  if (!known || !mask->getType()->isVectorTy() || known->isNullValue() || known->isAllOnesValue() ||
      around_.vector_bytes >= 64)
    return mask;
  if (!unknown_zero_) {
    llvm::BasicBlock& entry = builder_.GetInsertBlock()->getParent()->getEntryBlock();
    auto* same = llvm::InlineAsm::get(
        llvm::FunctionType::get(builder_.getInt32Ty(), {builder_.getInt32Ty()}, false), "", "=r,0", false);
    unknown_zero_ = Builder(&entry, entry.getFirstInsertionPt()).CreateCall(same, {builder_.getInt32(0)});
  }
  Type* narrow = mask_element();
  return builder_.CreateICmpNE(
      builder_.CreateZExt(mask, llvm::FixedVectorType::get(narrow, static_cast<unsigned>(lanes_))),
      splat(builder_.CreateTrunc(unknown_zero_, narrow)));
}

// The type that lanes of a mask are compared in: bytes where a vector has no room for 32 bits of each.
Type* BodyEmitter::mask_element() { return lanes_ > 16 && lanes_ < 128 ? builder_.getInt8Ty() : builder_.getInt32Ty(); }

Value* BodyEmitter::first_lanes(Value* count, bool inside) {
  Value* most = builder_.getInt64(static_cast<std::uint64_t>(lanes_));
  Value* zero = builder_.getInt64(0);
  count = builder_.CreateSelect(builder_.CreateICmpSLT(count, zero), zero, count);
  count = builder_.CreateSelect(builder_.CreateICmpSGT(count, most), most, count);
  Type* narrow = mask_element();
  Value* limit = splat(builder_.CreateTrunc(count, narrow));
  return inside ? builder_.CreateICmpULT(iota(narrow), limit) : builder_.CreateICmpUGE(iota(narrow), limit);
}

// ---- loads

Value* BodyEmitter::address(const Place& m, Value* offset) {
  return is_number(offset, 0) ? m.pointer : builder_.CreateInBoundsGEP(stored(m.type), m.pointer, offset);
}

Lanes BodyEmitter::place(const Place& m, const Expr& offset) {
  const Lanes at = expr(offset);
  if (!m.varying) return at;
  if (auto sum = affine(Op::Add, {at, *m.varying})) return *sum;
  return {DType::I64, builder_.CreateAdd(vector(at), vector(*m.varying))};
}

Value* BodyEmitter::all_lanes() {
  return llvm::Constant::getAllOnesValue(
      llvm::FixedVectorType::get(builder_.getInt1Ty(), static_cast<unsigned>(lanes_)));
}

Lanes BodyEmitter::load(const Load& l) {
  const Place m = memory(l.view);
  if (m.registers >= 0) {
    const auto* at = llvm::dyn_cast<ConstantInt>(uniform(l.offset));
    const Registers& array = registers_[static_cast<std::size_t>(m.registers)];
    if (!at || at->getSExtValue() < 0 || at->getSExtValue() >= static_cast<std::int64_t>(array.size()))
      throw InternalError("LLVM emitter: register array `" + l.view + "` is read at `" + print(l.offset) +
          "`, not a constant inside it");
    return {m.type, array[static_cast<std::size_t>(at->getSExtValue())]};
  }
  const Lanes offset = place(m, l.offset);
  if (is_uniform(offset)) return {m.type, from_storage(builder_, load_scalar(m, offset.value), m.type)};
  const auto* stride = llvm::dyn_cast_or_null<ConstantInt>(offset.stride);
  const std::int64_t step = stride ? stride->getSExtValue() : 0;
  // Parts of a mask may be known to be off (see `unknown`).
  const bool near = step != 0 && std::abs(step) <= 4 && lanes_ >= 4 && (!mask_ || around_.vector_bytes >= 64);
  Value* v = step == 1 ? load_unit(m, offset.value) : near ? load_near(m, offset.value, step) : load_gather(m, offset);
  return {m.type, from_storage(builder_, v, m.type)};
}

// Elements of memory that are the same for all lanes.
int BodyEmitter::reads_in_common(const Body& statements) const {
  int count = 0;
  const std::function<bool(const Expr&)> common = [&](const Expr& e) {
    return e.match([](const Constant&) { return true; }, [](const Load&) { return false; },
        [&](const Convert& c) { return common(c.operand); },
        [&](const Variable& v) {
          const auto at = values_.find(v.name);
          return at != values_.end() && is_uniform(at->second);
        },
        [&](const Operation& o) { return std::ranges::all_of(o.operands, common); });
  };
  const std::function<void(const Expr&)> look = [&](const Expr& e) {
    e.match([](const Constant&) {}, [](const Variable&) {}, [&](const Convert& c) { look(c.operand); },
        [&](const Operation& o) { std::ranges::for_each(o.operands, look); },
        [&](const Load& l) {
          const auto at = memory_.find(l.view);
          count += at != memory_.end() && at->second.registers < 0 && !at->second.varying && common(l.offset);
        });
  };
  for (const Stmt& s : statements)
    if (const auto* let = std::get_if<Let>(&s.node)) look(let->value);
  return count;
}

// Under a mask without lanes nothing happens, so nothing may be read there.
Value* BodyEmitter::load_scalar(const Place& m, Value* offset) {
  Value* at = address(m, offset);
  if (any_) {
    if (!nowhere_) {
      nowhere_ = stack(builder_.getInt64Ty(), 1);
      auto* slot = llvm::cast<llvm::Instruction>(nowhere_);
      Builder(slot->getParent(), std::next(slot->getIterator())).CreateStore(builder_.getInt64(0), nowhere_);
    }
    at = builder_.CreateSelect(any_, at, nowhere_);
  }
  return builder_.CreateAlignedLoad(stored(m.type), at, llvm::Align(static_cast<std::uint64_t>(lang::bytes(m.type))));
}

Value* BodyEmitter::load_unit(const Place& m, Value* offset) {
  auto* type = llvm::FixedVectorType::get(stored(m.type), static_cast<unsigned>(lanes_));
  const llvm::Align align(static_cast<std::uint64_t>(lang::bytes(m.type)));
  Value* at = address(m, offset);
  if (mask_) return builder_.CreateMaskedLoad(type, at, align, mask_, llvm::Constant::getNullValue(type));
  return builder_.CreateAlignedLoad(type, at, align);
}

// A mask of the elements from `from` on: those are read that a lane of `mask` takes, every `stride`th. It is made where
// `mask` is made, outside of the loops that read under it.
Value* BodyEmitter::mask_of_part(Value* mask, std::int64_t from, std::int64_t stride) {
  const Builder::InsertPointGuard back(builder_);
  if (auto* made = llvm::dyn_cast<llvm::Instruction>(mask))
    if (auto after = made->getInsertionPointAfterDef()) builder_.SetInsertPoint(made->getParent(), *after);
  std::vector<int> lane_of;
  for (std::int64_t element = from; element < from + lanes_; ++element) {
    const auto lane = static_cast<int>(element / std::abs(stride));
    lane_of.push_back(element % stride != 0 ? lanes_ : stride > 0 ? lane : lanes_ - 1 - lane);
  }
  return builder_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), lane_of);
}

// |stride| vectors cover the elements from the lowest to the highest; the last one ends there. Each lane is picked by
// shuffles. Under a mask nothing but the elements of its lanes is read.
Value* BodyEmitter::load_near(const Place& m, Value* offset, std::int64_t stride) {
  const std::int64_t span = (lanes_ - 1) * std::abs(stride) + 1;
  Value* lowest =
      stride > 0 ? offset : add(offset, builder_.getInt64(static_cast<std::uint64_t>(stride * (lanes_ - 1))));
  Value* result = nullptr;
  std::vector<int> picks(static_cast<std::size_t>(lanes_), -1);  // lanes of the result so far
  Value* const lanes_mask = mask_;
  for (std::int64_t start = 0; start < span; start += lanes_) {
    const std::int64_t from = std::min(start, span - lanes_);
    if (lanes_mask) mask_ = mask_of_part(lanes_mask, from, stride);
    Value* part = load_unit(m, add(lowest, builder_.getInt64(static_cast<std::uint64_t>(from))));
    mask_ = lanes_mask;
    std::vector<int> shuffle(picks.size());
    for (int lane = 0; lane < lanes_; ++lane) {
      const std::int64_t element = stride > 0 ? lane * stride : (lanes_ - 1 - lane) * -stride;
      const bool here = element >= start && element < start + lanes_;
      int& pick = shuffle[static_cast<std::size_t>(lane)];
      pick = here ? lanes_ + static_cast<int>(element - from) : picks[static_cast<std::size_t>(lane)];
      if (here) picks[static_cast<std::size_t>(lane)] = lane;
    }
    if (!result) result = llvm::PoisonValue::get(part->getType());
    result = builder_.CreateShuffleVector(result, part, shuffle);
  }
  return result;
}

// A vector of addresses: 32-bit indices where the constant stride allows them (twice as many lanes per gather).
Value* BodyEmitter::pointers(const Place& m, const Lanes& offset) {
  Type* element = stored(m.type);
  if (is_vector(offset)) return builder_.CreateInBoundsGEP(element, m.pointer, offset.value);
  if (is_uniform(offset)) return splat(address(m, offset.value));
  const auto* stride = llvm::dyn_cast<ConstantInt>(offset.stride);
  const bool small = stride && std::abs(stride->getSExtValue()) < (1 << 24);
  Type* index = small ? builder_.getInt32Ty() : builder_.getInt64Ty();
  Value* step =
      small ? ConstantInt::get(index, static_cast<std::uint64_t>(stride->getSExtValue()), true) : offset.stride;
  return builder_.CreateInBoundsGEP(element, address(m, offset.value), builder_.CreateMul(iota(index), splat(step)));
}

Value* BodyEmitter::load_gather(const Place& m, const Lanes& offset) {
  auto* type = llvm::FixedVectorType::get(stored(m.type), static_cast<unsigned>(lanes_));
  const llvm::Align align(static_cast<std::uint64_t>(lang::bytes(m.type)));
  return builder_.CreateMaskedGather(
      type, pointers(m, offset), align, mask_ ? mask_ : all_lanes(), llvm::Constant::getNullValue(type));
}

}  // namespace tilec::codegen::llvm_backend
