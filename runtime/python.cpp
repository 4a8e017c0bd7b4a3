// Calls of the package for Python, by ctypes: which of its prepared calls a call is, told from the objects themselves,
// and that call, in one step of C. Objects, tuples and arrays are read as every extension of CPython and NumPy reads
// them inline; the package has tried these places before it tells them. Tensors of other libraries are read through
// DLPack's exchange API, which also tells the stream that a library is at where they lie in a GPU's memory. The caller
// holds the GIL; the kernel runs without it.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "runtime/tensor.h"
#include "tilec/tilec.h"

using namespace tilec;
using runtime::DType;

namespace {

tilec_python python{};

struct Exchange {
  const void* type;
  DLPackDLTensorFromPyObjectNoSync tensor_of;
  DLPackCurrentWorkStream stream_of;                     // null: it does not tell
};
std::array<Exchange, 16> exchanges{};
std::atomic<std::size_t> exchange_count = 0;

template <class T> T read(const void* object, std::size_t offset) {
  T value;
  std::memcpy(static_cast<void*>(&value), static_cast<const char*>(object) + offset, sizeof value);
  return value;
}

const void* type_of(const void* object) { return read<const void*>(object, python.header - sizeof(void*)); }

std::span<void* const> items_of(const void* tuple) {
  const auto count = read<std::int64_t>(tuple, python.header);
  return {reinterpret_cast<void* const*>(static_cast<const char*>(tuple) + python.header + sizeof count),
      static_cast<std::size_t>(count)};
}

// A NumPy array, behind the header.
struct Array {
  void* data;
  int ndim;
  const std::int64_t* shape;
  const std::int64_t* strides;                           // in bytes
  void* base;
  const void* element;
  int flags;
};
constexpr int writeable = 0x0400;

// What a specialisation depends on, and where the elements are.
struct Look {
  const void* type;
  std::uintptr_t element;                                // NumPy's descriptor of the element type, or DLPack's type as
                                                         // a number
  std::size_t rank;
  const std::int64_t* shape;
  const std::int64_t* strides;
  void* data;
  double number;                                         // of a float
  bool is_output;                                        // can it be one?
  const Exchange* exchange;                              // null: not of a library
  std::int32_t gpu;                                      // in whose memory it lies; on_host: in none's
};
constexpr std::int32_t on_host = -1;

alignas(64) char nowhere[64];                            // of tensors without elements

bool look_at_array(const void* object, const void* type, Look& look) {
  const auto array = read<Array>(object, python.header);
  look = {type, reinterpret_cast<std::uintptr_t>(array.element), static_cast<std::size_t>(array.ndim), array.shape,
      array.strides, array.data, 0, (array.flags & writeable) != 0, nullptr, on_host};
  return true;
}

bool look_at_tensor(void* object, const Exchange& exchange, Look& look) {
  DLTensor tensor;
  if (exchange.tensor_of(object, &tensor) != 0 || tensor.dtype.lanes != 1) return false;
  const bool has_gpu = tensor.device.device_type == kDLCUDA;
  if (tensor.device.device_type != kDLCPU && !(has_gpu && exchange.stream_of != nullptr)) return false;
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  const bool is_empty = std::ranges::count(std::span(tensor.shape, rank), 0) != 0;
  if ((tensor.data == nullptr && !is_empty) || (tensor.strides == nullptr && rank > 0)) return false;
  void* data = is_empty ? nowhere : static_cast<char*>(tensor.data) + tensor.byte_offset;
  look = {exchange.type, static_cast<std::uintptr_t>(tensor.dtype.code) * 256 + tensor.dtype.bits, rank, tensor.shape,
      tensor.strides, data, 0, true, &exchange, has_gpu ? tensor.device.device_id : on_host};
  return true;
}

// False: what it is cannot be told this way.
bool look_at(void* object, Look& look) {
  const void* type = type_of(object);
  if (type == python.array_type) return look_at_array(object, type, look);
  if (type == python.float_type) {
    look = {type, 0, 0, nullptr, nullptr, nullptr, read<double>(object, python.header), false,
        nullptr, on_host};
    return true;
  }
  const std::span known(exchanges.data(), exchange_count.load(std::memory_order_acquire));
  const auto exchange = std::ranges::find(known, type, &Exchange::type);
  return exchange != known.end() && look_at_tensor(object, *exchange, look);
}

constexpr std::size_t most = 24;                         // arguments and outputs of a call that is found here

// Those of a call's arguments and outputs.
class Looks {
 public:
  // False: one cannot be told, or there are too many.
  bool take(const void* arguments, const void* outputs) {
    const std::span<void* const> in = items_of(arguments), out = items_of(outputs);
    if (in.size() + out.size() > looks_.size()) return false;
    inputs_ = in.size();
    count_ = inputs_ + out.size();
    for (std::size_t k = 0; k < count_; ++k)
      if (!look_at(k < inputs_ ? in[k] : out[k - inputs_], looks_[k]) || (k >= inputs_ && !looks_[k].is_output))
        return false;
    return count_ == 0 || looks_[0].gpu == on_host || ask_stream();
  }
  std::span<const Look> inputs() const { return {looks_.data(), inputs_}; }
  std::span<const Look> outputs() const { return {looks_.data() + inputs_, count_ - inputs_}; }
  // Where all of them lie; the stream there that the library is at.
  std::int32_t gpu() const { return count_ == 0 ? on_host : looks_[0].gpu; }
  void* stream() const { return stream_; }

