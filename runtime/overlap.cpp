#include "runtime/overlap.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "runtime/error.h"

namespace tilec::runtime {

namespace {

using Dimension = Layout::Dimension;
__extension__ using Wide = __int128;                     // sums of products of 64-bit numbers

// Is there a sum of stride[k] * x[k], 0 <= x[k] < count[k], from `low` to `high`? Strides are not negative.
class Search {
 public:
  explicit Search(std::vector<Dimension> dimensions)
      : dimensions_(std::move(dimensions)), reach_(dimensions_.size() + 1, 0) {
    std::ranges::sort(dimensions_, std::ranges::greater(), &Dimension::stride);
    for (std::size_t k = dimensions_.size(); k-- > 0;)
      reach_[k] = reach_[k + 1] + static_cast<Wide>(dimensions_[k].count - 1) * dimensions_[k].stride;
  }

  bool finds(Wide low, Wide high, std::size_t k = 0) {
    if (high < 0 || reach_[k] < low) return false;
    if (low <= 0) return true;
    if (k == dimensions_.size()) return false;
    if (--steps_ < 0) return true;
    const auto [count, stride] = dimensions_[k];
    if (stride == 0) return false;
    const Wide rest = low - reach_[k + 1];
    const Wide first = rest <= 0 ? 0 : (rest + stride - 1) / stride, last = std::min<Wide>(count - 1, high / stride);
    for (Wide x = first; x <= last; ++x)
      if (finds(low - x * stride, high - x * stride, k + 1)) return true;
    return false;
  }

 private:
  std::vector<Dimension> dimensions_;
  std::vector<Wide> reach_;                          // the largest sum of dimension k and those behind it
  int steps_ = 20000;                                    // a fraction of a millisecond
};

bool empty(const Layout& layout) { return layout.high == layout.low; }

// Copies the elements of a tensor to the same places of another block.
void copy_elements(const Layout& layout, std::size_t k, const char* from, char* to) {
  if (k == layout.dimensions.size()) {
    std::memcpy(to, from, static_cast<std::size_t>(layout.element));
    return;
  }
  const auto [count, stride] = layout.dimensions[k];
  for (std::int64_t n = 0; n < (stride == 0 ? 1 : count); ++n)
    copy_elements(layout, k + 1, from + n * stride, to + n * stride);
}

}  // namespace

Layout layout_of(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape,
    const std::vector<std::int64_t>& strides) {
  Layout layout;
  layout.element = lang::bytes(dtype);
  if (std::ranges::count(shape, 0) > 0) return layout;
  layout.high = layout.element;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    std::int64_t stride = 0, reach = 0, span = 0;
    std::int64_t& end = strides[d] < 0 ? layout.low : layout.high;
    if (__builtin_mul_overflow(strides[d], layout.element, &stride) ||
        __builtin_mul_overflow(stride, shape[d] - 1, &reach) || __builtin_add_overflow(end, reach, &end) ||
        __builtin_sub_overflow(layout.high, layout.low, &span))
      throw argument_error(messages::bad_tensor, name, "its strides lead further than an address can");
    layout.dimensions.push_back({shape[d], stride});
  }
  return layout;
}

bool overlap(const Layout& a, const void* at_a, const Layout& b, const void* at_b) {
  if (empty(a) || empty(b)) return false;
  const auto base_a = static_cast<Wide>(reinterpret_cast<std::uintptr_t>(at_a)),
             base_b = static_cast<Wide>(reinterpret_cast<std::uintptr_t>(at_b));
  if (base_a + a.high <= base_b + b.low || base_b + b.high <= base_a + a.low) return false;
  // With every stride turned positive, element 0 is the lowest; an element of b lies from 1 - b.element to a.element -
  // 1 behind one of a where they share a byte. Counting a's positions from its last makes its strides add as well.
  std::vector<Dimension> dimensions;
  for (const auto& [count, stride] : a.dimensions) dimensions.push_back({count, std::abs(stride)});
  for (const auto& [count, stride] : b.dimensions) dimensions.push_back({count, std::abs(stride)});
  const Wide lowest = (base_b + b.low) - (base_a + a.high - a.element);
  return Search(std::move(dimensions)).finds(1 - b.element - lowest, a.element - 1 - lowest);
}

