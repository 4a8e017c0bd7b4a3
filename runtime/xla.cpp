// XLA's calls: a number and buffers become a kernel and its pointers.
#include "runtime/xla.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/xla_ffi.h"

using namespace tilec;

namespace {

struct Expected {
  std::string name;
  XLA_FFI_DataType dtype;
  std::vector<std::int64_t> shape;
  bool empty;
};

struct Kept {
  const tilec_kernel* kernel;
  std::vector<Expected> inputs, outputs;
};

XLA_FFI_DataType type_of(DLDataType type) {
  constexpr std::array signed_types{XLA_FFI_DataType_S8, XLA_FFI_DataType_S16, XLA_FFI_DataType_S32, XLA_FFI_DataType_S64};
  constexpr std::array unsigned_types{XLA_FFI_DataType_U8, XLA_FFI_DataType_U16, XLA_FFI_DataType_U32, XLA_FFI_DataType_U64};
  const auto width = static_cast<std::size_t>(std::countr_zero(type.bits) - 3);  // 8 bits: 0
  switch (type.code) {
    case kDLInt: return signed_types.at(width);
    case kDLUInt: return unsigned_types.at(width);
    case kDLFloat: return type.bits == 16 ? XLA_FFI_DataType_F16 : type.bits == 32 ? XLA_FFI_DataType_F32 : XLA_FFI_DataType_F64;
    case kDLBfloat: return XLA_FFI_DataType_BF16;
    case kDLBool: return XLA_FFI_DataType_PRED;
    default: return XLA_FFI_DataType_INVALID;
  }
}

template <class Port> std::vector<Expected> expected(const tilec_kernel* kernel, std::size_t count, Port at) {
  std::vector<Expected> ports;
  for (std::size_t k = 0; k < count; ++k) {
    tilec_port port;
    if (at(kernel, k, &port) != TILEC_OK) throw std::runtime_error(tilec_last_error());
    Expected one{port.name, type_of(port.dtype), {port.shape, port.shape + port.ndim}, false};
    for (const std::int64_t extent : one.shape) one.empty |= extent == 0;
    ports.push_back(std::move(one));
  }
  return ports;
}

// Read without a lock, as calls come from many threads and fork() may close any: block b holds 2^b kernels, and what is written stays.
struct Table {
  std::mutex growing;
  std::int64_t first = 0;                                // the number of the first; random
  std::atomic<std::size_t> count = 0;
  std::array<std::unique_ptr<Kept[]>, 31> blocks;

