// tilec for C++17: tilec/tilec.h with handles that free themselves, exceptions instead of statuses, and tensors that
// carry their shapes. All of it is in this header; link libtilec.so. What a call means is said in tilec.h, under the
// name of the C function.
//
//     tilec::Program matmul("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }");
//     auto A = tilec::tensor(a.data(), {2, 3}), B = tilec::tensor(b.data(), {3, 4});
//     auto C = tilec::tensor(c.data(), {2, 4});
//     matmul({A, B}, {C});                                 // compiles for these shapes, or finds it compiled, and runs
//     matmul.gradient({"A", "B"})({A, B, dC}, {dA, dB});   // the gradient is a program like any other
//     tilec::Kernel kernel = matmul.specialize({A, B});    // for many calls of one kind
//     kernel({A, B}, {C});
//
// Objects are moved, not copied. A const object may be used from several threads at once. Tensors borrow memory; the
// lists of a call need not outlive it. A call that fails throws tilec::Error. get() gives the handle for what is not
// wrapped.
#ifndef TILEC_TILEC_HPP
#define TILEC_TILEC_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tilec/tilec.h"

namespace tilec {

// ---- Errors ---------------------------------------------------------------------------------------------------------

struct Diagnostic {
  tilec_severity severity = TILEC_ERROR;
  std::string code, message, file, hint;                 // "E0201"; one line; "" where there is none
  int line = 0, column = 0, end_line = 0, end_column = 0;  // from 1; 0 when there is no place in the text
  std::string text;                                      // all of it, with source lines and carets
};

// What this thread's last call had to say: after one that succeeded, its warnings and remarks.
inline std::vector<Diagnostic> diagnostics() {
  std::vector<Diagnostic> all;
  for (std::size_t k = 0; const char* text = tilec_last_diagnostic_text(k); ++k) {
    tilec_diagnostic one;
    if (tilec_last_diagnostic(k, &one) != TILEC_OK) break;
    all.push_back({one.severity, one.code, one.message, one.file, one.hint, one.line, one.column, one.end_line,
        one.end_column, text});
  }
  return all;
}

// what() is the text that tilec_last_error gives.
class Error : public std::runtime_error {
 public:
  Error(const tilec_status status, const std::string& text, std::vector<Diagnostic> all = {})
      : std::runtime_error(text),
        status_(status),
        diagnostics_(std::make_shared<const std::vector<Diagnostic>>(std::move(all))) {}
  tilec_status status() const noexcept { return status_; }
  const std::vector<Diagnostic>& diagnostics() const noexcept { return *diagnostics_; }

 private:
  tilec_status status_;
  std::shared_ptr<const std::vector<Diagnostic>> diagnostics_;  // shared: copying an exception must not throw
};

namespace detail {

inline void check(const tilec_status status) {
  if (status == TILEC_OK) return;
  const std::string text = tilec_last_error();
  // tilec_last_diagnostic is a call too: read first, then asked.
  throw Error(status, text, diagnostics());
}

struct Destroy {
  void operator()(tilec_file* handle) const noexcept { tilec_file_destroy(handle); }
  void operator()(tilec_program* handle) const noexcept { tilec_program_destroy(handle); }
  void operator()(tilec_kernel* handle) const noexcept { tilec_kernel_destroy(handle); }
  void operator()(tilec_buffer* handle) const noexcept { tilec_buffer_destroy(handle); }
};

template <class Handle> using Owned = std::unique_ptr<Handle, Destroy>;

// The C strings of a list; they live as long as it does.
inline std::vector<const char*> pointers(const std::vector<std::string>& names) {
  std::vector<const char*> all;
  for (const std::string& name : names) all.push_back(name.c_str());
  return all;
}

inline const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace detail

// ---- The host's own -------------------------------------------------------------------------------------------------

// For the whole process, as in tilec.h. What is pointed to is borrowed, for as long as anything that may call it; null
// gives back tilec's own. What it throws does not get further: no memory, a run that fails.
inline void set_allocator(std::pmr::memory_resource* const resource) {
  const auto allocate = [](void* user, const std::size_t bytes, const std::size_t alignment) -> void* {
    try {
      return static_cast<std::pmr::memory_resource*>(user)->allocate(bytes, alignment);
    } catch (...) {
      return nullptr;
    }
  };
  const auto release = [](void* user, void* memory, const std::size_t bytes, const std::size_t alignment) {
    static_cast<std::pmr::memory_resource*>(user)->deallocate(memory, bytes, alignment);
  };
  detail::check(resource != nullptr ? tilec_set_allocator(allocate, release, resource)
                                    : tilec_set_allocator(nullptr, nullptr, nullptr));
}

// turn(i, worker), once for every 0 <= i < count.
class Turn {
 public:
  Turn(const tilec_turn turn, void* arguments) noexcept : turn_(turn), arguments_(arguments) {}
  void operator()(const std::int64_t i, const std::int64_t worker) const { turn_(arguments_, i, worker); }