bool overlaps_itself(const Layout& layout) {
  if (empty(layout)) return false;
  // Two elements differ in some dimension first, there by 1 and more, in those behind it by anything.
  for (std::size_t k = 0; k < layout.dimensions.size(); ++k) {
    const std::int64_t stride = std::abs(layout.dimensions[k].stride);
    std::vector<Dimension> dimensions{{layout.dimensions[k].count - 1, stride}};
    Wide lowest = stride;
    for (std::size_t j = k + 1; j < layout.dimensions.size(); ++j) {
      const std::int64_t other = std::abs(layout.dimensions[j].stride);
      if (other == 0) continue;
      dimensions.push_back({2 * layout.dimensions[j].count - 1, other});
      lowest -= static_cast<Wide>(layout.dimensions[j].count - 1) * other;
    }
    if (Search(std::move(dimensions)).finds(1 - layout.element - lowest, layout.element - 1 - lowest)) return true;
  }
  return false;
}

Caller::Caller(const Module& module) : module_(module) {
  for (const Port& port : module.inputs) inputs_.push_back(layout_of(port.name, port.dtype, port.shape, port.strides));
  for (const Port& port : module.outputs)
    outputs_.push_back(layout_of(port.name, port.dtype, port.shape, port.strides));
  if (module.takes_strides()) return;
  for (const auto* ports : {&module.inputs, &module.outputs})
    for (const Port& port : *ports) if (!is_row_major(port)) strided_ = port.name;
}

void Caller::check(const Port& port, const Layout& layout, const void* data) const {
  if (empty(layout)) return;
  if (data == nullptr) throw argument_error(messages::bad_tensor, port.name, "its data is NULL");
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % static_cast<std::uintptr_t>(layout.element) != 0)
    throw argument_error(messages::misaligned_data, port.name, fmt::format("address {:#x}", address), layout.element)
        .hint("copy it to memory that is aligned");
}

bool Caller::shares(std::size_t input, void* const* inputs, void* const* outputs) const {
  for (std::size_t o = 0; o < outputs_.size(); ++o)
    if (overlap(inputs_[input], inputs[input], outputs_[o], outputs[o])) return true;
  return false;
}

void Caller::check_workspace(void* const* inputs, void* const* outputs, void* workspace, std::int64_t bytes) const {
  constexpr std::uintptr_t aligned = 64;
  const auto begin = reinterpret_cast<std::uintptr_t>(workspace), end = begin + static_cast<std::uintptr_t>(bytes);
  if (begin % aligned != 0)
    throw argument_error(
        messages::bad_tensor, "workspace", fmt::format("its address {:#x} is no multiple of {}", begin, aligned));
  const auto apart = [&](const Port& port, const Layout& layout, const void* data) {
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    if (!empty(layout) && at + static_cast<std::uintptr_t>(layout.low) < end &&
        begin < at + static_cast<std::uintptr_t>(layout.high))
      throw argument_error(messages::bad_tensor, "workspace", "it shares memory with `" + port.name + "`");
  };
  for (std::size_t k = 0; k < inputs_.size(); ++k) apart(module_.inputs[k], inputs_[k], inputs[k]);
  for (std::size_t k = 0; k < outputs_.size(); ++k) apart(module_.outputs[k], outputs_[k], outputs[k]);
}

void Caller::run(void* const* inputs, void* const* outputs, void* workspace) const {
  if (workspace) check_workspace(inputs, outputs, workspace, module_.workspace());
  run_apart(inputs, outputs, [&](void* const* from) {
    if (workspace) module_.run_in(from, outputs, workspace);
    else module_.run(from, outputs);
  });
}

