// What stands in front of a kernel's CUDA text so that a compiler of C++ makes a library of it: its threads run on one core, one after
// the other, each until it waits.
//
// Tensor cores are emulated as the PTX ISA documents them ("cp.async", "ldmatrix", "mma", with the fragments of m16n8k8, m16n8k16 and m16n8k32,
// and "wgmma", with its descriptors, as docs/decisions/tensor_cores.md states them). What a cp.async copies is there when its thread has waited for its group, not before: until
// then its place holds bytes that are no number. Inline PTX is written as calls: `asm("a.b %0;" : "=r"(x))` is `ptx_a_b(x)`.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__
#define __shared__ static                              // blocks run one after another
#define __syncthreads() warps::meet_all()

struct Three { unsigned x, y, z; };
inline Three threadIdx, blockIdx;
inline float __uint_as_float(unsigned x) { float f; std::memcpy(&f, &x, 4); return f; }
inline unsigned __float_as_uint(float x) { unsigned u; std::memcpy(&u, &x, 4); return u; }
namespace warps {

// Descriptors hold 18 bits of an address: the last one seen with the same ones is meant.
inline const char* addresses[1 << 14];
}  // namespace warps

inline const void* __cvta_generic_to_shared(const void* p) {
  warps::addresses[reinterpret_cast<unsigned long long>(p) >> 4 & 0x3fff] = static_cast<const char*>(p);
  return p;
}

namespace warps {

struct Copy { void* to; const void* from; int bytes, there; };
struct Product { const char *a, *b; unsigned long long of_a, of_b; bool a_transposed, b_transposed; void* c[128]; void (*run)(const Product&, unsigned thread); };
struct Thread {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(1 << 16);
  bool done = false;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
  std::vector<Product> started;                        // of this thread, in no group yet
  std::deque<std::vector<Product>> products;
  bool fenced = false, hidden = false;                 // registers are ready for products; what it wrote to shared memory is not there for them
};
struct Gate { std::size_t waiting = 0, passed = 0; };
struct Warp { Gate gate; unsigned long long words[32][4]; };

inline std::vector<Thread> threads;
inline std::vector<Warp> all;
inline Gate block;
inline ucontext_t scheduler;
inline unsigned now = 0;
inline bool moved = false;                             // some thread has got further since all were asked
inline void (*kernel)(void**) = nullptr;
inline void** arguments = nullptr;

inline void wait() { swapcontext(&threads[now].context, &scheduler); }
inline void meet(Gate& gate, std::size_t count) {
  const std::size_t before = gate.passed;
  moved = true;
  if (++gate.waiting == count) gate.waiting = 0, ++gate.passed;
  else while (gate.passed == before) wait();
}

// All threads of a block.
inline bool any_hidden = false;
inline void meet_all() {
  any_hidden = any_hidden || threads[now].hidden;
  meet(block, threads.size());
}

inline unsigned lane() { return now % 32; }
// Every thread of the warp says up to four words; `f` reads those of all.
template <class F> void together(std::initializer_list<unsigned long long> words, const F& f) {
  Warp& warp = all[now / 32];
  std::copy(words.begin(), words.end(), warp.words[lane()]);
  meet(warp.gate, 32);
  f(warp.words);
  meet(warp.gate, 32);
}

inline void start() {
  kernel(arguments);
  threads[now].done = moved = true;
  while (true) wait();
}

inline int run(void (*f)(void**), void** a, const unsigned grid[3], unsigned count) {
  kernel = f, arguments = a;
  for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x) {
        threads = std::vector<Thread>(count), all = std::vector<Warp>((count + 31) / 32), block = Gate(), any_hidden = false;
        for (Thread& t : threads) {
          getcontext(&t.context);
          t.context.uc_stack.ss_sp = t.stack.data(), t.context.uc_stack.ss_size = t.stack.size(), t.context.uc_link = nullptr;
          makecontext(&t.context, start, 0);
        }
        for (std::size_t done = 0; done < count;) {
          moved = false, done = 0;
          for (unsigned t = 0; t < count; ++t) {
            now = (blockIdx.x + blockIdx.y) % 2 ? count - 1 - t : t;  // in one order or the other
            threadIdx = {now, 0, 0};
            if (!threads[now].done) swapcontext(&scheduler, &threads[now].context);
            done += threads[now].done;
          }
          if (!moved && done < count) return std::printf("threads wait for others that do not come\n"), 1;
        }
      }
  return 0;
}

