// A Parallel loop becomes a function of its index, so that other threads can call it.
//
//   for i in parallel n                thunk(args, i, worker):  body(args->x, args->s, …, i,
//                                                               args->locals + worker * bytes)
//     …x[…]… s …              ⇒        here:            *args = {x, s, …, locals}
//                                                       pool && n > 1 ? pool->run(pool->context, n, thunk, args) : for
//                                                       i: thunk(args, i, 0)
//
// The body is a function of its own, not the thunk, because its pointers are then parameters that can be `noalias`.
#include <llvm/IR/Constants.h>

#include <set>

#include "codegen/llvm/body.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

using llvm::BasicBlock;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

namespace {

void names_of(const Expr& e, std::set<std::string>& names) {
  e.match([](const Constant&) {}, [&](const Variable& v) { names.insert(v.name); },
          [&](const Load& l) { names.insert(l.view), names_of(l.offset, names); },
          [&](const Operation& o) { for (const Expr& x : o.operands) names_of(x, names); },
          [&](const Convert& c) { names_of(c.operand, names); });
}

// Every name that occurs in a body; those it defines itself do no harm.
void names_of(const Body& body, std::set<std::string>& names) {
  const auto all = [&](std::initializer_list<const Expr*> exprs) { for (const Expr* e : exprs) names_of(*e, names); };
  for (const Stmt& s : body)
    std::visit(poly::Overloaded{
                   [&](const For& x) {
                     all({&x.extent}), names_of(x.body, names);
                     for (const Advance& a : x.advance) names.insert(a.view), all({&a.step});
                   },
                   [&](const If& x) { all({&x.condition}), names_of(x.then, names), names_of(x.otherwise, names); },
                   [&](const Let& x) { all({&x.value}); },
                   [&](const View& x) { names.insert(x.base), all({&x.offset}); },
                   [&](const Aligned& x) { names.insert(x.view); },
                   [](const Allocate&) {}, [](const Barrier&) {}, [](const Commit&) {},
                   [&](const Copy& x) { names.insert({x.to, x.from}), all({&x.at, &x.offset, &x.there}); },
                   [&](const Pack& x) { names.insert(x.name), all({&x.low, &x.high}); },
                   [&](const Exchange& x) { names.insert(x.name); },
                   [&](const StorePacked& x) { names.insert({x.view, x.name}), all({&x.offset}); },
                   [&](const Fragment& x) { names.insert({x.name, x.view}), all({&x.offset}); },
                   [&](const Multiply& x) { names.insert({x.c, x.a, x.b}); },
                   [&](const MultiplyShared& x) {
                     names.insert({x.c, x.a.view, x.b.view});
                     for (const SharedProduct& p : x.products) all({&p.a, &p.b});
                   },
                   [&](const Await& x) { names.insert(x.c); },
                   [&](const Store& x) { names.insert(x.view), all({&x.offset, &x.value}); },
                   [&](const Fold& x) { all({&x.value}); },
                   [&](const Prefetch& x) { names.insert(x.view), all({&x.offset}); },
                   [&](const Transpose& x) { names.insert(x.name); },
                   [&](const Interleave& x) { names.insert(x.name); },
                   [&](const FoldRows& x) { names.insert(x.name); },
                   [&](const CallStmt& x) {
                     names.insert(x.views.begin(), x.views.end());
                     for (const Expr& e : x.integers) names_of(e, names);
                   }},
               s.node);
}

}  // namespace

void BodyEmitter::parallel(const For& s) {
  if (lanes_) throw lang::InternalError("LLVM emitter: Parallel `" + s.index + "` inside a vector loop");
  Value* extent = uniform(s.extent);
  const auto* known = llvm::dyn_cast<ConstantInt>(extent);
  if (known && known->getSExtValue() <= 1) return unroll(s, known->getSExtValue());
  BasicBlock *after = block("joined"), *some = block("some");
  builder_.CreateCondBr(builder_.CreateICmpSGT(extent, builder_.getInt64(0)), some, after);
  builder_.SetInsertPoint(some);
  if (!pool_) {
    serial(s, extent);
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
    return;
  }

  const std::vector<Captured> captured = captured_by(s);
  std::vector<Type*> types;
  for (const Captured& c : captured) types.push_back(c.value->getType());
  types.push_back(builder_.getPtrTy());                // of locals
  auto* arguments = llvm::StructType::get(builder_.getContext(), types);
  const std::string name = function_->getName().str() + "." + s.index;
  llvm::Function* thunk = thunk_of(outlined(s, captured, name), arguments, name + ".thunk");
  const auto last = static_cast<unsigned>(captured.size());
  Value* frame = stack(arguments, 1);
  for (unsigned i = 0; i < last; ++i)
    builder_.CreateStore(captured[i].value, builder_.CreateStructGEP(arguments, frame, i));
  builder_.CreateStore(locals_, builder_.CreateStructGEP(arguments, frame, last));
  fork(thunk, frame, extent, after);
}

