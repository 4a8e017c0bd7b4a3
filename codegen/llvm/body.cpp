// Statements: names and scopes, loops and phis, masks, stores. Expressions and loads are in expression.cpp.
#include "codegen/llvm/body.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <bit>
#include <set>

#include "codegen/locals.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

using lang::InternalError;
using llvm::BasicBlock;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

llvm::Function* new_function(const Surroundings& around, llvm::FunctionType* type, const std::string& name) {
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, around.module);
  function->addFnAttr("target-cpu", around.cpu);
  if (!around.features.empty()) function->addFnAttr("target-features", around.features);
  function->addFnAttr("prefer-vector-width", std::to_string(around.vector_bytes * 8));
  function->addFnAttr("no-trapping-math", "true");
  function->addFnAttr(llvm::Attribute::NoUnwind);
  return function;
}

BodyEmitter::BodyEmitter(const Surroundings& around, llvm::Function* function, Value* pool, Value* locals)
    : around_(around),
      function_(function),
      pool_(pool),
      locals_(locals),
      builder_(BasicBlock::Create(function->getContext(), "entry", function)) {
  int base = 0;
  for (const auto& [name, global] : around.tables) {
    Place table;
    table.type = DType::I64, table.pointer = global, table.base = --base;
    memory_[name] = table;
  }
}

// ---- names

void BodyEmitter::set(Scope<Lanes>& scope, const std::string& name, Lanes value) {
  const auto at = scope.find(name);
  changes_.push_back({name, at == scope.end() ? std::nullopt : std::optional(at->second), std::nullopt, false});
  scope[name] = std::move(value);
}

void BodyEmitter::set(Scope<Place>& scope, const std::string& name, Place place) {
  const auto at = scope.find(name);
  changes_.push_back({name, std::nullopt, at == scope.end() ? std::nullopt : std::optional(at->second), true});
  scope[name] = std::move(place);
}

void BodyEmitter::leave(const Mark& mark) {
  for (; changes_.size() > mark.change; changes_.pop_back()) {
    Change& c = changes_.back();
    if (c.is_memory && c.memory) memory_[c.name] = std::move(*c.memory);
    else if (c.is_memory) memory_.erase(c.name);
    else if (c.value) values_[c.name] = std::move(*c.value);
    else values_.erase(c.name);
  }
  locals_used_ = mark.locals;
  registers_.resize(mark.registers);
  is_vector_.resize(mark.registers);
}

const Place& BodyEmitter::memory(const std::string& name) const {
  const auto at = memory_.find(name);
  if (at == memory_.end()) throw InternalError("LLVM emitter: `" + name + "` is no view here");
  return at->second;
}

BasicBlock* BodyEmitter::block(const char* name) {
  return BasicBlock::Create(function_->getContext(), name, function_);
}

void BodyEmitter::body(const Body& statements) {
  const Mark here = mark();
  for (const Stmt& s : statements) std::visit([&](const auto& x) { statement(x); }, s.node);
  leave(here);
}

void BodyEmitter::finish() {
  leave({0, 0, locals_used_});
  const bool x86 = llvm::Triple(around_.module->getTargetTriple()).isX86();
  // streaming stores are weakly ordered
  if (streamed_ && x86) builder_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  builder_.CreateRetVoid();
}

// ---- small statements

void BodyEmitter::statement(const View& s) {
  Place view = memory(s.base);
  if (view.registers >= 0)
    throw InternalError("LLVM emitter: `" + s.name + "` views the register array `" + s.base + "`");
  if (s.words) throw InternalError("LLVM emitter: `" + s.name + "` views elements as words");
  const Lanes offset = expr(s.offset);
  if (!offset.stride && !offset.value->getType()->isVectorTy()) {
    view.pointer = address(view, offset.value);
  } else if (offset.stride) {
    view.pointer = address(view, offset.value);
    const Lanes step{DType::I64, builder_.getInt64(0), offset.stride};
    view.varying = view.varying ? *affine(Op::Add, {*view.varying, step}) : step;
  } else {
    view.varying = view.varying ? Lanes{DType::I64, builder_.CreateAdd(vector(*view.varying), offset.value)} : offset;
  }
  define(s.name, view);
}

