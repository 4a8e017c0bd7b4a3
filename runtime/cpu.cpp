// A package as machine code in this process.
//
// A call costs two atomic exchanges, a copy of its pointers into blocks prepared when the package was loaded, and one indirect call per step:
// nothing is allocated, looked up or checked again. Scratch and blocks are a Frame; concurrent calls each borrow one.
#include <algorithm>

#include "runtime/error.h"
#include "runtime/module.h"
#include "runtime/spare.h"

#ifdef TILEC_CPU
#include "codegen/llvm/emit.h"
#include "runtime/jit.h"

namespace tilec::runtime {

namespace {

using EntryPoint = void (*)(void* const* views, const tilec_parallel* pool);

// Views of all steps one after the other, in the order the kernels take them.
struct Frame {
  std::vector<Tensor> scratch;                           // in the order of Package::buffers, after inputs and outputs
  std::vector<void*> views;
};

class CpuModule final : public Module {
 public:
  CpuModule(const codegen::Package& package, const codegen::Request& request)
      : scratch_(package.buffers.begin() + package.inputs + package.outputs, package.buffers.end()),
        pool_(request.threads_hint == 1 ? serial_pool() : default_pool()),
        jit_(objects_of(package, request.target)) {
    name = package.name;
    ports_of(package, request, *this);
    for (const codegen::Step& step : package.steps) {
      void* const symbol = jit_.symbol(step.kernel);
      if (symbol == nullptr) throw lang::InternalError("kernel `" + step.kernel + "` is not in its object");
      steps_.push_back({reinterpret_cast<EntryPoint>(symbol), buffer_of_.size()});
      buffer_of_.insert(buffer_of_.end(), step.buffers.begin(), step.buffers.end());
    }
  }

  void run(void* const* in, void* const* out) const override {
    std::unique_ptr<Frame> frame = spare_.take();
    if (!frame) frame = new_frame();
    const int ins = static_cast<int>(inputs.size()), outs = static_cast<int>(outputs.size());
    for (std::size_t k = 0; k < buffer_of_.size(); ++k) {
      const int buffer = buffer_of_[k];
      if (buffer < ins) frame->views[k] = in[buffer];
      else if (buffer < ins + outs) frame->views[k] = out[buffer - ins];
    }
    for (const Step& step : steps_) step.entry(frame->views.data() + step.first_view, pool_);
    spare_.give(std::move(frame));
  }

 private:
  struct Step { EntryPoint entry; std::size_t first_view; };

  static std::vector<std::string> objects_of(const codegen::Package& package, const codegen::Target& target) {
    if (const std::string why = codegen::llvm_backend::cannot_run(target); !why.empty())
      throw machine_error(messages::no_device, target.name, why).hint("`--emit=asm` and `--emit=object` need no such machine");
    std::vector<const codegen::Loops*> kernels;
    std::vector<std::string_view> seen;
    for (const codegen::Step& step : package.steps) {
      if (std::ranges::count(seen, step.kernel) > 0) continue;
      seen.push_back(step.kernel);
      kernels.push_back(&step.loops);
    }
    return codegen::llvm_backend::objects(kernels, target);
  }

  std::unique_ptr<Frame> new_frame() const {
    auto frame = std::make_unique<Frame>();
    for (const codegen::Buffer& buffer : scratch_) frame->scratch.push_back(allocate(buffer.name, buffer.dtype, {buffer.count()}));
    frame->views.resize(buffer_of_.size());
    const std::size_t first = inputs.size() + outputs.size();
    for (std::size_t k = 0; k < buffer_of_.size(); ++k)
      if (const auto buffer = static_cast<std::size_t>(buffer_of_[k]); buffer >= first) frame->views[k] = frame->scratch[buffer - first].data;
    return frame;
  }

  std::vector<codegen::Buffer> scratch_;
  const tilec_parallel* pool_;
  Jit jit_;
  std::vector<Step> steps_;
  std::vector<int> buffer_of_;                           // of every view of every step
  Spare<Frame> spare_;
};

}  // namespace

std::shared_ptr<const Module> load_cpu(const codegen::Package& package, const codegen::Request& request) { return std::make_shared<CpuModule>(package, request); }

}  // namespace tilec::runtime

#else

namespace tilec::runtime {

std::shared_ptr<const Module> load_cpu(const codegen::Package&, const codegen::Request&) { throw machine_error(messages::target_not_built, "cpu"); }

}  // namespace tilec::runtime

#endif
