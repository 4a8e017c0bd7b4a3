#include "runtime/extended.h"

#include <cstring>
#include <mutex>

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

class Extended final : public Module {
 public:
  Extended(std::shared_ptr<const Module> inner, const codegen::Stages& stages, const codegen::Request& request)
      : inner_(std::move(inner)), accumulate_(request.accumulate) {
    name = inner_->name;
    inputs.assign(inner_->inputs.begin(), inner_->inputs.end() - static_cast<std::ptrdiff_t>(accumulate_.size()));
    outputs = inner_->outputs;
    for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k].name = stages.outputs[k];  // what adds has a name of its own
  }

  void run(void* const* in, void* const* out) const override {
    std::vector<Tensor> held = borrow();
    std::vector<void*> ins(in, in + inputs.size());
    for (std::size_t k = 0; k < accumulate_.size(); ++k) {
      copy(outputs[accumulate_[k]], out[accumulate_[k]], held[k]);
      ins.push_back(held[k].data);
    }
    inner_->run(ins.data(), out);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(held));
  }

 private:
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

  // What outputs held before, one tensor each; calls that overlap have their own.
  std::vector<Tensor> borrow() const {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::vector<Tensor> held = std::move(free_.back());
        free_.pop_back();
        return held;
      }
    }
    std::vector<Tensor> held;
    for (const std::size_t k : accumulate_) held.push_back(allocate(outputs[k].name, outputs[k].dtype, outputs[k].shape));
    return held;
  }

  std::shared_ptr<const Module> inner_;
  std::vector<std::size_t> accumulate_;
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<Tensor>> free_;
};

}  // namespace

std::shared_ptr<const Module> extended(std::shared_ptr<const Module> inner, const codegen::Stages& stages, const codegen::Request& request) {
  if (request.accumulate.empty()) return inner;
  return std::make_shared<const Extended>(std::move(inner), stages, request);
}

}  // namespace tilec::runtime