 private:
  tilec_turn turn_;
  void* arguments_;
};
using ParallelFor = std::function<void(std::int64_t count, std::int64_t workers, Turn turn)>;

inline void set_parallel_for(ParallelFor* const run, const std::int64_t workers) {
  const auto call = [](void* user, const std::int64_t count, const std::int64_t most, const tilec_turn turn,
                        void* arguments) {
    try {
      (*static_cast<ParallelFor*>(user))(count, most, Turn(turn, arguments));
      return 0;
    } catch (...) {
      return 1;
    }
  };
  detail::check(
      run != nullptr ? tilec_set_parallel_for(call, workers, run) : tilec_set_parallel_for(nullptr, 0, nullptr));
}

using Listener = std::function<void(const Diagnostic&)>;

inline void set_diagnostic_callback(Listener* const listener) {
  const auto hear = [](void* user, const tilec_diagnostic* one, const char* text) {
    try {
      (*static_cast<Listener*>(user))({one->severity, one->code, one->message, one->file, one->hint, one->line,
          one->column, one->end_line, one->end_column, text});
    } catch (...) {                                      // NOLINT(bugprone-empty-catch): the call has its own error
    }
  };
  detail::check(listener != nullptr ? tilec_set_diagnostic_callback(hear, listener)
                                    : tilec_set_diagnostic_callback(nullptr, nullptr));
}

// ---- Tensors --------------------------------------------------------------------------------------------------------

// The element type of a C++ type. Of f16 and bf16 there is none: tensor(void*, TILEC_F16, …).
template <class T> constexpr tilec_dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, long double>, "of this type Tile has no elements");
  constexpr int bits = 8 * static_cast<int>(sizeof(T));
  constexpr int code = std::is_same_v<T, bool> ? kDLBool
      : std::is_floating_point_v<T>            ? kDLFloat
      : std::is_signed_v<T>                    ? kDLInt
                                               : kDLUInt;
  return static_cast<tilec_dtype>(code * 256 + bits);
}

// Borrowed memory that a call reads: element 0, type, sizes, and strides in elements (none: row-major).
class ConstTensor {
 public:
  ConstTensor(const void* data, const tilec_dtype dtype, std::vector<std::int64_t> shape,
      std::vector<std::int64_t> strides = {})
      : data_(data), dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)) {
    if (!strides_.empty() && strides_.size() != shape_.size())
      throw Error(TILEC_ARGUMENT_ERROR,
          "a tensor of " + std::to_string(shape_.size()) + " dimensions has " + std::to_string(strides_.size()) +
              " strides");
  }

  const void* data() const noexcept { return data_; }
  tilec_dtype dtype() const noexcept { return dtype_; }
  const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  const std::vector<std::int64_t>& strides() const noexcept { return strides_; }

  // For C, which writes through it only where it is a result. It points into this tensor.
  DLTensor dl() const noexcept {
    return tilec_tensor(const_cast<void*>(data_), dtype_, static_cast<std::int32_t>(shape_.size()),
        const_cast<std::int64_t*>(shape_.data()),
        strides_.empty() ? nullptr : const_cast<std::int64_t*>(strides_.data()));
  }

 private:
  const void* data_;
  tilec_dtype dtype_;
  std::vector<std::int64_t> shape_, strides_;
};

// One that a call may write, too.
class Tensor : public ConstTensor {
 public:
  Tensor(void* data, const tilec_dtype dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {})
      : ConstTensor(data, dtype, std::move(shape), std::move(strides)), data_(data) {}
  void* data() const noexcept { return data_; }

 private:
  void* data_;
};

