// XLA's calls: a text and buffers become a kernel and its pointers.
#include "runtime/xla.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/package_file.h"
#include "runtime/xla_ffi.h"
#include "tilec/tilec.h"

using namespace tilec;
using lang::DType;

namespace {

struct Expected {
  std::string name;
  XLA_FFI_DataType dtype;
  std::vector<std::int64_t> shape;
  bool empty;
};

XLA_FFI_DataType type_of(DType type) {
  switch (type) {
    case DType::Bool: return XLA_FFI_DataType_PRED;
    case DType::U8: return XLA_FFI_DataType_U8;
    case DType::U16: return XLA_FFI_DataType_U16;
    case DType::U32: return XLA_FFI_DataType_U32;
    case DType::U64: return XLA_FFI_DataType_U64;
    case DType::I8: return XLA_FFI_DataType_S8;
    case DType::I16: return XLA_FFI_DataType_S16;
    case DType::I32: return XLA_FFI_DataType_S32;
    case DType::I64: return XLA_FFI_DataType_S64;
    case DType::F16: return XLA_FFI_DataType_F16;
    case DType::BF16: return XLA_FFI_DataType_BF16;
    case DType::F32: return XLA_FFI_DataType_F32;
    case DType::F64: return XLA_FFI_DataType_F64;
  }
  return XLA_FFI_DataType_INVALID;
}

std::vector<Expected> expected(const std::vector<runtime::Port>& ports) {
  std::vector<Expected> all;
  for (const runtime::Port& port : ports)
    all.push_back({port.name, type_of(port.dtype), port.shape, std::ranges::count(port.shape, 0) > 0});
  return all;
}

// What a call is instantiated with: XLA's, until its executable goes.
struct Kept {
  explicit Kept(tilec_kernel* of)
      : kernel(of),
        inputs(expected(runtime::module_of(*of)->inputs)),
        outputs(expected(runtime::module_of(*of)->outputs)) {}
  ~Kept() { tilec_kernel_destroy(kernel); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  tilec_kernel* kernel;
  std::vector<Expected> inputs, outputs;
};

struct Fault {
  XLA_FFI_Error_Code code;
  std::string message;
};

// What the C API answered.
void check(tilec_status status) {
  if (status == TILEC_OK) return;
  const bool asked_wrongly = status == TILEC_ARGUMENT_ERROR || status == TILEC_TYPE_ERROR;
  throw Fault{asked_wrongly              ? XLA_FFI_Error_Code_INVALID_ARGUMENT
          : status == TILEC_DEVICE_ERROR ? XLA_FFI_Error_Code_FAILED_PRECONDITION
                                         : XLA_FFI_Error_Code_INTERNAL,
      tilec_last_error()};
}

XLA_FFI_Error* said(const XLA_FFI_CallFrame& frame, const Fault& fault) {
  XLA_FFI_Error_Create_Args args{sizeof args, nullptr, fault.message.c_str(), fault.code};
  return frame.api->XLA_FFI_Error_Create(&args);
}

// Modules by their texts, as long as they live: an executable that is loaded finds the one that was compiled here.
class Modules {
 public:
  std::shared_ptr<const runtime::Module> find(std::string_view text) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(text);
    return found == all_.end() ? nullptr : found->second.lock();
  }

  void keep(std::string text, const std::shared_ptr<const runtime::Module>& module) {
    const std::lock_guard lock(mutex_);
    if (all_.size() >= limit_) {
      std::erase_if(all_, [](const auto& entry) { return entry.second.expired(); });
      limit_ = std::max<std::size_t>(64, 2 * all_.size());
    }
    all_[std::move(text)] = module;
  }

