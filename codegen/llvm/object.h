// LLVM module → machine code, without an IR pass pipeline: what the emitter wrote is what runs.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>

#include "codegen/target.h"

namespace llvm { class TargetMachine; }

namespace tilec::codegen::llvm_backend {

struct Machine {
  std::string cpu, features;                           // as function attributes spell them
  std::unique_ptr<llvm::TargetMachine> target;
};
Machine machine(const Target& target);                 // throws lang::InternalError when LLVM has no code for
                                                       // target.triple

void prepare(llvm::LLVMContext& context);              // which code generation passes may run in it
std::string object(llvm::Module& module, llvm::TargetMachine& target);    // consumes the module's IR
std::string assembly(llvm::Module& module, llvm::TargetMachine& target);  // likewise

}  // namespace tilec::codegen::llvm_backend
