// What the blocks of a leaf fetch again because a cache has lost it, and what it takes to write a result in short runs.
//
//   C[i, j] = +(A[i, k] * B[k, j]), 1000 x 1000 over 1000, blocks of 6 rows by 64 columns, columns outside
//     ⇒  64 columns of B, 256 kB, come from the second cache again for each of 167 blocks of rows; A, 4 MB, comes from
//        the third one again for each of 16 blocks of columns
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "codegen/choose/facts.h"
#include "codegen/model/few.h"

namespace tilec::codegen {

class Refetched {
 public:
  // Blocks of so many rows of m by so many vectors of n. `rows_outside`: blocks of n run inside blocks of m.
  Refetched(const Facts& f, std::size_t n, std::optional<std::size_t> m, std::int64_t rows, std::int64_t vectors,
      bool rows_outside = false);

  // What lines take that a cache has lost.
  double cycles() const;
  // What lines of the target take beyond those of a stream, each written once: a core fetches them before it writes
  // them.
  double torn() const;

 private:
  // A loop with which an access moves: values that all of its turns have, and a block; of them those on one line.
  struct Moves { std::size_t loop; double whole, inside, side_by_side; };
  using Moved = model::Few<Moves>;
  Moved moved(const FlatAccess& access) const;
  // Lines that the loops from `first` on touch.
  static double lines(const Moved& moved, std::size_t first);
  // Of all turns of the loops, with a cache of so many bytes.
  double fetched(const Moved& moved, double bytes) const;

  const Facts& f_;
  model::Few<std::size_t> loops_;                      // from the outermost to the innermost
  model::Few<std::int64_t> inside_;                    // of each dimension, how many values a block has
};

}  // namespace tilec::codegen