void BodyEmitter::statement(const Aligned& s) {
  const Place view = memory(s.view);
  if (view.registers >= 0 || view.varying)
    throw InternalError("LLVM emitter: `" + s.view + "` has no address that all lanes share");
  llvm::Value* rest = builder_.CreateAnd(
      builder_.CreatePtrToInt(view.pointer, builder_.getInt64Ty()), static_cast<std::uint64_t>(s.bytes - 1));
  define(s.name, Lanes{DType::Bool, builder_.CreateICmpEQ(rest, builder_.getInt64(0))});
}

Value* BodyEmitter::stack(Type* type, std::uint64_t count) {
  BasicBlock& entry = function_->getEntryBlock();
  Builder at(&entry, entry.begin());
  auto* place = at.CreateAlloca(type, at.getInt64(count));
  place->setAlignment(llvm::Align(64));
  return place;
}

// Register arrays start at zero, so that nothing is ever undefined. Scratch that is too large for a stack lies in the
// block of this worker.
void BodyEmitter::statement(const Allocate& s) {
  Place m;
  m.type = s.type;
  if (s.memory == codegen::Memory::Register) {
    Type* element = element_type(builder_.getContext(), s.type);
    Type* type =
        lanes_ ? static_cast<Type*>(llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_))) : element;
    m.registers = static_cast<int>(registers_.size());
    registers_.emplace_back(static_cast<std::size_t>(s.count), llvm::Constant::getNullValue(type));
    is_vector_.push_back(lanes_ > 0);
    define(s.name, m);
    return;
  }
  m.base = ++bases_;
  if (const std::int64_t bytes = local_bytes(s); bytes > 0) {
    if (!locals_ || locals_used_ + bytes > around_.locals)
      throw InternalError("LLVM emitter: `" + s.name + "` has no place in the workspace");
    m.pointer =
        builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), locals_, static_cast<std::uint64_t>(locals_used_));
    locals_used_ += bytes;
  } else {
    stack_bytes_ += s.count * lang::bytes(s.type);
    if (stack_bytes_ > (1 << 20))
      throw InternalError("LLVM emitter: the locals of `" + function_->getName().str() + "` are too many for a stack");
    m.pointer = stack(stored(s.type), static_cast<std::uint64_t>(s.count));
  }
  define(s.name, m);
}

void BodyEmitter::statement(const Prefetch& s) {
  const Place& m = memory(s.view);
  const Lanes offset = expr(s.offset);
  if (!offset.stride && offset.value->getType()->isVectorTy()) return;  // a hint about scattered places: none
  Value* at = builder_.CreateGEP(stored(m.type), m.pointer, offset.value);  // perhaps behind the tensor's end
  builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()},
      {at, builder_.getInt32(0), builder_.getInt32(s.first ? 3 : 2), builder_.getInt32(1)});
}

// Transposes a square of n x n in log2(n) rounds. The round of `part` = s (n/2, …, 1) exchanges, in every square of 2s
// x 2s, the s x s parts off the diagonal: lanes whose number has bit s take from the other register.
void BodyEmitter::statement(const Transpose& s) {
  const Place& m = memory(s.name);
  Registers& array = registers_[static_cast<std::size_t>(m.registers)];
  if (!lanes_ || mask_ || array.size() != static_cast<std::size_t>(lanes_) || !std::has_single_bit(array.size()))
    throw InternalError("LLVM emitter: `" + s.name + "` cannot be transposed here");
  for (int part = lanes_ / 2; part > 0; part /= 2) {
    std::vector<int> low, high;                        // of the first register and the second, which follows it
    for (int lane = 0; lane < lanes_; ++lane) {
      low.push_back(lane & part ? lanes_ + lane - part : lane);
      high.push_back(lane & part ? lanes_ + lane : lane + part);
    }
    for (int row = 0; row < lanes_; ++row) {
      if (row & part) continue;
      Value *&a = array[static_cast<std::size_t>(row)],
            *&b = array[static_cast<std::size_t>(row) + static_cast<std::size_t>(part)];
      Value* first = builder_.CreateShuffleVector(a, b, low);
      b = builder_.CreateShuffleVector(a, b, high);
      a = first;
    }
  }
}