 private:
  bool ask_stream() {
    const Look& first = looks_[0];
    return std::all_of(looks_.begin(), looks_.begin() + static_cast<std::ptrdiff_t>(count_),
               [&](const Look& each) { return each.gpu == first.gpu && each.exchange == first.exchange; }) &&
        first.exchange->stream_of(kDLCUDA, first.gpu, &stream_) == 0;
  }

  std::array<Look, most> looks_;
  std::size_t inputs_ = 0, count_ = 0;
  void* stream_ = nullptr;
};

struct Key {
  explicit Key(const Look& look)
      : type(look.type),
        element(look.element),
        gpu(look.gpu),
        rank(look.rank),
        sizes(look.shape, look.shape + look.rank) {
    sizes.insert(sizes.end(), look.strides, look.strides + look.rank);
  }
  bool fits(const Look& look) const {
    const std::size_t bytes = rank * sizeof(std::int64_t);
    return type == look.type && element == look.element && gpu == look.gpu && rank == look.rank &&
        (rank == 0 ||
            (std::memcmp(sizes.data(), look.shape, bytes) == 0 &&
                std::memcmp(sizes.data() + rank, look.strides, bytes) == 0));
  }

  const void* type;
  std::uintptr_t element;
  std::int32_t gpu;
  std::size_t rank;
  std::vector<std::int64_t> sizes;                       // shape, then strides
};

bool fit(const std::vector<Key>& keys, std::span<const Look> looks) {
  return std::ranges::equal(keys, looks, [](const Key& key, const Look& look) { return key.fits(look); });
}

// A float in the type that the kernel takes. False: that type is no float's, or has no such number.
bool store(double number, DType type, double* place) {
  if (type == DType::F64) {
    std::memcpy(place, &number, sizeof number);
    return true;
  }
  const auto rounded = static_cast<float>(number);
  if (type != DType::F32 || (std::isinf(rounded) && !std::isinf(number))) return false;
  std::memcpy(place, &rounded, sizeof rounded);
  return true;
}

}  // namespace

namespace {

struct Call {
  struct Source {
    std::size_t argument;
    DType type;
  };
  struct Maker {
    void* function;
    void* arguments;                                     // a tuple
  };
  const tilec_kernel* kernel;
  std::vector<Key> arguments, outputs;                   // outputs: none where the call makes them
  std::vector<Source> sources;                           // of the kernel's inputs
  std::vector<Maker> makers;
  std::int32_t gpu = on_host;
  void *workspace = nullptr, *stream = nullptr;          // on a GPU: memory there for the calls of one stream
  std::uint64_t used = 0;                                // when, in calls
};

// What the kernel takes and gives, on the stack of a call.
struct Block {
  std::array<void*, most> inputs, outputs;
  std::array<double, most> numbers;
};

// Results that the call has made: given to the caller, or gone.
class Results {
 public:
  explicit Results(const Call& call) : count_(call.makers.size()) {}
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() {
    for (std::size_t k = 0; k < made_; ++k) python.decrease(objects_[k]);
  }

  // False: Python has an exception, or the library has made something that is no tensor with memory.
  bool make(const Call& call, Block& block) {
    for (; made_ < count_; ++made_) {
      objects_[made_] = python.call(call.makers[made_].function, call.makers[made_].arguments);
      if (objects_[made_] == nullptr) return false;
      Look look;
      const bool is_known = look_at(objects_[made_], look) && look.is_output && look.gpu == call.gpu;
      block.outputs[made_] = look.data;
      if (is_known) continue;
      python.decrease(objects_[made_]);
      return false;
    }
    return true;
  }

  // One as it is, several as a tuple.
  void* give() {
    if (count_ == 1) return objects_[--made_];
    void* tuple = python.new_tuple(static_cast<std::ptrdiff_t>(count_));
    for (; tuple != nullptr && made_ > 0; --made_)
      python.set_item(tuple, static_cast<std::ptrdiff_t>(made_ - 1), objects_[made_ - 1]);
    return tuple;
  }

