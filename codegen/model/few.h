// Lists whose first elements need no heap: of sides, loops and tensors, of which hundreds of thousands are made while
// one contraction is planned.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "codegen/nest.h"

namespace tilec::codegen::model {

template <class T, std::size_t N = 8> class Few {
 public:
  Few() {}                                             // none of them is cleared
  Few(std::initializer_list<T> elements) {
    for (const T& one : elements) push_back(one);
  }

  void push_back(const T& element) {
    if (count_ == N) far_.assign(near_.begin(), near_.end());
    if (count_ < N) near_[count_] = element;
    else far_.push_back(element);
    ++count_;
  }
  // Behind those that are no larger by `key`: of a list in order.
  template <class Key> void insert(const T& element, Key key) {
    push_back(element);
    for (T* at = end() - 1; at != begin() && std::invoke(key, element) < std::invoke(key, at[-1]); --at)
      std::swap(at[0], at[-1]);
  }
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  T* begin() { return count_ > N ? far_.data() : near_.data(); }
  T* end() { return begin() + count_; }
  const T* begin() const { return count_ > N ? far_.data() : near_.data(); }
  const T* end() const { return begin() + count_; }
  const T& front() const { return *begin(); }
  const T& back() const { return end()[-1]; }
  T& operator[](std::size_t n) { return begin()[n]; }
  const T& operator[](std::size_t n) const { return begin()[n]; }

 private:
  std::array<T, N> near_;
  std::vector<T> far_;                                 // all of them, once there are more than N
  std::size_t count_ = 0;
};

// Puts a short list in order, equal ones as they stood: std::stable_sort asks the heap first. `less`: of two elements.
template <class List, class Less> void sort_few(List& list, Less less) {
  for (auto at = list.begin(); at != list.end(); ++at)
    for (auto to = at; to != list.begin() && less(*to, *std::prev(to)); --to) std::iter_swap(to, std::prev(to));
}

// Something of each of a few tensors, by their numbers.
template <class T> class OfTensors {
 public:
  using Entry = std::pair<TensorId, T>;
  // The tensor's, and whether it is new here.
  std::pair<T*, bool> emplace(TensorId id, const T& one) {
    Entry* const at = std::ranges::lower_bound(entries_, id, {}, &Entry::first);
    if (at != entries_.end() && at->first == id) return {&at->second, false};
    const auto place = at - entries_.begin();
    entries_.push_back({id, one});
    std::rotate(entries_.begin() + place, entries_.end() - 1, entries_.end());
    return {&(entries_.begin() + place)->second, true};
  }
  T& operator[](TensorId id) { return *emplace(id, T()).first; }
  const T* find(TensorId id) const {
    const Entry* const at = std::ranges::lower_bound(entries_, id, {}, &Entry::first);
    return at != entries_.end() && at->first == id ? &at->second : nullptr;
  }
  const Entry* begin() const { return entries_.begin(); }
  const Entry* end() const { return entries_.end(); }

 private:
  Few<Entry, 4> entries_;
};

}  // namespace tilec::codegen::model
