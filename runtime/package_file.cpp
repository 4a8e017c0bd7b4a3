#include "runtime/package_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "poly/exact.h"
#include "runtime/error.h"
#include "runtime/tensor.h"
#include "runtime/zip.h"

namespace tilec::runtime {

namespace {

using codegen::Package;

static_assert(std::endian::native == std::endian::little);
constexpr std::string_view magic = "tilec package ";
constexpr std::string_view begins = "tilec package 2\n";
constexpr std::size_t head = begins.size() + 8 + 4;

// One list of the fields, read by both: `Write` appends, `Read` takes.
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
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size()) throw std::string("its fields are longer than the file");
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
    if (count < 0 || static_cast<std::size_t>(count) > archive.rest().size()) throw std::string("its lists are longer than the file");
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

template <class Archive, class P> void fields(Archive& archive, P& package, bool is_backward = false) {
  const auto plain = [&](auto& value) { archive(value); };
  const auto port = [&](auto& p) {
    archive(p.name);
    number(archive, p.dtype, static_cast<std::int64_t>(std::size(lang::all_dtypes)));
    all(archive, p.shape, plain);
    all(archive, p.strides, plain);
  };
  archive(package.compiler);
  archive(package.name);
  archive(package.source);
  archive(package.target);
  archive(package.architecture);
  all(archive, package.features, plain);
  number(archive, package.form, 3);
  all(archive, package.code, plain);
  all(archive, package.inputs, port);
  all(archive, package.outputs, port);
  all(archive, package.buffers, [&](auto& b) { archive(b.bytes), archive(b.offset); });
  archive(package.workspace);
  archive(package.locals);
  all(archive, package.launches, [&](auto& l) {
    archive(l.kernel);
    all(archive, l.buffers, [&](auto& b) { number(archive, b, 1 << 30); });
    archive(l.code);
    for (auto& extent : l.grid) archive(extent);
    archive(l.threads), archive(l.shared), archive(l.dynamic_shared);
  });
  archive(package.kept);
  if (is_backward) return;
  all(archive, package.backward, [&](auto& backward) { fields(archive, backward, true); });
}

// What a reader of the fields relies on, whoever wrote them.
void check(const Package& p) {
  const auto is = [](bool holds, const char* why) { if (!holds) throw std::string(why); };
  const std::size_t ports = p.inputs.size() + p.outputs.size();
  is(p.buffers.size() >= ports, "buffers are missing");
  const auto place = [&](const codegen::Port& port, const codegen::Place& buffer) {
    is(port.shape.size() == port.strides.size() && port.shape.size() <= 64, "a port has another rank than strides");
    is(std::ranges::all_of(port.shape, [](std::int64_t n) { return n >= 0; }), "an extent is negative");
    is(byte_count(port.name, port.dtype, port.shape) == buffer.bytes, "a port has another size than its buffer");
  };
  for (std::size_t k = 0; k < p.inputs.size(); ++k) place(p.inputs[k], p.buffers[k]);
  for (std::size_t k = 0; k < p.outputs.size(); ++k) place(p.outputs[k], p.buffers[p.inputs.size() + k]);
  is(p.workspace >= 0 && p.workspace % codegen::workspace_alignment == 0 && p.locals >= 0 && p.locals % 64 == 0, "its workspace has no such size");
  for (std::size_t b = ports; b < p.buffers.size(); ++b) {
    const codegen::Place& part = p.buffers[b];
    is(part.bytes >= 0 && part.offset >= 0 && part.offset % codegen::workspace_alignment == 0 && part.offset <= p.workspace && part.bytes <= p.workspace - part.offset, "a buffer lies outside the workspace");
  }
  const auto size = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  for (const codegen::Launch& launch : p.launches) {
    for (const int b : launch.buffers) is(b < size(p.buffers), "a launch names a missing buffer");
    is(launch.code >= 0 && launch.code < size(p.code), "a launch names missing code");
    is(std::ranges::all_of(launch.grid, [](std::int64_t n) { return n >= 0; }) && launch.threads > 0 && launch.shared >= 0 && launch.dynamic_shared >= 0, "a launch has a negative size");
  }
  is(p.kept >= 0 && p.kept <= size(p.outputs) && (p.kept == 0 || !p.backward.empty()), "it keeps what it does not make");
  is(p.backward.size() <= 1, "it has two backward passes");
  for (const Package& backward : p.backward) {
    check(backward);
    for (const codegen::Port& port : backward.inputs)
      for (const auto* ports : {&p.inputs, &p.outputs}) {
        const auto same = std::ranges::find(*ports, port.name, &codegen::Port::name);
        is(same == ports->end() || *same == port, "backward takes another tensor than there is");
      }
  }
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t n = 0;
  std::memcpy(&n, bytes.data() + at, size);
  return n;
}

Package read(std::string_view bytes) {
  if (bytes.substr(0, magic.size()) != magic.substr(0, bytes.size())) throw std::string("it begins otherwise");
  if (bytes.size() < head) throw std::string("it was cut off");
  if (bytes.substr(0, begins.size()) != begins) throw std::string("it was written by another version of tilec: make it anew with `tilec build`");
  const std::string_view body = bytes.substr(head);
  if (const std::uint64_t size = number_at(bytes, begins.size(), 8); body.size() != size) throw std::string(body.size() < size ? "it was cut off" : "something follows it");
  if (checksum(body) != number_at(bytes, begins.size() + 8, 4)) throw std::string("bytes of it were changed: its checksum differs");
  Package package;
  Read reader(body);
  fields(reader, package);
  if (!reader.rest().empty()) throw std::string("something follows its fields");
  check(package);
  return package;
}

}  // namespace

std::string to_bytes(const Package& package) {
  Write body;
  fields(body, package);
  const std::uint64_t size = body.bytes.size();
  const std::uint32_t sum = checksum(body.bytes);
  std::string bytes(begins);
  bytes.append(reinterpret_cast<const char*>(&size), 8).append(reinterpret_cast<const char*>(&sum), 4);
  return bytes + body.bytes;
}

bool is_package(std::string_view bytes) { return bytes.starts_with(magic); }

Package package_from(std::string_view bytes, const std::string& path) {
  try {
    return read(bytes);
  } catch (const std::string& why) {
    throw machine_error(messages::bad_package, path, why);
  }
}

}  // namespace tilec::runtime
