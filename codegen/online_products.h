// What a warp multiplies of its rows in a pass on tensor cores (online_cores.h): products out of two operands in shared
// memory, sums out of their elements.
//
// Thread 4 g + t of a warp has rows g and g + 8 of each 16 x 8 results, columns 2 t and 2 t + 1
// (docs/decisions/tensor_cores.md), which are the places of the first operand too: two results side by side are its 16
// columns.
#pragma once

#include <string>
#include <vector>

#include "codegen/online_boxes.h"
#include "codegen/online_cores.h"

namespace tilec::codegen {

class ProductsOnCores : public OnlineBoxes {
 protected:
  ProductsOnCores(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
      Names& names, std::int64_t threads, Sweep sweep)
      : OnlineBoxes(nests, leaves, storage, names, threads, sweep) {}

  // What of a turn is multiplied at once: some of the results above one another, some columns.
  struct Half { std::int64_t first, tall, column, columns; };
  Half whole() const { return {0, tall_, 0, depth_}; }
  // Its registers of a product: one range, for there is one of both that it does not have all of.
  std::int64_t first_register(const Half& h) const {
    return result(h.first * 2, tile_blocks(), h.column / instruction_.n, 0);
  }
  std::int64_t registers_of_half(const Half& h) const {
    return h.tall * h.columns / instruction_.n * instruction_.registers_of_c();
  }

  // Of the results of a warp: register of a row of the thread, block of columns, and which of two.
  std::int64_t result(std::int64_t slot, std::int64_t blocks, std::int64_t block, std::int64_t one) const;
  std::int64_t tile_blocks() const { return depth_ / instruction_.n; }
  std::int64_t sum_blocks(const PassMember& sum) const { return sum.leaf.vectors; }
  std::int64_t registers_of(const PassMember& sum) const override;

  // m 0 .. 7 and 8 .. 15 of the first half of k, then of the second.
  Stmt fragment_of_rows(
      const Box& b, const std::string& to, std::int64_t first, std::int64_t step, std::int64_t i) const;

  // Of 8 rows from `eight` on, this thread's.
  Expr of_fragment(const Box& b, const Expr& eight, const Expr& number) const;

  Body product_of_shared(
      const PassMember& m, std::size_t number, const Box& b, const Expr& buffer, const Half& half);

  Body product(const PassMember& m, std::size_t number, const Box& b, const Expr& buffer);

  Body sum(const PassMember& m, const Box& b, const Expr& buffer);

  SplitFactors split_of(const PassMember& m) const;

  // Maxima seldom grow, so it is asked whether one of the thread's did.
  Body rescaled(const PassMember& m, const Half& half);

  // The factor of rows for a step, in fragments from `first` on: each part of all its results, then the next part.
  Body packed(
      const PassMember& m, const std::string& a, std::int64_t first, std::int64_t step, const Half& half);

  // Fragments of all steps, which stay until the products are there.
  std::int64_t of_step(const PassMember& m, const Half& half) const;
  std::string allocate_factors(Body& body, const PassMember& m, const Half& half);
  Body packed_factors(const PassMember& m, const std::string& a, const Half& half);
  Body sum_of_shared(
      const PassMember& m, const Box& b, const Expr& buffer, const std::string& a, const Half& half);

  // Each element from its own points, as f32.
  Body sum_of_points(const PassMember& m, const Box& b, const Expr& buffer);

  std::vector<std::string> fragments_of_rows_;         // that stay in registers; empty: they are read each turn
  std::string scale_;
  // of this thread
  Expr first_row_ = i64(0), of_warp_ = i64(0), g_ = i64(0), t_ = i64(0), r_ = i64(0), low_ = i64(0), high_ = i64(0);
};

}  // namespace tilec::codegen