template <class T> auto tensor(T* data, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}) {
  using Kind = std::conditional_t<std::is_const_v<T>, ConstTensor, Tensor>;
  return Kind(data, dtype_of<std::remove_cv_t<T>>(), std::move(shape), std::move(strides));
}
inline Tensor tensor(
    void* data, const tilec_dtype dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}) {
  return {data, dtype, std::move(shape), std::move(strides)};
}
inline ConstTensor tensor(const void* data, const tilec_dtype dtype, std::vector<std::int64_t> shape,
    std::vector<std::int64_t> strides = {}) {
  return {data, dtype, std::move(shape), std::move(strides)};
}

// An input: a tensor or a plain number, by position, or by name: tilec::named("dO", dO).
class Argument {
 public:
  Argument(ConstTensor tensor) : kind_(TILEC_TENSOR), tensor_(std::move(tensor)) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Argument(const T number)
      : kind_(std::is_floating_point_v<T> ? TILEC_REAL
                : std::is_unsigned_v<T>   ? TILEC_UNSIGNED
                                          : TILEC_INTEGER) {
    if constexpr (std::is_floating_point_v<T>) real_ = static_cast<double>(number);
    else integer_ = static_cast<std::int64_t>(number);
  }

 protected:
  Argument(const tilec_argument_kind kind, ConstTensor tensor) : kind_(kind), tensor_(std::move(tensor)) {}

 private:
  friend Argument named(std::string name, Argument value);
  friend class Arguments;
  std::string name_;
  tilec_argument_kind kind_;
  ConstTensor tensor_{nullptr, TILEC_F32, {}};
  std::int64_t integer_ = 0;
  double real_ = 0;
};

inline Argument named(std::string name, Argument value) {
  value.name_ = std::move(name);
  return value;
}

// An output: a tensor to write, one to add to (tilec::add(dK)), or nothing: tilec::none is not computed. By position,
// or by name: tilec::named("dK", add(dK)).
struct None {};
inline constexpr None none{};

class Result : public Argument {
 public:
  Result(Tensor tensor) : Argument(TILEC_TENSOR, std::move(tensor)) {}
  Result(None) : Argument(TILEC_NONE, Tensor(nullptr, TILEC_F32, {})) {}

 private:
  friend Result add(Tensor tensor);
  friend Result named(std::string name, Result value);
  explicit Result(Argument value) : Argument(std::move(value)) {}
  Result(const tilec_argument_kind kind, Tensor tensor) : Argument(kind, std::move(tensor)) {}
};

inline Result add(Tensor tensor) { return {TILEC_ADD, std::move(tensor)}; }
inline Result named(std::string name, Result value) {
  return Result(named(std::move(name), static_cast<Argument&&>(value)));
}

// A list as C takes it, for one call.
class Arguments {
 public:
  template <class Each> Arguments(const std::vector<Each>& list) {
    tensors_.reserve(list.size());
    for (const Argument& one : list) {
      tensors_.push_back(one.tensor_.dl());
      all_.push_back({detail::or_null(one.name_), one.kind_, &tensors_.back(), one.integer_, one.real_});
    }
  }
  const tilec_argument* data() const noexcept { return all_.data(); }
  std::size_t size() const noexcept { return all_.size(); }

 private:
  std::vector<DLTensor> tensors_;
  std::vector<tilec_argument> all_;
};

using Names = std::vector<std::string>;
using Inputs = std::vector<Argument>;
using Results = std::vector<Result>;

// ---- Kernels --------------------------------------------------------------------------------------------------------

// An input or output of a kernel: what may be passed there.
struct Port {
  std::string name;
  DLDataType dtype{};
  std::vector<std::int64_t> shape, strides;
};

class Kernel {
 public:
  explicit Kernel(tilec_kernel* owned) : kernel_(owned) {}

  // One that was saved (tilec_save, `tilec build`): the bytes of the file.
  static Kernel load(const std::string_view bytes, const int threads = 0) {
    tilec_kernel* kernel = nullptr;
    detail::check(tilec_load(bytes.data(), bytes.size(), threads, &kernel));
    return Kernel(kernel);
  }

  // Inputs that are sizes do not appear.
  std::vector<Port> inputs() const { return ports(tilec_kernel_input_count, tilec_kernel_input); }
  std::vector<Port> outputs() const { return ports(tilec_kernel_output_count, tilec_kernel_output); }

