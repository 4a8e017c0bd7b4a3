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
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "codegen/llvm/emit.h"
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

// What LLVM believes of a cpu but this machine lacks. For the machine's own cpu almost always nothing (a hypervisor may hide some),
// and short matters: code generation looks the subtarget up by this text for every pass over every function.
std::vector<std::string> hidden_features(const llvm::MCSubtargetInfo& cpu) {
  std::vector<std::string> hidden;
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    if (!feature.second && cpu.checkFeatures("+" + feature.first().str())) hidden.push_back(feature.first().str());
  std::sort(hidden.begin(), hidden.end());
  return hidden;
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

namespace {

const llvm::Target& backend(const std::string& triple) {
  initialise();
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) throw lang::InternalError("LLVM: " + error);
  return *found;
}

std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const std::string& cpu) {
  const std::string triple = llvm::sys::getDefaultTargetTriple();
  return std::unique_ptr<llvm::MCSubtargetInfo>(backend(triple).createMCSubtargetInfo(triple, cpu, ""));
}

}  // namespace

std::optional<Cpu> cpu_named(std::string_view name) {
  const std::string host = llvm::sys::getHostCPUName().str();
  Cpu cpu{name.empty() ? host : std::string(name), false, {}};
  if (!subtarget("")->isCPUStringValid(cpu.name)) return std::nullopt;
  const auto known = subtarget(cpu.name);
  const std::vector<std::string> hidden = hidden_features(*known);
  const auto has = [&](const char* feature) {
    return llvm::Triple(llvm::sys::getDefaultTargetTriple()).isX86() && known->checkFeatures(std::string("+") + feature) &&
           (cpu.name != host || std::find(hidden.begin(), hidden.end(), feature) == hidden.end());
  };
  cpu.wide = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  // What compiled arithmetic may use; a cpu also names what only operating systems ask for.
  const auto used = [](const std::string& feature) {
    for (const char* prefix : {"avx", "sse", "ssse", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe", "gfni", "xop", "tbm"})
      if (feature.starts_with(prefix)) return true;
    return false;
  };
  const auto first = std::find_if(hidden.begin(), hidden.end(), used);
  if (cpu.name != host && first != hidden.end()) cpu.lacking = *first;
  return cpu;
}

Machine machine(const Target& target) {
  const std::string triple = llvm::sys::getDefaultTargetTriple(), host = llvm::sys::getHostCPUName().str();
  const llvm::Target& made_by = backend(triple);
  Machine m;
  m.cpu = target.arch.empty() ? host : target.arch;
  if (m.cpu == host)
    for (const std::string& feature : hidden_features(*subtarget(host))) m.features += (m.features.empty() ? "-" : ",-") + feature;
  else if (!subtarget("")->isCPUStringValid(m.cpu)) throw lang::InternalError("LLVM knows no cpu `" + m.cpu + "`");
  m.target.reset(made_by.createTargetMachine(triple, m.cpu, m.features, llvm::TargetOptions(), llvm::Reloc::PIC_, llvm::CodeModel::Small,
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
