#include "runtime/archive.h"

#include "runtime/zip.h"

namespace tilec::runtime {

namespace {

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t n = 0;
  std::memcpy(&n, bytes.data() + at, size);
  return n;
}

}  // namespace

std::string framed(std::string_view begins, const std::string& body) {
  const std::uint64_t size = body.size();
  const std::uint32_t sum = checksum(body);
  std::string bytes(begins);
  bytes.append(reinterpret_cast<const char*>(&size), 8).append(reinterpret_cast<const char*>(&sum), 4);
  return bytes + body;
}

std::string_view unframed(std::string_view bytes, std::string_view magic, std::string_view begins) {
  const std::size_t head = begins.size() + 8 + 4;
  if (bytes.substr(0, magic.size()) != magic.substr(0, bytes.size())) throw std::string("it begins otherwise");
  if (bytes.size() < head) throw std::string("it was cut off");
  if (bytes.substr(0, begins.size()) != begins)
    throw std::string("it was written by another version of tilec: make it anew with `tilec build`");
  const std::string_view body = bytes.substr(head);
  if (const std::uint64_t size = number_at(bytes, begins.size(), 8); body.size() != size)
    throw std::string(body.size() < size ? "it was cut off" : "something follows it");
  if (checksum(body) != number_at(bytes, begins.size() + 8, 4))
    throw std::string("bytes of it were changed: its checksum differs");
  return body;
}

}  // namespace tilec::runtime
