// Kernels as functions of an LLVM module, for who calls them from code of its own (ahead.h).
//
//   Loops `k0_O`   ⇒   define internal void @k0_O.body(ptr noalias views…, i64 integers…, ptr pool, ptr locals)
#pragma once

#include <llvm/IR/Module.h>

#include <map>
#include <string>
#include <vector>

#include "codegen/llvm/object.h"
#include "codegen/loops.h"

namespace tilec::codegen::llvm_backend {

void set_up(llvm::Module& module, const Machine& on);  // triple, layout, position independence
std::map<std::string, llvm::Function*> bodies(
    llvm::Module& module, const Machine& on, const Target& target, const std::vector<const Loops*>& kernels);
void check(const llvm::Module& module);                // throws lang::InternalError

}  // namespace tilec::codegen::llvm_backend