void BodyEmitter::statement(const CallStmt& s) {
  const auto callee = around_.functions.find(s.function);
  if (callee == around_.functions.end()) throw InternalError("LLVM emitter: no function `" + s.function + "`");
  std::vector<Value*> arguments;
  for (const std::string& view : s.views) arguments.push_back(memory(view).pointer);
  for (const Expr& e : s.integers) arguments.push_back(uniform(e));
  builder_.CreateCall(callee->second, arguments);
}

// A fixed tree: lanes of the upper half onto the lower half, until one is left.
void BodyEmitter::statement(const Fold& s) {
  const Lanes in = expr(s.value);
  if (!lanes_) return define(s.name, in);
  Value* v = vector(in);
  int n = lanes_;
  // LLVM 19 takes a tree of halves over products of bytes for its own dot-product reduction and forgets the last two
  // levels.
  if (s.how == Aggregation::Sum && lang::is_integer(in.type))
    return define(s.name, Lanes{in.type, builder_.CreateAddReduce(v)});
  for (; n > 1 && n % 2 == 0; n /= 2) {
    std::vector<int> low(static_cast<std::size_t>(n / 2)), high(low.size());
    for (int i = 0; i < n / 2; ++i) low[static_cast<std::size_t>(i)] = i, high[static_cast<std::size_t>(i)] = i + n / 2;
    v = combine(builder_, s.how, in.type, builder_.CreateShuffleVector(v, low), builder_.CreateShuffleVector(v, high));
  }
  Value* result = builder_.CreateExtractElement(v, std::uint64_t{0});
  for (int i = 1; i < n; ++i)
    result = combine(builder_, s.how, in.type, result, builder_.CreateExtractElement(v, static_cast<std::uint64_t>(i)));
  define(s.name, Lanes{in.type, result});
}

// ---- stores

void BodyEmitter::statement(const Store& s) {
  const Place m = memory(s.view);
  if (m.registers >= 0) return store_register(m, s);
  const Lanes offset = place(m, s.offset);
  const Lanes value = expr(s.value);
  const bool varies = value.stride || value.value->getType()->isVectorTy();
  if (!offset.stride && !offset.value->getType()->isVectorTy() && !varies)
    return store_scalar(m, offset.value, to_storage(builder_, value.value, m.type));
  Value* v = to_storage(builder_, vector(value), m.type);
  const llvm::Align align(static_cast<std::uint64_t>(lang::bytes(m.type)));
  const auto* stride = llvm::dyn_cast_or_null<ConstantInt>(offset.stride);
  if (!stride || !stride->isOne()) {
    builder_.CreateMaskedScatter(v, pointers(m, offset), align, mask_ ? mask_ : all_lanes());
    return;
  }
  Value* at = address(m, offset.value);
  if (mask_) builder_.CreateMaskedStore(v, at, align, mask_);
  else if (s.hint == Hint::Streaming) store_streaming(at, v);
  else builder_.CreateAlignedStore(v, at, align);
}

void BodyEmitter::store_register(const Place& m, const Store& s) {
  const auto* at = llvm::dyn_cast<ConstantInt>(uniform(s.offset));
  Registers& array = registers_[static_cast<std::size_t>(m.registers)];
  if (!at || at->getSExtValue() < 0 || at->getSExtValue() >= static_cast<std::int64_t>(array.size()))
    throw InternalError("LLVM emitter: register array `" + s.view + "` is stored at `" + print(s.offset) +
        "`, not a constant inside it");
  const auto element = static_cast<std::size_t>(at->getSExtValue());
  const Lanes in = expr(s.value);
  Value*& place = registers_[static_cast<std::size_t>(m.registers)][element];
  if (!is_vector_[static_cast<std::size_t>(m.registers)]) {
    if (lanes_ && (in.stride || in.value->getType()->isVectorTy()))
      throw InternalError("LLVM emitter: a vector for the scalar register array `" + s.view + "`");
    place = any_ ? builder_.CreateSelect(any_, in.value, place) : in.value;
    return;
  }
  Value* v = vector(in);
  if (!mask_) {
    place = v;
    return;
  }
  // A masked load into a register keeps the other lanes by itself.
  auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(v);
  if (call && call->getIntrinsicID() == llvm::Intrinsic::masked_load && call->use_empty() &&
      call->getArgOperand(2) == mask_ && call->getType() == place->getType()) {
    auto* old = llvm::dyn_cast<llvm::Instruction>(place);
    if (!old || old->getParent() != call->getParent() || old->comesBefore(call)) {
      call->setArgOperand(3, place);
      place = call;
      return;
    }
  }
  place = builder_.CreateSelect(mask_, v, place);
}

