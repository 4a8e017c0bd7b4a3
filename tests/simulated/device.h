// CUDA C++ as C++: what compiler.cpp puts in front of a kernel's text. What is `extern "C"` here is in machine.cpp.
#pragma once

#define __global__
#define __device__
#define __constant__
#ifdef SIMULATED_REPORT
#define __forceinline__ inline __attribute__((always_inline))
#else
#define __forceinline__ inline
#endif
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// __shared__, as compiler.cpp spells it: blocks run one after another
#define simulated_shared_of(kernel) static __attribute__((section("simulated_shared_" #kernel)))

struct simulated_three { unsigned x, y, z; };
extern "C" {
extern simulated_three threadIdx, blockIdx;
void simulated_barrier(int line);
void simulated_warp_barrier(int line);
unsigned long long simulated_shuffle(int line, unsigned mask, unsigned long long value, int distance);
void* simulated_aligned(int line, const void* pointer, unsigned long bytes);
void simulated_copy(int line, const void* to, const void* from, int bytes, int there);
void simulated_commit();
void simulated_wait(int line, int newest);
void simulated_fragments(int line, int transposed, unsigned* const* registers, const void* row);
void simulated_multiply(int line, int type, void* const* c, const unsigned* a, const unsigned* b);
void simulated_proxy_fence();
void simulated_products_fence();
void simulated_product(int line, int type, unsigned columns, void* const* sums, const unsigned* fragment,
    unsigned long long a, unsigned long long b, int adds, int a_turned, int b_turned);
void simulated_products_commit();
void simulated_products_wait(int newest);
}

#define __syncthreads() simulated_barrier(__LINE__)
#define __syncwarp() simulated_warp_barrier(__LINE__)
#define __builtin_assume_aligned(p, n) simulated_aligned(__LINE__, p, n)

template <class To, class From>
inline To simulated_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from, "");
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
inline float __uint_as_float(unsigned x) { return simulated_bits<float>(x); }
inline float __int_as_float(int x) { return simulated_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return simulated_bits<unsigned>(x); }
inline int __float_as_int(float x) { return simulated_bits<int>(x); }
inline double __longlong_as_double(long long x) { return simulated_bits<double>(x); }
inline long long __double_as_longlong(double x) { return simulated_bits<long long>(x); }

template <class T> T simulated_exchange(int line, unsigned mask, T value, int distance) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 32 or 64 bits");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = simulated_shuffle(line, mask, bits, distance);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
#define __shfl_xor_sync(mask, value, distance) simulated_exchange(__LINE__, mask, value, distance)

// ---- mathematics: the C library's

#define SIMULATED_1(n) extern "C" double n(double) noexcept; extern "C" float n##f(float) noexcept;
#define SIMULATED_2(n) extern "C" double n(double, double) noexcept; extern "C" float n##f(float, float) noexcept;
SIMULATED_1(exp) SIMULATED_1(exp2) SIMULATED_1(expm1) SIMULATED_1(log) SIMULATED_1(log2) SIMULATED_1(log10)
SIMULATED_1(log1p) SIMULATED_1(sqrt) SIMULATED_1(cbrt) SIMULATED_1(erf) SIMULATED_1(erfc) SIMULATED_1(lgamma)
SIMULATED_1(tgamma) SIMULATED_1(sin) SIMULATED_1(cos) SIMULATED_1(tan) SIMULATED_1(asin) SIMULATED_1(acos)
SIMULATED_1(atan) SIMULATED_1(sinh) SIMULATED_1(cosh) SIMULATED_1(tanh) SIMULATED_1(asinh) SIMULATED_1(acosh)
SIMULATED_1(atanh) SIMULATED_1(ceil) SIMULATED_1(floor) SIMULATED_1(round) SIMULATED_1(rint) SIMULATED_1(trunc)
SIMULATED_1(fabs) SIMULATED_2(pow) SIMULATED_2(fmod) SIMULATED_2(atan2) SIMULATED_2(fmax) SIMULATED_2(fmin)
SIMULATED_2(copysign) SIMULATED_2(hypot)
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

// ---- inline PTX: compiler.cpp writes asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)) as
// ptx_cvt_rn_f16_f32(__LINE__, r, x)

inline void ptx_cvt_f32_f16(int, float& r, unsigned short x) { r = (float)simulated_bits<_Float16>(x); }
inline void ptx_cvt_rn_f16_f32(int, unsigned short& r, float x) {
  r = x != x ? 0x7fff : simulated_bits<unsigned short>((_Float16)x);
}
inline void ptx_ex2_approx_ftz_f32(int, float& r, float x) {
  r = __builtin_exp2f(x);
  if (__builtin_fabsf(r) < 0x1p-126f) r = 0;
}
// NaN wins and becomes canonical; +0 is more than -0
inline void ptx_max_NaN_f32(int, float& r, float a, float b) {
  r = a != a || b != b ? __uint_as_float(0x7fffffff)
      : a == b         ? __uint_as_float(__float_as_uint(a) & __float_as_uint(b))
      : a > b          ? a
                       : b;
}
inline void ptx_min_NaN_f32(int, float& r, float a, float b) {
  r = a != a || b != b ? __uint_as_float(0x7fffffff)
      : a == b         ? __uint_as_float(__float_as_uint(a) | __float_as_uint(b))
      : a < b          ? a
                       : b;
}

inline void ptx_lop3_b32(int, int& r, int x) { r = x; }  // as Scalars::apart has it: the operand's own bits