  std::string next_name() {
    const std::lock_guard lock(mutex_);
    if (process_.empty()) {
      std::random_device device;
      process_ = fmt::format("{:08x}{:08x}", device(), device());
    }
    return fmt::format("process {}-{}", process_, ++named_);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const runtime::Module>, std::less<>> all_;
  std::size_t limit_ = 64;                               // above it, the dead ones go
  std::string process_;                                  // random: no other process has it
  std::int64_t named_ = 0;
};

Modules& modules() {
  static Modules& one = *new Modules;                    // threads of XLA may outlive what a process destroys when it
                                                         // ends
  return one;
}

std::string_view text_of(const XLA_FFI_CallFrame& frame) {
  const XLA_FFI_Attrs& attributes = frame.attrs;
  for (std::int64_t k = 0; k < attributes.size; ++k) {
    if (std::string_view(attributes.names[k]->ptr, attributes.names[k]->len) != "kernel" ||
        attributes.types[k] != XLA_FFI_AttrType_STRING)
      continue;
    const auto& text = *static_cast<const XLA_FFI_ByteSpan*>(attributes.attrs[k]);
    return {text.ptr, text.len};
  }
  throw Fault{XLA_FFI_Error_Code_INVALID_ARGUMENT, "tilec: a call takes the attribute `kernel`, a string"};
}

tilec_kernel* kernel_of(std::string_view text) {
  if (const std::shared_ptr<const runtime::Module> found = modules().find(text)) return runtime::handle_of(found);
  int threads = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, threads);
  if (error != std::errc() || end == last || *end != ':')
    throw Fault{XLA_FFI_Error_Code_FAILED_PRECONDITION,
        "tilec: the kernel of this call is of another process: trace and compile the function in the process that runs it"};
  tilec_kernel* made = nullptr;
  check(tilec_load(end + 1, static_cast<std::size_t>(last - end - 1), threads, &made));
  modules().keep(std::string(text), runtime::module_of(*made));
  return made;
}

// The number of Kept among the types of an XLA, of which a process has one for each of JAX's plugins. Read without a
// lock, in each call.
class Types {
 public:
  // Null: that one has not registered it.
  XLA_FFI_TypeId* find(const XLA_FFI_Api* api) {
    const std::size_t count = count_.load(std::memory_order_acquire);
    const auto at = std::find_if(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(count),
        [&](const Type& type) { return type.api == api; });
    return at == all_.begin() + static_cast<std::ptrdiff_t>(count) ? nullptr : &at->id;
  }

  XLA_FFI_Error* add(const XLA_FFI_CallFrame& frame) {
    const std::lock_guard lock(mutex_);
    const std::size_t count = count_.load(std::memory_order_relaxed);
    if (find(frame.api) != nullptr) return nullptr;
    if (count == all_.size())
      return said(frame, {XLA_FFI_Error_Code_INTERNAL, "tilec: more XLAs in one process than it has room for"});
    static const XLA_FFI_TypeInfo info{sizeof info, nullptr, [](void* kept) { delete static_cast<Kept*>(kept); }};
    constexpr std::string_view name = "tilec_kernel";
    all_[count] = {frame.api, {0}};
    XLA_FFI_Type_Register_Args args{sizeof args, nullptr, {name.data(), name.size()}, &all_[count].id, &info};
    if (XLA_FFI_Error* const fault = frame.api->XLA_FFI_Type_Register(&args)) return fault;
    count_.store(count + 1, std::memory_order_release);
    return nullptr;
  }

