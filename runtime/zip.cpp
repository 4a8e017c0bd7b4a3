#include "runtime/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "runtime/error.h"

namespace tilec::runtime {

namespace {

constexpr std::uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50,
                        end64_mark = 0x06064b50, locator_mark = 0x07064b50;

// A little-endian reader that refuses to leave the file.
struct Reader {
  std::string_view file;
  const std::string& path;
  std::uint64_t number(std::uint64_t at, int width) const {
    if (at > file.size() || file.size() - at < static_cast<std::size_t>(width))
      throw machine_error(messages::bad_archive, path, "it ends early");
    std::uint64_t value = 0;
    for (int k = 0; k < width; ++k)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(file[at + static_cast<std::size_t>(k)]))
          << (8 * k);
    return value;
  }
  std::string_view bytes(std::uint64_t at, std::uint64_t count) const {
    if (at > file.size() || file.size() - at < count) throw machine_error(messages::bad_archive, path, "it ends early");
    return file.substr(at, count);
  }
};

struct Entry { std::uint64_t method, packed, size, local; std::string name; std::uint32_t crc; };

std::uint64_t find_end(const Reader& in) {
  if (in.file.size() >= 22)
    for (std::uint64_t at = in.file.size() - 22;; --at) {
      if (in.number(at, 4) == end_mark) return at;
      if (at == 0 || in.file.size() - at > 22 + 65535) break;
    }
  throw machine_error(messages::bad_archive, in.path,
      in.file.starts_with("PK") ? "it ends early" : "it does not start as a zip archive does");
}

// Fields of 0xffffffff stand in an extra record with the id 1, in this order.
void apply_zip64(const Reader& in, Entry& entry, std::uint64_t at, std::uint64_t length) {
  for (std::uint64_t end = at + length; at + 4 <= end;) {
    const std::uint64_t id = in.number(at, 2), size = in.number(at + 2, 2);
    std::uint64_t field = at + 4;
    if (id == 1)
      for (std::uint64_t* value : {&entry.size, &entry.packed, &entry.local})
        if (*value == 0xffffffff) {
          *value = in.number(field, 8);
          field += 8;
        }
    at += 4 + size;
  }
}

std::vector<Entry> directory(const Reader& in) {
  const std::uint64_t end = find_end(in);
  std::uint64_t count = in.number(end + 10, 2), at = in.number(end + 16, 4);
  if (end >= 20 && in.number(end - 20, 4) == locator_mark) {
    const std::uint64_t end64 = in.number(end - 20 + 8, 8);
    if (in.number(end64, 4) != end64_mark)
      throw machine_error(messages::bad_archive, in.path, "its directory is damaged");
    count = in.number(end64 + 32, 8);
    at = in.number(end64 + 48, 8);
  }
  std::vector<Entry> entries;
  for (std::uint64_t n = 0; n < count; ++n) {
    if (in.number(at, 4) != central_mark)
      throw machine_error(messages::bad_archive, in.path, "its directory is damaged");
    const std::uint64_t name = in.number(at + 28, 2), extra = in.number(at + 30, 2), comment = in.number(at + 32, 2);
    Entry entry{in.number(at + 10, 2), in.number(at + 20, 4), in.number(at + 24, 4), in.number(at + 42, 4),
        std::string(in.bytes(at + 46, name)), static_cast<std::uint32_t>(in.number(at + 16, 4))};
    apply_zip64(in, entry, at + 46 + name, extra);
    entries.push_back(std::move(entry));
    at += 46 + name + extra + comment;
  }
  return entries;
}

std::string inflate_raw(std::string_view packed, std::uint64_t size, const std::string& path) {
  // Deflate packs at most 1032 to 1: a larger promise is a lie, and would only take the memory.
  if (size / 1032 > packed.size()) throw machine_error(messages::bad_archive, path, "a member is damaged");
  std::string bytes(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -15) != Z_OK) throw machine_error(messages::bad_archive, path, "it cannot be unpacked");
  std::size_t read = 0, written = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    constexpr std::size_t most = 1U << 30;
    const std::size_t in = std::min(packed.size() - read, most), out = std::min(bytes.size() - written, most);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + written);
    stream.avail_out = static_cast<uInt>(out);
    state = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
    if (in == stream.avail_in && out == stream.avail_out && state == Z_OK) break;  // no progress
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || written != size) throw machine_error(messages::bad_archive, path, "a member is damaged");
  return bytes;
}

void put(std::string& out, std::uint64_t value, int width) {
  for (int k = 0; k < width; ++k) out += static_cast<char>((value >> (8 * k)) & 255);
}

