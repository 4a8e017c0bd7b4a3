// Values as bytes: one list of the fields serves both ways, for `Write` appends and `Read` takes.
//
//   template <class Archive, class P> void fields(Archive& archive, P& point) { archive(point.name), all(archive,
//   point.shape, …); }
//
// Numbers are little-endian, texts and lists are counted. `Read` throws a std::string that says what is wrong.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace tilec::runtime {

static_assert(std::endian::native == std::endian::little);

class Write {
 public:
  std::string bytes;
  void operator()(const std::uint64_t& n) { bytes.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void operator()(const std::int64_t& n) { bytes.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::int64_t>(text.size()));
    bytes += text;
  }
};

class Read {
 public:
  explicit Read(std::string_view bytes) : rest_(bytes) {}
  void operator()(std::uint64_t& n) { std::memcpy(&n, take(sizeof n).data(), sizeof n); }
  void operator()(std::int64_t& n) { std::memcpy(&n, take(sizeof n).data(), sizeof n); }
  void operator()(std::string& text) {
    std::int64_t size = 0;
    (*this)(size);
    text = take(size);
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view take(std::int64_t count) {
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size())
      throw std::string("its fields are longer than the file");
    const std::string_view part = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(part.size());
    return part;
  }
  std::string_view rest_;
};

template <class Archive, class List, class Each> void all(Archive& archive, List& list, Each each) {
  std::int64_t count = static_cast<std::int64_t>(list.size());
  archive(count);
  if constexpr (std::is_same_v<Archive, Read>) {
    if (count < 0 || static_cast<std::size_t>(count) > archive.rest().size())
      throw std::string("its lists are longer than the file");
    list.resize(static_cast<std::size_t>(count));
  }
  for (auto& item : list) each(item);
}

// An enum as its number, which must be one of `count`.
template <class Archive, class Enum> void number(Archive& archive, Enum& value, std::int64_t count) {
  std::int64_t n = static_cast<std::int64_t>(value);
  archive(n);
  if constexpr (std::is_same_v<Archive, Read>) {
    if (n < 0 || n >= count) throw std::string("a number in it stands for nothing");
    value = static_cast<Enum>(n);
  }
}

// A file of such fields: a line that names its kind and version, bytes of what follows (u64), its CRC-32 (u32), the
// fields.
std::string framed(std::string_view begins, const std::string& body);
// The body. `magic` is the part of `begins` without its version; throws a std::string.
std::string_view unframed(std::string_view bytes, std::string_view magic, std::string_view begins);

}  // namespace tilec::runtime
