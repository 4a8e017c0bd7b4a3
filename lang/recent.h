// The last things that this process made of texts, for whoever asks for one of them again. Threads may share one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lang/diagnostic.h"

namespace tilec::lang {

template <class T>
class Recent {                                         // sources_of(T): the texts it was made of
 public:
  // The last used one that `is` takes; null: none.
  template <class Is>
  std::shared_ptr<const T> find(const Is& is) {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find_if(all_, [&](const auto& each) { return is(*each); });
    if (at == all_.end()) return nullptr;
    all_.splice(all_.begin(), all_, at);
    return all_.front();
  }

  // In place of the one that was not used for longest; nothing where it was made of too much text.
  void add(T made) {
    std::size_t bytes = 0;
    for (const Source& source : sources_of(made)) bytes += source.text.size();
    if (bytes > largest) return;
    auto added = std::make_shared<const T>(std::move(made));
    std::shared_ptr<const T> dropped;                  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    all_.push_front(std::move(added));
    if (all_.size() <= most) return;
    dropped = std::move(all_.back());
    all_.pop_back();
  }

 private:
  static constexpr std::size_t most = 16, largest = 1'000'000;  // things; bytes of text of each
  std::mutex mutex_;
  std::list<std::shared_ptr<const T>> all_;            // the last used first
};

}  // namespace tilec::lang
