#include "runtime/module.h"

#include <fmt/format.h>

#include "poly/no_memory.h"
#include "runtime/assemble.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/fork.h"
#include "runtime/machine.h"
#include "runtime/spare.h"

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

 private:
  static Tensor view(const Port& port, void* data) { return Tensor{data, port.dtype, port.shape, port.strides, {kDLCPU, 0}, nullptr}; }
  poly::Interpretation interpreted(const std::vector<poly::Array>& arrays) const {
    try {
      return poly::interpret(program_, arrays);
    } catch (const poly::NoMemory& fault) {
      throw machine_error(messages::out_of_memory, fault.tensor, fmt::format("{} bytes", fault.bytes));
    }
  }
  poly::Program program_;
};

// Host tensors go to the device and back in every call; buffers stay for the next one.
class DeviceModule final : public Module {
 public:
  explicit DeviceModule(const codegen::Package& package)
      : target_(package.target), buffers_(package.buffers), workspace_(package.workspace), device_(open_device(package.target)), kernels_(device_->load(package)) {
    name = package.name;
    inputs = package.inputs;
    outputs = package.outputs;
  }

  // After fork() the device belongs to the parent: its memory is not ours to release.
  ~DeviceModule() override {
    if (generation() == generation_) return;
    while (auto memory = spare_.take()) static_cast<void>(memory.release());
    new std::shared_ptr<const Kernels>(std::move(kernels_));
  }

  void run(void* const* in, void* const* out) const override {
    if (generation() != generation_) throw device_of_parent(target_);
    std::unique_ptr<std::vector<Memory>> held = spare_.take();
    if (!held) held = new_memory();
    std::vector<Memory>& memory = *held;
    const std::size_t ins = inputs.size();
    for (std::size_t k = 0; k < ins; ++k) copy_in(memory[k], inputs[k], in[k], buffers_[k].bytes);
    device_->run(*kernels_, memory);
    for (std::size_t k = 0; k < outputs.size(); ++k) copy_out(outputs[k], out[k], memory[ins + k], buffers_[ins + k].bytes);
    spare_.give(std::move(held));
  }

 private:
  // The buffers of a device are row-major; a strided host tensor is packed on the way.
  void copy_in(const Memory& to, const Port& port, void* data, std::int64_t bytes) const {
    const Tensor tensor{data, port.dtype, port.shape, port.strides, {kDLCPU, 0}, nullptr};
    if (tensor.is_row_major()) return device_->copy_in(to, data, bytes);
    const Tensor packed = convert(port.name, tensor, port.dtype);
    device_->copy_in(to, packed.data, bytes);
  }
  void copy_out(const Port& port, void* data, const Memory& from, std::int64_t bytes) const {
    const Tensor tensor{data, port.dtype, port.shape, port.strides, {kDLCPU, 0}, nullptr};
    if (tensor.is_row_major()) return device_->copy_out(data, from, bytes);
    const Tensor packed = allocate(port.name, port.dtype, port.shape);
    device_->copy_out(packed.data, from, bytes);
    from_array(to_array(packed), tensor);
  }
  std::unique_ptr<std::vector<Memory>> new_memory() const {
    auto memory = std::make_unique<std::vector<Memory>>();
    const std::size_t ports = inputs.size() + outputs.size();
    for (std::size_t k = 0; k < ports; ++k) memory->push_back(device_->allocate(buffers_[k].bytes));
    if (buffers_.size() == ports) return memory;
    const Memory workspace = device_->allocate(workspace_);
    for (std::size_t k = ports; k < buffers_.size(); ++k) memory->push_back(device_->part(workspace, buffers_[k].offset, buffers_[k].bytes));
    return memory;
  }

  std::string target_;
  std::vector<codegen::Place> buffers_;
  std::int64_t workspace_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<const Kernels> kernels_;
  Spare<std::vector<Memory>> spare_;
  int generation_ = generation();
};

template <class M> std::shared_ptr<const Module> with_ports(std::shared_ptr<M> module, const poly::Program& program, const codegen::Request& request) {
  module->name = program.name;
  for (const poly::TensorId id : program.inputs) module->inputs.push_back(port_of(program.tensor(id)));
  for (const poly::TensorId id : program.outputs) module->outputs.push_back(port_of(program.tensor(id)));
  for (std::size_t k = 0; k < program.inputs.size(); ++k)
    if (const auto asked = request.strides.find(program.tensor(program.inputs[k]).name); asked != request.strides.end()) module->inputs[k].strides = asked->second;
  for (const auto& [k, strides] : request.output_strides) module->outputs.at(k).strides = strides;
  return module;
}

}  // namespace

std::string without_mark(const std::string& name) { return !name.empty() && (name[0] == '#' || name[0] == '$') ? name.substr(1) : name; }

Port port_of(const poly::Tensor& tensor) {
  Port port{without_mark(tensor.name), tensor.dtype, {}, {}};
  for (const poly::Size& extent : tensor.shape) port.shape.push_back(extent.get());
  port.strides = row_major(port.shape);
  return port;
}

codegen::Until until_for(const codegen::Target& target) { return target.family == codegen::Target::Family::Reference ? codegen::Until::Bound : codegen::Until::Lowered; }

std::shared_ptr<const Module> load_reference(const poly::Program& program, const codegen::Request& request) {
  return with_ports(std::make_shared<ReferenceModule>(program), program, request);
}

std::shared_ptr<const Module> load_device(const codegen::Package& package) { return std::make_shared<DeviceModule>(package); }

namespace {

void check_machine(const codegen::Package& package) {
  if (const std::string why = package.code.empty() ? std::string() : cannot_run(package.architecture, package.features); !why.empty())
    throw machine_error(messages::no_device, package.target, why).hint("`--emit=asm` and `--emit=object` need no such machine");
}

}  // namespace

std::shared_ptr<const Module> load(const codegen::Package& package, int threads) {
  if (package.form != codegen::Package::Code::Objects) return load_device(package);
  check_machine(package);
  try {
    return load_cpu(package, threads);
  } catch (const lang::InternalError& fault) {           // the file is at fault, not we
    throw machine_error(messages::bad_package, package.name.empty() ? "the package" : package.name, fault.what());
  }
}

std::shared_ptr<const Module> load(const codegen::Stages& stages, const codegen::Request& request) {
  if (request.target.family == codegen::Target::Family::Reference) return load_reference(*stages.bounded, request);
  if (has_threads(request.target)) open_device(request.target.name)->check_compiler();  // that it is not there is said before code is made for it
  const codegen::Package package = assemble(*stages.lowered, request);
  if (has_threads(request.target)) return load_device(package);
  if (request.target.name != "cpu") check_machine(package);
  return load_cpu(package, request.threads_hint);
}

}  // namespace tilec::runtime
