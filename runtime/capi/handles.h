// The objects behind the C API's handles.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/module.h"
#include "runtime/overlap.h"
#include "runtime/specialise.h"
#include "runtime/xla.h"

struct tilec_file {
  std::shared_ptr<const tilec::runtime::Loaded> loaded;
  std::vector<std::string> functions;
};
struct tilec_program {
  std::shared_ptr<const tilec::runtime::Callable> callable;
  std::vector<std::string> inputs, outputs;
  std::string name;
  bool needs_all = true;                                       // of a derivative: no call leaves a cotangent or tangent
                                                               // out, as it may of a scalar beside values
};
struct tilec_kernel {
  std::shared_ptr<const tilec::runtime::Module> module;         // null: ports only
  std::vector<tilec::runtime::Port> inputs, outputs;
  std::optional<tilec::runtime::Caller> caller;                 // of the module
};
struct tilec_buffer { std::string bytes; };

namespace tilec::capi {

inline std::unique_ptr<tilec_kernel> kernel_of(const std::shared_ptr<const runtime::Module>& module) {
  return std::unique_ptr<tilec_kernel>(runtime::handle_of(module));
}

}  // namespace tilec::capi