std::vector<BodyEmitter::Captured> BodyEmitter::captured_by(const For& s) {
  std::set<std::string> names;
  names_of(s.body, names);
  for (const Advance& a : s.advance) names.insert(a.view), names_of(a.step, names);
  std::vector<Captured> captured;
  for (const std::string& name : names) {
    if (const auto at = memory_.find(name); at != memory_.end() && at->second.registers < 0 && at->second.base >= 0)
      captured.push_back({name, at->second.pointer, at->second, at->second.type});
    if (const auto at = values_.find(name); at != values_.end())
      captured.push_back({name, scalar(at->second), std::nullopt, at->second.type});
  }
  return captured;
}

// A turn as a function of what it uses from outside, the locals and the turn's number.
llvm::Function* BodyEmitter::outlined(
    const For& s, const std::vector<Captured>& captured, const std::string& name) {
  std::map<int, int> users;                            // of a base, among what is captured
  std::vector<Type*> types;
  for (const Captured& c : captured) {
    types.push_back(c.value->getType());
    if (c.view) ++users[c.view->base];
  }
  types.push_back(builder_.getPtrTy());
  types.push_back(builder_.getInt64Ty());
  llvm::Function* inner = new_function(around_, llvm::FunctionType::get(builder_.getVoidTy(), types, false), name);
  const auto last = static_cast<unsigned>(captured.size());
  inner->addParamAttr(last, llvm::Attribute::NoAlias);
  BodyEmitter emitter(around_, inner, nullptr, inner->getArg(last));
  emitter.locals_used_ = locals_used_;                 // worker 0 has what stands around the loop in its own block
  Value* turn = inner->getArg(last + 1);
  for (unsigned i = 0; i < captured.size(); ++i) {
    const Captured& c = captured[i];
    if (!c.view) {
      emitter.define(c.name, Lanes{c.type, inner->getArg(i)});
      continue;
    }
    Place view = *c.view;
    view.pointer = inner->getArg(i);
    if (users[view.base] == 1) inner->addParamAttr(i, llvm::Attribute::NoAlias);
    emitter.define(c.name, view);
  }
  emitter.define(s.index, Lanes{DType::I64, turn});
  for (const Advance& a : s.advance) {
    Place view = emitter.memory(a.view);
    view.pointer = emitter.address(view, emitter.builder_.CreateMul(turn, emitter.uniform(a.step)));
    emitter.define(a.view, view);
  }
  emitter.body(s.body);
  emitter.finish();
  return inner;
}

// What the pool calls: reads the frame, and the locals of its worker.
llvm::Function* BodyEmitter::thunk_of(llvm::Function* inner, llvm::StructType* frame, const std::string& name) {
  llvm::Function* thunk = new_function(around_,
      llvm::FunctionType::get(
          builder_.getVoidTy(), {builder_.getPtrTy(), builder_.getInt64Ty(), builder_.getInt64Ty()}, false),
      name);
  Builder t(BasicBlock::Create(builder_.getContext(), "entry", thunk));
  std::vector<Value*> passed;
  for (unsigned i = 0; i < frame->getNumElements(); ++i)
    passed.push_back(t.CreateLoad(frame->getElementType(i), t.CreateStructGEP(frame, thunk->getArg(0), i)));
  passed.back() = t.CreateGEP(t.getInt8Ty(), passed.back(),
      t.CreateMul(thunk->getArg(2), t.getInt64(static_cast<std::uint64_t>(around_.locals))));
  passed.push_back(thunk->getArg(1));
  t.CreateCall(inner, passed);
  t.CreateRetVoid();
  return thunk;
}

void BodyEmitter::fork(llvm::Function* thunk, Value* frame, Value* extent, BasicBlock* after) {
  BasicBlock *shared = block("shared"), *alone = block("alone"), *loop = block("loop");
  Value* here = builder_.CreateOr(builder_.CreateIsNull(pool_), builder_.CreateICmpEQ(extent, builder_.getInt64(1)));
  builder_.CreateCondBr(here, alone, shared);

  builder_.SetInsertPoint(shared);
  Type* pointer = builder_.getPtrTy();
  auto* pool = llvm::StructType::get(pointer, pointer);  // the first fields of tilec_parallel
  auto* run = llvm::FunctionType::get(builder_.getVoidTy(), {pointer, builder_.getInt64Ty(), pointer, pointer}, false);
  Value* context = builder_.CreateLoad(pointer, builder_.CreateStructGEP(pool, pool_, 0));
  builder_.CreateCall(
      run, builder_.CreateLoad(pointer, builder_.CreateStructGEP(pool, pool_, 1)), {context, extent, thunk, frame});
  builder_.CreateBr(after);

  builder_.SetInsertPoint(alone);
  builder_.CreateBr(loop);
  builder_.SetInsertPoint(loop);
  llvm::PHINode* turn = builder_.CreatePHI(builder_.getInt64Ty(), 2);
  turn->addIncoming(builder_.getInt64(0), alone);
  builder_.CreateCall(thunk, {frame, turn, builder_.getInt64(0)});
  Value* next = builder_.CreateAdd(turn, builder_.getInt64(1));
  turn->addIncoming(next, loop);
  builder_.CreateCondBr(builder_.CreateICmpSLT(next, extent), loop, after);
  builder_.SetInsertPoint(after);
}

}  // namespace tilec::codegen::llvm_backend
