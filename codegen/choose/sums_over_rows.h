// Sums over the rows of a set, each taken in parts beside the statements that read the same rows.
//
//   dX[i, j] = =(…X[i, j]…);  dG[j] = +(…X[i, j]…)      rows i, 12 cores
//     ⇒  dG joins: X is read once; each part has so many i that every core has turns, and the cache holds a row of both
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/choose/traffic.h"

namespace tilec::codegen {

class SumsOverRows {
 public:
  SumsOverRows(const poly::Program& program, const Target& target) : program_(program), target_(target) {}

  // The statement as one that sums over rows of the set: its indices that run over them.
  std::optional<Member> sum_over_rows(const std::vector<Member>& all, const poly::Statement& s) const;
  // What parts of sums over the rows move, `saved` against it, and whether the cache holds a row of all statements.
  bool fits_cache(const std::vector<Member>& all, double saved) const;
  // On a GPU: whether the bytes and the time allow it, by parts that are longer where need be, while each
  // multiprocessor has a block.
  bool fits_by_parts(const std::vector<Member>& all, double saved);
  void make_shortest() { longer_parts_ = 1; }
  // How many of the last row have one part: so many that other cores have something to do.
  std::int64_t part_size(const std::vector<std::int64_t>& extents) const;
  // What another launch reads again of what this one has in its caches: on a GPU, which has many rows under way, of the
  // second cache too.
  double bytes_to_read_again(TensorId id) const;

 private:
  bool walks_in_time(const std::vector<Member>& all, double saved) const;

  const poly::Program& program_;
  const Target& target_;
  std::int64_t longer_parts_ = 1;                      // times what fills the multiprocessors of a GPU best
};

// Of each row, how many values it has.
std::vector<std::int64_t> extents_of(const Member& member);

}  // namespace tilec::codegen
