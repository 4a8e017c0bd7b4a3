// Packages become Modules. Nothing here knows a compiler, so a program that only loads and runs links none.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/target_words.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/extended.h"
#include "runtime/fork.h"
#include "runtime/machine.h"
#include "runtime/module.h"
#include "runtime/spare.h"

namespace tilec::runtime {

namespace {

DLDevice place_of(std::string_view target) {
  const auto words = codegen::target_words(target);
  return words
      ? DLDevice{words->kind == "cuda" ? kDLCUDA : kDLOpenCL, static_cast<std::int32_t>(words->device.value_or(0))}
      : DLDevice{kDLCPU, 0};
}

// Host tensors go to the device and back in every call; buffers stay for the next one.
class DeviceModule final : public Module {
 public:
  DeviceModule(const codegen::Package& from, bool in_place)
      : in_place_(in_place),
        target_(from.target),
        place_(place_of(from.target)),
        buffers_(from.buffers),
        workspace_(from.workspace),
        device_(open_device(from.target)),
        kernels_(device_->load(from)) {
    take(from, 0);
    for (std::size_t k = 0; k < inputs.size() + outputs.size(); ++k) {
      const Port& port = k < inputs.size() ? inputs[k] : outputs[k - inputs.size()];
      is_packed_ = is_packed_ && is_row_major(port);
      if (!in_place && byte_count(port.name, port.dtype, port.shape) != buffers_[k].bytes)
        throw machine_error(messages::bad_package, name, "a port has another size than its buffer");
    }
    if (in_place && !is_packed_) package = nullptr;      // which does not say that its strides are those of the device
  }

  // After fork() the device belongs to the parent: its memory is not ours to release.
  ~DeviceModule() override {
    if (generation() == generation_) return;
    while (auto memory = spare_.take()) static_cast<void>(memory.release());  // NOLINT(bugprone-unused-return-value)
    new std::shared_ptr<const Kernels>(std::move(kernels_));  // NOLINT(bugprone-unhandled-exception-at-new)
  }

  void run(void* const* in, void* const* out) const override { run_on_copies(in, out, nullptr); }
  void run_timed(void* const* in, void* const* out, std::vector<double>& milliseconds) const override {
    run_on_copies(in, out, &milliseconds);
  }

  bool has_device() const override { return true; }
  bool takes_strides() const override { return in_place_; }
  DLDevice device() const override { return place_; }
  std::int64_t device_workspace() const override {
    return buffers_.size() > inputs.size() + outputs.size() ? workspace_ : 0;
  }
  void run_on(void* const* in, void* const* out, void* workspace, void* stream) const override {
    if (generation() != generation_) throw device_of_parent(target_);
    std::vector<void*> addresses;
    addresses.reserve(buffers_.size());
    addresses.assign(in, in + inputs.size());
    addresses.insert(addresses.end(), out, out + outputs.size());
    for (std::size_t k = addresses.size(); k < buffers_.size(); ++k)
      addresses.push_back(static_cast<char*>(workspace) + buffers_[k].offset);
    device_->run_at(*kernels_, addresses, stream);
  }
  void copy_on(void* to, const void* from, std::int64_t bytes, void* stream) const override {
    device_->copy_at(to, from, bytes, stream);
  }

 private:
  void run_on_copies(void* const* in, void* const* out, std::vector<double>* milliseconds) const {
    if (generation() != generation_) throw device_of_parent(target_);
    if (in_place_ && !is_packed_)
      throw argument_error(messages::bad_call, "tilec_kernel_run", "the kernel is of strided tensors on its device")
          .hint("specialise the program for tensors of the host");
    std::unique_ptr<std::vector<Memory>> held = spare_.take();
    if (!held) held = new_memory();
    std::vector<Memory>& memory = *held;
    const std::size_t ins = inputs.size();
    for (std::size_t k = 0; k < ins; ++k) copy_in(memory[k], inputs[k], in[k], buffers_[k].bytes);
    device_->run(*kernels_, memory, milliseconds);
    for (std::size_t k = 0; k < outputs.size(); ++k)
      copy_out(outputs[k], out[k], memory[ins + k], buffers_[ins + k].bytes);
    spare_.give(std::move(held));
  }

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
    for (std::size_t k = ports; k < buffers_.size(); ++k)
      memory->push_back(device_->part(workspace, buffers_[k].offset, buffers_[k].bytes));
    return memory;
  }

