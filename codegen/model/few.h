// A list whose first elements need no heap: of sides of a box, for which hundreds of thousands of such lists are made
// while one contraction is planned.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace tilec::codegen::model {

template <class T, std::size_t N = 8> class Few {
 public:
  void push_back(const T& element) {
    if (count_ == N) far_.assign(near_.begin(), near_.end());
    if (count_ < N) near_[count_] = element;
    else far_.push_back(element);
    ++count_;
  }
  T* begin() { return count_ > N ? far_.data() : near_.data(); }
  T* end() { return begin() + count_; }
  const T* begin() const { return count_ > N ? far_.data() : near_.data(); }
  const T* end() const { return begin() + count_; }

 private:
  std::array<T, N> near_;
  std::vector<T> far_;                                 // all of them, once there are more than N
  std::size_t count_ = 0;
};

}  // namespace tilec::codegen::model