void Caller::run_timed(void* const* inputs, void* const* outputs, std::vector<double>& milliseconds) const {
  run_apart(inputs, outputs, [&](void* const* from) { module_.run_timed(from, outputs, milliseconds); });
}

// `start` gets the inputs, those that share memory with an output as copies.
template <class Start> void Caller::run_apart(void* const* inputs, void* const* outputs, Start start) const {
  check_outputs(outputs);
  std::vector<std::size_t> shared;
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    check(module_.inputs[k], inputs_[k], inputs[k]);
    if (shares(k, inputs, outputs)) shared.push_back(k);
  }
  if (shared.empty()) start(inputs);
  else run_on_copies(shared, inputs, start);
}

void Caller::check_outputs(void* const* outputs) const {
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    check(module_.outputs[o], outputs_[o], outputs[o]);
    for (std::size_t other = 0; other < o; ++other)
      if (overlap(outputs_[other], outputs[other], outputs_[o], outputs[o]))
        throw argument_error(messages::outputs_overlap, module_.outputs[other].name, module_.outputs[o].name)
            .hint("give each its own memory");
  }
}

void Caller::check_on_device(const Port& port, const Layout& layout, const void* data) const {
  constexpr std::uintptr_t aligned = 16;               // what a thread loads at once
  if (empty(layout)) return;
  if (reinterpret_cast<std::uintptr_t>(data) % aligned != 0)
    throw argument_error(messages::bad_tensor, port.name,
        fmt::format("its address {:#x} is no multiple of {}", reinterpret_cast<std::uintptr_t>(data), aligned))
        .hint("copy it to memory that is aligned");
}

void Caller::run_on(void* const* inputs, void* const* outputs, void* workspace, void* stream) const {
  if (!module_.has_device()) {
    if (stream != nullptr)
      throw argument_error(
          messages::bad_call, "tilec_kernel_run_on", "the kernel runs on the CPU, which has no streams")
          .hint("let `stream` be NULL: the call waits for its results");
    return run(inputs, outputs, workspace);
  }
  const std::int64_t bytes = module_.device_workspace();
  if (bytes > 0 && !workspace)
    throw argument_error(
        messages::bad_tensor, "workspace", fmt::format("it is NULL, and the kernel needs {} bytes", bytes));
  if (bytes > 0) check_workspace(inputs, outputs, workspace, bytes);
  if (!strided_.empty())
    throw argument_error(messages::bad_tensor, strided_, "it has strides, and memory of a device is row-major");
  check_outputs(outputs);
  for (std::size_t o = 0; o < outputs_.size(); ++o) check_on_device(module_.outputs[o], outputs_[o], outputs[o]);
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    check(module_.inputs[k], inputs_[k], inputs[k]);
    check_on_device(module_.inputs[k], inputs_[k], inputs[k]);
    if (shares(k, inputs, outputs))
      throw argument_error(messages::bad_tensor, module_.inputs[k].name, "it shares memory with an output")
          .hint("copy it on the device");
  }
  module_.run_on(inputs, outputs, workspace, stream);
}

template <class Start>
void Caller::run_on_copies(const std::vector<std::size_t>& shared, void* const* inputs, Start start) const {
  std::vector<void*> moved(inputs, inputs + inputs_.size());
  std::vector<Tensor> copies;
  for (const std::size_t k : shared) {
    const Layout& layout = inputs_[k];
    copies.push_back(allocate(module_.inputs[k].name, DType::U8, {layout.high - layout.low}));
    moved[k] = static_cast<char*>(copies.back().data) - layout.low;
    copy_elements(layout, 0, static_cast<const char*>(inputs[k]), static_cast<char*>(moved[k]));
  }
  start(moved.data());
}

}  // namespace tilec::runtime
