#include "runtime/extended.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "runtime/error.h"
#include "runtime/spare.h"

namespace tilec::runtime {

namespace {

// The elements of a tensor one after the other in row-major order.
void pack(const Tensor& tensor, std::size_t dimension, const char*& from, char*& to, std::size_t bytes) {
  if (dimension == tensor.shape.size()) {
    std::memcpy(to, from, bytes);
    to += bytes;
    return;
  }
  const char* const start = from;
  const std::int64_t step = tensor.strides[dimension] * static_cast<std::int64_t>(bytes);
  for (std::int64_t k = 0; k < tensor.shape[dimension]; ++k) {
    from = start + k * step;
    pack(tensor, dimension + 1, from, to, bytes);
  }
}

std::string print_value(std::int64_t value, DType dtype) {
  return dtype == DType::U64 ? fmt::format("{}", static_cast<std::uint64_t>(value)) : fmt::format("{}", value);
}

// I[2, 1] of the element at a row-major position.
std::string print_element(const poly::IndexCheck& check, std::int64_t position) {
  std::vector<std::int64_t> at(check.shape.size());
  for (std::size_t d = at.size(); d-- > 0;) {
    at[d] = position % check.shape[d];
    position /= check.shape[d];
  }
  return fmt::format("{}[{}]", without_mark(check.indices), fmt::join(at, ", "));
}

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }  // as a workspace is aligned

class Extended final : public Module {
 public:
  Extended(std::shared_ptr<const Module> inner, Extension extension, const std::vector<lang::Source>& sources)
      : inner_(std::move(inner)),
        checks_(std::move(extension.checks)),
        sources_(std::make_shared<const std::vector<lang::Source>>(sources)) {
    name = inner_->name;
    added = std::move(extension.accumulate);
    take_launches(*inner_);
    inputs.assign(inner_->inputs.begin(), inner_->inputs.end() - static_cast<std::ptrdiff_t>(added.size()));
    outputs.assign(inner_->outputs.begin(), inner_->outputs.end() - static_cast<std::ptrdiff_t>(2 * checks_.size()));
    // what adds has a name of its own
    for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k].name = extension.outputs[k];
    workspace_ = rounded(inner_->workspace());
    device_workspace_ = rounded(inner_->device_workspace());
    for (const std::size_t k : added) {
      held_at_.push_back(workspace_), held_there_.push_back(device_workspace_);
      const std::int64_t bytes = byte_count(outputs[k].name, outputs[k].dtype, outputs[k].shape);
      workspace_ += rounded(bytes), device_workspace_ += rounded(bytes);
    }
  }

  void run(void* const* in, void* const* out) const override {
    run_held(in, out, [&](void* const* ins, void* const* outs) { inner_->run(ins, outs); });
  }
  void run_timed(void* const* in, void* const* out, std::vector<double>& milliseconds) const override {
    run_held(in, out, [&](void* const* ins, void* const* outs) { inner_->run_timed(ins, outs, milliseconds); });
  }

  // What outputs held lies behind what the inner module needs.
  std::int64_t workspace() const override { return workspace_; }
  std::int64_t device_workspace() const override { return device_workspace_; }
  void run_in(void* const* in, void* const* out, void* workspace) const override {
    std::vector<Tensor> held;
    for (std::size_t k = 0; k < added.size(); ++k) {
      const Port& port = outputs[added[k]];
      held.push_back({static_cast<char*>(workspace) + held_at_[k], port.dtype, port.shape, row_major(port.shape),
          {kDLCPU, 0}, nullptr});
    }
    run_with(held, in, out, [&](void* const* ins, void* const* outs) { inner_->run_in(ins, outs, workspace); });
  }

  // What outputs held is copied there, behind what the inner module needs. What checks found would have to be waited
  // for.
  void run_on(void* const* in, void* const* out, void* workspace, void* stream) const override {
    if (!checks_.empty()) return Module::run_on(in, out, workspace, stream);
    std::vector<void*> ins(in, in + inputs.size());
    for (std::size_t k = 0; k < added.size(); ++k) {
      const Port& port = outputs[added[k]];
      if (!is_row_major(port))
        throw argument_error(messages::bad_tensor, port.name, "it has strides, and is added to on a device");
      ins.push_back(static_cast<char*>(workspace) + held_there_[k]);
      inner_->copy_on(ins.back(), out[added[k]], byte_count(port.name, port.dtype, port.shape), stream);
    }
    inner_->run_on(ins.data(), out, workspace, stream);
  }

 private:
  template <class Run> void run_held(void* const* in, void* const* out, Run run) const {
    std::unique_ptr<std::vector<Tensor>> held = spare_.take();
    if (!held) held = std::make_unique<std::vector<Tensor>>(new_held());
    run_with(*held, in, out, run);
    spare_.give(std::move(held));
  }

  template <class Run>
  void run_with(const std::vector<Tensor>& held, void* const* in, void* const* out, Run run) const {
    std::vector<std::int64_t> found(2 * checks_.size());
    std::vector<void*> ins(in, in + inputs.size()), outs(out, out + outputs.size());
    for (std::size_t k = 0; k < added.size(); ++k) {
      copy(outputs[added[k]], out[added[k]], held[k]);
      ins.push_back(held[k].data);
    }
    for (std::int64_t& place : found) outs.push_back(&place);
    run(ins.data(), outs.data());
    for (std::size_t k = 0; k < checks_.size(); ++k) look_at(checks_[k], found[2 * k], found[2 * k + 1]);
  }
  bool has_device() const override { return inner_->has_device(); }
  DLDevice device() const override { return inner_->device(); }

  static void copy(const Port& port, void* data, const Tensor& to) {
    const Tensor tensor{data, port.dtype, port.shape, port.strides, {kDLCPU, 0}, nullptr};
    const auto bytes = static_cast<std::size_t>(lang::bytes(port.dtype));
    if (tensor.is_row_major()) {
      std::memcpy(to.data, data, bytes * static_cast<std::size_t>(tensor.count()));
      return;
    }
    const char* from = static_cast<const char*>(data);
    char* place = static_cast<char*>(to.data);
    pack(tensor, 0, from, place, bytes);
  }

  void look_at(const poly::IndexCheck& check, std::int64_t first, std::int64_t value) const {
    if (first >= poly::product(check.shape)) return;
    RuntimeError fault = argument_error(messages::index_out_of_range, print_element(check, first),
        print_value(value, check.dtype), check.reader, check.bound);
    fault.diagnostic.span = check.span;
    fault.sources = sources_;
    throw fault;
  }

  // What outputs held before, one tensor each; calls that overlap have their own.
  std::vector<Tensor> new_held() const {
    std::vector<Tensor> held;
    for (const std::size_t k : added) held.push_back(allocate(outputs[k].name, outputs[k].dtype, outputs[k].shape));
    return held;
  }

  std::shared_ptr<const Module> inner_;
  std::int64_t workspace_ = 0;
  std::vector<std::int64_t> held_at_;
  std::int64_t device_workspace_ = 0;
  std::vector<std::int64_t> held_there_;                 // the same on a device
  std::vector<poly::IndexCheck> checks_;
  std::shared_ptr<const std::vector<lang::Source>> sources_;
  Spare<std::vector<Tensor>> spare_;
};

}  // namespace

std::shared_ptr<const Module> extended(
    std::shared_ptr<const Module> inner, Extension extension, const std::vector<lang::Source>& sources) {
  if (extension.accumulate.empty() && extension.checks.empty()) return inner;
  return std::make_shared<const Extended>(std::move(inner), std::move(extension), sources);
}

}  // namespace tilec::runtime