inline void ptx_cvt_rn_f16x2_f32(int, unsigned& r, float high, float low) {
  unsigned short of_high, of_low;
  ptx_cvt_rn_f16_f32(0, of_high, high), ptx_cvt_rn_f16_f32(0, of_low, low);
  r = of_low | (unsigned)of_high << 16;
}
inline void ptx_cvt_rn_bf16_f32(int, unsigned short& r, float x) {
  const unsigned u = __float_as_uint(x);
  r = (unsigned short)(x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline void ptx_cvt_rn_bf16x2_f32(int line, unsigned& r, float high, float low) {
  unsigned short of_high, of_low;
  ptx_cvt_rn_bf16_f32(line, of_high, high), ptx_cvt_rn_bf16_f32(line, of_low, low);
  r = of_low | (unsigned)of_high << 16;
}

inline void ptx_cvt_rna_tf32_f32(int, unsigned& r, float x) {
  r = x != x ? 0x7fffe000u : (__float_as_uint(x) + 0x1000) & ~0x1fffu;
}

inline const void* __cvta_generic_to_shared(const void* p) { return p; }
inline void ptx_cp_async_cg_shared_global(int line, const void* to, const void* from, int bytes, int there) {
  simulated_copy(line, to, from, bytes, there);
}
inline void ptx_cp_async_ca_shared_global(int line, const void* to, const void* from, int bytes, int there) {
  simulated_copy(line, to, from, bytes, there);
}
inline void ptx_cp_async_commit_group(int) { simulated_commit(); }
inline void ptx_cp_async_wait_group(int line, int newest) { simulated_wait(line, newest); }

#define SIMULATED_FRAGMENTS(name, transposed)                                          \
  inline void ptx_ldmatrix_sync_aligned_m8n8_x4_##name(                                \
      int line, unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { \
    unsigned* const r[] = {&a, &b, &c, &d};                                            \
    simulated_fragments(line, transposed, r, row);                                     \
  }
SIMULATED_FRAGMENTS(shared_b16, 0) SIMULATED_FRAGMENTS(trans_shared_b16, 1)

#define SIMULATED_MULTIPLY(name, type, C)                                             \
  inline void ptx_mma_sync_aligned_##name(int line, C& c0, C& c1, C& c2, C& c3,       \
      unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { \
    void* const c[] = {&c0, &c1, &c2, &c3};                                           \
    const unsigned a[] = {a0, a1, a2, a3}, b[] = {b0, b1};                            \
    simulated_multiply(line, type, c, a, b);                                          \
  }
SIMULATED_MULTIPLY(m16n8k16_row_col_f32_f16_f16_f32, 0, float)
SIMULATED_MULTIPLY(m16n8k16_row_col_f32_bf16_bf16_f32, 1, float)
SIMULATED_MULTIPLY(m16n8k8_row_col_f32_tf32_tf32_f32, 4, float)
SIMULATED_MULTIPLY(m16n8k32_row_col_s32_s8_s8_s32, 2, int)
SIMULATED_MULTIPLY(m16n8k32_row_col_s32_u8_u8_s32, 3, int)

#if __CUDA_ARCH__ == 900
inline void ptx_fence_proxy_async_shared__cta(int) { simulated_proxy_fence(); }
inline void ptx_wgmma_fence_sync_aligned(int) { simulated_products_fence(); }
inline void ptx_wgmma_commit_group_sync_aligned(int) { simulated_products_commit(); }
// registers, and how many groups may be under way
template <class... X> inline void ptx_wgmma_wait_group_sync_aligned(int, X&&... x) {
  void* const all[] = {(void*)&x...};
  simulated_products_wait(*(int*)all[sizeof...(X) - 1]);
}
// The sums; A, which is a descriptor or four registers; B's descriptor; whether there are sums before; of 16 bits
// whether each matrix in memory is turned.
template <class... X> void simulated_product_of(int line, int type, unsigned columns, X&... x) {
  void* const all[] = {(void*)&x...};
  constexpr unsigned long bytes[] = {sizeof(x)...};
  const bool in_registers = bytes[columns / 2] == 4;
  unsigned fragment[4];
  for (unsigned r = 0; in_registers && r < 4; ++r) fragment[r] = *(unsigned*)all[columns / 2 + r];
  void* const* const b = all + columns / 2 + (in_registers ? 4 : 1);
  const auto turned = [&](void* const* at) { return at < all + sizeof...(X) && *(int*)*at; };
  simulated_product(line, type, columns, all, in_registers ? fragment : nullptr,
      in_registers ? 0 : *(unsigned long long*)all[columns / 2], *(unsigned long long*)*b, *(int*)b[1],
      !in_registers && turned(b + 2), turned(b + (in_registers ? 2 : 3)));
}
#define SIMULATED_PRODUCT(name, type, N)                                                                 \
  template <class... X> inline void ptx_wgmma_mma_async_sync_aligned_m64n##N##name(int line, X&&... x) { \
    simulated_product_of(line, type, N, x...);                                                           \
  }
#define SIMULATED_PRODUCTS(N)                \
  SIMULATED_PRODUCT(k16_f32_f16_f16, 0, N)   \
  SIMULATED_PRODUCT(k16_f32_bf16_bf16, 1, N) \
  SIMULATED_PRODUCT(k8_f32_tf32_tf32, 4, N)  \
  SIMULATED_PRODUCT(k32_s32_s8_s8, 2, N)     \
  SIMULATED_PRODUCT(k32_s32_u8_u8, 3, N)
SIMULATED_PRODUCTS(16) SIMULATED_PRODUCTS(32) SIMULATED_PRODUCTS(48) SIMULATED_PRODUCTS(64) SIMULATED_PRODUCTS(80)
SIMULATED_PRODUCTS(96) SIMULATED_PRODUCTS(112) SIMULATED_PRODUCTS(128) SIMULATED_PRODUCTS(192) SIMULATED_PRODUCTS(256)
#endif
