// The elements of a leaf (or its blocks of m) that a group's loops leave, spread over the threads of blocks.
//
//   map Y  m i  n j  vectors 2      100 x 64 elements, 128 threads
//     ⇒  for turn in 25 blocks: for l in 128 threads: e = turn * 256 + l, i = e / 64, j = e % 64; once more for e + 128
//
// They are numbered, unit stride last, and each thread takes `vectors` of them a turn. Of a whole turn a thread asks
// for nothing between its elements, so all that it reads is on its way before it waits.
//
//   map Y  m j  block 8x1            1000 elements of bf16 that lie side by side
//     ⇒  elements 8 e ... 8 e + 7 are a thread's: one access of 16 bytes to each tensor that begins at a multiple of
//        them; if one does not, the elements of a turn go to its threads one by one
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/spelling.h"

namespace tilec::codegen {

// A dimension of which an element's number says the value: so many steps of so many values.
struct Digit {
  std::size_t dim;
  std::int64_t count, step;
  bool ragged;                                         // the last turn of the loop around may have fewer values
};

using Speller = std::function<Body(const Compute&, const Surroundings&)>;
// `turns`: what the loop over turns is. `spell`: one element.
Body spell_over_threads(const Nest& nest, const Compute& leaf, const std::vector<Digit>& digits, const Storage& storage,
    const Surroundings& around, Kind turns, Names& names, const Speller& spell);

// So many values from `begin` on, as far as the extent goes.
Interval values_from(const Expr& begin, std::int64_t step, std::int64_t extent);

}  // namespace tilec::codegen
