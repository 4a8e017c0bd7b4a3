// A minimum cut between vertex 0 and vertex 1 of a directed graph (Dinic's algorithm).
//
// Choices that are yes or no, and costs of the form "a is yes and b is no", are such a graph: yes is the side of vertex
// 0, an edge a → b costs its capacity when it leaves that side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilec::autodiff {

class Cut {
 public:
  static constexpr std::int64_t infinite = std::int64_t{1} << 60;
  std::size_t vertex();                                // a new one; 0 and 1 exist
  void edge(std::size_t from, std::size_t to, std::int64_t capacity);
  std::int64_t solve();                                // the cost; `infinite` or more when no cut avoids an infinite
                                                       // edge
  bool on_first_side(std::size_t v) const { return level_[v] >= 0; }  // after solve; the smallest such side

 private:
  struct Edge { std::size_t to; std::int64_t left; };
  bool levels();
  std::int64_t push(std::size_t v, std::int64_t amount);
  std::vector<Edge> edges_;                            // k and k ^ 1 are opposite
  std::vector<std::vector<std::size_t>> leaving_{{}, {}};
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

}  // namespace tilec::autodiff
