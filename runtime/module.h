// A package loaded for its target: what one call of one program at one shape runs.
//
//   std::shared_ptr<const Module> f = load(stages, target);
//   void* in[] = {a.data, b.data}; void* out[] = {c.data};
//   f->run(in, out);
//
// A Module may be used from several threads at once: scratch belongs to a call. `run` waits for its outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/pipeline.h"
#include "runtime/parallel.h"
#include "runtime/tensor.h"

namespace tilec::runtime {

// An input or output as the module was specialised: the pointer given to run() is of element 0.
struct Port {
  std::string name;                                    // without mark
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape, strides;            // strides in elements
};

class Module {
 public:
  virtual ~Module() = default;
  std::string name;
  std::vector<Port> inputs, outputs;                   // in the program's order
  virtual void run(void* const* inputs, void* const* outputs) const = 0;
};

// `stages` reach as far as until_for(target) says.
std::shared_ptr<const Module> load(const codegen::Stages& stages, const codegen::Request& request);
codegen::Until until_for(const codegen::Target& target);

// The interpreter over a bound Program; its magnitudes are for --check.
std::shared_ptr<const Module> load_reference(const poly::Program& program, const codegen::Request& request);
// Machine code in this process (cpu.cpp), and a GPU or PoCL behind a Device.
std::shared_ptr<const Module> load_cpu(const codegen::Package& package, const codegen::Request& request);
std::shared_ptr<const Module> load_device(const codegen::Package& package, const codegen::Request& request);

Port port_of(const poly::Tensor& tensor);              // row-major
// Strides as asked for, else the package's.
void ports_of(const codegen::Package& package, const codegen::Request& request, Module& module);
std::string without_mark(const std::string& name);     // `#a` is `a` to the API

}  // namespace tilec::runtime