  // Runs, after a look whether each tensor is what its port takes: tilec_call. In the order of inputs() and outputs().
  void operator()(const std::vector<ConstTensor>& in, const std::vector<Tensor>& out) const {
    const std::vector<DLTensor> given = tensors(in), written = tensors(out);
    const std::vector<const DLTensor*> inputs = pointers(given), outputs = pointers(written);
    detail::check(tilec_call(get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), nullptr, nullptr));
  }

  // The same without a look at more than how many there are: element 0 of each.
  void run(const std::vector<const void*>& in, const std::vector<void*>& out, void* workspace = nullptr) const {
    counted(in.size(), out.size());
    detail::check(tilec_kernel_run_in(get(), in.data(), out.data(), workspace));
  }

  // A kernel of target cuda, where its tensors are; one of the CPU as run, of no stream: tilec_kernel_run_on.
  void run_on(const std::vector<const void*>& in, const std::vector<void*>& out, void* workspace, void* stream) const {
    counted(in.size(), out.size());
    detail::check(tilec_kernel_run_on(get(), in.data(), out.data(), workspace, stream));
  }

  // The same, and the milliseconds that each launch took.
  struct Launch { std::string name; double milliseconds; };
  std::vector<Launch> run_timed(const std::vector<const void*>& in, const std::vector<void*>& out) const {
    counted(in.size(), out.size());
    std::vector<double> times(tilec_kernel_launch_count(get()) + 1);
    detail::check(tilec_kernel_run_timed(get(), in.data(), out.data(), times.data()));
    std::vector<Launch> all;
    for (std::size_t k = 0; const char* name = tilec_kernel_launch_name(get(), k); ++k) all.push_back({name, times[k]});
    return all;
  }

  std::size_t code_size() const noexcept { return tilec_kernel_code_size(get()); }
  bool adds(const std::size_t output) const noexcept { return tilec_kernel_adds(get(), output) != 0; }
  std::size_t workspace() const noexcept { return tilec_kernel_workspace(get()); }
  std::size_t device_workspace() const noexcept { return tilec_kernel_device_workspace(get()); }
  const tilec_kernel* get() const noexcept { return kernel_.get(); }

 private:
  void counted(const std::size_t in, const std::size_t out) const {
    const std::size_t inputs = tilec_kernel_input_count(get()), outputs = tilec_kernel_output_count(get());
    if (in == inputs && out == outputs) return;
    throw Error(TILEC_ARGUMENT_ERROR,
        "the kernel takes " + std::to_string(inputs) + " inputs and " + std::to_string(outputs) + " outputs, not " +
            std::to_string(in) + " and " + std::to_string(out));
  }

  std::vector<Port> ports(std::size_t (*count)(const tilec_kernel*),
      tilec_status (*at)(const tilec_kernel*, std::size_t, tilec_port*)) const {
    std::vector<Port> all;
    for (std::size_t k = 0; k < count(get()); ++k) {
      tilec_port port;
      detail::check(at(get(), k, &port));
      all.push_back(
          {port.name, port.dtype, {port.shape, port.shape + port.ndim}, {port.strides, port.strides + port.ndim}});
    }
    return all;
  }

  template <class Each> static std::vector<DLTensor> tensors(const std::vector<Each>& list) {
    std::vector<DLTensor> all;
    for (const Each& one : list) all.push_back(one.dl());
    return all;
  }

  static std::vector<const DLTensor*> pointers(const std::vector<DLTensor>& list) {
    std::vector<const DLTensor*> all;
    for (const DLTensor& one : list) all.push_back(&one);
    return all;
  }

  detail::Owned<tilec_kernel> kernel_;
};

// Forward, whose outputs are the program's and then what backward needs, and backward, which takes those by name, and
// the cotangents.
struct Pair {
  Kernel forward, backward;

  static Pair load(const std::string_view bytes, const int threads = 0) {
    tilec_kernel *forward = nullptr, *backward = nullptr;
    detail::check(tilec_load_vjp(bytes.data(), bytes.size(), threads, &forward, &backward));
    return {Kernel(forward), Kernel(backward)};
  }
};

// ---- Programs -------------------------------------------------------------------------------------------------------

// A compile-time parameter: a number, or the name of a function or an aggregation.
struct Define {
  std::string name;
  double value = 0;
  std::string text = {};
};

