#include "runtime/capi/handles.h"

namespace tilec::runtime {

tilec_kernel* handle_of(const std::shared_ptr<const Module>& module) {
  return new tilec_kernel{module, module->inputs, module->outputs, Caller(*module)};
}
const std::shared_ptr<const runtime::Module>& module_of(const tilec_kernel& kernel) { return kernel.module; }

}  // namespace tilec::runtime
