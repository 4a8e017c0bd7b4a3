// Hand-written Loops through the LLVM emitter and the JIT, against plain C++.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "tests/codegen/kernels.h"

using namespace kernels;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<float> random_floats(std::size_t n, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> v(n);
  for (float& x : v) x = draw(engine);
  return v;
}

void check_block(const std::string& target, int rows, int vectors, int lanes, int width, bool taps) {
  const int K = 37, R = taps ? 3 : 1, ld = vectors * lanes + 5;
  const auto A = random_floats(static_cast<std::size_t>(rows * K + 50), 1), B = random_floats(static_cast<std::size_t>(R * K * ld), 2);
  const std::vector<std::int64_t> off{0, 7, 40};
  std::vector<float> C(static_cast<std::size_t>(rows * ld), 7);
  std::vector<std::int64_t> integers{K, 1, ld, ld, K, 1, width};
  if (taps) integers.insert(integers.end(), {R, K * ld});
  const Run run(call_of(block("uk", rows, vectors, lanes, taps), integers), target);
  if (taps) run(A.data(), off.data(), B.data(), C.data());
  else run(A.data(), B.data(), C.data());
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < ld; ++j) {
      double sum = 7;
      for (int r = 0; r < R && j < width; ++r)
        for (int k = 0; k < K; ++k)
          sum += static_cast<double>(A[static_cast<std::size_t>((taps ? off[static_cast<std::size_t>(r)] : 0) + i * K + k)]) * B[static_cast<std::size_t>((r * K + k) * ld + j)];
      CHECK(C[static_cast<std::size_t>(i * ld + j)] == doctest::Approx(sum).epsilon(1e-5));
    }
}

}  // namespace

TEST_CASE("a micro-kernel with a masked column tail and taps agrees with three loops") {
  for (const char* target : {"cpu", "cpu:x86-64-v3"})
    for (const bool taps : {false, true}) {
      check_block(target, 8, 3, 16, 43, taps);
      check_block(target, 6, 2, 8, 16, taps);
      check_block(target, 5, 1, 8, 3, taps);
      check_block(target, 24, 1, 16, 16, taps);
    }
}

// TILEC_SPEED=1 prints what a machine with nothing else to do reaches.
TEST_CASE("the speed of micro-kernels" * doctest::skip(std::getenv("TILEC_SPEED") == nullptr)) {
  struct Shape { int rows, vectors, lanes; const char* target; };
  for (const Shape& s : {Shape{8, 3, 16, "cpu"}, {6, 4, 16, "cpu"}, {14, 2, 16, "cpu"}, {24, 1, 16, "cpu"}, {6, 2, 8, "cpu:x86-64-v3"}})
    for (const int missing : {0, 5}) {
      const int K = 256, n = s.vectors * s.lanes;
      const Loops loops = call_of(block("uk", s.rows, s.vectors, s.lanes, false), {K, 1, n, n, K, 0, n - missing});
      const double t0 = seconds();
      const auto module = llvm_backend::emit({&loops}, *target_named(s.target));
      const double t1 = seconds();
      const Run run(loops, s.target);
      const double t2 = seconds();
      const auto A = random_floats(static_cast<std::size_t>(s.rows * K)), B = random_floats(static_cast<std::size_t>(K * n));
      std::vector<float> C(static_cast<std::size_t>(s.rows * n));
      double best = 1e9;
      for (int repeat = 0; repeat < 7; ++repeat) {
        const double start = seconds();
        for (int i = 0; i < 4000; ++i) run(A.data(), B.data(), C.data());
        best = std::min(best, (seconds() - start) / 4000);
      }
      MESSAGE(s.target << " " << s.rows << "x" << n << (missing ? " masked: " : ": ") << 2.0 * s.rows * n * K / best / 1e9 << " GF/s, emit "
                       << (t1 - t0) * 1e3 << " ms, with linking " << (t2 - t1) * 1e3 << " ms, " << module.object.size() << " bytes");
    }
}
