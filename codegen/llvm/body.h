// The body of one LLVM function: statements of Loops in, basic blocks out, nothing chosen on the way.
//
//   for k in serial K advance p by s      loop:  k = phi [0], [k']    p = phi [p0], [p + s]    acc_0 = phi [0], [t]   …
//     acc[0] = fma(a, p[l], acc[0])   ⇒          t = fma(splat a, load <16 x float> p, acc_0)
//
// Every element of a Register array is an SSA value; Lets are names of values; a lane-varying i64 is a pair (base,
// stride), so that an address is a scalar plus one of: a vector access, a splat, a shuffle of vectors, a gather.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/llvm/arith.h"
#include "codegen/loops.h"

namespace tilec::codegen::llvm_backend {

// A value of Loops: uniform (a scalar), a vector over the lanes, or, with `stride`, the i64 `value + stride · lane`.
struct Lanes {
  DType type = DType::I64;
  llvm::Value* value = nullptr;
  llvm::Value* stride = nullptr;
};

// What a view's name stands for: a pointer (plus `varying` elements that differ by lane), or a Register array.
struct Place {
  DType type = DType::F32;
  llvm::Value* pointer = nullptr;
  std::optional<Lanes> varying;
  int base = 0;                                        // views with one base may alias
  int registers = -1;                                  // position in BodyEmitter::registers_
};

// What the module gives to a body that calls functions or runs a Parallel loop.
struct Surroundings {
  llvm::Module* module = nullptr;
  std::map<std::string, llvm::Function*> functions;    // callable by name
  std::map<std::string, llvm::GlobalVariable*> tables;
  std::string cpu, features;                           // of every function
  int vector_bytes = 64;
  std::int64_t locals = 0;                             // bytes that each worker has of the kernel's workspace
                                                       // (codegen/locals.h)
};

llvm::Function* new_function(const Surroundings& around, llvm::FunctionType* type, const std::string& name);

class BodyEmitter {
 public:
  // `pool` and `locals`: null where the function runs no Parallel loop, and where no local is larger than a stack
  // takes.
  BodyEmitter(const Surroundings& around, llvm::Function* function, llvm::Value* pool, llvm::Value* locals);
  void define(const std::string& name, Lanes value) { set(values_, name, std::move(value)); }
  void define(const std::string& name, Place place) { set(memory_, name, std::move(place)); }
  void body(const Body& statements);
  void finish();                                       // fence, return

 private:
  using Registers = std::vector<llvm::Value*>;
  template <class T> using Scope = std::unordered_map<std::string, T>;
  struct Change { std::string name; std::optional<Lanes> value; std::optional<Place> memory; bool is_memory; };
  struct Mark { std::size_t change, registers; std::int64_t locals; };

  // names
  void set(Scope<Lanes>& scope, const std::string& name, Lanes value);
  void set(Scope<Place>& scope, const std::string& name, Place place);
  Mark mark() const { return {changes_.size(), registers_.size(), locals_used_}; }
  void leave(const Mark& mark);
  const Place& memory(const std::string& name) const;

