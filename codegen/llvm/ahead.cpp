#include "codegen/llvm/ahead.h"

#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <array>
#include <optional>

#include "codegen/llvm/body.h"
#include "codegen/llvm/emit.h"
#include "codegen/llvm/kernels.h"
#include "codegen/locals.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

// g++ inlines LLVM's `operator new` of a global, not its `operator delete`, and takes them for no pair.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace tilec::codegen::llvm_backend {

namespace {

using llvm::BasicBlock;
using llvm::Constant;
using llvm::ConstantInt;
using llvm::Function;
using llvm::FunctionType;
using llvm::GlobalValue;
using llvm::GlobalVariable;
using llvm::Type;
using llvm::Value;

constexpr const char* parallel_for = "tilec_parallel_for";
constexpr std::uint64_t workspace_unit = 64;           // what a workspace is aligned to

bool has_parallel(const Body& body) {
  return std::ranges::any_of(body, [](const Stmt& s) {
    if (const auto* loop = std::get_if<For>(&s.node)) return loop->kind == Kind::Parallel || has_parallel(loop->body);
    if (const auto* test = std::get_if<If>(&s.node)) return has_parallel(test->then) || has_parallel(test->otherwise);
    return false;
  });
}

std::int64_t bytes_of(const Package& layout, std::int64_t workers) {
  return (poly::Exact(layout.locals) * workers + layout.workspace).get();
}

// What functions of one module are made with.
class Maker {
 public:
  Maker(llvm::Module& module, const Machine& on, const Target& target)
      : module_(module), around_{&module, {}, {}, on.cpu, on.features, target.vector_bytes, 0} {}

  llvm::LLVMContext& context() const { return module_.getContext(); }
  Type* pointer() const { return llvm::PointerType::getUnqual(context()); }
  Type* i32() const { return Type::getInt32Ty(context()); }
  Type* i64() const { return Type::getInt64Ty(context()); }
  FunctionType* entry_type(std::size_t ports) const {
    return FunctionType::get(i32(), std::vector<Type*>(ports + 1, pointer()), false);
  }
  FunctionType* parallel_type() const {
    return FunctionType::get(Type::getVoidTy(context()), {i64(), i64(), pointer(), pointer()}, false);
  }

  Function* internal(FunctionType* type, const std::string& name) { return new_function(around_, type, name); }

  // A name that C sees, taken before any other of the module: those give way.
  Function* external(FunctionType* type, const std::string& name) {
    Function* made = internal(type, name);
    made->setLinkage(GlobalValue::ExternalLinkage);
    if (made->getName() != name) throw lang::InternalError("two entry points named `" + name + "`");
    return made;
  }

  Builder begin(Function* function, const char* block = "entry") const {
    return Builder(BasicBlock::Create(context(), block, function));
  }
  llvm::Module& module() const { return module_; }

 private:
  llvm::Module& module_;
  Surroundings around_;
};

// void tilec_parallel_for(count, workers, turn, arguments): for i < count: turn(arguments, i, 0)
void define_parallel_for(Maker& maker) {
  Function* f = maker.external(maker.parallel_type(), parallel_for);
  f->setLinkage(GlobalValue::WeakAnyLinkage);
  Builder b = maker.begin(f);
  BasicBlock *entry = b.GetInsertBlock(), *loop = BasicBlock::Create(maker.context(), "loop", f),
             *done = BasicBlock::Create(maker.context(), "done", f);
  Value* count = f->getArg(0);
  b.CreateCondBr(b.CreateICmpSGT(count, b.getInt64(0)), loop, done);
  b.SetInsertPoint(loop);
  llvm::PHINode* turn = b.CreatePHI(b.getInt64Ty(), 2);
  turn->addIncoming(b.getInt64(0), entry);
  b.CreateCall(FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()}, false), f->getArg(2),
      {f->getArg(3), turn, b.getInt64(0)});
  Value* next = b.CreateAdd(turn, b.getInt64(1));
  turn->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpSLT(next, count), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
}

