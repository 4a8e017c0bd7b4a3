// A package as machine code in this process.
//
// A call costs two atomic exchanges, a copy of its pointers into blocks prepared when the package was loaded, and one
// indirect call per step: nothing is allocated, looked up or checked again. Workspace and blocks are a Frame;
// concurrent calls each borrow one.
#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "poly/exact.h"
#include "runtime/code.h"
#include "runtime/error.h"
#include "runtime/hooks.h"
#include "runtime/module.h"
#include "runtime/spare.h"

namespace tilec::runtime {

namespace {

using EntryPoint = void (*)(void* const* views, const tilec_parallel* pool, void* locals);

// Views and numbers of all steps one after the other, in the order the kernels take them.
struct Frame {
  Tensor workspace;                                      // no data: the caller's
  std::vector<void*> views;
  void* locals = nullptr;                                // of all workers
};

class CpuModule final : public Module {
 public:
  CpuModule(const codegen::Package& from, int for_threads)
      : buffers_(from.buffers),
        workspace_(from.workspace),
        host_(for_threads == 1 ? nullptr : pool_hook().get()),
        pool_(for_threads == 1 ? serial_pool() : default_pool()),
        bytes_((poly::Exact(from.locals) * (host_ != nullptr ? host_->workers : pool_->workers) + workspace_).get()),
        code_(from.code) {
    take(from, for_threads);
    for (const codegen::Launch& launch : from.launches) {
      void* const symbol = code_.symbol(launch.kernel);
      if (symbol == nullptr) throw lang::InternalError("kernel `" + launch.kernel + "` is not in its object");
      steps_.push_back({reinterpret_cast<EntryPoint>(symbol), buffer_of_.size()});
      buffer_of_.insert(buffer_of_.end(), launch.buffers.begin(), launch.buffers.end());
      for (const std::int64_t number : launch.numbers) {
        numbers_.push_back({buffer_of_.size(), number});
        buffer_of_.push_back(no_buffer);
      }
    }
  }

  std::int64_t workspace() const override { return bytes_; }

  void run(void* const* in, void* const* out) const override {
    std::unique_ptr<Frame> frame = borrowed();
    execute(*frame, in, out, [] {});
    spare_.give(std::move(frame));
  }

  void run_timed(void* const* in, void* const* out, std::vector<double>& milliseconds) const override {
    using Clock = std::chrono::steady_clock;
    std::unique_ptr<Frame> frame = borrowed();
    milliseconds.clear();
    Clock::time_point begin = Clock::now();
    execute(*frame, in, out, [&] {
      const Clock::time_point end = Clock::now();
      milliseconds.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
      begin = end;
    });
    spare_.give(std::move(frame));
  }

  void run_in(void* const* in, void* const* out, void* workspace) const override {
    const std::unique_ptr<Frame> frame = new_frame();
    enter(*frame, workspace);
    execute(*frame, in, out, [] {});
  }

 private:
  struct Step { EntryPoint entry; std::size_t first_view; };
  struct Number { std::size_t at; std::int64_t value; };
  static constexpr int no_buffer = std::numeric_limits<int>::max();
  static_assert(sizeof(void*) == sizeof(std::int64_t), "a number has the place of a pointer");

  std::unique_ptr<Frame> borrowed() const {
    std::unique_ptr<Frame> frame = spare_.take();
    if (!frame) frame = new_frame();
    if (bytes_ > 0 && frame->workspace.data == nullptr) {
      frame->workspace = allocate("the workspace of " + name, DType::U8, {bytes_});
      enter(*frame, frame->workspace.data);
    }
    return frame;
  }

  std::unique_ptr<Frame> new_frame() const {
    auto frame = std::make_unique<Frame>();
    frame->views.resize(buffer_of_.size());
    for (const Number& number : numbers_)
      frame->views[number.at] = reinterpret_cast<void*>(static_cast<std::intptr_t>(number.value));
    return frame;
  }

  void enter(Frame& frame, void* workspace) const {
    frame.locals = static_cast<char*>(workspace) + workspace_;
    const std::size_t first = inputs.size() + outputs.size();
    for (std::size_t k = 0; k < buffer_of_.size(); ++k)
      if (const auto buffer = static_cast<std::size_t>(buffer_of_[k]); buffer_of_[k] != no_buffer && buffer >= first)
        frame.views[k] = static_cast<char*>(workspace) + buffers_[buffer].offset;
  }

  // `done` is called after each step.
  template <class Done> void execute(Frame& frame, void* const* in, void* const* out, Done done) const {
    const int ins = static_cast<int>(inputs.size()), outs = static_cast<int>(outputs.size());
    for (std::size_t k = 0; k < buffer_of_.size(); ++k) {
      const int buffer = buffer_of_[k];
      if (buffer < ins) frame.views[k] = in[buffer];
      else if (buffer < ins + outs) frame.views[k] = out[buffer - ins];
    }
    std::optional<HostTurns> turns;
    if (host_ != nullptr) turns.emplace(*host_);
    for (const Step& step : steps_) {
      step.entry(frame.views.data() + step.first_view, turns ? turns->face() : pool_, frame.locals);
      if (turns) turns->check();                         // the next step would read what was not written
      done();
    }
  }

  std::vector<codegen::Place> buffers_;
  std::int64_t workspace_;
  const HostPool* host_;                                 // null: our own pool
  const tilec_parallel* pool_;
  std::int64_t bytes_;                                   // of the workspace, with what workers have
  Code code_;
  std::vector<Step> steps_;
  std::vector<int> buffer_of_;                           // of every view of every step; a number has none
  std::vector<Number> numbers_;                          // the same in every frame
  Spare<Frame> spare_;
};

}  // namespace

std::shared_ptr<const Module> load_cpu(const codegen::Package& package, int threads) {
  return std::make_shared<CpuModule>(package, threads);
}

}  // namespace tilec::runtime