void BodyEmitter::store_scalar(const Place& m, Value* offset, Value* value) {
  const llvm::Align align(static_cast<std::uint64_t>(lang::bytes(m.type)));
  Value* at = address(m, offset);
  if (!any_) {
    builder_.CreateAlignedStore(value, at, align);
    return;
  }
  BasicBlock *then = block("some"), *after = block("stored");
  builder_.CreateCondBr(any_, then, after);
  builder_.SetInsertPoint(then);
  builder_.CreateAlignedStore(value, at, align);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

// A streaming store must be aligned, which only the address knows: to the whole vector, or to 16 bytes (what malloc
// gives), or not.
void BodyEmitter::store_streaming(Value* pointer, Value* value) {
  auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
  const std::uint64_t bytes = type->getPrimitiveSizeInBits() / 8, element = type->getScalarSizeInBits() / 8;
  const std::uint64_t whole = std::min<std::uint64_t>(bytes, static_cast<std::uint64_t>(around_.vector_bytes));
  if (bytes < 16 || bytes % whole != 0 || 16 % element != 0) {
    builder_.CreateAlignedStore(value, pointer, llvm::Align(element));
    return;
  }
  streamed_ = true;
  auto* hint = llvm::MDNode::get(builder_.getContext(), llvm::ConstantAsMetadata::get(builder_.getInt32(1)));
  const auto pieces = [&](std::uint64_t piece) {
    const auto count = static_cast<int>(piece / element);
    for (std::uint64_t at = 0; at < bytes; at += piece) {
      std::vector<int> lanes(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) lanes[static_cast<std::size_t>(i)] = static_cast<int>(at / element) + i;
      Value* part = piece == bytes ? value : builder_.CreateShuffleVector(value, lanes);
      auto* store = builder_.CreateAlignedStore(
          part, builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), pointer, at), llvm::Align(piece));
      store->setMetadata(llvm::LLVMContext::MD_nontemporal, hint);
    }
  };
  Value* low = builder_.CreatePtrToInt(pointer, builder_.getInt64Ty());
  const auto aligned = [&](std::uint64_t to) {
    return builder_.CreateICmpEQ(builder_.CreateAnd(low, builder_.getInt64(to - 1)), builder_.getInt64(0));
  };
  BasicBlock *wide = block("wide"), *other = block("other"), *narrow = block("narrow"), *plain = block("plain"),
             *after = block("streamed");
  builder_.CreateCondBr(aligned(whole), wide, other);
  builder_.SetInsertPoint(wide);
  pieces(whole);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(other);
  builder_.CreateCondBr(aligned(16), narrow, plain);
  builder_.SetInsertPoint(narrow);
  pieces(16);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(plain);
  builder_.CreateAlignedStore(value, pointer, llvm::Align(element));
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

// ---- conditions

void BodyEmitter::statement(const If& s) {
  const Lanes condition = expr(s.condition);
  if (!condition.value->getType()->isVectorTy()) return branch(condition.value, s.then, s.otherwise);
  masked(condition.value, s.then);
  if (!s.otherwise.empty()) masked(builder_.CreateNot(condition.value), s.otherwise);
}

