// Things that calls borrow and hand back (scratch memory, device buffers), without a lock: fork() may come at any
// moment, and a child that inherits an empty slot only makes a thing of its own.
#pragma once

#include <array>
#include <atomic>
#include <memory>

namespace tilec::runtime {

template <class T> class Spare {
 public:
  Spare() = default;
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  ~Spare() { while (take()) {} }

  std::unique_ptr<T> take() const {                    // null: none lies here
    for (std::atomic<T*>& slot : slots_)
      if (slot.load(std::memory_order_relaxed) != nullptr)
        if (T* thing = slot.exchange(nullptr, std::memory_order_acquire)) return std::unique_ptr<T>(thing);
    return nullptr;
  }
  void give(std::unique_ptr<T> thing) const {          // where all slots are full, it goes
    for (std::atomic<T*>& slot : slots_) {
      T* none = nullptr;
      if (slot.compare_exchange_strong(none, thing.get(), std::memory_order_release, std::memory_order_relaxed))
        return void(thing.release());
    }
  }

 private:
  mutable std::array<std::atomic<T*>, 16> slots_{};    // more calls at one time than this are rare
};

}  // namespace tilec::runtime
