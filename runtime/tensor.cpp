#include "runtime/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "poly/no_memory.h"
#include "runtime/error.h"
#include "runtime/hooks.h"

namespace tilec::runtime {

namespace {

using Bytes = const unsigned char*;

double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value;
  if (exponent == 31) value = mantissa != 0 ? std::nan("") : HUGE_VAL;
  else if (exponent == 0) value = std::ldexp(mantissa, -24);
  else value = std::ldexp(mantissa + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

// The value is already a half (round_to did it), so the conversion is exact.
std::uint16_t double_to_half(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [1/2, 1)
  return static_cast<std::uint16_t>(
      sign | ((exponent + 14) << 10) | (static_cast<int>(std::ldexp(fraction, 11)) - 1024));
}

template <class T> T read(Bytes at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T> void write(unsigned char* at, T value) { std::memcpy(at, &value, sizeof value); }

double load_real(DType dtype, Bytes at) {
  switch (dtype) {
    case DType::F16: return half_to_double(read<std::uint16_t>(at));
    case DType::BF16: return std::bit_cast<float>(static_cast<std::uint32_t>(read<std::uint16_t>(at)) << 16);
    case DType::F32: return read<float>(at);
    default: return read<double>(at);
  }
}

std::int64_t load_integer(DType dtype, Bytes at) {
  switch (dtype) {
    case DType::Bool: return *at != 0 ? 1 : 0;
    case DType::U8: return read<std::uint8_t>(at);
    case DType::U16: return read<std::uint16_t>(at);
    case DType::U32: return read<std::uint32_t>(at);
    case DType::I8: return read<std::int8_t>(at);
    case DType::I16: return read<std::int16_t>(at);
    case DType::I32: return read<std::int32_t>(at);
    default: return read<std::int64_t>(at);                // u64: its bits
  }
}

void store_real(DType dtype, double value, unsigned char* at) {
  const double rounded = poly::round_to(dtype, value);
  switch (dtype) {
    case DType::F16: return write(at, double_to_half(rounded));
    case DType::BF16:
      return write(at,
          static_cast<std::uint16_t>(
              std::isnan(rounded) ? 0x7fc0 : std::bit_cast<std::uint32_t>(static_cast<float>(rounded)) >> 16));
    case DType::F32: return write(at, static_cast<float>(rounded));
    default: return write(at, rounded);
  }
}

void store_integer(DType dtype, std::int64_t value, unsigned char* at) {
  switch (lang::bytes(dtype)) {
    case 1: return write(at, static_cast<std::uint8_t>(dtype == DType::Bool ? value != 0 : value));
    case 2: return write(at, static_cast<std::uint16_t>(value));
    case 4: return write(at, static_cast<std::uint32_t>(value));
    default: return write(at, value);
  }
}

// Calls visit(byte address) for every element in row-major order.
template <class Visit> void for_each_element(const Tensor& tensor, Visit visit) {
  const std::int64_t count = tensor.count(), size = lang::bytes(tensor.dtype);
  const std::size_t rank = tensor.shape.size();
  std::vector<std::int64_t> at(rank, 0);
  auto* address = static_cast<unsigned char*>(tensor.data);
  for (std::int64_t n = 0; n < count; ++n) {
    visit(address);
    for (std::size_t d = rank; d-- > 0;) {
      if (++at[d] < tensor.shape[d]) {
        address += tensor.strides[d] * size;
        break;
      }
      address -= (tensor.shape[d] - 1) * tensor.strides[d] * size;
      at[d] = 0;
    }
  }
}

poly::Number number_at(const poly::Array& array, std::size_t n) {
  return lang::is_float(array.dtype) ? poly::Number{array.dtype, 0, array.reals[n]}
                                     : poly::Number{array.dtype, array.integers[n], 0};
}

// Of any type; 64 bits of mantissa and more hold all integers.
long double exact_value(const poly::Number& number) {
  if (lang::is_float(number.type)) return number.real;
  return number.type == DType::U64 ? static_cast<long double>(static_cast<std::uint64_t>(number.integer))
                                   : static_cast<long double>(number.integer);
}
static_assert(std::numeric_limits<long double>::digits >= 64);

}  // namespace

std::int64_t Tensor::count() const {
  return poly::product(shape);
}

bool Tensor::is_row_major() const {
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) return true;                      // no element to disagree about
    if (shape[d] != 1 && strides[d] != expected) return false;
    if (__builtin_mul_overflow(expected, shape[d], &expected)) return false;
  }
  return true;
}

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    // byte_count refuses it
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(shape[d], 1), &stride))
      return std::vector<std::int64_t>(shape.size());
  }
  return strides;
}

std::string print_shape(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

std::string describe_shape(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "a scalar" : fmt::format("{}", fmt::join(shape, " by "));
}

std::int64_t byte_count(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape) {
  // An empty tensor has no bytes however large its other extents are, but its strides must still be counted.
  std::int64_t bytes = lang::bytes(dtype);
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty = empty || extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes))
      throw machine_error(messages::too_large, name, print_shape(shape));
  }
  return empty ? 0 : bytes;
}

