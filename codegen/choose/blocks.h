// The block of accumulators that takes the fewest cycles: how many rows of m by how many vectors of n.
//
//   O[x, co] = +(I[x + k, ci] * K[k, ci, co]), 54 x 64 over 3 x 32, lanes over co
//     ⇒  m = x, for K does not depend on it; blocks of 9 x 2: max(18 / 2, (9 + 2) / 2, 4) = 9 cycles a step for 288
//        multiply-adds, and 6 blocks by 2 leave no edge
//
// A core loads two vectors and computes on two in a cycle; it waits four cycles from one accumulation to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/choose/facts.h"

namespace tilec::codegen {

// Turned: rows are as many as lanes, and squares of them are transposed in registers.
// Taps: the reductions that bound a block stand outside it.
enum class BlockForm { Plain, Turned, Taps };
struct RegisterBlock {
  std::int64_t rows = 1, vectors = 1;
  double cost = std::numeric_limits<double>::infinity();  // cycles of the whole leaf; infinite: no block is possible
  BlockForm form = BlockForm::Plain;
  double again = 0;                                    // of the cost, what it takes to fetch lines that a cache has
                                                       // lost
  double torn = 0;                                     // of the cost, what it takes to write a large result in short
                                                       // runs
  bool rows_outside = false;                           // blocks of n run inside blocks of m
};
RegisterBlock best_block(
    const Facts& f, std::size_t n, std::optional<std::size_t> m, BlockForm form, std::int64_t least_vectors = 1);

// The rows and the block with lanes over n; `weighed`: what else was looked at.
std::pair<std::optional<std::size_t>, RegisterBlock> choose_block(
    const Facts& f, std::size_t n, std::vector<Weighed>& weighed);
// Blocks of each dimension that rows may run over, with lanes over n.
void each_block(
    const Facts& f, std::size_t n, const std::function<void(std::size_t m, const RegisterBlock& block)>& weigh);
// Which of n and m runs outside: that along which a large result is written, unless what the columns read of the
// operands then comes from a farther cache again and again.
void order_blocks(const Facts& f, std::size_t n, std::optional<std::size_t> m, RegisterBlock& block);

// Whether blocks may have these forms.
bool may_turn(const Facts& f, std::size_t n, std::size_t m);
bool may_tap(const Facts& f, std::size_t n, std::optional<std::size_t> m);
// Reductions that a row couples with n or m: taken one value at a time outside the blocks, they leave exact bounds.
std::vector<std::size_t> taps_of(const Facts& f, std::size_t n, std::optional<std::size_t> m);
// Sums of so many rows that are stored through squares, where what they read stays as it lies.
bool turns_sums(const Facts& f, std::size_t n, std::optional<std::size_t> m, std::int64_t rows);

}  // namespace tilec::codegen
