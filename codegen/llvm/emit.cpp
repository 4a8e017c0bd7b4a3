// A module per call: every kernel's functions, its tables, its entry point. Functions without calls that print alike
// are one.
#include "codegen/llvm/emit.h"

#include <fmt/format.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "codegen/llvm/body.h"
#include "codegen/llvm/kernels.h"
#include "codegen/llvm/object.h"
#include "codegen/locals.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

namespace {

bool has_calls(const Body& body) {
  for (const Stmt& s : body) {
    if (std::holds_alternative<CallStmt>(s.node)) return true;
    if (const auto* loop = std::get_if<For>(&s.node)) if (has_calls(loop->body)) return true;
    if (const auto* test = std::get_if<If>(&s.node))
      if (has_calls(test->then) || has_calls(test->otherwise)) return true;
  }
  return false;
}

class ModuleEmitter {
 public:
  ModuleEmitter(llvm::Module& module, const Machine& machine, const Target& target)
      : module_(module), cpu_(machine.cpu), features_(machine.features), vector_bytes_(target.vector_bytes) {}

  void kernel(const Loops& loops) { entry(loops.functions.back(), body(loops)); }

  llvm::Function* body(const Loops& loops) {
    Surroundings around{&module_, {}, {}, cpu_, features_, vector_bytes_, local_bytes(loops)};
    for (const Table& t : loops.tables) around.tables[t.name] = table(t);
    for (std::size_t i = 0; i + 1 < loops.functions.size(); ++i)
      around.functions[loops.functions[i].name] = shared(around, loops, loops.functions[i]);
    return function(around, loops.functions.back(), true);
  }

 private:
  // Printed without its name, and with the tables it may read, a function without calls is its own key.
  llvm::Function* shared(const Surroundings& around, const Loops& loops, const Function& f) {
    if (has_calls(f.body)) return function(around, f, false);
    Function nameless = f;
    nameless.name.clear();
    std::string key = print(nameless);
    for (const Table& t : loops.tables)
      if (key.find(t.name + "[") != std::string::npos)
        key += fmt::format("{} = [{}]\n", t.name, fmt::join(t.values, ", "));
    llvm::Function*& known = shared_[key];
    if (!known) known = function(around, f, false);
    return known;
  }

  llvm::GlobalVariable* table(const Table& t) {
    std::vector<std::uint64_t> bits(t.values.begin(), t.values.end());
    auto* values = llvm::ConstantDataArray::get(module_.getContext(), bits);
    auto* global =
        new llvm::GlobalVariable(module_, values->getType(), true, llvm::GlobalValue::InternalLinkage, values, t.name);
    global->setAlignment(llvm::Align(64));
    return global;
  }

  // void f(ptr noalias views..., i64 integers...[, ptr pool, ptr locals])
  llvm::Function* function(const Surroundings& around, const Function& f, bool is_kernel) {
    llvm::LLVMContext& context = module_.getContext();
    std::vector<llvm::Type*> types(f.views.size(), llvm::PointerType::getUnqual(context));
    types.resize(types.size() + f.integers.size(), llvm::Type::getInt64Ty(context));
    if (is_kernel) types.insert(types.end(), 2, llvm::PointerType::getUnqual(context));
    llvm::Function* out =
        new_function(around, llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false), f.name + ".body");
    const auto from_end = [&](std::size_t k) {
      return is_kernel ? out->getArg(static_cast<unsigned>(types.size() - k)) : nullptr;
    };
    BodyEmitter emitter(around, out, from_end(2), from_end(1));
    unsigned at = 0;
    for (const ViewParameter& v : f.views) {
      out->addParamAttr(at, llvm::Attribute::NoAlias);
      if (v.alignment > 0)
        out->addParamAttr(
            at, llvm::Attribute::getWithAlignment(context, llvm::Align(static_cast<std::uint64_t>(v.alignment))));
      Place place;
      place.type = v.type, place.pointer = out->getArg(at), place.base = static_cast<int>(at);
      emitter.define(v.name, place);
      out->getArg(at++)->setName(v.name);
    }
    for (const std::string& name : f.integers) {
      emitter.define(name, Lanes{DType::I64, out->getArg(at)});
      out->getArg(at++)->setName(name);
    }
    emitter.body(f.body);
    emitter.finish();
    return out;
  }

