// A package as machine code in this process.
//
// A call costs two atomic exchanges, a copy of its pointers into blocks prepared when the package was loaded, and one indirect call per step:
// nothing is allocated, looked up or checked again. Workspace and blocks are a Frame; concurrent calls each borrow one.
#include <algorithm>

#include "poly/exact.h"
#include "runtime/code.h"
#include "runtime/error.h"
#include "runtime/module.h"
#include "runtime/spare.h"

namespace tilec::runtime {

namespace {

using EntryPoint = void (*)(void* const* views, const tilec_parallel* pool, void* locals);

// Views of all steps one after the other, in the order the kernels take them.
struct Frame {
  Tensor workspace;                                      // no data: the caller's
  std::vector<void*> views;
  void* locals = nullptr;                                // of all workers
};

class CpuModule final : public Module {
 public:
  CpuModule(const codegen::Package& from, int for_threads)
      : buffers_(from.buffers), workspace_(from.workspace), pool_(for_threads == 1 ? serial_pool() : default_pool()), bytes_((poly::Exact(from.locals) * pool_->workers + workspace_).get()), code_(from.code) {
    name = from.name;
    inputs = from.inputs;
    outputs = from.outputs;
    package = std::make_shared<const codegen::Package>(from);
    threads = for_threads;
    for (const codegen::Launch& launch : from.launches) {
      void* const symbol = code_.symbol(launch.kernel);
      if (symbol == nullptr) throw lang::InternalError("kernel `" + launch.kernel + "` is not in its object");
      steps_.push_back({reinterpret_cast<EntryPoint>(symbol), buffer_of_.size()});
      buffer_of_.insert(buffer_of_.end(), launch.buffers.begin(), launch.buffers.end());
    }
  }

  std::int64_t workspace() const override { return bytes_; }

  void run(void* const* in, void* const* out) const override {
    std::unique_ptr<Frame> frame = spare_.take();
    if (!frame) frame = new_frame();
    if (frame->workspace.data == nullptr) {
      frame->workspace = allocate("the workspace of " + name, DType::U8, {bytes_});
      enter(*frame, frame->workspace.data);
    }
    execute(*frame, in, out);
    spare_.give(std::move(frame));
  }

  void run_in(void* const* in, void* const* out, void* workspace) const override {
    const std::unique_ptr<Frame> frame = new_frame();
    enter(*frame, workspace);
    execute(*frame, in, out);
  }

 private:
  struct Step { EntryPoint entry; std::size_t first_view; };

  std::unique_ptr<Frame> new_frame() const {
    auto frame = std::make_unique<Frame>();
    frame->views.resize(buffer_of_.size());
    return frame;
  }

  void enter(Frame& frame, void* workspace) const {
    frame.locals = static_cast<char*>(workspace) + workspace_;
    const std::size_t first = inputs.size() + outputs.size();
    for (std::size_t k = 0; k < buffer_of_.size(); ++k)
      if (const auto buffer = static_cast<std::size_t>(buffer_of_[k]); buffer >= first) frame.views[k] = static_cast<char*>(workspace) + buffers_[buffer].offset;
  }

  void execute(Frame& frame, void* const* in, void* const* out) const {
    const int ins = static_cast<int>(inputs.size()), outs = static_cast<int>(outputs.size());
    for (std::size_t k = 0; k < buffer_of_.size(); ++k) {
      const int buffer = buffer_of_[k];
      if (buffer < ins) frame.views[k] = in[buffer];
      else if (buffer < ins + outs) frame.views[k] = out[buffer - ins];
    }
    for (const Step& step : steps_) step.entry(frame.views.data() + step.first_view, pool_, frame.locals);
  }

  std::vector<codegen::Place> buffers_;
  std::int64_t workspace_;
  const tilec_parallel* pool_;
  std::int64_t bytes_;                                   // of the workspace, with what workers have
  Code code_;
  std::vector<Step> steps_;
  std::vector<int> buffer_of_;                           // of every view of every step
  Spare<Frame> spare_;
};

}  // namespace

std::shared_ptr<const Module> load_cpu(const codegen::Package& package, int threads) { return std::make_shared<CpuModule>(package, threads); }

}  // namespace tilec::runtime
