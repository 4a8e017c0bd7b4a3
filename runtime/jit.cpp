// One LLJIT for the process, a library of its own for every Jit: creating a linker costs a millisecond, a library nothing.
// What generated code may call (libm, scratch memory) is given by address: a host that opens us with RTLD_LOCAL hides its libm.
#include "runtime/jit.h"

#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>

#ifdef __x86_64__
// Of libgcc: f16 on CPUs without F16C. Their types have no name in C++20; only their addresses are wanted.
extern "C" void __extendhfsf2();
extern "C" void __truncsfhf2();
#endif

namespace tilec::runtime {

namespace {

namespace orc = llvm::orc;

template <class T> T check(llvm::Expected<T> value) {
  if (!value) throw JitError("JIT: " + llvm::toString(value.takeError()));
  return static_cast<T&&>(*value);
}

void check(llvm::Error error) {
  if (error) throw JitError("JIT: " + llvm::toString(std::move(error)));
}

using F1 = float (*)(float);
using F2 = float (*)(float, float);
using D1 = double (*)(double);
using D2 = double (*)(double, double);

struct Known { const char* name; void* address; };

template <class T> void* address(T function) { return reinterpret_cast<void*>(function); }

#define TILEC_LIBM_1(f) Known{#f, address(static_cast<D1>(std::f))}, Known{#f "f", address(static_cast<F1>(std::f))}
#define TILEC_LIBM_2(f) Known{#f, address(static_cast<D2>(std::f))}, Known{#f "f", address(static_cast<F2>(std::f))}
const Known known[] = {
    TILEC_LIBM_1(exp),   TILEC_LIBM_1(log),   TILEC_LIBM_1(erf),   TILEC_LIBM_1(sin),   TILEC_LIBM_1(cos),   TILEC_LIBM_1(tan),
    TILEC_LIBM_1(asin),  TILEC_LIBM_1(acos),  TILEC_LIBM_1(atan),  TILEC_LIBM_1(sinh),  TILEC_LIBM_1(cosh),  TILEC_LIBM_1(tanh),
    TILEC_LIBM_1(asinh), TILEC_LIBM_1(acosh), TILEC_LIBM_1(atanh), TILEC_LIBM_1(sqrt),  TILEC_LIBM_1(ceil),  TILEC_LIBM_1(floor),
    TILEC_LIBM_1(trunc), TILEC_LIBM_1(round), TILEC_LIBM_2(pow),   TILEC_LIBM_2(fmod),  TILEC_LIBM_2(atan2),
    {"fma", address(static_cast<double (*)(double, double, double)>(std::fma))},
    {"fmaf", address(static_cast<float (*)(float, float, float)>(std::fma))},
    {"aligned_alloc", address(&aligned_alloc)},
    {"free", address(&std::free)},
    {"memcpy", address(&std::memcpy)},
    {"memset", address(&std::memset)},
    {"memmove", address(&std::memmove)},
#ifdef __x86_64__
    {"__extendhfsf2", address(&__extendhfsf2)},
    {"__truncsfhf2", address(&__truncsfhf2)},
#endif
};
#undef TILEC_LIBM_1
#undef TILEC_LIBM_2

struct Engine {
  std::unique_ptr<orc::LLJIT> jit;
  orc::JITDylib* common = nullptr;                     // what generated code may call
};

Engine start() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  Engine engine;
  engine.jit = check(orc::LLJITBuilder().create());
  engine.common = &check(engine.jit->createJITDylib("tilec.common"));
  orc::SymbolMap symbols;
  for (const Known& k : known) symbols[engine.jit->mangleAndIntern(k.name)] = {orc::ExecutorAddr::fromPtr(k.address), llvm::JITSymbolFlags::Exported};
  check(engine.common->define(orc::absoluteSymbols(std::move(symbols))));
  engine.common->addGenerator(check(orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(engine.jit->getDataLayout().getGlobalPrefix())));
  return engine;
}

// Never destroyed: kernels may still be called while the process ends.
Engine& engine() {
  static Engine* the = new Engine(start());
  return *the;
}

}  // namespace

struct Jit::Linked { orc::JITDylib* library = nullptr; };

Jit::Jit(const std::vector<std::string>& objects) : linked_(std::make_unique<Linked>()) {
  static std::atomic<unsigned> count{0};
  orc::LLJIT& jit = *engine().jit;
  orc::JITDylib& library = check(jit.createJITDylib("tilec." + std::to_string(count++)));
  linked_->library = &library;
  try {
    library.addToLinkOrder(*engine().common);
    for (const std::string& object : objects) check(jit.addObjectFile(library, llvm::MemoryBuffer::getMemBufferCopy(object, library.getName())));
  } catch (...) {
    llvm::consumeError(jit.getExecutionSession().removeJITDylib(library));
    throw;
  }
}

Jit::~Jit() {
  llvm::consumeError(engine().jit->getExecutionSession().removeJITDylib(*linked_->library));
}

void* Jit::symbol(std::string_view name) const {
  auto found = engine().jit->lookup(*linked_->library, llvm::StringRef(name.data(), name.size()));
  if (found) return found->toPtr<void*>();
  llvm::Error error = found.takeError();
  if (error.isA<orc::SymbolsNotFound>()) {
    bool ours = false;
    error = llvm::handleErrors(std::move(error), [&](const orc::SymbolsNotFound& missing) {
      for (const auto& symbol : missing.getSymbols()) ours = ours || (*symbol).ends_with(llvm::StringRef(name.data(), name.size()));
    });
    if (ours) {
      llvm::consumeError(std::move(error));
      return nullptr;
    }
    llvm::consumeError(std::move(error));
    throw JitError("JIT: `" + std::string(name) + "` calls a function that this process does not have");
  }
  throw JitError("JIT: " + llvm::toString(std::move(error)));
}

}  // namespace tilec::runtime