// tilec_parallel (runtime/parallel.h) over `tilec_parallel_for`. Its context is how many workers there may be; null: as
// many as turns.
class Pools {
 public:
  Pools(Maker& maker, std::int64_t workers) : maker_(maker), workers_(workers) {}

  Constant* of(const Loops& loops) {
    if (workers_ == 1 || !has_parallel(loops.functions.back().body))
      return llvm::ConstantPointerNull::get(llvm::PointerType::getUnqual(maker_.context()));
    const std::int64_t limit = local_bytes(loops) > 0 ? workers_ : 0;
    GlobalVariable*& pool = limit > 0 ? limited_ : unlimited_;
    if (!pool) pool = made(limit);
    return pool;
  }

 private:
  GlobalVariable* made(std::int64_t limit) {
    auto* workers = ConstantInt::getSigned(maker_.i64(), limit);
    Constant* context = llvm::ConstantExpr::getIntToPtr(workers, maker_.pointer());
    Constant* fields = llvm::ConstantStruct::getAnon({context, run(), workers});
    return new GlobalVariable(
        maker_.module(), fields->getType(), true, GlobalValue::InternalLinkage, fields, "tilec.pool");
  }

  Function* run() {
    if (run_) return run_;
    run_ = maker_.internal(FunctionType::get(Type::getVoidTy(maker_.context()),
                               {maker_.pointer(), maker_.i64(), maker_.pointer(), maker_.pointer()}, false),
        "tilec.run");
    Builder b = maker_.begin(run_);
    Value *limit = b.CreatePtrToInt(run_->getArg(0), b.getInt64Ty()), *count = run_->getArg(1);
    Value* all = b.CreateOr(b.CreateICmpEQ(limit, b.getInt64(0)), b.CreateICmpSLT(count, limit));
    b.CreateCall(maker_.module().getOrInsertFunction(parallel_for, maker_.parallel_type()),
        {count, b.CreateSelect(all, count, limit), run_->getArg(2), run_->getArg(3)});
    b.CreateRetVoid();
    return run_;
  }

  Maker& maker_;
  std::int64_t workers_;
  GlobalVariable *limited_ = nullptr, *unlimited_ = nullptr;
  Function* run_ = nullptr;
};

// What the runner of a package does, for one version.
class Driver {
 public:
  Driver(Function* function, const Version& version, const std::vector<std::int64_t>& checks, std::int64_t workers)
      : function_(function),
        layout_(version.layout),
        checks_(checks),
        workers_(workers),
        b_(BasicBlock::Create(function->getContext(), "entry", function)) {}

  void write(const Version& version, const std::map<std::string, Function*>& bodies, Pools& pools) {
    look_at_pointers();
    find_places();
    std::map<std::string_view, const Loops*> loops;
    for (const Loops* kernel : version.kernels) loops[kernel->functions.back().name] = kernel;
    for (const Launch& launch : layout_.launches) {
      std::vector<Value*> arguments;
      for (const int buffer : launch.buffers) arguments.push_back(places_.at(static_cast<std::size_t>(buffer)));
      for (const std::int64_t number : launch.numbers)
        arguments.push_back(b_.getInt64(static_cast<std::uint64_t>(number)));
      arguments.push_back(pools.of(*loops.at(launch.kernel)));
      arguments.push_back(locals_);
      b_.CreateCall(bodies.at(launch.kernel), arguments);
    }
    for (std::size_t k = 0; k < checks_.size(); ++k) {
      Value* first = b_.CreateLoad(b_.getInt64Ty(), places_[layout_.inputs.size() + seen() + 2 * k]);
      leave_if(b_.CreateICmpULT(first, b_.getInt64(static_cast<std::uint64_t>(checks_[k]))),
          first_index + static_cast<int>(k));
    }
    b_.CreateRet(b_.getInt32(0));
  }

