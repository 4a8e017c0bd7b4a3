// What the kernel says of the machine, and of the control group that this process may be confined to.
#include "poly/no_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace tilec::poly {

namespace {

constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t small = std::uint64_t{64} << 20;  // not worth a question

// Of a file of lines `word number`; other lines are skipped.
std::uint64_t number_of(const char* path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream parts(line);
    std::string first;
    std::uint64_t value = 0;
    if (parts >> first >> value && first == word) return value;
  }
  return unknown;
}

std::uint64_t number_in(const char* path) {
  std::uint64_t value = 0;
  return std::ifstream(path) >> value ? value : unknown;  // `max`: no limit
}

std::uint64_t left_here() {
  const std::uint64_t kilobytes = number_of("/proc/meminfo", "MemAvailable:");
  return kilobytes == unknown
      ? static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))
      : kilobytes * 1024;
}

// What files take is given back when it is wanted; what processes hold is not.
std::uint64_t left_in_group() {
  const std::uint64_t most = number_in("/sys/fs/cgroup/memory.max"),
                      held = number_of("/sys/fs/cgroup/memory.stat", "anon");
  const std::uint64_t older = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  return std::min(most == unknown || held == unknown ? most : most - std::min(most, held), older);
}

}  // namespace

bool has_room(std::uint64_t bytes) {
  if (bytes < small) return true;
  return bytes <= std::min(left_here(), left_in_group());
}

}  // namespace tilec::poly