Tensor allocate(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape) {
  // Large blocks ask for huge pages, as NumPy's do: with pages of 4 KiB, lines of many streams take 1.3 to 1.9 times as
  // long (codegen/model/machine.h).
  constexpr std::size_t huge_page = 2 << 20, huge_from = 2 * huge_page;
  constexpr std::size_t aligned = 64;
  // data is never null
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(byte_count(name, dtype, shape), 1));
  const auto tensor = [&](void* data, auto release) {
    return Tensor{data, dtype, shape, row_major(shape), {kDLCPU, 0}, std::shared_ptr<void>(data, release)};
  };
  if (const Allocator* host = allocator_hook().get()) {
    void* const data = host->allocate(host->user, bytes, aligned);
    if (data == nullptr)
      throw machine_error(
          messages::out_of_memory, name, fmt::format("the allocator of the host gave NULL for {} bytes", bytes));
    Tensor given = tensor(data, [host, bytes](void* memory) { host->release(host->user, memory, bytes, aligned); });
    if (reinterpret_cast<std::uintptr_t>(data) % aligned == 0) return given;
    throw machine_error(messages::out_of_memory, name,
        fmt::format("the allocator of the host gave address {} for {} bytes aligned to {}", data, bytes, aligned));
  }
  const std::size_t unit = bytes < huge_from ? aligned : huge_page, rounded = (bytes + unit - 1) / unit * unit;
  void* const data = poly::has_room(rounded) ? std::aligned_alloc(unit, rounded) : nullptr;
  if (unit == huge_page && data != nullptr) madvise(data, rounded, MADV_HUGEPAGE);  // a wish: refused, pages are small
  if (data == nullptr) throw machine_error(messages::out_of_memory, name, fmt::format("{} bytes", bytes));
  return tensor(data, std::free);
}

DLDataType dl_type(DType dtype) {
  const std::uint8_t width = static_cast<std::uint8_t>(lang::bits(dtype));
  if (dtype == DType::Bool) return {kDLBool, 8, 1};
  if (dtype == DType::BF16) return {kDLBfloat, 16, 1};
  if (lang::is_float(dtype)) return {kDLFloat, width, 1};
  return {static_cast<std::uint8_t>(lang::is_signed(dtype) ? kDLInt : kDLUInt), width, 1};
}

std::optional<DType> dtype_of(DLDataType type) {
  for (const DType dtype : lang::all_dtypes) {
    const DLDataType candidate = dl_type(dtype);
    if (candidate.code == type.code && candidate.bits == type.bits && type.lanes == 1) return dtype;
  }
  return std::nullopt;
}

std::optional<Tensor> borrow(const DLTensor& tensor) {
  const std::optional<DType> dtype = dtype_of(tensor.dtype);
  if (!dtype) return std::nullopt;
  Tensor view{static_cast<unsigned char*>(tensor.data) + tensor.byte_offset, *dtype, {}, {}, tensor.device, nullptr};
  view.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  if (tensor.strides != nullptr) view.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  else view.strides = row_major(view.shape);
  return view;
}

poly::Array to_array(const Tensor& tensor) {
  poly::Array array{tensor.dtype, tensor.shape, {}, {}};
  if (lang::is_float(tensor.dtype)) {
    array.reals.reserve(static_cast<std::size_t>(tensor.count()));
    for_each_element(tensor, [&](Bytes at) { array.reals.push_back(load_real(tensor.dtype, at)); });
  } else {
    array.integers.reserve(static_cast<std::size_t>(tensor.count()));
    for_each_element(tensor, [&](Bytes at) { array.integers.push_back(load_integer(tensor.dtype, at)); });
  }
  return array;
}

void from_array(const poly::Array& array, const Tensor& tensor) {
  std::size_t n = 0;
  const bool to_real = lang::is_float(tensor.dtype);
  for_each_element(tensor, [&](unsigned char* at) {
    const poly::Number value = number_at(array, n++);
    const poly::Number stored = array.dtype == tensor.dtype ? value : poly::convert(value, tensor.dtype);
    if (to_real) store_real(tensor.dtype, stored.real, at);
    else store_integer(tensor.dtype, stored.integer, at);
  });
}

bool holds(DType type, const poly::Number& number) {
  const poly::Number stored = poly::convert(number, type);
  if (lang::is_float(type)) return std::isfinite(stored.real) || !std::isfinite(exact_value(number));
  return exact_value(stored) == exact_value(number);
}

std::string print_number(const poly::Number& number) {
  if (lang::is_float(number.type)) return fmt::format("{}", number.real);
  return number.type == DType::U64 ? fmt::format("{}", static_cast<std::uint64_t>(number.integer))
                                   : fmt::format("{}", number.integer);
}

Tensor convert(std::string_view name, const Tensor& tensor, DType dtype) {
  Tensor result = allocate(name, dtype, tensor.shape);
  const poly::Array array = to_array(tensor);
  for (std::size_t n = 0; n < static_cast<std::size_t>(array.count()); ++n)
    if (const poly::Number number = number_at(array, n); !holds(dtype, number))
      throw argument_error(lang::messages::does_not_fit,
          fmt::format("{}, element {} of `{}`,", print_number(number), n, name), lang::name(dtype));
  from_array(array, result);
  return result;
}

}  // namespace tilec::runtime