 private:
  std::size_t seen() const { return layout_.outputs.size() - 2 * checks_.size(); }
  Value* workspace() const { return function_->getArg(static_cast<unsigned>(function_->arg_size()) - 1); }

  Value* is_misplaced(Value* pointer, std::uint64_t unit) {
    Value* crooked = b_.CreateICmpNE(
        b_.CreateAnd(b_.CreatePtrToInt(pointer, b_.getInt64Ty()), b_.getInt64(unit - 1)), b_.getInt64(0));
    return b_.CreateOr(b_.CreateIsNull(pointer), crooked);
  }

  void leave_if(Value* condition, int status) {
    BasicBlock *out = BasicBlock::Create(b_.getContext(), "out", function_),
               *on = BasicBlock::Create(b_.getContext(), "on", function_);
    b_.CreateCondBr(condition, out, on);
    b_.SetInsertPoint(out);
    b_.CreateRet(b_.getInt32(static_cast<std::uint32_t>(status)));
    b_.SetInsertPoint(on);
  }

  // Of tensors that no launch reads, nothing is asked.
  void look_at_pointers() {
    if (bytes_of(layout_, workers_) > 0) leave_if(is_misplaced(workspace(), workspace_unit), no_workspace);
    Value* misplaced = nullptr;
    for (std::size_t k = 0; k < layout_.inputs.size() + seen(); ++k) {
      const int buffer = static_cast<int>(k);
      const bool used = std::ranges::any_of(
          layout_.launches, [&](const Launch& l) { return std::ranges::count(l.buffers, buffer) > 0; });
      if (!used || layout_.buffers[k].bytes == 0) continue;
      const Port& port = k < layout_.inputs.size() ? layout_.inputs[k] : layout_.outputs[k - layout_.inputs.size()];
      Value* this_one = is_misplaced(
          function_->getArg(static_cast<unsigned>(k)), static_cast<std::uint64_t>(lang::bytes(port.dtype)));
      misplaced = misplaced ? b_.CreateOr(misplaced, this_one) : this_one;
    }
    if (misplaced) leave_if(misplaced, no_tensor);
  }

  void find_places() {
    const std::size_t given = layout_.inputs.size() + seen(), ports = layout_.inputs.size() + layout_.outputs.size();
    for (std::size_t k = 0; k < given; ++k) places_.push_back(function_->getArg(static_cast<unsigned>(k)));
    for (std::size_t k = given; k < ports; ++k) places_.push_back(b_.CreateAlloca(b_.getInt64Ty()));
    for (std::size_t k = ports; k < layout_.buffers.size(); ++k) places_.push_back(inside(layout_.buffers[k].offset));
    locals_ = inside(layout_.workspace);
  }
  Value* inside(std::int64_t offset) {
    return b_.CreateGEP(b_.getInt8Ty(), workspace(), b_.getInt64(static_cast<std::uint64_t>(offset)));
  }

  Function* function_;
  const Package& layout_;
  const std::vector<std::int64_t>& checks_;
  std::int64_t workers_;
  Builder b_;
  std::vector<Value*> places_;                         // per Package::buffers
  Value* locals_ = nullptr;
};

// Where `cpuid` says that a CPU has a feature.
struct Bit { const char* feature; unsigned leaf, reg, bit; };  // reg: eax, ebx, ecx, edx
constexpr Bit bits_of_cpuid[] = {
    {"sse", 1, 3, 25},
    {"sse2", 1, 3, 26},
    {"sse3", 1, 2, 0},
    {"ssse3", 1, 2, 9},
    {"fma", 1, 2, 12},
    {"sse4.1", 1, 2, 19},
    {"sse4.2", 1, 2, 20},
    {"movbe", 1, 2, 22},
    {"popcnt", 1, 2, 23},
    {"avx", 1, 2, 28},
    {"f16c", 1, 2, 29},
    {"bmi", 7, 1, 3},
    {"avx2", 7, 1, 5},
    {"bmi2", 7, 1, 8},
    {"avx512f", 7, 1, 16},
    {"avx512dq", 7, 1, 17},
    {"avx512cd", 7, 1, 28},
    {"avx512bw", 7, 1, 30},
    {"avx512vl", 7, 1, 31},
    {"lzcnt", 0x80000001, 2, 5},
};
constexpr std::array<unsigned, 3> leaves_of_cpuid = {1, 7, 0x80000001};