// ---- the PTX ISA

inline void cp_async(const void* to, const void* from, int bytes, int there) {
  if (reinterpret_cast<unsigned long long>(to) % static_cast<unsigned>(bytes) || reinterpret_cast<unsigned long long>(from) % static_cast<unsigned>(bytes)) std::printf("cp.async of an odd address\n"), std::abort();
  std::memset(const_cast<void*>(to), 0xff, static_cast<std::size_t>(bytes));
  threads[now].open.push_back({const_cast<void*>(to), from, bytes, there});
}
inline void wait_group(std::size_t newest) {
  Thread& t = threads[now];
  for (; t.groups.size() > newest; t.groups.pop_front())
    for (const Copy& c : t.groups.front()) {
      std::memset(c.to, 0, static_cast<std::size_t>(c.bytes));
      if (c.there) std::memcpy(c.to, c.from, static_cast<std::size_t>(c.there));
      t.hidden = true;
    }
}

// The address of row r of matrix q is what thread 8 q + r has. Thread 4 r + c gets bytes 4 c .. 4 c + 3 of row r of each matrix; transposed, the
// 16 bits in column r of rows 2 c and 2 c + 1.
inline void ldmatrix(bool transposed, unsigned* const (&to)[4], const void* row) {
  together({reinterpret_cast<unsigned long long>(row)}, [&](const unsigned long long (&words)[32][4]) {
    const unsigned r = lane() / 4, c = lane() % 4;
    for (unsigned q = 0; q < 4; ++q) {
      const auto at = [&](unsigned x) { return reinterpret_cast<const char*>(words[8 * q + x][0]); };
      if (words[8 * q + r][0] % 16) std::printf("ldmatrix of an odd address\n"), std::abort();
      if (!transposed) std::memcpy(to[q], at(r) + 4 * c, 4);
      else for (unsigned x = 0; x < 2; ++x) std::memcpy(reinterpret_cast<char*>(to[q]) + 2 * x, at(2 * c + x) + 2 * r, 2);
    }
  });
}

// With g = lane / 4, t = lane % 4 and w operands in a register: register r of A has row g + 8 (r % 2), columns w t .. of the half r / 2 of k;
// register r of B rows w t .. of the half r of k, column g; register r of C row g + 8 (r / 2), column 2 t + r % 2.
template <class T, class C, class Value> void mma(C* const (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], const Value& value) {
  const auto pair = [](unsigned low, unsigned high) { return static_cast<unsigned long long>(high) << 32 | low; };
  together({pair(a[0], a[1]), pair(a[2], a[3]), pair(b[0], b[1])}, [&](const unsigned long long (&words)[32][4]) {
    constexpr unsigned w = 4 / sizeof(T), half_k = 4 * w;
    const unsigned g = lane() / 4, t = lane() % 4;
    const auto element = [&](unsigned thread, unsigned word, unsigned in_word, unsigned at) {
      const auto bits = static_cast<unsigned>(words[thread][word] >> (32 * in_word));
      T x;
      std::memcpy(&x, reinterpret_cast<const char*>(&bits) + at * sizeof(T), sizeof(T));
      return value(x);
    };
    for (unsigned r = 0; r < 4; ++r)
      for (unsigned k = 0; k < 2 * half_k; ++k) {
        const unsigned half = k / half_k, thread = k % half_k / w, at = k % w;
        *c[r] += element(4 * g + thread, half, r / 2, at) * element(4 * (2 * t + r % 2) + thread, 2, half, at);
      }
  });
}