  Table() {
    std::random_device device;
    first = static_cast<std::int64_t>((std::uint64_t{device()} << 31 ^ device()) & (~std::uint64_t{0} >> 2));
  }
  static std::size_t block_of(std::size_t k) { return static_cast<std::size_t>(std::bit_width(k + 1)) - 1; }
  Kept& at(std::size_t k) { return blocks[block_of(k)][k + 1 - (std::size_t{1} << block_of(k))]; }
};

Table& table() {
  static Table& one = *new Table;                        // threads of XLA may outlive what a process destroys when it ends
  return one;
}

struct Fault {
  XLA_FFI_Error_Code code;
  std::string message;
};

XLA_FFI_Error* said(const XLA_FFI_CallFrame& frame, const Fault& fault) {
  XLA_FFI_Error_Create_Args args{sizeof args, nullptr, fault.message.c_str(), fault.code};
  return frame.api->XLA_FFI_Error_Create(&args);
}

const Kept& kept_of(const XLA_FFI_CallFrame& frame) {
  const XLA_FFI_Attrs& attributes = frame.attrs;
  for (std::int64_t k = 0; k < attributes.size; ++k) {
    if (std::string_view(attributes.names[k]->ptr, attributes.names[k]->len) != "kernel" || attributes.types[k] != XLA_FFI_AttrType_SCALAR) continue;
    const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(attributes.attrs[k]);
    if (scalar.dtype != XLA_FFI_DataType_S64) break;
    Table& all = table();
    const auto position = static_cast<std::uint64_t>(*static_cast<const std::int64_t*>(scalar.value)) - static_cast<std::uint64_t>(all.first);
    if (position < all.count.load(std::memory_order_acquire)) return all.at(position);
    throw Fault{XLA_FFI_Error_Code_FAILED_PRECONDITION, "tilec: the kernel of this call is of another process: trace and compile the function in the process that runs it"};
  }
  throw Fault{XLA_FFI_Error_Code_INVALID_ARGUMENT, "tilec: a call takes the attribute `kernel`, an i64"};
}

std::string shown(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Element 0 of a buffer, which must be what the kernel was compiled for.
void* element_of(const void* given, const Expected& port) {
  const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(given);
  const std::span<const std::int64_t> shape(buffer.dims, static_cast<std::size_t>(buffer.rank));
  if (buffer.dtype != port.dtype || !std::ranges::equal(shape, port.shape))
    throw Fault{XLA_FFI_Error_Code_INVALID_ARGUMENT, fmt::format("tilec: {} is compiled for type {} of XLA and shape {} but is given type {} and shape {}", port.name, static_cast<int>(port.dtype),
                                                                   shown(port.shape), static_cast<int>(buffer.dtype), shown(shape))};
  alignas(64) static std::byte nothing[64];              // tensors without elements have no memory in XLA
  return buffer.data == nullptr && port.empty ? nothing : buffer.data;
}

// The pointers of a call, on the stack where they are few.
class Pointers {
 public:
  Pointers(std::int64_t given, void* const* buffers, const std::vector<Expected>& ports, const char* what) {
    if (static_cast<std::uint64_t>(given) != ports.size())
      throw Fault{XLA_FFI_Error_Code_INVALID_ARGUMENT, fmt::format("tilec: the kernel has {} {} but is given {}", ports.size(), what, given)};
    if (ports.size() > few_.size()) many_.resize(ports.size());
    for (std::size_t k = 0; k < ports.size(); ++k) data()[k] = element_of(buffers[k], ports[k]);
  }
  void** data() { return many_.empty() ? few_.data() : many_.data(); }

 private:
  std::array<void*, 16> few_;
  std::vector<void*> many_;
};

XLA_FFI_Error* run(const XLA_FFI_CallFrame& frame) {
  const Kept& kept = kept_of(frame);
  Pointers inputs(frame.args.size, frame.args.args, kept.inputs, "inputs"), outputs(frame.rets.size, frame.rets.rets, kept.outputs, "outputs");
  const tilec_status status = tilec_kernel_run(kept.kernel, inputs.data(), outputs.data());
  if (status == TILEC_OK) return nullptr;
  const bool asked_wrongly = status == TILEC_ARGUMENT_ERROR || status == TILEC_TYPE_ERROR;
  return said(frame, {asked_wrongly ? XLA_FFI_Error_Code_INVALID_ARGUMENT : status == TILEC_DEVICE_ERROR ? XLA_FFI_Error_Code_FAILED_PRECONDITION : XLA_FFI_Error_Code_INTERNAL, tilec_last_error()});
}

}  // namespace

std::int64_t runtime::keep_for_xla(tilec_kernel* kernel) {
  Kept kept{kernel, expected(kernel, tilec_kernel_input_count(kernel), tilec_kernel_input), expected(kernel, tilec_kernel_output_count(kernel), tilec_kernel_output)};
  Table& all = table();
  const std::lock_guard lock(all.growing);
  const std::size_t position = all.count.load(std::memory_order_relaxed), block = Table::block_of(position);
  if (block >= all.blocks.size()) throw std::runtime_error("XLA has been given 2^31 kernels");
  if (!all.blocks[block]) all.blocks[block] = std::make_unique<Kept[]>(std::size_t{1} << block);
  all.at(position) = std::move(kept);
  all.count.store(position + 1, std::memory_order_release);
  return all.first + static_cast<std::int64_t>(position);
}

extern "C" void* tilec_xla_call(void* call_frame) {
  const auto& frame = *static_cast<const XLA_FFI_CallFrame*>(call_frame);
  if (frame.extension_start != nullptr && frame.extension_start->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata& metadata = *reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame.extension_start)->metadata;
    metadata.api_version = {sizeof(XLA_FFI_Api_Version), nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
    metadata.traits = 0;
    return nullptr;
  }
  try {
    return run(frame);
  } catch (const Fault& fault) {
    return said(frame, fault);
  } catch (const std::exception& fault) {
    return said(frame, {XLA_FFI_Error_Code_INTERNAL, fmt::format("tilec: {}", fault.what())});
  }
}