void BodyEmitter::masked(Value* condition, const Body& statements) {
  const bool constant = llvm::isa<llvm::Constant>(condition);
  Value* known = constant && known_ ? builder_.CreateAnd(known_, condition) : constant && !mask_ ? condition : nullptr;
  if (const auto* lanes = llvm::dyn_cast_or_null<llvm::Constant>(known ? known : condition)) {
    if (lanes->isNullValue()) return;
    if (lanes->isAllOnesValue()) return body(statements);
  }
  Value *outer_mask = mask_, *outer_known = known_, *outer_any = any_;
  mask_ = known ? unknown(known) : mask_ ? builder_.CreateAnd(mask_, unknown(condition)) : condition;
  known_ = known;
  any_ = nullptr;
  if (!known) {                                        // a known mask has some lane
    Value* bits = builder_.CreateBitCast(mask_, builder_.getIntNTy(static_cast<unsigned>(lanes_)));
    any_ = builder_.CreateICmpNE(bits, constant_integer(bits->getType(), 0));
  }
  // One branch in the place of a question for each element that all lanes read.
  if (any_ && reads_in_common(statements) > 1) branch(std::exchange(any_, nullptr), statements, {});
  else body(statements);
  mask_ = outer_mask, known_ = outer_known, any_ = outer_any;
}

namespace {

void collect_stores(const Body& body, std::set<std::string>& names) {
  for (const Stmt& s : body) {
    if (const auto* store = std::get_if<Store>(&s.node)) names.insert(store->view);
    if (const auto* square = std::get_if<Transpose>(&s.node)) names.insert(square->name);
    if (const auto* strip = std::get_if<Interleave>(&s.node)) names.insert(strip->name);
    if (const auto* rows = std::get_if<FoldRows>(&s.node)) names.insert(rows->name);
    if (const auto* loop = std::get_if<For>(&s.node)) collect_stores(loop->body, names);
    if (const auto* test = std::get_if<If>(&s.node))
      collect_stores(test->then, names), collect_stores(test->otherwise, names);
  }
}

}  // namespace

// The register elements that `bodies` may store: (array, element).
std::vector<std::pair<std::size_t, std::size_t>> BodyEmitter::carried(std::initializer_list<const Body*> bodies) const {
  std::set<std::string> names;
  for (const Body* b : bodies) collect_stores(*b, names);
  std::vector<std::pair<std::size_t, std::size_t>> elements;
  for (const std::string& name : names) {
    const auto at = memory_.find(name);
    if (at == memory_.end() || at->second.registers < 0) continue;
    const auto array = static_cast<std::size_t>(at->second.registers);
    for (std::size_t i = 0; i < registers_[array].size(); ++i) elements.emplace_back(array, i);
  }
  return elements;
}

void BodyEmitter::branch(Value* condition, const Body& if_so, const Body& if_not) {
  if (const auto* known = llvm::dyn_cast<ConstantInt>(condition)) return body(known->isOne() ? if_so : if_not);
  const auto elements = carried({&if_so, &if_not});
  const auto values = [&] {
    std::vector<Value*> v;
    for (const auto& [array, i] : elements) v.push_back(registers_[array][i]);
    return v;
  };
  BasicBlock *then = block("then"), *otherwise = if_not.empty() ? nullptr : block("else"), *after = block("end");
  BasicBlock* before = builder_.GetInsertBlock();
  builder_.CreateCondBr(condition, then, otherwise ? otherwise : after);
  const std::vector<Value*> old = values();
  builder_.SetInsertPoint(then);
  body(if_so);
  const std::vector<Value*> yes = values();
  BasicBlock* from_yes = builder_.GetInsertBlock();
  builder_.CreateBr(after);
  std::vector<Value*> no = old;
  BasicBlock* from_no = before;
  if (otherwise) {
    for (std::size_t i = 0; i < elements.size(); ++i) registers_[elements[i].first][elements[i].second] = old[i];
    builder_.SetInsertPoint(otherwise);
    body(if_not);
    no = values();
    from_no = builder_.GetInsertBlock();
    builder_.CreateBr(after);
  }
  builder_.SetInsertPoint(after);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Value*& place = registers_[elements[i].first][elements[i].second];
    place = yes[i];
    if (yes[i] == no[i]) continue;
    llvm::PHINode* phi = builder_.CreatePHI(yes[i]->getType(), 2);
    phi->addIncoming(yes[i], from_yes);
    phi->addIncoming(no[i], from_no);
    place = phi;
  }
}

// ---- loops

