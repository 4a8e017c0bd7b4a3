// What libFuzzer asks of a target whose input is a program: mutations by tokens most of the time, by bytes otherwise.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mutate.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

namespace {

std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

std::size_t put(const std::string& text, std::uint8_t* data, std::size_t room) {
  const std::size_t size = text.size() < room ? text.size() : room;
  std::memcpy(data, text.data(), size);
  return size;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  fuzz::Engine engine(seed);
  if (engine() % 8 == 0) return LLVMFuzzerMutate(data, size, room);
  return put(fuzz::mutate(text_of(data, size), engine), data, room);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* a, std::size_t a_size, const std::uint8_t* b,
    std::size_t b_size, std::uint8_t* out, std::size_t room, unsigned seed) {
  fuzz::Engine engine(seed);
  return put(fuzz::splice(text_of(a, a_size), text_of(b, b_size), engine), out, room);
}