  // expressions
  Lanes expr(const Expr& e);
  llvm::Value* uniform(const Expr& e);                 // a scalar i64
  Lanes operation(const Operation& o);
  std::optional<Lanes> affine(Op op, const std::vector<Lanes>& v);
  std::optional<Lanes> affine_compare(Op op, const Lanes& x, const Lanes& y);
  llvm::Value* unknown(llvm::Value* mask);
  llvm::Type* mask_element();
  llvm::Value* first_lanes(llvm::Value* count, bool inside);  // mask: lane < count
  Lanes load(const Load& l);
  llvm::Value* scalar(const Lanes& v) const;
  llvm::Value* vector(const Lanes& v);
  llvm::Value* loaded_whole(llvm::Value* v);
  llvm::Value* splat(llvm::Value* v) { return builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), v); }
  llvm::Value* iota(llvm::Type* element) const;
  llvm::Value* add(llvm::Value* x, llvm::Value* y);    // i64, folding 0
  llvm::Value* multiply(llvm::Value* x, llvm::Value* y);

  // memory
  llvm::Type* stored(DType type) { return storage_type(builder_.getContext(), type); }
  llvm::Value* address(const Place& m, llvm::Value* offset);
  Lanes place(const Place& m, const Expr& offset);    // offset, with what varies in the view
  llvm::Value* load_scalar(const Place& m, llvm::Value* offset);
  llvm::Value* load_unit(const Place& m, llvm::Value* offset);
  llvm::Value* mask_of_part(llvm::Value* mask, std::int64_t from, std::int64_t stride);
  llvm::Value* load_near(const Place& m, llvm::Value* offset, std::int64_t stride);
  llvm::Value* load_gather(const Place& m, const Lanes& offset);
  llvm::Value* pointers(const Place& m, const Lanes& offset);
  llvm::Value* all_lanes();
  void store_register(const Place& m, const Store& s);
  void store_scalar(const Place& m, llvm::Value* offset, llvm::Value* value);
  void store_streaming(llvm::Value* pointer, llvm::Value* value);

  // statements
  void statement(const For& s);
  void statement(const If& s);
  void statement(const Let& s) { define(s.name, expr(s.value)); }
  void statement(const View& s);
  void statement(const Aligned& s);
  void statement(const Allocate& s);
  void statement(const Store& s);
  void statement(const Fold& s);
  void statement(const Barrier&) {}                    // one thread
  void statement(const Prefetch& s);
  void statement(const Transpose& s);
  void statement(const Interleave& s);
  void statement(const FoldRows& s);
  void statement(const Copy& s) {
    throw lang::InternalError("LLVM emitter: a copy to `" + s.to + "`, which is shared memory of a GPU");
  }
  void statement(const Commit&) { throw lang::InternalError("LLVM emitter: a group of copies of a GPU"); }
  void statement(const Fragment& s) {
    throw lang::InternalError("LLVM emitter: `" + s.name + "` is a fragment of tensor cores");
  }
  void statement(const Pack& s) {
    throw lang::InternalError("LLVM emitter: `" + s.name + "` is a fragment of tensor cores");
  }
  void statement(const Exchange& s) {
    throw lang::InternalError("LLVM emitter: `" + s.name + "` is exchanged by threads of a GPU");
  }
  void statement(const StorePacked& s) {
    throw lang::InternalError("LLVM emitter: `" + s.name + "` holds results of tensor cores");
  }
  void statement(const Multiply& s) {
    throw lang::InternalError("LLVM emitter: `" + s.c + "` is a fragment of tensor cores");
  }
  void statement(const MultiplyShared& s) {
    throw lang::InternalError("LLVM emitter: `" + s.c + "` is a sum of tensor cores");
  }
  void statement(const Await& s) { throw lang::InternalError("LLVM emitter: `" + s.c + "` is a sum of tensor cores"); }
  void statement(const CallStmt& s);
  void serial(const For& s, llvm::Value* extent);
  void unroll(const For& s, std::int64_t extent);
  void vector_loop(const For& s, std::int64_t extent);
  void parallel(const For& s);
  // What the body of a parallel loop uses from outside.
  struct Captured { std::string name; llvm::Value* value; std::optional<Place> view; DType type; };
  std::vector<Captured> captured_by(const For& s);
  llvm::Function* outlined(const For& s, const std::vector<Captured>& captured, const std::string& name);
  llvm::Function* thunk_of(llvm::Function* inner, llvm::StructType* frame, const std::string& name);
  void fork(llvm::Function* thunk, llvm::Value* frame, llvm::Value* extent, llvm::BasicBlock* after);
  void masked(llvm::Value* condition, const Body& body);
  void branch(llvm::Value* condition, const Body& if_so, const Body& if_not);
  int reads_in_common(const Body& statements) const;
  std::vector<std::pair<std::size_t, std::size_t>> carried(std::initializer_list<const Body*> bodies) const;
  llvm::BasicBlock* block(const char* name);
  llvm::Value* stack(llvm::Type* type, std::uint64_t count);

  const Surroundings& around_;
  llvm::Function* function_;
  llvm::Value* pool_;                                  // null: Parallel loops run here, in turn
  llvm::Value* locals_;                                // this worker's block
  std::int64_t locals_used_ = 0;                       // bytes of it
  Builder builder_;
  Scope<Lanes> values_;
  Scope<Place> memory_;
  std::vector<Change> changes_;                        // what leave() takes back
  std::vector<Registers> registers_;
  std::vector<bool> is_vector_;                        // of registers_
  int lanes_ = 0;                                      // 0: outside Vector
  llvm::Value* mask_ = nullptr;                        // null: all lanes
  llvm::Value* known_ = nullptr;                       // mask_ as a constant
  llvm::Value* any_ = nullptr;                         // some lane of mask_; null: known
  llvm::Value* unknown_zero_ = nullptr;                // see unknown()
  llvm::Value* nowhere_ = nullptr;                     // a readable place for loads of which no lane happens
  std::int64_t stack_bytes_ = 0;
  int bases_ = 1 << 20;                                // fresh bases of what is allocated here
  bool streamed_ = false;
};

}  // namespace tilec::codegen::llvm_backend