// tilec_options: what is empty or 0 is the default.
struct Options {
  std::string function = {}, target = {}, file_name = {}, plan = {};
  std::vector<Define> defines = {};
  std::vector<std::pair<std::string, std::int64_t>> sizes = {}, ranks = {};
  std::vector<std::string> include = {};
  int threads = 0;
  bool checked = false;
  std::size_t kernels = 0;
  std::int64_t room = 0;
};

namespace detail {

class COptions {
 public:
  explicit COptions(const Options& from) : include_(pointers(from.include)) {
    for (const Define& one : from.defines) defines_.push_back({one.name.c_str(), one.value, or_null(one.text)});
    for (const auto& [name, value] : from.sizes) sizes_.push_back({name.c_str(), value});
    for (const auto& [name, value] : from.ranks) ranks_.push_back({name.c_str(), value});
    all_.size = sizeof all_;
    all_.function = or_null(from.function);
    all_.target = or_null(from.target);
    all_.file_name = or_null(from.file_name);
    all_.plan = or_null(from.plan);
    all_.defines = defines_.data();
    all_.define_count = defines_.size();
    all_.sizes = sizes_.data();
    all_.size_count = sizes_.size();
    all_.ranks = ranks_.data();
    all_.rank_count = ranks_.size();
    all_.threads = from.threads;
    all_.include = include_.data();
    all_.include_count = include_.size();
    all_.checked = from.checked ? 1 : 0;
    all_.kernels = from.kernels;
    all_.room = from.room;
  }
  const tilec_options* get() const noexcept { return &all_; }

 private:
  std::vector<const char*> include_;
  std::vector<tilec_define> defines_;
  std::vector<tilec_size> sizes_, ranks_;
  tilec_options all_{};
};

}  // namespace detail

class Program {
 public:
  explicit Program(const std::string_view text, const Options& options = {}) {
    tilec_program* program = nullptr;
    detail::check(tilec_compile(text.data(), text.size(), detail::COptions(options).get(), &program));
    program_.reset(program);
  }
  explicit Program(tilec_program* owned) : program_(owned) {}

  std::string name() const { return tilec_program_name(get()); }
  Names inputs() const { return names(tilec_input_count, tilec_input_name); }
  Names outputs() const { return names(tilec_output_count, tilec_output_name); }

  // Programs made of this one. No names: all float inputs, all float outputs.
  Program gradient(const Names& wrt = {}, const Names& of = {}) const { return derived(tilec_gradient, wrt, of); }
  Program jvp(const Names& wrt = {}, const Names& of = {}) const { return derived(tilec_jvp, wrt, of); }
  Program value_and_gradient(const Names& wrt = {}, const Names& of = {}) const {
    return derived(tilec_value_and_gradient, wrt, of);
  }
  // The program for a batch of these inputs (none: all): tilec_vmap.
  Program vmap(const Names& inputs = {}) const {
    const auto names = detail::pointers(inputs);
    tilec_program* program = nullptr;
    detail::check(tilec_vmap(get(), names.data(), names.size(), &program));
    return Program(program);
  }
  Program with_plan(const std::string_view plan) const {
    tilec_program* program = nullptr;
    detail::check(tilec_with_plan(get(), plan.data(), plan.size(), &program));
    return Program(program);
  }
  // With the fastest plan that a search finds by running it: tilec_tune.
  Program tune(const Inputs& in, const double seconds = 60) const {
    const Arguments arguments(in);
    const tilec_tune_options options{sizeof options, seconds, nullptr, nullptr};
    tilec_program* program = nullptr;
    detail::check(tilec_tune(get(), arguments.data(), arguments.size(), &options, &program));
    return Program(program);
  }

  // Runs: tilec_run.
  void operator()(const Inputs& in, const Results& out) const {
    const Arguments arguments(in), results(out);
    detail::check(tilec_run(get(), arguments.data(), arguments.size(), results.data(), results.size()));
  }

  // Compiled for these arguments; `out` where outputs have strides of their own, or are added to.
  Kernel specialize(const Inputs& in, const Results& out = {}) const {
    const Arguments arguments(in), results(out);
    tilec_kernel* kernel = nullptr;
    detail::check(tilec_specialize(get(), arguments.data(), arguments.size(), results.data(), results.size(), &kernel));
    return Kernel(kernel);
  }

