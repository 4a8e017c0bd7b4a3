// Memory that notices: a tensor lies against a page that cannot be touched, before it or behind it, with a pattern on
// its other side. A kernel that strays either stops at once or leaves a mark.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <vector>

namespace backends {

class Guarded {
 public:
  // `behind`: the forbidden page follows the bytes; else it precedes them.
  Guarded(std::size_t bytes, bool behind) : bytes_(bytes) {
    const std::size_t page = static_cast<std::size_t>(getpagesize());
    room_ = (bytes + 2 * margin + page - 1) / page * page;
    length_ = room_ + page;
    base_ =
        static_cast<unsigned char*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    unsigned char* const room = behind ? base_ : base_ + page;
    mprotect(behind ? base_ + room_ : base_, page, PROT_NONE);
    std::memset(room, 0xA5, room_);
    data_ = behind ? room + room_ - bytes : room;
    from_ = room, to_ = room + room_;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, length_); }

  void* data() const { return data_; }
  bool untouched() const {
    for (const unsigned char* p = from_; p < to_; ++p)
      if ((p < data_ || p >= data_ + bytes_) && *p != 0xA5) return false;
    return true;
  }

 private:
  static constexpr std::size_t margin = 256;
  std::size_t bytes_, room_, length_;
  unsigned char *base_, *data_, *from_, *to_;
};

}  // namespace backends