 private:
  std::array<void*, most> objects_;
  std::size_t count_, made_ = 0;
};

void* shared(void* object) {
  python.increase(object);
  return object;
}

// False: a number that the kernel's type has not.
bool fill(const Call& call, const Looks& looks, Block& block) {
  for (std::size_t k = 0; k < call.sources.size(); ++k) {
    const auto& [argument, type] = call.sources[k];
    const Look& look = looks.inputs()[argument];
    const bool is_number = look.type == python.float_type;
    if (is_number && !store(look.number, type, &block.numbers[k])) return false;
    block.inputs[k] = is_number ? &block.numbers[k] : look.data;
  }
  for (std::size_t k = 0; k < looks.outputs().size(); ++k) block.outputs[k] = looks.outputs()[k].data;
  return true;
}

tilec_status run(const Call& call, const Block& block, void* stream) {
  void* const state = python.save_thread();
  void *const *const inputs = block.inputs.data(), *const *const outputs = block.outputs.data();
  const tilec_status status = call.gpu == on_host
      ? tilec_kernel_run(call.kernel, inputs, const_cast<void**>(outputs))
      : tilec_kernel_run_on(call.kernel, inputs, const_cast<void**>(outputs), call.workspace, stream);
  python.restore_thread(state);
  return status;
}

}  // namespace

struct tilec_python_calls {
  const Call* find(const Looks& looks) {
    const std::lock_guard lock(changing);
    const auto call = std::ranges::find_if(calls, [&](const auto& known) {
      return fit(known->arguments, looks.inputs()) && fit(known->outputs, looks.outputs()) &&
          (known->workspace == nullptr || known->stream == looks.stream());
    });
    if (call == calls.end()) return nullptr;
    (*call)->used = ++count;
    return call->get();
  }

  std::vector<std::unique_ptr<Call>> calls;
  std::uint64_t count = 0;
  std::mutex changing;                                   // in a Python without GIL
};

extern "C" {

void tilec_python_begin(const tilec_python* interpreter) { python = *interpreter; }

void tilec_python_exchange(const void* type, const void* api) {
  const auto* exchange = static_cast<const DLPackExchangeAPI*>(api);
  while (exchange != nullptr && exchange->header.version.major != DLPACK_MAJOR_VERSION)
    exchange = reinterpret_cast<const DLPackExchangeAPI*>(exchange->header.prev_api);
  const std::size_t count = exchange_count.load(std::memory_order_relaxed);
  if (exchange == nullptr || exchange->dltensor_from_py_object_no_sync == nullptr || count == exchanges.size()) return;
  exchanges[count] = {type, exchange->dltensor_from_py_object_no_sync, exchange->current_work_stream};
  exchange_count.store(count + 1, std::memory_order_release);
}

tilec_python_calls* tilec_python_calls_create(void) { return new (std::nothrow) tilec_python_calls; }
void tilec_python_calls_destroy(tilec_python_calls* calls) { delete calls; }

int tilec_python_calls_add(tilec_python_calls* calls, const tilec_kernel* kernel, void* arguments, void* outputs,
    void* makers, const int32_t* sources, void* workspace) try {
  Looks looks;
  const std::size_t count = tilec_kernel_input_count(kernel), output_count = tilec_kernel_output_count(kernel);
  if (calls == nullptr || count > most || output_count > most || !looks.take(arguments, outputs)) return -1;
  auto call = std::make_unique<Call>();
  call->kernel = kernel;
  call->gpu = looks.gpu(), call->workspace = workspace, call->stream = looks.stream();
  for (const Look& look : looks.inputs()) call->arguments.emplace_back(look);
  for (const Look& look : looks.outputs()) call->outputs.emplace_back(look);
  for (std::size_t k = 0; k < count; ++k) {
    tilec_port port;
    if (tilec_kernel_input(kernel, k, &port) != TILEC_OK || sources[k] < 0 ||
        static_cast<std::size_t>(sources[k]) >= call->arguments.size() ||
        looks.inputs()[static_cast<std::size_t>(sources[k])].gpu != call->gpu)
      return -1;
    call->sources.push_back({static_cast<std::size_t>(sources[k]), *runtime::dtype_of(port.dtype)});
  }
  const std::span<void* const> made = items_of(makers);
  for (std::size_t k = 0; k + 1 < made.size(); k += 2) call->makers.push_back({made[k], made[k + 1]});
  if (std::max(call->makers.size(), call->outputs.size()) != output_count) return -1;
  const std::lock_guard lock(calls->changing);
  calls->calls.push_back(std::move(call));
  return static_cast<int>(calls->calls.size() - 1);
} catch (const std::bad_alloc&) { return -1; }

uint64_t tilec_python_calls_used(tilec_python_calls* calls, int number) {
  const std::lock_guard lock(calls->changing);
  return calls->calls[static_cast<std::size_t>(number)]->used;
}

void* tilec_python_call(tilec_python_calls* calls, void* arguments, void* outputs) {
  Looks looks;
  Block block;
  const Call* call = calls != nullptr && looks.take(arguments, outputs) ? calls->find(looks) : nullptr;
  if (call == nullptr || !fill(*call, looks, block)) return python.error() != nullptr ? nullptr : shared(python.none);
  Results results(*call);
  if (!results.make(*call, block)) return python.error() != nullptr ? nullptr : shared(python.none);
  if (run(*call, block, looks.stream()) != TILEC_OK) return shared(python.none);
  if (call->makers.empty()) return shared(looks.outputs().size() == 1 ? items_of(outputs)[0] : outputs);
  return results.give();
}

}  // extern "C"
