#include "runtime/module.h"

#include <fmt/format.h>

#include "poly/no_memory.h"
#include "runtime/device.h"
#include "runtime/error.h"

namespace tilec::runtime {

namespace {

class ReferenceModule final : public Module {
 public:
  explicit ReferenceModule(poly::Program program) : program_(std::move(program)) {}
  void run(void* const* in, void* const* out) const override {
    std::vector<poly::Array> arrays;
    for (std::size_t k = 0; k < inputs.size(); ++k) arrays.push_back(to_array(view(inputs[k], in[k])));
    const poly::Interpretation result = interpreted(arrays);
    for (std::size_t k = 0; k < outputs.size(); ++k) from_array(result.outputs[k], view(outputs[k], out[k]));
  }
  void run_timed(void* const* in, void* const* out, std::vector<double>& milliseconds) const override {
    milliseconds.clear();
    run(in, out);
  }

 private:
  static Tensor view(const Port& port, void* data) {
    return Tensor{data, port.dtype, port.shape, port.strides, {kDLCPU, 0}, nullptr};
  }
  poly::Interpretation interpreted(const std::vector<poly::Array>& arrays) const {
    try {
      return poly::interpret(program_, arrays);
    } catch (const poly::NoMemory& fault) {
      throw machine_error(messages::out_of_memory, fault.tensor, fmt::format("{} bytes", fault.bytes));
    }
  }
  poly::Program program_;
};

template <class M>
std::shared_ptr<const Module> with_ports(
    std::shared_ptr<M> module, const poly::Program& program, const codegen::Request& request) {
  module->name = program.name;
  for (const poly::TensorId id : program.inputs) module->inputs.push_back(port_of(program.tensor(id)));
  for (const poly::TensorId id : program.outputs) module->outputs.push_back(port_of(program.tensor(id)));
  for (std::size_t k = 0; k < program.inputs.size(); ++k)
    if (const auto asked = request.strides.find(program.tensor(program.inputs[k]).name); asked != request.strides.end())
      module->inputs[k].strides = asked->second;
  for (const auto& [k, strides] : request.output_strides) module->outputs.at(k).strides = strides;
  return module;
}

}  // namespace

Port port_of(const poly::Tensor& tensor) {
  Port port{without_mark(tensor.name), tensor.dtype, {}, {}};
  for (const poly::Size& extent : tensor.shape) port.shape.push_back(extent.get());
  port.strides = row_major(port.shape);
  return port;
}

codegen::Until until_for(const codegen::Target& target) {
  return target.family == codegen::Target::Family::Reference ? codegen::Until::Bound : codegen::Until::Lowered;
}

std::shared_ptr<const Module> load_reference(const poly::Program& program, const codegen::Request& request) {
  return with_ports(std::make_shared<ReferenceModule>(program), program, request);
}

std::shared_ptr<const Module> load(const codegen::Package& package, const codegen::Request& request) {
  if (has_threads(request.target)) return load_device(package, request.in_place);
  if (request.target.name != "cpu") check_machine(package);
  return load_cpu(package, request.threads_hint);
}

}  // namespace tilec::runtime