// i32 tilec.version(): 1 + the last version that this CPU can run, 0: none. Asked once; threads that ask at one time
// find the same.
class Chooser {
 public:
  Chooser(Maker& maker, const std::vector<Version>& versions) : maker_(maker) {
    auto* known = new GlobalVariable(maker.module(), maker.i32(), false, GlobalValue::InternalLinkage,
        ConstantInt::getSigned(maker.i32(), -1), "tilec.known");
    function_ = maker.internal(FunctionType::get(maker.i32(), false), "tilec.version");
    Builder b = maker.begin(function_);
    auto* old = b.CreateAlignedLoad(maker.i32(), known, llvm::Align(4));
    old->setAtomic(llvm::AtomicOrdering::Monotonic);
    BasicBlock *found = block("found"), *look = block("look");
    b.CreateCondBr(b.CreateICmpSGE(old, b.getInt32(0)), found, look);
    b.SetInsertPoint(found);
    b.CreateRet(old);
    b.SetInsertPoint(look);
    Value* chosen = choose(b, versions);
    b.CreateAlignedStore(chosen, known, llvm::Align(4))->setAtomic(llvm::AtomicOrdering::Monotonic);
    b.CreateRet(chosen);
  }
  Function* function() const { return function_; }

 private:
  using Registers = std::array<Value*, 4>;
  BasicBlock* block(const char* name) { return BasicBlock::Create(maker_.context(), name, function_); }

  Registers cpuid(Builder& b, unsigned leaf) const {
    auto* four = llvm::StructType::get(maker_.i32(), maker_.i32(), maker_.i32(), maker_.i32());
    auto* type = FunctionType::get(four, {maker_.i32(), maker_.i32()}, false);
    Value* all = b.CreateCall(type, llvm::InlineAsm::get(type, "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}", true),
        {b.getInt32(leaf), b.getInt32(0)});
    Registers registers{};
    for (unsigned r = 0; r < 4; ++r) registers[r] = b.CreateExtractValue(all, r);
    return registers;
  }

  // Registers of a leaf; zeros where there is none.
  Registers leaf(Builder& b, unsigned number) {
    Value* last = cpuid(b, number & 0x80000000u)[0];
    BasicBlock *from = b.GetInsertBlock(), *there = block("leaf"), *on = block("on");
    b.CreateCondBr(b.CreateICmpUGE(last, b.getInt32(number)), there, on);
    b.SetInsertPoint(there);
    const Registers asked = cpuid(b, number);
    b.CreateBr(on);
    b.SetInsertPoint(on);
    Registers registers{};
    for (std::size_t r = 0; r < 4; ++r) {
      llvm::PHINode* value = b.CreatePHI(maker_.i32(), 2);
      value->addIncoming(b.getInt32(0), from), value->addIncoming(asked[r], there);
      registers[r] = value;
    }
    return registers;
  }

  // What the system saves of a thread: bits of XCR0; 0 where it does not say.
  Value* saved_by_system(Builder& b, Value* leaf_1_ecx) {
    BasicBlock *from = b.GetInsertBlock(), *there = block("saved"), *on = block("on");
    b.CreateCondBr(b.CreateICmpNE(b.CreateAnd(leaf_1_ecx, b.getInt32(1u << 27)), b.getInt32(0)), there, on);
    b.SetInsertPoint(there);
    auto* type = FunctionType::get(llvm::StructType::get(maker_.i32(), maker_.i32()), {maker_.i32()}, false);
    Value* low = b.CreateExtractValue(
        b.CreateCall(type, llvm::InlineAsm::get(type, "xgetbv", "={ax},={dx},{cx}", true), {b.getInt32(0)}), 0);
    b.CreateBr(on);
    b.SetInsertPoint(on);
    llvm::PHINode* value = b.CreatePHI(maker_.i32(), 2);
    value->addIncoming(b.getInt32(0), from), value->addIncoming(low, there);
    return value;
  }

