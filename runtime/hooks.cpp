#include "runtime/hooks.h"

#include <fmt/format.h>

#include <vector>

#include "runtime/error.h"

namespace tilec::runtime {

namespace {

struct Turns {
  Turn body;
  void* arguments;
  std::int64_t count, workers;
  std::vector<std::atomic<bool>> begun;                  // by turn
  std::atomic<std::int64_t> done{0}, refused{0}, repeated{0};
};

// A number that is no worker's would give memory that is no worker's.
void checked_turn(void* context, std::int64_t i, std::int64_t worker) {
  auto& turns = *static_cast<Turns*>(context);
  if (i < 0 || i >= turns.count || worker < 0 || worker >= turns.workers) {
    turns.refused.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (turns.begun[static_cast<std::size_t>(i)].exchange(true, std::memory_order_relaxed)) {
    turns.repeated.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  turns.body(turns.arguments, i, worker);
  turns.done.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// Never destroyed: kernels may outlast any destructor.
Hook<Allocator>& allocator_hook() {
  static auto& hook = *new Hook<Allocator>;
  return hook;
}

Hook<HostPool>& pool_hook() {
  static auto& hook = *new Hook<HostPool>;
  return hook;
}

void HostTurns::run(void* context, std::int64_t count, Turn body, void* arguments) {
  auto& self = *static_cast<HostTurns*>(context);
  if (count <= 0) return;
  Turns turns{body, arguments, count, std::min(count, self.pool_.workers),
      std::vector<std::atomic<bool>>(static_cast<std::size_t>(count)), {}, {}, {}};
  const int answer = self.pool_.run(self.pool_.user, count, turns.workers, checked_turn, &turns);
  const std::int64_t done = turns.done.load(), refused = turns.refused.load(), repeated = turns.repeated.load();
  if (answer == 0 && done == count && refused == 0 && repeated == 0) return;
  self.fault_ = fmt::format("the function of the host returned {} and ran {} of {} turns", answer, done, count);
  if (repeated > 0) self.fault_ += fmt::format(", {} of them again", repeated);
  if (refused > 0) self.fault_ += fmt::format(", {} more with an `i` or a `worker` out of range", refused);
}

void HostTurns::check() const {
  if (!fault_.empty()) throw machine_error(messages::bad_call, "tilec_set_parallel_for", fault_);
}

}  // namespace tilec::runtime