// Element (row, column) of a matrix whose rows of 128 bytes run along k, or, transposed, along m or n: eight rows are 1024 bytes, in which piece
// c of 16 bytes of row r lies at c ^ r. Transposed, the next 128 bytes along m or n lie `panel` bytes on.
inline const char* in_shared(const char* at, unsigned long long descriptor, bool transposed, unsigned value, unsigned k, unsigned bytes) {
  const unsigned long long panel = (descriptor >> 16 & 0x3fff) << 4, eight = (descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7)) std::printf("a descriptor without the swizzle of 128 bytes\n"), std::abort();
  const unsigned long long row = transposed ? k : value, in_row = (transposed ? value : k) * bytes;
  unsigned long long address = reinterpret_cast<unsigned long long>(at) + row / 8 * eight + row % 8 * 128 + (transposed ? in_row / 128 * panel : 0) + in_row % 128;
  if (!transposed && (reinterpret_cast<unsigned long long>(at) % 128 + in_row) >= 128) std::printf("k leaves its rows of 128 bytes\n"), std::abort();
  address ^= (address >> 7 & 7) << 4;
  return reinterpret_cast<const char*>(address);
}

// What thread `thread` of four warps has of 64 x N: register 4 j + 2 h + e is row 16 w + g + 8 h, column 8 j + 2 t + e.
template <class T, class C, unsigned N, C (*value)(T)> void multiply_shared(const Product& p, unsigned thread) {
  constexpr unsigned k = 32 / sizeof(T);
  const unsigned g = thread % 32 / 4, t = thread % 4, w = thread / 32;
  const auto element = [&](const char* at, unsigned long long of, bool transposed, unsigned x, unsigned y) {
    T one;
    std::memcpy(&one, in_shared(at, of, transposed, x, y, sizeof(T)), sizeof(T));
    return value(one);
  };
  C a[2][k], b[k];
  for (unsigned h = 0; h < 2; ++h)
    for (unsigned y = 0; y < k; ++y) a[h][y] = element(p.a, p.of_a, p.a_transposed, 16 * w + g + 8 * h, y);
  for (unsigned column = 0; column < N / 4; ++column) {
    for (unsigned y = 0; y < k; ++y) b[y] = element(p.b, p.of_b, p.b_transposed, column / 2 * 8 + 2 * t + column % 2, y);
    for (unsigned h = 0; h < 2; ++h)
      for (unsigned y = 0; y < k; ++y) *static_cast<C*>(p.c[column / 2 * 4 + 2 * h + column % 2]) += a[h][y] * b[y];
  }
}

// In some blocks it is done at once, when what it reads must be there; in others when it is waited for, until when that must stay.
template <class T, class C, unsigned N, C (*value)(T), std::size_t... I, class Registers>
void start_product(std::index_sequence<I...>, const Registers& c, unsigned long long of_a, unsigned long long of_b, bool a_transposed, bool b_transposed) {
  Thread& thread = threads[now];
  if (any_hidden) std::printf("what threads wrote to shared memory is not there for wgmma\n"), std::abort();
  if (!thread.fenced) std::printf("wgmma without a fence\n"), std::abort();
  thread.started.push_back({addresses[of_a & 0x3fff], addresses[of_b & 0x3fff], of_a, of_b, a_transposed, b_transposed, {static_cast<void*>(&std::get<I>(c))...}, multiply_shared<T, C, N, value>});
  if ((blockIdx.x + blockIdx.y) % 2) thread.started.back().run(thread.started.back(), now % 128), thread.started.pop_back();
}
inline void commit_products() {
  threads[now].products.push_back(std::exchange(threads[now].started, {}));
  threads[now].fenced = false;
}
inline void wait_products(std::size_t newest) {
  Thread& t = threads[now];
  for (; t.products.size() > newest; t.products.pop_front())
    for (const Product& p : t.products.front()) p.run(p, now % 128);
}

inline float of_f16(unsigned short x) { _Float16 h; std::memcpy(&h, &x, 2); return static_cast<float>(h); }
inline float of_bf16(unsigned short x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
template <class T> int of_byte(T x) { return x; }
inline float of_tf32(unsigned x) {
  if (x & 0x1fff) std::printf("an operand of tf32 that is not rounded\n"), std::abort();
  return __uint_as_float(x);
}

template <class... P, std::size_t... I> void call(void (*f)(P...), void** a, std::index_sequence<I...>) { f(static_cast<P>(a[I])...); }
template <class... P> void call(void (*f)(P...), void** a) { call(f, a, std::index_sequence_for<P...>()); }

}  // namespace warps

