// Orders that differ from one by the place of one element.
//
//   a b c   ⇒   b c a;  a c b;  b a c;  c a b
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tilec::codegen {

template <class T> std::vector<T> with_at(std::vector<T> all, std::size_t from, std::size_t to) {
  T one = std::move(all[from]);
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(from));
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(to), std::move(one));
  return all;
}

// Each of a list innermost, each outermost.
template <class T> std::vector<std::vector<T>> other_orders(const std::vector<T>& list) {
  std::vector<std::vector<T>> all;
  for (std::size_t k = 0; k + 1 < list.size(); ++k) all.push_back(with_at(list, k, list.size() - 1));
  for (std::size_t k = 1; k < list.size(); ++k) all.push_back(with_at(list, k, 0));
  return all;
}

}  // namespace tilec::codegen
