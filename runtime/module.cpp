#include "runtime/module.h"

#include <fmt/format.h>

#include "poly/no_memory.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/fork.h"
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
  explicit DeviceModule(const codegen::Package& package) : package_(package), device_(open_device(package.target)), kernels_(device_->load(package)) {
    for (const codegen::Buffer& buffer : package_.buffers) bytes_.push_back(buffer.count() * lang::bytes(buffer.dtype));
  }

  // After fork() the device belongs to the parent: its memory is not ours to release.
  ~DeviceModule() override {
    if (generation() == generation_) return;
    while (auto memory = spare_.take()) static_cast<void>(memory.release());
    new std::shared_ptr<const Kernels>(std::move(kernels_));
  }

  void run(void* const* in, void* const* out) const override {
    if (generation() != generation_) throw device_of_parent(package_.target);
    std::unique_ptr<std::vector<Memory>> held = spare_.take();
    if (!held) held = new_memory();
    std::vector<Memory>& memory = *held;
    const std::size_t ins = inputs.size();
    for (std::size_t k = 0; k < ins; ++k) copy_in(memory[k], inputs[k], in[k], bytes_[k]);
    device_->run(*kernels_, memory);
    for (std::size_t k = 0; k < outputs.size(); ++k) copy_out(outputs[k], out[k], memory[ins + k], bytes_[ins + k]);
    spare_.give(std::move(held));
  }

 private:
  // A package of a device is specialised to row-major buffers; a strided host tensor is packed on the way.
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
    for (const std::int64_t bytes : bytes_) memory->push_back(device_->allocate(bytes));
    return memory;
  }

  codegen::Package package_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<const Kernels> kernels_;
  std::vector<std::int64_t> bytes_;
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

codegen::Until until_for(const codegen::Target& target) { return target.family == codegen::Target::Family::Reference ? codegen::Until::Bound : codegen::Until::Package; }

std::shared_ptr<const Module> load_reference(const poly::Program& program, const codegen::Request& request) {
  return with_ports(std::make_shared<ReferenceModule>(program), program, request);
}

std::shared_ptr<const Module> load_device(const codegen::Package& package, const codegen::Request& request) {
  auto module = std::make_shared<DeviceModule>(package);
  module->name = package.name;
  ports_of(package, request, *module);
  return module;
}

void ports_of(const codegen::Package& package, const codegen::Request& request, Module& module) {
  const auto inputs = static_cast<std::size_t>(package.inputs), outputs = static_cast<std::size_t>(package.outputs);
  for (std::size_t k = 0; k < inputs + outputs; ++k) {
    const codegen::Buffer& buffer = package.buffers[k];
    (k < inputs ? module.inputs : module.outputs).push_back({without_mark(buffer.name), buffer.dtype, buffer.shape, buffer.strides});
    if (const auto asked = request.strides.find(buffer.name); k < inputs && asked != request.strides.end()) module.inputs.back().strides = asked->second;
  }
  for (const auto& [k, strides] : request.output_strides) module.outputs.at(k).strides = strides;
}

std::shared_ptr<const Module> load(const codegen::Stages& stages, const codegen::Request& request) {
  switch (request.target.family) {
    case codegen::Target::Family::Reference: return load_reference(stages.bounded ? *stages.bounded : *stages.bound, request);
    case codegen::Target::Family::Cpu: return load_cpu(*stages.package, request);
    default: return load_device(*stages.package, request);
  }
}

}  // namespace tilec::runtime
