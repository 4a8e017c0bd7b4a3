// A tensor that there is no room for, by name, and how much room there is: Linux promises memory that it does not have,
// and kills who uses it.
#pragma once

#include <cstdint>
#include <new>
#include <string>

namespace tilec::poly {

struct NoMemory : std::bad_alloc {
  NoMemory(std::string name, std::uint64_t size) : tensor(std::move(name)), bytes(size) {}
  std::string tensor;
  std::uint64_t bytes;
};

// Whether so many bytes could be filled now, without any process being killed for it.
bool has_room(std::uint64_t bytes);

}  // namespace tilec::poly
