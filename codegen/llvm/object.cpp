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
#include <map>
#include <mutex>
#include <vector>

#include "codegen/llvm/emit.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::llvm_backend {

namespace {

// Loop strength reduction turns the row addresses of a micro-kernel into one serial chain of additions, which halves
// blocks one vector wide. Loops already say which pointers advance, so nothing is left for it to do.
struct NoStrengthReduction : llvm::OptPassGate {
  bool shouldRunPass(const llvm::StringRef pass, llvm::StringRef) override { return pass != "Loop Strength Reduction"; }
  bool isEnabled() const override { return true; }
};

// Of the two architectures that tilec knows, by name: a static build holds no others.
void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();                      // of `cpuid`, which is inline assembly (ahead.cpp)
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

std::string generate(llvm::Module& module, llvm::TargetMachine& target, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  if (target.addPassesToEmitFile(passes, out, nullptr, type))
    throw lang::InternalError("LLVM cannot emit this kind of file");
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

// Null: this LLVM was built without code for it.
const llvm::Target* backend(const std::string& triple) {
  initialise();
  std::string error;
  return llvm::TargetRegistry::lookupTarget(triple, error);
}

struct Subtarget {
  llvm::Triple triple;
  std::unique_ptr<llvm::MCSubtargetInfo> info;

  Subtarget(const std::string& of, const std::string& cpu)
      : triple(of), info(backend(of) ? backend(of)->createMCSubtargetInfo(of, cpu, "") : nullptr) {}
  bool has(const std::string& feature) const { return info->checkFeatures("+" + feature); }
};

std::string host_triple() { return llvm::sys::getDefaultTargetTriple(); }

// The triple of another architecture, on the operating system that this machine has; of its own, its own.
std::string triple_for(llvm::Triple::ArchType architecture) {
  llvm::Triple triple(host_triple());
  if (triple.getArch() == architecture) return triple.str();
  triple.setArch(architecture);
  triple.setVendor(llvm::Triple::UnknownVendor);
  return triple.str();
}

// What LLVM believes of a cpu but this machine lacks. For the machine's own cpu almost always nothing (a hypervisor may
// hide some), and short matters: code generation looks the subtarget up by this text for every pass over every
// function.
std::vector<std::string> hidden_features(const Subtarget& cpu) {
  std::vector<std::string> hidden;
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    if (!feature.second && cpu.has(feature.first().str())) hidden.push_back(feature.first().str());
  std::sort(hidden.begin(), hidden.end());
  return hidden;
}

// Whether compiled arithmetic may use a feature; a cpu also names what only operating systems ask for.
bool used_by_arithmetic(std::string_view feature) {
  // x86
  for (const char* prefix :
      {"avx", "sse", "ssse", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe", "gfni", "xop", "tbm",
          // AArch64
          "neon", "fp", "fullfp16", "dotprod", "bf16", "i8mm", "sve", "lse", "jsconv"})
    if (feature.starts_with(prefix)) return true;
  return false;
}

// Vectors and registers as a plan counts them. `usable` says whether code may rely on a feature.
template <class Usable> void describe_vectors(Cpu& cpu, const llvm::Triple& triple, const Usable& usable) {
  const bool x86 = triple.isX86();
  const bool wide = x86 && usable("avx512f") && usable("avx512bw") && usable("avx512dq") && usable("avx512vl");
  cpu.vector_bytes = wide ? 64 : x86 && usable("avx") ? 32 : 16;
  cpu.vector_registers = wide || !x86 ? 32 : 16;
}

Cpu this_cpu() {
  const Subtarget known(host_triple(), llvm::sys::getHostCPUName().str());
  Cpu cpu{llvm::sys::getHostCPUName().str(), host_triple(), {}};
  const std::vector<std::string> hidden = hidden_features(known);
  for (const std::string& feature : hidden) cpu.features += (cpu.features.empty() ? "-" : ",-") + feature;
  describe_vectors(cpu, known.triple, [&](const char* feature) {
    return known.has(feature) && !std::binary_search(hidden.begin(), hidden.end(), feature);
  });
  return cpu;
}

// `name` as a CPU of one architecture. Nothing of this machine enters it.
std::optional<Cpu> cpu_of(llvm::Triple::ArchType architecture, const std::string& name) {
  const std::string triple = triple_for(architecture);
  const Subtarget any(triple, "");
  if (!any.info || !any.info->isCPUStringValid(name)) return std::nullopt;
  const Subtarget known(triple, name);
  if (known.triple.isX86() && !known.has("64bit")) return std::nullopt;
  Cpu cpu{name, triple, {}};
  describe_vectors(cpu, known.triple, [&](const char* feature) { return known.has(feature); });
  return cpu;
}

}  // namespace

std::optional<Cpu> cpu_named(std::string_view name) {
  using llvm::Triple;
  static const Cpu here_now = this_cpu();              // a millisecond, and every compilation asks
  if (name.empty()) return here_now;
  if (name == "aarch64") return cpu_of(Triple::aarch64, "generic");
  // A name that both have (`generic`) means this machine's kind.
  const auto here = Triple(host_triple()).getArch();
  for (const auto architecture : {here == Triple::aarch64 ? Triple::aarch64 : Triple::x86_64,
           here == Triple::aarch64 ? Triple::x86_64 : Triple::aarch64})
    if (std::optional<Cpu> found = cpu_of(architecture, std::string(name))) return found;
  return std::nullopt;
}

std::vector<std::string> features_of(const Target& target) {
  static std::mutex mutex;                               // LLVM takes half a millisecond to say, and every compilation
                                                         // asks
  static std::map<std::string, std::vector<std::string>> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(target.triple + " " + target.arch + " " + target.features);
  if (!is_new) return at->second;
  const Subtarget cpu(target.triple, target.arch);
  const std::string without = "," + target.features + ",";
  std::vector<std::string>& features = at->second;
  for (const llvm::SubtargetFeatureKV& feature : cpu.info->getAllProcessorFeatures())
    if (const std::string name = feature.Key;
        cpu.has(name) && used_by_arithmetic(name) && without.find(",-" + name + ",") == std::string::npos)
      features.push_back(name);
  return features;
}

Machine machine(const Target& target) {
  const llvm::Target* made_by = backend(target.triple);
  if (!made_by) throw lang::InternalError("LLVM has no code for `" + target.triple + "`");
  Machine m{target.arch, target.features, nullptr};
  m.target.reset(made_by->createTargetMachine(target.triple, m.cpu, m.features, llvm::TargetOptions(),
      llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  return m;
}

void prepare(llvm::LLVMContext& context) {
  static NoStrengthReduction gate;
  context.setOptPassGate(gate);
}

std::string object(llvm::Module& module, llvm::TargetMachine& target) {
  return generate(module, target, llvm::CodeGenFileType::ObjectFile);
}
std::string assembly(llvm::Module& module, llvm::TargetMachine& target) {
  return generate(module, target, llvm::CodeGenFileType::AssemblyFile);
}

}  // namespace tilec::codegen::llvm_backend