  bool in_place_, is_packed_ = true;                     // packed: all ports are row-major
  std::string target_;
  DLDevice place_;
  std::vector<codegen::Place> buffers_;
  std::int64_t workspace_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<const Kernels> kernels_;
  Spare<std::vector<Memory>> spare_;
  int generation_ = generation();
};

// Forward of a pair, which hides what it keeps; or forward and backward, one behind the other.
class PairModule final : public Module {
 public:
  PairModule(std::shared_ptr<const Module> forward, std::size_t kept, std::shared_ptr<const Module> backward)
      : forward_(std::move(forward)), backward_(std::move(backward)) {
    name = forward_->name;
    inputs = forward_->inputs;
    take_launches(*forward_);
    workspace_ = backward_ ? std::max(forward_->workspace(), backward_->workspace()) : forward_->workspace();
    for (std::size_t k = forward_->outputs.size() - kept; k < forward_->outputs.size(); ++k) {
      const Port& port = forward_->outputs[k];
      kept_at_.push_back((workspace_ + 63) / 64 * 64);
      workspace_ = kept_at_.back() + byte_count(port.name, port.dtype, port.shape);
    }
    outputs.assign(forward_->outputs.begin(), forward_->outputs.end() - static_cast<std::ptrdiff_t>(kept));
    if (!backward_) return;
    take_launches(*backward_);
    const auto position = [](const std::vector<Port>& ports, const Port& port) {
      return static_cast<std::size_t>(std::ranges::find(ports, port.name, &Port::name) - ports.begin());
    };
    for (const Port& port : backward_->inputs) {
      const std::size_t made = position(forward_->outputs, port), given = position(inputs, port);
      if (made < forward_->outputs.size()) wires_.push_back({true, made});
      else wires_.push_back({false, given});
      if (made == forward_->outputs.size() && given == inputs.size()) inputs.push_back(port);
    }
    outputs.insert(outputs.end(), backward_->outputs.begin(), backward_->outputs.end());
  }

  void run(void* const* in, void* const* out) const override {
    std::unique_ptr<Tensor> own = borrowed();
    run_in(in, out, own->data);
    spare_.give(std::move(own));
  }
  void run_timed(void* const* in, void* const* out, std::vector<double>& milliseconds) const override {
    milliseconds.clear();
    std::unique_ptr<Tensor> own = borrowed();
    run_halves(in, out, own->data, [&](const Module& half, void* const* from, void* const* to, void*) {
      std::vector<double> times;
      half.run_timed(from, to, times);
      milliseconds.insert(milliseconds.end(), times.begin(), times.end());
    });
    spare_.give(std::move(own));
  }

  // What is kept lies behind what the halves need.
  std::int64_t workspace() const override { return workspace_; }
  std::int64_t device_workspace() const override {
    return backward_ ? std::max(forward_->device_workspace(), backward_->device_workspace())
                     : forward_->device_workspace();
  }
  void run_in(void* const* in, void* const* out, void* workspace) const override {
    run_halves(in, out, workspace,
        [](const Module& half, void* const* from, void* const* to, void* in_it) { half.run_in(from, to, in_it); });
  }

 private:
  struct Wire { bool made; std::size_t position; };      // an input of backward: what forward made, or an input of both

  std::unique_ptr<Tensor> borrowed() const {
    std::unique_ptr<Tensor> own = spare_.take();
    if (!own) own = std::make_unique<Tensor>(allocate("the workspace of " + name, DType::U8, {workspace_}));
    return own;
  }