  // void k(ptr views and integers, ptr pool, ptr locals)
  void entry(const Function& f, llvm::Function* body) {
    if (module_.getFunction(f.name)) throw lang::InternalError("LLVM emitter: two kernels named `" + f.name + "`");
    Surroundings around{&module_, {}, {}, cpu_, features_, vector_bytes_, 0};
    llvm::Type* pointer = llvm::PointerType::getUnqual(module_.getContext());
    auto* type =
        llvm::FunctionType::get(llvm::Type::getVoidTy(module_.getContext()), {pointer, pointer, pointer}, false);
    llvm::Function* out = new_function(around, type, f.name);
    out->setLinkage(llvm::GlobalValue::ExternalLinkage);
    Builder b(llvm::BasicBlock::Create(module_.getContext(), "entry", out));
    std::vector<llvm::Value*> arguments;
    for (std::size_t i = 0; i < f.views.size(); ++i)
      arguments.push_back(b.CreateLoad(pointer, b.CreateConstInBoundsGEP1_64(pointer, out->getArg(0), i)));
    for (std::size_t i = 0; i < f.integers.size(); ++i)
      arguments.push_back(
          b.CreateLoad(b.getInt64Ty(), b.CreateConstInBoundsGEP1_64(pointer, out->getArg(0), f.views.size() + i)));
    arguments.push_back(out->getArg(1));
    arguments.push_back(out->getArg(2));
    b.CreateCall(body, arguments);
    b.CreateRetVoid();
  }

  llvm::Module& module_;
  std::string cpu_, features_;
  int vector_bytes_;
  std::map<std::string, llvm::Function*> shared_;
};

}  // namespace

void check(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (llvm::verifyModule(module, &out)) throw lang::InternalError("LLVM emitter: " + text);
}

void set_up(llvm::Module& module, const Machine& on) {
  module.setTargetTriple(on.target->getTargetTriple().str());
  module.setDataLayout(on.target->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
}

std::map<std::string, llvm::Function*> bodies(
    llvm::Module& module, const Machine& on, const Target& target, const std::vector<const Loops*>& kernels) {
  ModuleEmitter emitter(module, on, target);
  std::map<std::string, llvm::Function*> made;
  for (const Loops* loops : kernels) made[loops->functions.back().name] = emitter.body(*loops);
  return made;
}

Module emit(const std::vector<const Loops*>& kernels, const Target& target, const Options& options) {
  const Machine on = machine(target);
  llvm::LLVMContext context;
  prepare(context);
  llvm::Module module("tilec", context);
  set_up(module, on);
  ModuleEmitter emitter(module, on, target);
  for (const Loops* loops : kernels) emitter.kernel(*loops);
  check(module);

  Module out;
  if (options.ir) {
    llvm::raw_string_ostream stream(out.ir);
    module.print(stream, nullptr);
  }
  if (options.assembly) out.assembly = assembly(*llvm::CloneModule(module), *on.target);
  if (options.object) out.object = object(module, *on.target);
  return out;
}

std::vector<std::string> objects(const std::vector<const Loops*>& kernels, const Target& target) {
  // of any machine the same, so that packages are
  std::vector<std::string> out(std::min<std::size_t>(kernels.size(), 8));
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t part = next++; part < out.size(); part = next++) {
      std::vector<const Loops*> some;
      for (std::size_t k = part; k < kernels.size(); k += out.size()) some.push_back(kernels[k]);
      out[part] = emit(some, target).object;
    }
  };
  std::vector<std::future<void>> others;
  for (std::size_t t = 1; t < std::min<std::size_t>(out.size(), std::thread::hardware_concurrency()); ++t)
    others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
  return out;
}

}  // namespace tilec::codegen::llvm_backend
