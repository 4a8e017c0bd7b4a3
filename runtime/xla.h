// Kernels that XLA calls, by a text that their call carries.
//
//   "0:tilec package 2\n…"      a package, and the threads it runs on: all there is to say, so that an executable can
//                               be kept, exported and loaded elsewhere
//   "process 5f3a…-7"           a kernel that no package says (the interpreter, checked): of this process, as long as
//                               somebody holds it
//
// XLA instantiates a call with its executable, and destroys what it was given with it: that holds the kernel.
#pragma once
#include <memory>
#include <string>

#include "runtime/module.h"
#include "tilec/tilec.h"

namespace tilec::runtime {

// In capi/handles.cpp: a handle for a module, and the module of one that is not ports only.
tilec_kernel* handle_of(const std::shared_ptr<const Module>& module);
const std::shared_ptr<const Module>& module_of(const tilec_kernel& kernel);

std::string text_for_xla(const std::shared_ptr<const Module>& module);

}  // namespace tilec::runtime