  template <class Run> void run_halves(void* const* in, void* const* out, void* workspace, Run run) const {
    const std::size_t shown = forward_->outputs.size() - kept_at_.size();
    std::vector<void*> made(out, out + shown), taken;
    for (const std::int64_t at : kept_at_) made.push_back(static_cast<char*>(workspace) + at);
    run(*forward_, in, made.data(), workspace);
    if (!backward_) return;
    for (const Wire& wire : wires_) taken.push_back(wire.made ? made[wire.position] : in[wire.position]);
    run(*backward_, taken.data(), out + shown, workspace);
  }
  bool has_device() const override { return forward_->has_device(); }
  DLDevice device() const override { return forward_->device(); }

  std::shared_ptr<const Module> forward_, backward_;
  std::int64_t workspace_ = 0;
  std::vector<std::int64_t> kept_at_;                    // in the workspace, of what forward keeps
  std::vector<Wire> wires_;
  Spare<Tensor> spare_;                                  // workspaces for calls to come
};

std::shared_ptr<const Module> load_half(const codegen::Package& package, int threads) {
  if (package.form != codegen::Package::Code::Objects) return load_device(package);
  check_machine(package);
  try {
    return load_cpu(package, threads);
  } catch (const lang::InternalError& fault) {           // the file is at fault, not we
    throw machine_error(messages::bad_package, package.name.empty() ? "the package" : package.name, fault.what());
  }
}

}  // namespace

bool is_row_major(const Port& port) {
  return std::ranges::count(port.shape, 0) > 0 || port.strides == row_major(port.shape);
}

std::string without_mark(const std::string& name) {
  return !name.empty() && (name[0] == '#' || name[0] == '$') ? name.substr(1) : name;
}

void Module::take(const codegen::Package& from, int for_threads) {
  name = from.name;
  inputs = from.inputs;
  outputs = from.outputs;
  package = std::make_shared<const codegen::Package>(from);
  threads = for_threads;
  for (const codegen::Launch& launch : from.launches) launches.push_back(launch.kernel);
  for (const std::string& part : from.code) code += static_cast<std::int64_t>(part.size());
}

void Module::take_launches(const Module& inner) {
  launches.insert(launches.end(), inner.launches.begin(), inner.launches.end());
  code += inner.code;
}

namespace {

RuntimeError does_more() {
  return argument_error(messages::bad_call, "tilec_kernel_run_on", "the kernel does more than run on its device")
      .hint("`tilec_kernel_run` takes memory of the host");
}

}  // namespace

void Module::run_on(void* const*, void* const*, void*, void*) const { throw does_more(); }
void Module::copy_on(void*, const void*, std::int64_t, void*) const { throw does_more(); }

void check_machine(const codegen::Package& package) {
  if (const std::string why = package.code.empty() ? std::string() : cannot_run(package.architecture, package.features);
      !why.empty())
    throw machine_error(messages::no_device, package.target, why)
        .hint("`--emit=asm` and `--emit=object` need no such machine");
}

std::shared_ptr<const Module> load_device(const codegen::Package& package, bool in_place) {
  return std::make_shared<DeviceModule>(package, in_place);
}

Halves load_halves(const codegen::Package& package, int threads) {
  return {load_half(package, threads), package.backward.empty() ? nullptr : load_half(package.backward[0], threads)};
}

std::shared_ptr<const Module> load(const codegen::Package& package, int threads) {
  std::shared_ptr<const Module> forward = load_half(package, threads);
  if (!package.accumulate.empty()) {
    Extension extension{{package.accumulate.begin(), package.accumulate.end()}, {}, {}};
    for (const Port& port : package.outputs) extension.outputs.push_back(port.name);
    return extended(std::move(forward), std::move(extension), {});
  }
  if (package.kept == 0) return forward;
  return std::make_shared<PairModule>(std::move(forward), static_cast<std::size_t>(package.kept), nullptr);
}

std::shared_ptr<const Module> load_both(const codegen::Package& package, int threads) {
  const Halves halves = load_halves(package, threads);
  return std::make_shared<PairModule>(halves.forward, static_cast<std::size_t>(package.kept), halves.backward);
}

}  // namespace tilec::runtime
