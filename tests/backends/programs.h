// Random Tile programs that reach the corners of the code generators.
//
//   affine      O[2*i + 1, j: 9, 4] = >(A[i + j, 3 - k] * B[k, j]), i + k < 7;
//   matmul      with transposes, batches, bias and activation; sizes around vectors and blocks, some large
//   window      convolutions and pools, NHWC and NCHW, stride, dilation, padding, transposed
//   fraction    A[(i + 1)/2], O[3*i - j]: residue classes, chains of `default`
//   triangle    causal and banded domains; unique: an assignment whose one point only a reduction loop finds
//   scan        Y[r, 2*j, c: R, 99, C] = *(X[r, 9 - k, c]), k >= j - 3 default D: triangles that run in linear time
//   factored    O[t, e] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t: triangles whose factors leave sums
//   rows        softmax, norms, a product and its softmax: what shares a launch
//   chain       elementwise statements over broadcast shapes, casts between any types
//   total       long reductions of few outputs
//
// A program is text and inputs; every choice comes from one Random, so a seed names a program.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "lang/type.h"

namespace backends {

using tilec::lang::DType;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t bits() { return engine_(); }
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool chance(int n) { return below(n) == 0; }         // one in n
  template <class T> T pick(std::initializer_list<T> all) { return all.begin()[below(static_cast<int>(all.size()))]; }
  template <class T>
  const T& pick(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

using Shape = std::vector<std::int64_t>;
struct Input { std::string name; DType dtype; Shape shape; };
struct Program {
  std::string kind, text;
  std::vector<Input> inputs;
  bool real = false;                                   // all inputs are floats: it may have a gradient
  bool finite = false;                                 // its inputs hold no infinities
};

// `smooth`: floats only, few kinds of ties: fit for a gradient.
// `narrow`: products of f16, bf16 or bytes alone, as tensor cores take them.
Program random_program(Random& random, bool smooth = false, bool narrow = false);

}  // namespace backends
