// What the turns of a Parallel loop may touch: each is run with the other turns' memory forbidden.
#include <doctest/doctest.h>

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <random>

#include "codegen/llvm/emit.h"
#include "lang/check.h"
#include "codegen/locals.h"
#include "runtime/code.h"
#include "runtime/parallel.h"
#include "tests/codegen/compiled.h"

namespace tilec {
namespace {

// keys and positions of 4 bytes
constexpr std::int64_t length = 1 << 16, parts = 4, bytes = length * 4, part = bytes / parts;

codegen::Lowered argsort() {
  return *test::compiled("function f(f32 X[N]) -> (Y) { Y = argsort(X); }", test::request_for({{"N", length}}, "cpu"),
      codegen::Until::Lowered)
              .lowered;
}

sigjmp_buf stray;
void on_signal(int) { siglongjmp(stray, 1); }

struct Watch {
  std::vector<char*> written;                          // outputs and scratch
  int loops = 0, strays = 0;

  // In the first loop, turn i sorts part i.
  void protect(std::int64_t turn) const {
    for (char* buffer : written) {
      mprotect(buffer, bytes, PROT_NONE);
      mprotect(buffer + turn * part, part, PROT_READ | PROT_WRITE);
    }
  }
  void release() const {
    for (char* buffer : written) mprotect(buffer, bytes, PROT_READ | PROT_WRITE);
  }

  template <class Turn> void alone(std::int64_t i, const Turn& turn) {
    protect(i);
    if (sigsetjmp(stray, 1) == 0) turn();
    else ++strays;
    release();
  }

  static void run(void* context, std::int64_t count, void (*body)(void*, std::int64_t, std::int64_t), void* arguments) {
    Watch& watch = *static_cast<Watch*>(context);
    const bool first = watch.loops++ == 0;
    if (first) CHECK(count == parts);
    for (std::int64_t i = 0; i < count; ++i) {
      if (first) watch.alone(i, [&] { body(arguments, i, 0); });
      else body(arguments, i, 0);
    }
  }
};

}  // namespace

TEST_CASE("a part of a row that is sorted alone reads nothing that another part writes") {
  for (const int s : {SIGSEGV, SIGBUS}) signal(s, on_signal);
  const codegen::Lowered package = argsort();
  REQUIRE(package.steps.size() == 1);
  Watch watch;
  std::vector<void*> memory;
  for (const codegen::Buffer& b : package.buffers) {
    REQUIRE(b.count() * lang::bytes(b.dtype) == bytes);
    memory.push_back(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (b.role != codegen::Buffer::Role::Input) watch.written.push_back(static_cast<char*>(memory.back()));
  }
  auto* x = static_cast<float*>(memory[0]);
  std::mt19937 random(1);
  for (std::int64_t k = 0; k < length; ++k) x[k] = static_cast<float>(random() % 1000);
  const runtime::Code code(
      codegen::llvm_backend::emit({&package.steps[0].loops}, *codegen::target_named("cpu")).object);
  std::vector<void*> views;
  for (const int b : package.steps[0].buffers) views.push_back(memory[static_cast<std::size_t>(b)]);
  const tilec_parallel pool{&watch, Watch::run, 1};
  std::vector<char> locals(static_cast<std::size_t>(codegen::local_bytes(package.steps[0].loops)) + 64);
  reinterpret_cast<void (*)(void* const*, const tilec_parallel*, void*)>(code.symbol(package.steps[0].kernel))(
      views.data(), &pool, locals.data());
  CHECK(watch.loops > 1);
  CHECK(watch.strays == 0);
  const auto* y = static_cast<const std::int32_t*>(memory[1]);
  bool sorted = true;
  for (std::int64_t k = 0; k + 1 < length; ++k)
    sorted = sorted && (x[y[k]] < x[y[k + 1]] || (x[y[k]] == x[y[k + 1]] && y[k] < y[k + 1]));
  CHECK(sorted);
  for (void* m : memory) munmap(m, bytes);
}

}  // namespace tilec