inline void ptx_cvt_rn_f16_f32(unsigned short& r, float x) { const _Float16 h = static_cast<_Float16>(x); std::memcpy(&r, &h, 2); }
inline void ptx_cvt_f32_f16(float& r, unsigned short x) { r = warps::of_f16(x); }
inline void ptx_cp_async_cg_shared_global(const void* to, const void* from, int bytes, int there) { warps::cp_async(to, from, bytes, there); }
inline void ptx_cp_async_ca_shared_global(const void* to, const void* from, int bytes, int there) { warps::cp_async(to, from, bytes, there); }
inline void ptx_cp_async_commit_group() { warps::threads[warps::now].groups.push_back(std::exchange(warps::threads[warps::now].open, {})); }
inline void ptx_cp_async_wait_group(int newest) { warps::wait_group(static_cast<std::size_t>(newest)); }
inline void ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { warps::ldmatrix(false, {&a, &b, &c, &d}, row); }
inline void ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { warps::ldmatrix(true, {&a, &b, &c, &d}, row); }
#define PTX_MMA(name, T, C, value)                                                                                                                    \
  inline void ptx_mma_sync_aligned_##name(C& c0, C& c1, C& c2, C& c3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { \
    warps::mma<T, C>({&c0, &c1, &c2, &c3}, {a0, a1, a2, a3}, {b0, b1}, value);                                                                        \
  }
PTX_MMA(m16n8k16_row_col_f32_f16_f16_f32, unsigned short, float, warps::of_f16)
PTX_MMA(m16n8k16_row_col_f32_bf16_bf16_f32, unsigned short, float, warps::of_bf16)
PTX_MMA(m16n8k8_row_col_f32_tf32_tf32_f32, unsigned, float, warps::of_tf32)
PTX_MMA(m16n8k32_row_col_s32_s8_s8_s32, signed char, int, warps::of_byte<signed char>)
PTX_MMA(m16n8k32_row_col_s32_u8_u8_s32, unsigned char, int, warps::of_byte<unsigned char>)
inline void ptx_cvt_rna_tf32_f32(unsigned& r, float x) { r = __float_as_uint(x), r = (x != x ? r : r + 0x1000) & ~0x1fffu; }  // half of the last bit goes away from zero

inline void ptx_fence_proxy_async() { warps::threads[warps::now].hidden = false; }
inline void ptx_wgmma_fence_sync_aligned() { warps::threads[warps::now].fenced = true; }
inline void ptx_wgmma_commit_group_sync_aligned() { warps::commit_products(); }
template <class... X> void ptx_wgmma_wait_group_sync_aligned(X&&... x) { warps::wait_products(static_cast<std::size_t>(std::get<sizeof...(X) - 1>(std::tie(x...)))); }
// The sums, both descriptors, and of 16 bits whether each matrix is transposed.
#define PTX_WGMMA(shape, types, T, C, N, value)                                                                                                   \
  template <class... X> void ptx_wgmma_mma_async_sync_aligned_##shape##_##types(X&&... x) {                                                       \
    const auto all = std::tie(x...);                                                                                                              \
    bool turned[2] = {};                                                                                                                          \
    if constexpr (sizeof(T) == 2) turned[0] = std::get<N / 2 + 2>(all), turned[1] = std::get<N / 2 + 3>(all);                                       \
    warps::start_product<T, C, N, value>(std::make_index_sequence<N / 2>(), all, std::get<N / 2>(all), std::get<N / 2 + 1>(all), turned[0], turned[1]); \
  }
#define PTX_WGMMA_TYPES(N)                                                                                 \
  PTX_WGMMA(m64n##N##k16, f32_f16_f16, unsigned short, float, N, warps::of_f16)                            \
  PTX_WGMMA(m64n##N##k16, f32_bf16_bf16, unsigned short, float, N, warps::of_bf16)                         \
  PTX_WGMMA(m64n##N##k32, s32_s8_s8, signed char, int, N, warps::of_byte<signed char>)                     \
  PTX_WGMMA(m64n##N##k32, s32_u8_u8, unsigned char, int, N, warps::of_byte<unsigned char>)
PTX_WGMMA_TYPES(64)
PTX_WGMMA_TYPES(128)
PTX_WGMMA_TYPES(192)
PTX_WGMMA_TYPES(256)
