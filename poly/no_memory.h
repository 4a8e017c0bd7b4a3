// A tensor that the interpreter finds no room for, by name.
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

}  // namespace tilec::poly
