// What all blocks of a leaf that is being spelled have in common.
//
//   contract O  m x  n co  k k ci  block 9x2  lanes 16
//     ⇒  x, co, k and ci as dimensions of the nest; which points are left; in which type sums are kept
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/conditions.h"
#include "codegen/spelling.h"

namespace tilec::codegen {

struct SpelledLeaf {
  SpelledLeaf(const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names);

  const Nest& nest;
  const Compute& compute;
  const Storage& storage;
  const Surroundings& around;
  Names& names;
  Ranges points;                                       // what loops around fix, and what is left
  forms::Block block;                                  // those of its form; of others, that they have none of it
  forms::Contract contract;
  int m = -1, n = -1;
  std::vector<std::size_t> outside;                    // other dimensions of the rows of a block, which has all of them
  std::vector<std::size_t> outer, k;
  std::vector<std::pair<std::size_t, std::int64_t>> ahead;  // dimensions, and how many of their values, blocks or steps
  DType type, target_type;
  bool scaled = false;                                 // the fold is a product of floats: product.h
  bool flag = false;                                   // blocks remember whether they met a point
  std::vector<Condition> conditions = {};              // that may be asked outside of steps (asked.h)
  std::map<const void*, std::optional<bool>> answers = {};  // of those asked around here, by node; none: some row's
                                                            // is yes

  // `inside` with d at this value, or with this part of d.
  Body with(std::size_t d, const Expr& value, const std::function<Body()>& inside);
  Body within(std::size_t d, const Interval& part, const std::function<Body()>& inside);
  // A loop over values of d, each of which is fixed inside.
  Body loop(std::size_t d, const Interval& range, const std::function<Body()>& inside);

  bool is_of_rows(std::size_t d) const;                // m, or one of `outside`
  bool moves_along_rows(const Form& form) const;
  std::int64_t values_of_m(std::int64_t rows) const;   // of so many rows
  bool has_part_of_m() const;                          // a block has all values of `outside`, and a part of m's
  // Which value of each dimension of the rows row i of so many has, from the block's first value of m on.
  std::vector<std::pair<std::size_t, std::int64_t>> values_of_row(std::int64_t i, std::int64_t rows) const;
  std::optional<bool> answer(const poly::Expr& asked) const;  // of a condition that was asked
  // What the fold takes of points here: the value without the choices whose conditions were asked.
  const poly::Expr& value() const;
  std::int64_t bytes_of(std::size_t read) const;       // of an element
  Kind lane_kind() const { return around.threads ? Kind::Thread : Kind::Vector; }
};

// Which part of a reduction blocks fold, and what becomes of it.
struct PartOfSum {
  std::optional<Expr> later = std::nullopt;            // whether the target holds a part already, to which this one is
                                                       // added
  bool cleared = false;                                // blocks hold the identity: values of `taps` will add to it
  std::size_t folded_from = 0;                         // position in k of the first reduction inside the blocks
};

}  // namespace tilec::codegen
