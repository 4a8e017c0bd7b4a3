// What one core can do at most, for bench/roof.py: multiply-adds in registers, and bytes from and to memory.
#include <cstddef>
#include <cstdint>

namespace {

#if defined(__AVX512F__)
constexpr int bytes = 64;
#elif defined(__AVX__)
constexpr int bytes = 32;
#else
constexpr int bytes = 16;
#endif
typedef float Vector __attribute__((vector_size(bytes)));
constexpr int lanes = bytes / 4, chains = 12;          // enough for a latency of four cycles at two a cycle, few enough
                                                       // for 16 registers

}  // namespace

// Runs `turns` turns of independent multiply-adds and returns their number of operations; `seed` keeps them from being
// folded.
extern "C" double multiply_adds(std::int64_t turns, float seed, float* result) {
  Vector sum[chains], factor = {}, term = {};
  factor += 0.999f + seed;
  term += seed;
  for (int c = 0; c < chains; ++c) sum[c] = term * static_cast<float>(c);  // all different, so that none is another
  for (std::int64_t t = 0; t < turns; ++t) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = sum[c] * factor + term;
  }
  Vector all = {};
  for (const Vector& s : sum) all += s;
  *result = all[0];
  return 2.0 * lanes * chains * static_cast<double>(turns);
}

extern "C" float read_all(const float* data, std::int64_t count) {
  Vector sum[8] = {};
  const auto* at = reinterpret_cast<const Vector*>(data);
  for (std::int64_t v = 0; v + 8 <= count / lanes; v += 8)
    for (int c = 0; c < 8; ++c) sum[c] += at[v + c];
  Vector all = {};
  for (const Vector& s : sum) all += s;
  return all[0];
}