void BodyEmitter::statement(const For& s) {
  if (s.kind == Kind::Block || s.kind == Kind::Thread)
    throw InternalError("LLVM emitter: a Block or Thread loop, `" + s.index + "`");
  if (s.kind == Kind::Parallel) return parallel(s);
  Value* extent = uniform(s.extent);
  const auto* known = llvm::dyn_cast<ConstantInt>(extent);
  if (s.kind == Kind::Serial && !(known && known->getSExtValue() <= 1)) return serial(s, extent);
  if (!known)
    throw InternalError("LLVM emitter: the extent of `" + s.index + "` is `" + print(s.extent) + "`, not a constant");
  if (s.kind == Kind::Vector && known->getSExtValue() > 1) return vector_loop(s, known->getSExtValue());
  unroll(s, known->getSExtValue());
}

void BodyEmitter::unroll(const For& s, std::int64_t extent) {
  const Mark here = mark();
  std::vector<Value*> steps;
  for (const Advance& a : s.advance) steps.push_back(extent > 1 ? uniform(a.step) : nullptr);
  for (std::int64_t i = 0; i < extent; ++i) {
    define(s.index, Lanes{DType::I64, builder_.getInt64(static_cast<std::uint64_t>(i))});
    body(s.body);
    if (i + 1 == extent) break;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      Place moved = memory(s.advance[k].view);
      moved.pointer = address(moved, steps[k]);
      define(s.advance[k].view, moved);
    }
  }
  leave(here);
}

void BodyEmitter::vector_loop(const For& s, std::int64_t extent) {
  if (lanes_) throw InternalError("LLVM emitter: vector loop `" + s.index + "` inside another");
  const Mark here = mark();
  lanes_ = static_cast<int>(extent);
  define(s.index, Lanes{DType::I64, builder_.getInt64(0), builder_.getInt64(1)});
  body(s.body);
  leave(here);
  lanes_ = 0;
}

// The test is at the bottom. Whatever the body stores in registers, and every view that advances, is a phi; a phi that
// turns out to carry its own value is taken out again.
void BodyEmitter::serial(const For& s, Value* extent) {
  const Mark here = mark();
  std::vector<Value*> steps;
  for (const Advance& a : s.advance) steps.push_back(uniform(a.step));
  const auto elements = carried({&s.body});
  BasicBlock *before = builder_.GetInsertBlock(), *loop = block("loop");
  builder_.CreateBr(loop);
  builder_.SetInsertPoint(loop);

  llvm::PHINode* index = builder_.CreatePHI(builder_.getInt64Ty(), 2, s.index);
  index->addIncoming(builder_.getInt64(0), before);
  std::vector<llvm::PHINode*> views, values;
  for (const Advance& a : s.advance) {
    Place view = memory(a.view);
    views.push_back(builder_.CreatePHI(builder_.getPtrTy(), 2, a.view));
    views.back()->addIncoming(view.pointer, before);
    view.pointer = views.back();
    define(a.view, view);
  }
  for (const auto& [array, i] : elements) {
    Value*& place = registers_[array][i];
    values.push_back(builder_.CreatePHI(place->getType(), 2));
    values.back()->addIncoming(place, before);
    place = values.back();
  }
  define(s.index, Lanes{DType::I64, index});
  body(s.body);

  BasicBlock *latch = builder_.GetInsertBlock(), *after = block("after");
  for (std::size_t k = 0; k < views.size(); ++k) {
    Type* element = stored(memory(s.advance[k].view).type);
    views[k]->addIncoming(builder_.CreateInBoundsGEP(element, views[k], steps[k]), latch);
  }
  Value* next = builder_.CreateAdd(index, builder_.getInt64(1), "", true, true);
  index->addIncoming(next, latch);
  builder_.CreateCondBr(builder_.CreateICmpSLT(next, extent), loop, after);
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k]->addIncoming(registers_[elements[k].first][elements[k].second], latch);
  for (llvm::PHINode* phi : values) {
    if (phi->getIncomingValue(1) != phi) continue;
    Value* same = phi->getIncomingValue(0);
    for (Registers& array : registers_) std::replace(array.begin(), array.end(), static_cast<Value*>(phi), same);
    phi->replaceAllUsesWith(same);
    phi->eraseFromParent();
  }
  builder_.SetInsertPoint(after);
  leave(here);
}

}  // namespace tilec::codegen::llvm_backend