  // Types and shapes of the outputs, without compiling.
  std::vector<Port> infer(const Inputs& in) const {
    const Arguments arguments(in);
    tilec_kernel* ports = nullptr;
    detail::check(tilec_infer(get(), arguments.data(), arguments.size(), &ports));
    return Kernel(ports).outputs();
  }

  // `gradients`: which of them are added to, have strides of their own, or are not wanted.
  Pair vjp(const Inputs& in, const Names& wrt = {}, const Names& of = {}, const Results& gradients = {}) const {
    const Arguments arguments(in), results(gradients);
    const auto from = detail::pointers(of), to = detail::pointers(wrt);
    tilec_kernel *forward = nullptr, *backward = nullptr;
    detail::check(tilec_vjp(get(), from.data(), from.size(), to.data(), to.size(), arguments.data(), arguments.size(),
        results.data(), results.size(), &forward, &backward));
    return {Kernel(forward), Kernel(backward)};
  }

  // A stage of the compiler, as text or bytes.
  std::string emit(const std::string& stage, const Inputs& in = {}) const {
    const Arguments arguments(in);
    tilec_buffer* buffer = nullptr;
    detail::check(tilec_emit(get(), stage.c_str(), arguments.data(), arguments.size(), &buffer));
    const detail::Owned<tilec_buffer> owned(buffer);
    return {tilec_buffer_data(buffer), tilec_buffer_size(buffer)};
  }

  // What a call takes, before anything is compiled.
  tilec_cost estimate(const Inputs& in) const {
    const Arguments arguments(in);
    tilec_cost cost{};
    cost.size = sizeof cost;
    detail::check(tilec_estimate(get(), arguments.data(), arguments.size(), &cost));
    return cost;
  }

  // Writes a file that Kernel::load takes, and one for Pair::load. `out` as in specialize.
  void save(const std::string& path, const Inputs& in, const Results& out = {}) const {
    const Arguments arguments(in), results(out);
    detail::check(
        tilec_save_call(get(), path.c_str(), arguments.data(), arguments.size(), results.data(), results.size()));
  }
  void save_vjp(const std::string& path, const Inputs& in, const Names& wrt = {}, const Names& of = {}) const {
    const Arguments arguments(in);
    const auto from = detail::pointers(of), to = detail::pointers(wrt);
    detail::check(tilec_save_vjp(
        get(), from.data(), from.size(), to.data(), to.size(), path.c_str(), arguments.data(), arguments.size()));
  }

  const tilec_program* get() const noexcept { return program_.get(); }

 private:
  Names names(std::size_t (*count)(const tilec_program*), const char* (*at)(const tilec_program*, std::size_t)) const {
    Names all;
    for (std::size_t k = 0; k < count(get()); ++k) all.emplace_back(at(get(), k));
    return all;
  }

  Program derived(tilec_status (*make)(const tilec_program*, const char* const*, std::size_t, const char* const*,
                      std::size_t, tilec_program**),
      const Names& wrt, const Names& of) const {
    const auto from = detail::pointers(of), to = detail::pointers(wrt);
    tilec_program* program = nullptr;
    detail::check(make(get(), from.data(), from.size(), to.data(), to.size(), &program));
    return Program(program);
  }

  detail::Owned<tilec_program> program_;
};

// A text with many functions, read and checked once: tilec_parse.
class File {
 public:
  explicit File(const std::string_view text, const std::string& file_name = {}, const Names& include = {}) {
    const auto folders = detail::pointers(include);
    tilec_file* file = nullptr;
    detail::check(
        tilec_parse(text.data(), text.size(), detail::or_null(file_name), folders.data(), folders.size(), &file));
    file_.reset(file);
  }

  // In order; "" is the name of an unnamed one.
  Names functions() const {
    Names all;
    for (std::size_t k = 0; k < tilec_file_function_count(file_.get()); ++k)
      all.emplace_back(tilec_file_function_name(file_.get(), k));
    return all;
  }

  Program compile(const std::string& function, Options options = {}) const {
    options.function = function;
    tilec_program* program = nullptr;
    detail::check(tilec_file_compile(file_.get(), detail::COptions(options).get(), &program));
    return Program(program);
  }

 private:
  detail::Owned<tilec_file> file_;
};

}  // namespace tilec

#endif
