// Shortest augmenting paths, all of one length at a time.
#include "autodiff/cut.h"

#include <algorithm>

namespace tilec::autodiff {

std::size_t Cut::vertex() {
  leaving_.emplace_back();
  return leaving_.size() - 1;
}

void Cut::edge(std::size_t from, std::size_t to, std::int64_t capacity) {
  leaving_[from].push_back(edges_.size());
  edges_.push_back({to, std::min(capacity, infinite)});
  leaving_[to].push_back(edges_.size());
  edges_.push_back({from, 0});
}

bool Cut::levels() {
  level_.assign(leaving_.size(), -1);
  level_[0] = 0;
  std::vector<std::size_t> queue{0};
  for (std::size_t at = 0; at < queue.size(); ++at)
    for (const auto e : leaving_[queue[at]])
      if (edges_[e].left > 0 && level_[edges_[e].to] < 0) {
        level_[edges_[e].to] = level_[queue[at]] + 1;
        queue.push_back(edges_[e].to);
      }
  return level_[1] >= 0;
}

std::int64_t Cut::push(std::size_t v, std::int64_t amount) {
  if (v == 1) return amount;
  for (auto& k = next_[v]; k < leaving_[v].size(); ++k) {
    const auto e = leaving_[v][k];
    if (edges_[e].left == 0 || level_[edges_[e].to] != level_[v] + 1) continue;
    const auto sent = push(edges_[e].to, std::min(amount, edges_[e].left));
    if (sent == 0) continue;
    edges_[e].left -= sent;
    edges_[e ^ 1].left += sent;
    return sent;
  }
  return 0;
}

std::int64_t Cut::solve() {
  std::int64_t cost = 0;
  while (cost < infinite && levels()) {
    next_.assign(leaving_.size(), 0);
    while (const auto sent = push(0, infinite)) {
      cost += sent;
      if (cost >= infinite) break;
    }
  }
  return cost;
}

}  // namespace tilec::autodiff
