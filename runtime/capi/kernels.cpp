#include "runtime/capi/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "lang/messages.h"
#include "runtime/capi/error.h"
#include "runtime/capi/given.h"
#include "runtime/error.h"
#include "runtime/package_file.h"

namespace tilec::capi {
namespace {

namespace messages = lang::messages;

tilec_status port_at(const tilec_kernel* kernel, std::vector<runtime::Port> tilec_kernel::* side, std::size_t position,
    tilec_port* port, const char* function) {
  return guarded([&] {
    const std::vector<runtime::Port>& ports = need(kernel, function, "kernel").*side;
    static_cast<void>(need(port, function, "port"));
    if (position >= ports.size()) misuse(function, fmt::format("there is no port {}, of {}", position, ports.size()));
    const runtime::Port& p = ports[position];
    *port = {p.name.c_str(), runtime::dl_type(p.dtype), static_cast<std::int32_t>(p.shape.size()), p.shape.data(),
        p.strides.data()};
    return TILEC_OK;
  });
}

// The memory of every output, in the module's order. What one tensor of a program is twice is told apart by order.
std::vector<runtime::Tensor> memory_of(const runtime::Module& module, std::vector<runtime::Argument> results) {
  std::vector<runtime::Tensor> outputs;
  for (const runtime::Port& port : module.outputs) {
    const auto at = std::ranges::find(results, port.name, &runtime::Argument::name);
    if (at == results.end() || !at->tensor) throw runtime::argument_error(messages::no_result, port.name);
    outputs.push_back(*at->tensor);
    results.erase(at);
  }
  return outputs;
}

tilec_status run_on(const runtime::Module& module, const std::vector<runtime::Argument>& in,
    const std::vector<runtime::Argument>& out) {
  const std::vector<runtime::Tensor> inputs = runtime::bind_inputs(module, in), outputs = memory_of(module, out);
  std::vector<void*> from, to;
  for (const runtime::Tensor& tensor : inputs) from.push_back(tensor.data);
  for (const runtime::Tensor& tensor : outputs) to.push_back(tensor.data);
  runtime::Caller(module).run(from.data(), to.data());
  return TILEC_OK;
}

const tilec_kernel& runnable(const tilec_kernel* kernel, const char* function) {
  const tilec_kernel& k = need(kernel, function, "kernel");
  if (!k.caller) misuse(function, "`kernel` is ports only: specialise the program to run it");
  return k;
}

// The hot path: warnings of an earlier call stay, an error goes.
template <class Run> tilec_status quickly(Run run) {
  try {
    run();
    forget_error();
    return TILEC_OK;
  } catch (...) {
    return guarded([&]() -> tilec_status { throw; });
  }
}

template <class Run>
tilec_status run_kernel(
    const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, const char* function, Run run) {
  return quickly([&] {
    const tilec_kernel& k = runnable(kernel, function);
    need_list(static_cast<const void*>(inputs), k.inputs.size(), function, "inputs");
    need_list(static_cast<const void*>(outputs), k.outputs.size(), function, "outputs");
    run(*k.caller, const_cast<void* const*>(inputs));
  });
}

// Strides say nothing of a dimension of one element, nor of a tensor of none.
bool has_layout(const DLTensor& tensor, const runtime::Port& port) {
  std::int64_t dense = 1;
  for (std::size_t d = port.shape.size(); d-- > 0; dense *= port.shape[d])
    if (port.shape[d] > 1 && (tensor.strides != nullptr ? tensor.strides[d] : dense) != port.strides[d])
      return std::ranges::count(port.shape, 0) != 0;
  return true;
}

// Where element 0 of a tensor is that a port takes.
void* data_of(
    const DLTensor* given, const runtime::Port& port, Side side, const DLDevice& device, const char* function) {
  const bool input = side == Side::Input;
  if (given == nullptr) misuse(function, fmt::format("{} `{}` is NULL", input ? "input" : "output", port.name));
  const DLTensor& tensor = *given;
  const DLDataType type = runtime::dl_type(port.dtype);
  if (tensor.dtype.code != type.code || tensor.dtype.bits != type.bits || tensor.dtype.lanes != 1) {
    const auto known = runtime::dtype_of(tensor.dtype);
    lang::Diagnostics one;
    const std::string theirs(known ? lang::name(*known) : "none of Tile's types"), ours(lang::name(port.dtype));
    if (input) one.report({}, messages::given_type, port.name, ours, theirs);
    else one.report({}, messages::result_type, port.name, ours, theirs);
    throw one;
  }
  if (number_in(tensor.device.device_type) != number_in(device.device_type) ||
      tensor.device.device_id != device.device_id)
    throw runtime::argument_error(messages::wrong_device, port.name, "another device's");
  if (const std::string fault = fault_of(tensor); !fault.empty())
    throw runtime::argument_error(messages::bad_tensor, port.name, fault);
  const std::span shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  if (!std::ranges::equal(shape, port.shape))
    throw runtime::argument_error(messages::wrong_shape, port.name, runtime::print_shape(port.shape),
        runtime::print_shape({shape.begin(), shape.end()}));
  if (!has_layout(tensor, port))
    throw runtime::argument_error(messages::bad_tensor, port.name, "it has other strides than the kernel was made for")
        .hint("specialise the program for these");
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

}  // namespace

tilec_status specialise(const tilec_program& program, const std::vector<runtime::Argument>& in,
    const std::vector<runtime::Argument>& out, std::shared_ptr<const runtime::Specialisation>& made) {
  lang::Diagnostics diagnostics;
  const runtime::Callable& callable = *program.callable;
  if (!check_names(program, in, Side::Input, diagnostics) || !check_names(program, out, Side::Output, diagnostics))
    return failed(diagnostics, callable.sources());
  made = callable.specialise(in, out, diagnostics);
  if (!made) return failed(diagnostics, callable.sources());
  keep(diagnostics, callable.sources());
  return TILEC_OK;
}

}  // namespace tilec::capi

using namespace tilec;
using namespace tilec::capi;

extern "C" {

tilec_status tilec_specialize(const tilec_program* program, const tilec_argument* arguments, size_t argument_count,
    const tilec_argument* results, size_t result_count, tilec_kernel** kernel) {
  return guarded([&] {
    constexpr const char* function = "tilec_specialize";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(kernel, function, "kernel"));
    std::shared_ptr<const runtime::Specialisation> made;
    const tilec_status status =
        specialise(p, arguments_of(arguments, argument_count, p, Side::Input, function, Reads::Shapes),
            arguments_of(results, result_count, p, Side::Output, function, Reads::Shapes), made);
    if (status == TILEC_OK) *kernel = kernel_of(made->module).release();
    return status;
  });
}

void tilec_kernel_destroy(tilec_kernel* kernel) {
  const runtime::Busy busy;
  delete kernel;
}

size_t tilec_kernel_input_count(const tilec_kernel* kernel) { return kernel != nullptr ? kernel->inputs.size() : 0; }
size_t tilec_kernel_output_count(const tilec_kernel* kernel) { return kernel != nullptr ? kernel->outputs.size() : 0; }
tilec_status tilec_kernel_input(const tilec_kernel* kernel, size_t position, tilec_port* port) {
  return port_at(kernel, &tilec_kernel::inputs, position, port, "tilec_kernel_input");
}
tilec_status tilec_kernel_output(const tilec_kernel* kernel, size_t position, tilec_port* port) {
  return port_at(kernel, &tilec_kernel::outputs, position, port, "tilec_kernel_output");
}

size_t tilec_kernel_workspace(const tilec_kernel* kernel) {
  return kernel != nullptr && kernel->module ? static_cast<size_t>(kernel->module->workspace()) : 0;
}

size_t tilec_kernel_device_workspace(const tilec_kernel* kernel) {
  return kernel != nullptr && kernel->module ? static_cast<size_t>(kernel->module->device_workspace()) : 0;
}

size_t tilec_kernel_launch_count(const tilec_kernel* kernel) {
  return kernel != nullptr && kernel->module ? kernel->module->launches.size() : 0;
}
const char* tilec_kernel_launch_name(const tilec_kernel* kernel, size_t position) {
  return position < tilec_kernel_launch_count(kernel) ? kernel->module->launches[position].c_str() : nullptr;
}
int tilec_kernel_adds(const tilec_kernel* kernel, size_t position) {
  return kernel != nullptr && kernel->module && std::ranges::count(kernel->module->added, position) > 0;
}
size_t tilec_kernel_code_size(const tilec_kernel* kernel) {
  return kernel != nullptr && kernel->module ? static_cast<size_t>(kernel->module->code) : 0;
}

tilec_status tilec_kernel_run(const tilec_kernel* kernel, const void* const* inputs, void* const* outputs) {
  return run_kernel(kernel, inputs, outputs, "tilec_kernel_run",
      [&](const runtime::Caller& caller, void* const* in) { caller.run(in, outputs); });
}

tilec_status tilec_kernel_run_in(
    const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, void* workspace) {
  return run_kernel(kernel, inputs, outputs, "tilec_kernel_run_in",
      [&](const runtime::Caller& caller, void* const* in) { caller.run(in, outputs, workspace); });
}

tilec_status tilec_kernel_run_on(
    const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, void* workspace, void* stream) {
  return run_kernel(kernel, inputs, outputs, "tilec_kernel_run_on",
      [&](const runtime::Caller& caller, void* const* in) { caller.run_on(in, outputs, workspace, stream); });
}

tilec_status tilec_kernel_run_timed(
    const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, double* milliseconds) {
  constexpr const char* function = "tilec_kernel_run_timed";
  return run_kernel(kernel, inputs, outputs, function, [&](const runtime::Caller& caller, void* const* in) {
    need_list(milliseconds, kernel->module->launches.size(), function, "milliseconds");
    std::vector<double> times;
    caller.run_timed(in, outputs, times);
    std::ranges::copy(times, milliseconds);
  });
}

tilec_status tilec_call(const tilec_kernel* kernel, const DLTensor* const* inputs, size_t input_count,
    const DLTensor* const* outputs, size_t output_count, void* workspace, void* stream) {
  constexpr const char* function = "tilec_call";
  return quickly([&] {
    const tilec_kernel& k = runnable(kernel, function);
    need_list(static_cast<const void*>(inputs), k.inputs.size(), function, "inputs");
    need_list(static_cast<const void*>(outputs), k.outputs.size(), function, "outputs");
    if (input_count != k.inputs.size() || output_count != k.outputs.size())
      misuse(function,
          fmt::format("the kernel has {} inputs and {} outputs, and {} and {} are given", k.inputs.size(),
              k.outputs.size(), input_count, output_count));
    const DLTensor* const first = output_count > 0 ? outputs[0] : nullptr;
    const DLDevice device = first != nullptr ? first->device : DLDevice{kDLCPU, 0};
    const bool on_host = number_in(device.device_type) == kDLCPU;
    if (on_host && stream != nullptr) misuse(function, "`stream` is given, and the tensors lie on the CPU");
    if (!on_host && number_in(device.device_type) != kDLCUDA)
      throw runtime::argument_error(messages::wrong_device, k.outputs[0].name, "another device's");
    if (!on_host && k.module->has_device() && k.module->device().device_id != device.device_id)
      throw runtime::argument_error(
          messages::wrong_device, k.outputs[0].name, fmt::format("GPU {}'s", device.device_id))
          .hint(fmt::format("the kernel is GPU {}'s: specialise the program for tensors that lie there",
              k.module->device().device_id));
    constexpr std::size_t few = 16;                       // which need no memory
    std::array<void*, few> near{};
    std::vector<void*> far(input_count + output_count > few ? input_count + output_count : 0);
    void** const data = far.empty() ? near.data() : far.data();
    for (std::size_t i = 0; i < input_count; ++i)
      data[i] = data_of(inputs[i], k.inputs[i], Side::Input, device, function);
    for (std::size_t o = 0; o < output_count; ++o)
      data[input_count + o] = data_of(outputs[o], k.outputs[o], Side::Output, device, function);
    if (on_host) k.caller->run(data, data + input_count, workspace);
    else k.caller->run_on(data, data + input_count, workspace, stream);
  });
}

tilec_status tilec_run(const tilec_program* program, const tilec_argument* arguments, size_t argument_count,
    const tilec_argument* results, size_t result_count) {
  std::vector<runtime::Argument> in, out;
  std::shared_ptr<const runtime::Specialisation> made;
  const tilec_status status = guarded([&] {
    constexpr const char* function = "tilec_run";
    const tilec_program& p = need(program, function, "program");
    in = arguments_of(arguments, argument_count, p, Side::Input, function);
    out = arguments_of(results, result_count, p, Side::Output, function);
    return specialise(p, in, out, made);
  });
  if (status != TILEC_OK) return status;
  const tilec_status ran = caught([&] { return run_on(*made->module, in, out); });
  if (ran != TILEC_OK) tell_host();
  return ran;
}

tilec_status tilec_load(const char* bytes, size_t size, int threads, tilec_kernel** kernel) {
  return guarded([&] {
    constexpr const char* function = "tilec_load";
    static_cast<void>(need(bytes, function, "bytes"));
    static_cast<void>(need(kernel, function, "kernel"));
    if (threads < 0) misuse(function, fmt::format("`threads` is {}", threads));
    const std::shared_ptr<const runtime::Module> module =
        runtime::load(runtime::package_from({bytes, size}, "the package"), threads);
    *kernel = kernel_of(module).release();
    return TILEC_OK;
  });
}

tilec_status tilec_load_vjp(
    const char* bytes, size_t size, int threads, tilec_kernel** forward, tilec_kernel** backward) {
  static constexpr const char* function = "tilec_load_vjp";
  return guarded([&] {
    static_cast<void>(need(bytes, function, "bytes"));
    static_cast<void>(need(forward, function, "forward"));
    static_cast<void>(need(backward, function, "backward"));
    if (threads < 0) misuse(function, fmt::format("`threads` is {}", threads));
    const codegen::Package package = runtime::package_from({bytes, size}, "the package");
    if (package.backward.empty())
      throw runtime::argument_error(messages::no_pair, package.name.empty() ? "the package" : package.name)
          .hint("build it with `tilec build --vjp`, or save it with `vjp=True`");
    const runtime::Halves halves = runtime::load_halves(package, threads);
    auto first = kernel_of(halves.forward), second = kernel_of(halves.backward);
    *forward = first.release();
    *backward = second.release();
    return TILEC_OK;
  });
}

tilec_status tilec_xla_text(const tilec_kernel* kernel, tilec_buffer** text) {
  return guarded([&] {
    constexpr const char* function = "tilec_xla_text";
    static_cast<void>(need(text, function, "text"));
    *text = new tilec_buffer{runtime::text_for_xla(runnable(kernel, function).module)};
    return TILEC_OK;
  });
}

}  // extern "C"
