#include "runtime/npy.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <functional>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/zip.h"

namespace tilec::runtime {

namespace {

constexpr std::string_view magic("\x93NUMPY", 6);

// The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
struct Header { DType dtype = DType::F32; bool swapped = false, fortran = false; std::vector<std::int64_t> shape; };

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\n,");
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

std::string_view value_of(std::string_view dict, std::string_view key, const std::string& path) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = fmt::format("{}{}{}", quote, key, quote);
    const auto at = dict.find(quoted);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = trimmed(dict.substr(at + quoted.size()));
    if (!rest.empty() && rest[0] == ':') return trimmed(rest.substr(1));
  }
  throw machine_error(messages::bad_header, path, fmt::format("it has no `{}`", key));
}

DType parse_descr(std::string_view value, const std::string& path, bool& swapped) {
  if (value.empty() || (value[0] != '\'' && value[0] != '"'))
    throw machine_error(messages::foreign_dtype, path, value.substr(0, value.find(']') + 1));
  const std::string_view descr = value.substr(1, value.find(value[0], 1) - 1);
  swapped = !descr.empty() && descr[0] == '>';
  const std::string_view kind = descr.empty() ? descr : descr.substr(descr.find_first_not_of("<>|=") == 1 ? 1 : 0);
  constexpr std::pair<std::string_view, DType> known[] = {{"b1", DType::Bool}, {"?", DType::Bool}, {"u1", DType::U8},
      {"u2", DType::U16}, {"u4", DType::U32}, {"u8", DType::U64}, {"i1", DType::I8}, {"i2", DType::I16},
      {"i4", DType::I32}, {"i8", DType::I64}, {"f2", DType::F16}, {"f4", DType::F32}, {"f8", DType::F64}};
  for (const auto& [text, dtype] : known)
    if (kind == text) return dtype;
  RuntimeError fault = machine_error(messages::foreign_dtype, path, descr);
  if (kind == "O")
    fault.hint("an object array is pickled Python; convert it with `.astype(numpy.float32)` before saving");
  else fault.hint("Tile has bool, u8 … u64, i8 … i64, f16, f32 and f64; convert with `.astype`");
  throw fault;
}

std::vector<std::int64_t> parse_shape(std::string_view value, const std::string& path) {
  if (value.empty() || value[0] != '(' || value.find(')') == std::string_view::npos)
    throw machine_error(messages::bad_header, path, "its `shape` is not a tuple");
  std::string_view rest = trimmed(value.substr(1, value.find(')') - 1));
  std::vector<std::int64_t> shape;
  while (!rest.empty()) {
    std::int64_t extent = 0;
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    if (fault != std::errc() || extent < 0)
      throw machine_error(messages::bad_header, path, "its `shape` holds something that is no size");
    shape.push_back(extent);
    rest = trimmed(rest.substr(static_cast<std::size_t>(end - rest.data())));
    if (!rest.empty() && rest[0] == 'L') rest = trimmed(rest.substr(1));  // Python 2 wrote `3L`
  }
  return shape;
}

Header parse_header(std::string_view dict, const std::string& path) {
  Header header;
  header.dtype = parse_descr(value_of(dict, "descr", path), path, header.swapped);
  header.fortran = value_of(dict, "fortran_order", path).starts_with("True");
  header.shape = parse_shape(value_of(dict, "shape", path), path);
  return header;
}

constexpr std::size_t longest_header = 1 << 16;

// Splits a file into its header and its elements.
std::pair<Header, std::string_view> split(std::string_view file, const std::string& path) {
  if (!file.starts_with(magic))
    throw machine_error(messages::not_npy, path,
        file.empty()                 ? "it is empty"
            : file.starts_with("PK") ? "it is a zip archive; name it `.npz`"
                                     : "it does not start with NumPy's mark");
  if (file.size() < 10) throw machine_error(messages::bad_header, path, "it ends within the header");
  const int major = static_cast<unsigned char>(file[6]);
  if (major < 1 || major > 3)
    throw machine_error(messages::bad_header, path, fmt::format("format version {} is not known", major));
  const std::size_t width = major == 1 ? 2 : 4, start = 8 + width;
  if (file.size() < start) throw machine_error(messages::bad_header, path, "it ends within the header");
  std::size_t length = 0;
  for (std::size_t k = 0; k < width; ++k)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(file[8 + k])) << (8 * k);
  if (length > longest_header)
    throw machine_error(messages::bad_header, path,
        fmt::format("it is said to have {} bytes, and at most {} are read", length, longest_header));
  if (file.size() - start < length) throw machine_error(messages::bad_header, path, "it ends within the header");
  return {parse_header(file.substr(start, length), path), file.substr(start + length)};
}

void swap_bytes(unsigned char* data, std::size_t size, std::size_t count) {
  for (std::size_t n = 0; n < count; ++n) std::reverse(data + n * size, data + (n + 1) * size);
}