  Value* choose(Builder& b, const std::vector<Version>& versions) {
    std::array<Registers, leaves_of_cpuid.size()> leaves{};
    for (std::size_t l = 0; l < leaves.size(); ++l) leaves[l] = leaf(b, leaves_of_cpuid[l]);
    Value* saved = saved_by_system(b, leaves[0][2]);
    const auto all_of = [&](Value* where, unsigned mask) {
      return b.CreateICmpEQ(b.CreateAnd(where, b.getInt32(mask)), b.getInt32(mask));
    };
    Value* chosen = b.getInt32(0);
    for (std::size_t v = 0; v < versions.size(); ++v) {
      std::array<std::array<unsigned, 4>, leaves_of_cpuid.size()> masks{};
      unsigned state = 0;
      for (const std::string& feature : features_of(versions[v].target)) {
        const auto* bit =
            std::ranges::find_if(bits_of_cpuid, [&](const Bit& known) { return feature == known.feature; });
        if (bit == std::end(bits_of_cpuid)) throw lang::InternalError("no bit of cpuid is known for `" + feature + "`");
        masks[static_cast<std::size_t>(std::ranges::find(leaves_of_cpuid, bit->leaf) - leaves_of_cpuid.begin())]
             [bit->reg] |= 1u << bit->bit;
        state |= feature.starts_with("avx512") ? 0xe6u : feature.starts_with("avx") ? 0x6u : 0;
      }
      Value* fits = all_of(saved, state);
      for (std::size_t l = 0; l < masks.size(); ++l)
        for (std::size_t r = 0; r < 4; ++r)
          if (masks[l][r] != 0) fits = b.CreateAnd(fits, all_of(leaves[l][r], masks[l][r]));
      chosen = b.CreateSelect(fits, b.getInt32(static_cast<std::uint32_t>(v + 1)), chosen);
    }
    return chosen;
  }

  Maker& maker_;
  Function* function_ = nullptr;
};

std::string name_of_version(const EntryPoint& entry, std::size_t v) {
  return entry.versions.size() == 1 ? entry.name : fmt::format("{}.{}", entry.name, v);
}

std::size_t ports_of(const EntryPoint& entry) {
  return entry.versions[0].layout.inputs.size() + entry.versions[0].layout.outputs.size() - 2 * entry.checks.size();
}

// The functions of version `v` of every entry point.
void write_version(
    llvm::Module& module, const std::vector<EntryPoint>& entries, std::size_t v, std::int64_t workers, bool alone) {
  const Target& target = entries[0].versions[v].target;
  const Machine on = machine(target);
  set_up(module, on);
  Maker maker(module, on, target);
  std::vector<Function*> functions;
  for (const EntryPoint& entry : entries)
    functions.push_back(maker.external(maker.entry_type(ports_of(entry)), name_of_version(entry, v)));
  const bool parallel = workers > 1 && std::ranges::any_of(entries, has_parallel_loops);
  if (alone && parallel) define_parallel_for(maker);
  Pools pools(maker, workers);
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const Version& version = entries[e].versions[v];
    Driver(functions[e], version, entries[e].checks, workers)
        .write(version, bodies(module, on, target, version.kernels), pools);
  }
}