// The fields that local and central headers share, from "version needed" on. Sizes always go in a zip64 record: one
// form for all.
void put_common(std::string& out, const ZipMember& member, std::size_t extra) {
  put(out, 45, 2);
  put(out, 0, 2);
  put(out, 0, 2);                                        // stored
  put(out, 0, 2);
  put(out, 0x21, 2);                                     // 1 January 1980: archives of equal content are equal
  put(out, checksum(member.bytes), 4);
  put(out, 0xffffffff, 4);
  put(out, 0xffffffff, 4);
  put(out, member.name.size(), 2);
  put(out, extra, 2);
}

void put_sizes(std::string& out, const ZipMember& member, std::size_t extra) {
  put(out, 1, 2);
  put(out, extra - 4, 2);
  put(out, member.bytes.size(), 8);
  put(out, member.bytes.size(), 8);
}

}  // namespace

ZipArchive::ZipArchive(std::string_view file, const std::string& path) : path_(path) {
  const Reader in{file, path_};
  std::uint64_t end = 0;
  std::vector<Entry> entries = directory(in);
  for (const Entry& entry : entries) {
    if (in.number(entry.local, 4) != local_mark)
      throw machine_error(messages::bad_archive, path, "its directory is damaged");
    if (entry.method != 0 && entry.method != 8)
      throw machine_error(messages::bad_archive, path, "a member is packed in a way other than deflate");
    const std::uint64_t start = entry.local + 30 + in.number(entry.local + 26, 2) + in.number(entry.local + 28, 2);
    members_.push_back({entry.name, in.bytes(start, entry.packed), entry.size, entry.crc, entry.method == 8});
  }
  // Many names for the same bytes would unpack to any size.
  std::ranges::sort(entries, {}, &Entry::local);
  for (const Entry& entry : entries) {
    if (entry.local < end) throw machine_error(messages::bad_archive, path, "two members share their bytes");
    end = entry.local + 30 + entry.packed;
  }
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const Packed& member : members_) names.push_back(member.name);
  return names;
}

std::string ZipArchive::unpack(std::size_t position) const {
  const Packed& member = members_.at(position);
  std::string bytes = member.deflated ? inflate_raw(member.bytes, member.size, path_) : std::string(member.bytes);
  if (checksum(bytes) != member.crc) throw machine_error(messages::bad_archive, path_, "a member is damaged");
  return bytes;
}

std::vector<ZipMember> read_zip(std::string_view file, const std::string& path) {
  const ZipArchive archive(file, path);
  std::vector<ZipMember> members;
  const std::vector<std::string> names = archive.names();
  for (std::size_t k = 0; k < names.size(); ++k) members.push_back({names[k], archive.unpack(k)});
  return members;
}

std::string write_zip(const std::vector<ZipMember>& members) {
  std::string out, central;
  for (const ZipMember& member : members) {
    const std::uint64_t local = out.size();
    put(out, local_mark, 4);
    put_common(out, member, 20);
    out += member.name;
    put_sizes(out, member, 20);
    out += member.bytes;
    put(central, central_mark, 4);
    put(central, 45, 2);
    put_common(central, member, 28);
    put(central, 0, 2);
    put(central, 0, 2);
    put(central, 0, 2);
    put(central, 0, 4);
    put(central, 0xffffffff, 4);
    central += member.name;
    put_sizes(central, member, 28);
    put(central, local, 8);
  }
  const std::uint64_t directory_at = out.size(), end64_at = directory_at + central.size();
  out += central;
  put(out, end64_mark, 4);
  put(out, 44, 8);
  put(out, 45, 2);
  put(out, 45, 2);
  put(out, 0, 4);
  put(out, 0, 4);
  put(out, members.size(), 8);
  put(out, members.size(), 8);
  put(out, central.size(), 8);
  put(out, directory_at, 8);
  put(out, locator_mark, 4);
  put(out, 0, 4);
  put(out, end64_at, 8);
  put(out, 1, 4);
  put(out, end_mark, 4);
  put(out, 0, 4);
  put(out, 0xffff, 2);
  put(out, 0xffff, 2);
  put(out, 0xffffffff, 4);
  put(out, 0xffffffff, 4);
  put(out, 0, 2);
  return out;
}

std::uint32_t checksum(std::string_view bytes) {
  uLong crc = crc32(0, nullptr, 0);
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, 1U << 30);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    bytes.remove_prefix(part.size());
  }
  return static_cast<std::uint32_t>(crc);
}

}  // namespace tilec::runtime
