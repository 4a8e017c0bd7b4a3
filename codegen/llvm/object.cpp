#include "codegen/llvm/object.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <mutex>

#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

namespace {

// Loop strength reduction turns the row addresses of a micro-kernel into one serial chain of additions, which halves blocks one
// vector wide. Loops already say which pointers advance, so nothing is left for it to do.
struct NoStrengthReduction : llvm::OptPassGate {
  bool shouldRunPass(const llvm::StringRef pass, llvm::StringRef) override { return pass != "Loop Strength Reduction"; }
  bool isEnabled() const override { return true; }
};

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

// What LLVM believes of this cpu but a hypervisor hides. Almost always nothing, and short matters: code generation looks the
// subtarget up by this text for every pass over every function.
std::string hidden_features(const llvm::MCSubtargetInfo& cpu) {
  llvm::SubtargetFeatures features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    if (!feature.second && cpu.checkFeatures("+" + feature.first().str())) features.AddFeature(feature.first(), false);
  return features.getString();
}

std::string generate(llvm::Module& module, llvm::TargetMachine& target, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  if (target.addPassesToEmitFile(passes, out, nullptr, type)) throw lang::InternalError("LLVM cannot emit this kind of file");
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace

Machine machine(const Target& target) {
  initialise();
  const bool native = target.arch.empty() || target.arch == "native";
  const std::string triple = llvm::sys::getDefaultTargetTriple();
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend) throw lang::InternalError("LLVM: " + error);
  Machine m;
  m.cpu = native ? llvm::sys::getHostCPUName().str() : target.arch;
  const std::unique_ptr<llvm::MCSubtargetInfo> known(backend->createMCSubtargetInfo(triple, native ? m.cpu : "", ""));
  if (native) m.features = hidden_features(*known);
  else if (!known->isCPUStringValid(m.cpu)) throw lang::InternalError("LLVM knows no cpu `" + m.cpu + "`");
  m.target.reset(backend->createTargetMachine(triple, m.cpu, m.features, llvm::TargetOptions(), llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                              llvm::CodeGenOptLevel::Default));
  return m;
}

void prepare(llvm::LLVMContext& context) {
  static NoStrengthReduction gate;
  context.setOptPassGate(gate);
}

std::string object(llvm::Module& module, llvm::TargetMachine& target) { return generate(module, target, llvm::CodeGenFileType::ObjectFile); }
std::string assembly(llvm::Module& module, llvm::TargetMachine& target) { return generate(module, target, llvm::CodeGenFileType::AssemblyFile); }

}  // namespace tilec::codegen::llvm_backend