// size_t NAME_workspace(void)
void define_sizes(Maker& maker, const std::vector<EntryPoint>& entries, std::int64_t workers) {
  for (const EntryPoint& entry : entries) {
    Builder b = maker.begin(maker.external(FunctionType::get(maker.i64(), false), entry.name + "_workspace"));
    b.CreateRet(b.getInt64(static_cast<std::uint64_t>(workspace_bytes(entry, workers))));
  }
}

// int NAME(…): the version for this CPU
void define_choice(Maker& maker, const EntryPoint& entry, const Chooser& chooser) {
  Function* f = maker.external(maker.entry_type(ports_of(entry)), entry.name);
  Builder b = maker.begin(f);
  auto* none = BasicBlock::Create(maker.context(), "none", f);
  llvm::SwitchInst* which = b.CreateSwitch(b.CreateCall(chooser.function()), none);
  std::vector<Value*> arguments;
  for (llvm::Argument& argument : f->args()) arguments.push_back(&argument);
  for (std::size_t v = 0; v < entry.versions.size(); ++v) {
    Builder call = maker.begin(f, "version");
    which->addCase(b.getInt32(static_cast<std::uint32_t>(v + 1)), call.GetInsertBlock());
    call.CreateRet(call.CreateCall(
        maker.module().getOrInsertFunction(name_of_version(entry, v), f->getFunctionType()), arguments));
  }
  Builder(none).CreateRet(b.getInt32(no_cpu));
}

}  // namespace

std::int64_t workspace_bytes(const EntryPoint& entry, std::int64_t workers) {
  std::int64_t most = 0;
  for (const Version& version : entry.versions) most = std::max(most, bytes_of(version.layout, workers));
  return most;
}

bool has_parallel_loops(const EntryPoint& entry) {
  return std::ranges::any_of(entry.versions, [](const Version& version) {
    return std::ranges::any_of(
        version.kernels, [](const Loops* loops) { return has_parallel(loops->functions.back().body); });
  });
}

std::string object_ahead(const std::vector<EntryPoint>& entries, std::int64_t workers) {
  llvm::LLVMContext context;
  prepare(context);
  const std::size_t versions = entries.at(0).versions.size();
  Target least = entries[0].versions[0].target;
  if (versions > 1) least.arch = "x86-64", least.features.clear(), least.vector_bytes = 16;
  const Machine on = machine(least);
  llvm::Module module("tilec", context);
  Maker maker(module, on, least);
  if (versions == 1) {
    write_version(module, entries, 0, workers, true);
    define_sizes(maker, entries, workers);
  } else {
    set_up(module, on);
    const Chooser chooser(maker, entries[0].versions);
    for (const EntryPoint& entry : entries) define_choice(maker, entry, chooser);
    define_sizes(maker, entries, workers);
    if (workers > 1 && std::ranges::any_of(entries, has_parallel_loops)) define_parallel_for(maker);
    for (std::size_t v = 0; v < versions; ++v) {       // a module each: functions of one name may be called with
                                                       // vectors that only one CPU has
      auto part = std::make_unique<llvm::Module>("tilec", context);
      write_version(*part, entries, v, workers, false);
      if (llvm::Linker::linkModules(module, std::move(part)))
        throw lang::InternalError("LLVM does not link the versions of a program");
      for (const EntryPoint& entry : entries)
        module.getFunction(name_of_version(entry, v))->setLinkage(GlobalValue::InternalLinkage);
    }
  }
  check(module);
  return object(module, *on.target);
}

std::string archive_of(std::string_view object, const std::string& member) {
  const std::vector<llvm::NewArchiveMember> members = [&] {
    std::vector<llvm::NewArchiveMember> one;
    one.emplace_back(llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), member));
    return one;
  }();
  auto made = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NormalSymtab, llvm::object::Archive::K_GNU,
      true, false, [](llvm::Error fault) { llvm::consumeError(std::move(fault)); });
  if (!made) throw lang::InternalError("LLVM writes no archive: " + llvm::toString(made.takeError()));
  return (*made)->getBuffer().str();
}

}  // namespace tilec::codegen::llvm_backend
