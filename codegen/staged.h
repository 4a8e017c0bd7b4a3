// A contraction for a block of threads, its operands staged in shared memory.
//
//   C[i, j] = +(A[i, k] * B[k, j])     block 4x4  lanes 16  stage 16  threads 256
//     ⇒  a block of 64 x 64 elements: 16 of k at a time are copied to shared memory by all threads, each in the order of its unit
//        stride in global memory; then every thread multiplies 4 + 4 of them into 16 registers
//
// Rows of the domain that couple m with an outer reduction (a filter's taps at an image's border) are asked once per tap, outside
// the staged loop: rows of the block that lie outside take no part in it, so nothing is multiplied by a made-up zero.
#pragma once

#include <optional>

#include "codegen/leaf.h"

namespace tilec::codegen {

// Which side of the product depends on m, which on n; which reduction is staged. None: the statement is no such contraction.
struct Staging {
  std::size_t m, n, depth;
  poly::Expr by_m, by_n;                               // the factors
};
std::optional<Staging> staging_of(const Nest& nest, const std::string& m, const std::string& n, const std::vector<std::string>& k);

// How many blocks the launch has, and the kernel's body: one Block loop.
Body spell_staged(const Nest& nest, const Compute& leaf, const Storage& storage, Names& names, std::int64_t threads);

}  // namespace tilec::codegen