// `held`: how many bytes of elements there are; `read` brings as many of them as the header promises.
Tensor tensor_of(const Header& header, std::uint64_t held,
    const std::function<std::size_t(char* to, std::size_t bytes)>& read, const std::string& path) {
  const std::int64_t bytes = byte_count(path, header.dtype, header.shape);
  if (held < static_cast<std::uint64_t>(bytes))
    throw machine_error(messages::truncated, path, bytes, static_cast<std::int64_t>(held));
  Tensor tensor = allocate(path, header.dtype, header.shape);
  const std::size_t got = read(static_cast<char*>(tensor.data), static_cast<std::size_t>(bytes));
  if (got < static_cast<std::size_t>(bytes))
    throw machine_error(messages::truncated, path, bytes, static_cast<std::int64_t>(got));
  if (header.swapped)
    swap_bytes(static_cast<unsigned char*>(tensor.data), static_cast<std::size_t>(lang::bytes(header.dtype)),
        static_cast<std::size_t>(tensor.count()));
  if (header.fortran) {
    const std::vector<std::int64_t> reversed(header.shape.rbegin(), header.shape.rend());
    const std::vector<std::int64_t> strides = row_major(reversed);
    tensor.strides.assign(strides.rbegin(), strides.rend());
  }
  return tensor;
}

Tensor parse_npy(std::string_view file, const std::string& path) {
  const auto parts = split(file, path);
  const std::string_view elements = parts.second;
  return tensor_of(parts.first, elements.size(), [&](char* to, std::size_t bytes) {
    std::memcpy(to, elements.data(), bytes);
    return bytes;
  }, path);
}

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "|b1";
    case DType::U8: return "|u1";
    case DType::U16: return "<u2";
    case DType::U32: return "<u4";
    case DType::U64: return "<u8";
    case DType::I8: return "|i1";
    case DType::I16: return "<i2";
    case DType::I32: return "<i4";
    case DType::I64: return "<i8";
    case DType::F16: return "<f2";
    case DType::F64: return "<f8";
    default: return "<f4";
  }
}

std::string npy_bytes(const Tensor& given, std::string_view name) {
  if (given.dtype == DType::BF16) return npy_bytes(convert(name, given, DType::F32), name);
  const Tensor tensor = given.is_row_major() ? given : convert(name, given, given.dtype);
  std::string shape;
  for (const std::int64_t extent : tensor.shape) shape += fmt::format("{}, ", extent);
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(tensor.dtype), shape);
  dict.append(63 - (10 + dict.size()) % 64, ' ');        // so that the elements start at a multiple of 64
  dict += '\n';
  std::string file(magic);
  file += {'\1', '\0', static_cast<char>(dict.size() & 255), static_cast<char>(dict.size() >> 8)};
  file += dict;
  file.append(
      static_cast<const char*>(tensor.data), static_cast<std::size_t>(byte_count(name, tensor.dtype, tensor.shape)));
  return file;
}

std::string archive_bytes(const std::string& path) {
  DataFile file(path);
  std::string archive = file.read(4);
  if (archive.starts_with("PK")) archive += file.rest();  // else what follows is not worth reading
  return archive;
}

}  // namespace

// No more than the header promises, whatever follows.
Tensor read_npy(const std::string& path) {
  DataFile file(path);
  const std::string start = file.read(longest_header + magic.size() + 6);
  const auto parts = split(start, path);
  const std::string_view elements = parts.second;
  const std::uint64_t length = start.size() - elements.size(),
                      held = std::max<std::uint64_t>(file.size(), start.size()) - length;
  return tensor_of(parts.first, held, [&](char* to, std::size_t bytes) {
    const std::size_t here = std::min(bytes, elements.size());
    std::memcpy(to, elements.data(), here);
    return here + file.read(to + here, bytes - here);
  }, path);
}

Npz::Npz(const std::string& path) : path_(path), file_(archive_bytes(path)), archive_(file_, path) {}

std::vector<std::string> Npz::names() const {
  std::vector<std::string> names = archive_.names();
  for (std::string& name : names)
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
  return names;
}

Tensor Npz::read(std::size_t position) const {
  return parse_npy(archive_.unpack(position), path_ + ":" + names().at(position));
}

void write_npy(const std::string& path, const Tensor& tensor) { write_file(path, npy_bytes(tensor, path)); }

void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& members) {
  std::vector<ZipMember> files;
  for (const auto& [name, tensor] : members) files.push_back({name + ".npy", npy_bytes(tensor, name)});
  write_file(path, write_zip(files));
}

void update_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& members) {
  std::vector<ZipMember> files;
  if (std::filesystem::is_regular_file(path)) files = read_zip(archive_bytes(path), path);
  std::erase_if(files, [&](const ZipMember& held) {
    return std::ranges::any_of(members, [&](const auto& member) { return held.name == member.first + ".npy"; });
  });
  for (const auto& [name, tensor] : members) files.push_back({name + ".npy", npy_bytes(tensor, name)});
  write_file(path, write_zip(files));
}

}  // namespace tilec::runtime