 private:
  struct Type { const XLA_FFI_Api* api; XLA_FFI_TypeId id; };
  std::mutex mutex_;
  std::atomic<std::size_t> count_ = 0;
  std::array<Type, 16> all_{};
};

Types types;

XLA_FFI_Error* instantiate(const XLA_FFI_CallFrame& frame) {
  auto kept = std::make_unique<Kept>(kernel_of(text_of(frame)));
  XLA_FFI_State_Set_Args args{
      sizeof args, nullptr, frame.ctx, XLA_FFI_ExecutionStage_INSTANTIATE, types.find(frame.api), kept.get()};
  XLA_FFI_Error* const fault = frame.api->XLA_FFI_State_Set(&args);
  if (fault == nullptr) static_cast<void>(kept.release());  // NOLINT(bugprone-unused-return-value)
  return fault;
}

std::string shown(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Element 0 of a buffer, which must be what the kernel was compiled for.
void* element_of(const void* given, const Expected& port) {
  const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(given);
  const std::span<const std::int64_t> shape(buffer.dims, static_cast<std::size_t>(buffer.rank));
  if (buffer.dtype != port.dtype || !std::ranges::equal(shape, port.shape))
    throw Fault{XLA_FFI_Error_Code_INVALID_ARGUMENT,
        fmt::format("tilec: {} is compiled for type {} of XLA and shape {} but is given type {} and shape {}",
            port.name, static_cast<int>(port.dtype), shown(port.shape), static_cast<int>(buffer.dtype), shown(shape))};
  alignas(64) static std::byte nothing[64];              // tensors without elements have no memory in XLA
  return buffer.data == nullptr && port.empty ? nothing : buffer.data;
}

// The pointers of a call, on the stack where they are few.
class Pointers {
 public:
  Pointers(std::int64_t given, void* const* buffers, const std::vector<Expected>& ports, const char* what) {
    if (static_cast<std::uint64_t>(given) != ports.size())
      throw Fault{XLA_FFI_Error_Code_INVALID_ARGUMENT,
          fmt::format("tilec: the kernel has {} {} but is given {}", ports.size(), what, given)};
    if (ports.size() > few_.size()) many_.resize(ports.size());
    for (std::size_t k = 0; k < ports.size(); ++k) data()[k] = element_of(buffers[k], ports[k]);
  }
  void** data() { return many_.empty() ? few_.data() : many_.data(); }

 private:
  std::array<void*, 16> few_;
  std::vector<void*> many_;
};

// On the platform of a GPU buffers lie in its memory: work is started on XLA's stream, and scratch is XLA's, which
// gives it away behind that work.
XLA_FFI_Error* run_on_gpu(const XLA_FFI_CallFrame& frame, const Kept& kept, void* const* inputs, void* const* outputs) {
  XLA_FFI_Stream_Get_Args stream{sizeof stream, nullptr, frame.ctx, nullptr};
  if (XLA_FFI_Error* const fault = frame.api->XLA_FFI_Stream_Get(&stream)) return fault;
  // XLA promises 16 bytes and refuses to promise more.
  constexpr std::size_t promised = 16, alignment = 256;
  std::size_t bytes = tilec_kernel_device_workspace(kept.kernel);
  if (bytes > 0) bytes += alignment - promised;
  XLA_FFI_DeviceMemory_Allocate_Args memory{sizeof memory, nullptr, frame.ctx, bytes, promised, nullptr};
  if (bytes > 0)
    if (XLA_FFI_Error* const fault = frame.api->XLA_FFI_DeviceMemory_Allocate(&memory)) return fault;
  void* workspace = memory.data;
  std::size_t room = bytes;
  if (workspace) std::align(alignment, room - (alignment - promised), workspace, room);
  const tilec_status status = tilec_kernel_run_on(kept.kernel, inputs, outputs, workspace, stream.stream);
  XLA_FFI_DeviceMemory_Free_Args back{sizeof back, nullptr, frame.ctx, bytes, memory.data};
  XLA_FFI_Error* const fault = bytes > 0 ? frame.api->XLA_FFI_DeviceMemory_Free(&back) : nullptr;
  check(status);
  return fault;
}

XLA_FFI_Error* run(const XLA_FFI_CallFrame& frame, bool on_gpu) {
  XLA_FFI_TypeId* const type = types.find(frame.api);
  if (type == nullptr)
    throw Fault{XLA_FFI_Error_Code_FAILED_PRECONDITION,
        "tilec: a call that was not instantiated: register `tilec_xla_instantiate` beside its handler"};
  XLA_FFI_State_Get_Args state{sizeof state, nullptr, frame.ctx, XLA_FFI_ExecutionStage_INSTANTIATE, type, nullptr};
  if (XLA_FFI_Error* const fault = frame.api->XLA_FFI_State_Get(&state)) return fault;
  const Kept& kept = *static_cast<const Kept*>(state.state);
  Pointers inputs(frame.args.size, frame.args.args, kept.inputs, "inputs"),
      outputs(frame.rets.size, frame.rets.rets, kept.outputs, "outputs");
  if (on_gpu) return run_on_gpu(frame, kept, inputs.data(), outputs.data());
  check(tilec_kernel_run(kept.kernel, inputs.data(), outputs.data()));
  return nullptr;
}

// What XLA asks of each handler when it is registered.
bool asks_for_metadata(const XLA_FFI_CallFrame& frame, XLA_FFI_TypeId state) {
  if (frame.extension_start == nullptr || frame.extension_start->type != XLA_FFI_Extension_Metadata) return false;
  XLA_FFI_Metadata& metadata = *reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame.extension_start)->metadata;
  metadata.api_version = {sizeof(XLA_FFI_Api_Version), nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  metadata.traits = 0;
  metadata.state_type_id = state;
  return true;
}

template <class Do> XLA_FFI_Error* guarded(const XLA_FFI_CallFrame& frame, Do act) {
  try {
    return act();
  } catch (const Fault& fault) {
    return said(frame, fault);
  } catch (const std::exception& fault) {
    return said(frame, {XLA_FFI_Error_Code_INTERNAL, fmt::format("tilec: {}", fault.what())});
  }
}

XLA_FFI_Error* called(void* call_frame, bool on_gpu) {
  const auto& frame = *static_cast<const XLA_FFI_CallFrame*>(call_frame);
  if (asks_for_metadata(frame, {0})) return nullptr;
  return guarded(frame, [&] { return run(frame, on_gpu); });
}

}  // namespace

std::string runtime::text_for_xla(const std::shared_ptr<const Module>& module) {
  std::string text =
      module->package ? fmt::format("{}:{}", module->threads, to_bytes(*module->package)) : modules().next_name();
  modules().keep(text, module);
  return text;
}

extern "C" void* tilec_xla_instantiate(void* call_frame) {
  const auto& frame = *static_cast<const XLA_FFI_CallFrame*>(call_frame);
  return guarded(frame, [&]() -> XLA_FFI_Error* {
    if (XLA_FFI_Error* const fault = types.add(frame)) return fault;
    return asks_for_metadata(frame, *types.find(frame.api)) ? nullptr : instantiate(frame);
  });
}

extern "C" void* tilec_xla_call(void* call_frame) { return called(call_frame, false); }
extern "C" void* tilec_xla_call_on(void* call_frame) { return called(call_frame, true); }
