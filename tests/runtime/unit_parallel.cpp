// The thread pool: every turn once, from any thread, nested, after fork.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/parallel.h"

using tilec::runtime::default_pool;
using tilec::runtime::serial_pool;

namespace {

struct Counts {
  std::vector<std::atomic<int>> seen;
  explicit Counts(std::size_t n) : seen(n) {}
  static void turn(void* self, std::int64_t i, std::int64_t) {
    ++static_cast<Counts*>(self)->seen[static_cast<std::size_t>(i)];
  }
  bool each(int times) const {
    for (const auto& n : seen) if (n != times) return false;
    return true;
  }
};

void run(const tilec_parallel* pool, Counts& counts) {
  pool->run(pool->context, static_cast<std::int64_t>(counts.seen.size()), Counts::turn, &counts);
}

}  // namespace

TEST_CASE("every turn runs once, for any number of turns") {
  for (const auto* pool : {default_pool(), serial_pool()})
    for (const std::size_t n : {0, 1, 2, 3, 7, 64, 1001}) {
      Counts counts(n);
      run(pool, counts);
      CHECK(counts.each(1));
    }
}

TEST_CASE("many small jobs, with sleeps between") {
  Counts counts(5);
  for (int i = 0; i < 2000; ++i) {
    run(default_pool(), counts);
    // long enough for the workers to sleep
    if (i % 200 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK(counts.each(2000));
}

TEST_CASE("a turn may ask the pool again") {
  struct Outer { Counts counts{16}; } outer;
  const auto turn = [](void* self, std::int64_t, std::int64_t) {
    run(default_pool(), static_cast<Outer*>(self)->counts);
  };
  default_pool()->run(default_pool()->context, 8, turn, &outer);
  CHECK(outer.counts.each(8));
}

TEST_CASE("several threads may call at once") {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([] {
    Counts mine(33);
    for (int i = 0; i < 300; ++i) run(default_pool(), mine);
    if (!mine.each(300)) std::abort();
  });
  for (std::thread& t : threads) t.join();
}

TEST_CASE("a child after fork has a pool of its own") {
  Counts before(9);
  run(default_pool(), before);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    Counts counts(9);
    run(default_pool(), counts);
    _exit(counts.each(1) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
