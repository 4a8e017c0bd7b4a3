// The C API over Callable, Module and emit: handles, the per-thread last error, and what a caller may have got wrong. Nothing that a
// caller gives is used before it was looked at.
#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <new>

#include "lang/lexis.h"
#include "lang/load.h"
#include "lang/pack.h"
#include "lang/parse.h"
#include "codegen/model/predict.h"
#include "codegen/report.h"
#include "lang/render.h"
#include "runtime/device.h"
#include "runtime/emit.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/find.h"
#include "runtime/fork.h"
#include "runtime/hooks.h"
#include "runtime/overlap.h"
#include "runtime/package_file.h"
#include "runtime/specialise.h"
#include "runtime/tune.h"
#include "runtime/standard_library.h"
#include "runtime/target_hint.h"
#include "runtime/xla.h"
#include "tilec/tilec.h"

using namespace tilec;
namespace messages = lang::messages;

struct tilec_file {
  std::shared_ptr<const runtime::Loaded> loaded;
  std::vector<std::string> functions;
};
struct tilec_program {
  std::shared_ptr<const runtime::Callable> callable;
  std::vector<std::string> inputs, outputs;
  std::string name;
};
struct tilec_kernel {
  std::shared_ptr<const runtime::Module> module;         // null: ports only
  std::vector<runtime::Port> inputs, outputs;
  std::optional<runtime::Caller> caller;                 // of the module
};
struct tilec_buffer { std::string bytes; };

tilec_kernel* tilec::runtime::handle_of(const std::shared_ptr<const Module>& module) { return new tilec_kernel{module, module->inputs, module->outputs, Caller(*module)}; }
const std::shared_ptr<const runtime::Module>& tilec::runtime::module_of(const tilec_kernel& kernel) { return kernel.module; }

namespace {

std::unique_ptr<tilec_kernel> kernel_of(const std::shared_ptr<const runtime::Module>& module) { return std::unique_ptr<tilec_kernel>(runtime::handle_of(module)); }

struct Last {
  std::string text;
  std::vector<lang::Diagnostic> diagnostics;
  std::vector<std::string> hints;                        // joined, per diagnostic
  std::vector<lang::Source> sources;                     // that the diagnostics point into
  std::string shown;                                     // what tilec_last_diagnostic_text returned
  std::string name;                                      // what tilec_function_name returned
};
thread_local Last last;

const lang::Source& source_of(const Last& said, const lang::Diagnostic& d) {
  static const lang::Source none{};
  return d.span.source < said.sources.size() ? said.sources[d.span.source] : none;
}

lang::Diagnostic plain(std::string code, std::string message) { return {std::move(code), lang::Severity::Error, std::move(message), {}, {}, {}}; }

void keep(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources, bool failed) {
  last.diagnostics = diagnostics.all();
  last.sources = last.diagnostics.empty() ? std::vector<lang::Source>() : sources;
  last.hints.clear();
  for (const lang::Diagnostic& d : last.diagnostics) last.hints.push_back(fmt::format("{}", fmt::join(d.hints, "; ")));
  last.text = failed ? lang::render(diagnostics, sources) : std::string();
}

tilec_diagnostic described(const Last& said, std::size_t position) {
  const lang::Diagnostic& d = said.diagnostics[position];
  const lang::Source& source = source_of(said, d);
  lang::Position begin{0, 0}, end{0, 0};
  if (!d.span.empty()) {
    begin = lang::position(source, d.span.begin);
    end = lang::position(source, d.span.end);
  }
  return {static_cast<tilec_severity>(d.severity), d.code.c_str(), d.message.c_str(), source.name.c_str(), begin.line, begin.column, end.line, end.column, said.hints[position].c_str()};
}

std::string rendered(const Last& said, std::size_t position) {
  lang::Diagnostics one;
  one.add(said.diagnostics[position]);
  return lang::render(one, said.sources);
}

struct Listener {
  tilec_diagnostic_function hear;
  void* user;
  bool operator==(const Listener&) const = default;
};

runtime::Hook<Listener>& listener_hook() {
  static auto& hook = *new runtime::Hook<Listener>;
  return hook;
}

// Tells the host what a call had to say. What calls of the host's function say is not told to it again, and is forgotten with them.
void tell_host() noexcept {
  thread_local bool telling = false;
  const Listener* const host = telling || last.diagnostics.empty() ? nullptr : listener_hook().get();
  if (host == nullptr) return;
  telling = true;
  Last said = std::exchange(last, {});
  try {
    for (std::size_t k = 0; k < said.diagnostics.size(); ++k) {
      const tilec_diagnostic diagnostic = described(said, k);
      host->hear(host->user, &diagnostic, rendered(said, k).c_str());
    }
  } catch (const std::bad_alloc&) {                      // of what renders; the host's function throws nothing
    said.text = "out of memory";
  }
  last = std::move(said);
  telling = false;
}

tilec_status fail(tilec_status status, lang::Diagnostic diagnostic, const std::vector<lang::Source>& sources = {}) {
  lang::Diagnostics one;
  one.add(std::move(diagnostic));
  keep(one, sources, true);
  return status;
}

// What a diagnostic means to a caller who passed arguments: their type, their shape, or the program.
tilec_status status_of(const lang::Diagnostics& diagnostics) {
  for (const lang::Diagnostic& d : diagnostics.all()) {
    if (d.severity != lang::Severity::Error) continue;
    const auto is = [&](const auto&... m) { return ((d.code == m.code) || ...); };
    if (is(messages::given_type, messages::derivative_type, messages::missing_input, messages::unknown_argument, messages::not_a_size, messages::given_twice, messages::result_type)) return TILEC_TYPE_ERROR;
    if (is(messages::batch_missing, messages::batches_differ, messages::size_mismatch, messages::size_expression_mismatch, messages::given_rank, messages::shapes_differ, messages::wrong_shape, messages::requirement_fails, messages::negative_size,
           messages::tensor_too_large, messages::unbound_sizes, messages::bad_value, messages::assertion_fails, messages::size_arithmetic,
           messages::given_size_differs, messages::unknown_size, messages::output_overlaps_itself,
           messages::pack_ranks, messages::pack_rank_missing, messages::pack_ranks_open, messages::unknown_pack))
      return TILEC_ARGUMENT_ERROR;
    return TILEC_PROGRAM_ERROR;
  }
  return TILEC_INTERNAL_ERROR;
}

tilec_status failed(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources) {
  keep(diagnostics, sources, true);
  return status_of(diagnostics);
}

// The one place where exceptions become statuses.
template <class F> tilec_status caught(F f) noexcept {
  try {
    return f();
  } catch (const runtime::RuntimeError& fault) {
    return fail(fault.blame == runtime::Blame::Machine ? TILEC_DEVICE_ERROR : TILEC_ARGUMENT_ERROR, fault.diagnostic, fault.sources ? *fault.sources : std::vector<lang::Source>{});
  } catch (const lang::Diagnostics& diagnostics) {
    return failed(diagnostics, {});
  } catch (const std::bad_alloc&) {
    last.text = "out of memory";
    return TILEC_DEVICE_ERROR;
  } catch (const std::exception& fault) {
    return fail(TILEC_INTERNAL_ERROR, plain("E0570", fmt::format("internal error: {}", fault.what())));
  } catch (...) {
    last.text = "internal error";
    return TILEC_INTERNAL_ERROR;
  }
}

template <class F> tilec_status guarded(F f) noexcept {
  const tilec_status status = [&] {
    const runtime::Busy busy;
    return caught([&] {
      last = {};
      return f();
    });
  }();
  tell_host();
  return status;
}

[[noreturn]] void misuse(const char* function, const std::string& what) { throw runtime::argument_error(messages::bad_call, function, what); }

template <class T> T& need(T* pointer, const char* function, const std::string& parameter) {
  if (pointer == nullptr) misuse(function, fmt::format("`{}` is NULL", parameter));
  return *pointer;
}

void need_list(const void* list, std::size_t count, const char* function, const char* parameter) {
  if (list == nullptr && count > 0) misuse(function, fmt::format("`{}` is NULL but {} are counted", parameter, count));
}

std::vector<std::string> names_of(const char* const* list, std::size_t count, const char* function, const char* parameter) {
  need_list(static_cast<const void*>(list), count, function, parameter);
  std::vector<std::string> names;
  for (std::size_t k = 0; k < count; ++k) names.emplace_back(&need(list[k], function, fmt::format("{}[{}]", parameter, k)));
  return names;
}

std::string text_of(const char* text, std::size_t length, const char* function) {
  need_list(text, length, function, "text");
  return length == 0 ? std::string() : runtime::without_byte_order_mark(std::string(text, length));
}

// Fields that the caller's struct is too old to have are absent; those that it has and we do not know must be 0.
tilec_options options_of(const tilec_options* given, const char* function) {
  tilec_options options{};
  if (given == nullptr) return options;
  constexpr std::size_t ends[] = {
      offsetof(tilec_options, function), offsetof(tilec_options, target), offsetof(tilec_options, file_name), offsetof(tilec_options, defines), offsetof(tilec_options, define_count),
      offsetof(tilec_options, sizes), offsetof(tilec_options, size_count), offsetof(tilec_options, threads), offsetof(tilec_options, include), offsetof(tilec_options, include_count),
      offsetof(tilec_options, checked), offsetof(tilec_options, kernels), offsetof(tilec_options, plan), offsetof(tilec_options, room), offsetof(tilec_options, cache),
      offsetof(tilec_options, ranks), offsetof(tilec_options, rank_count)};
  if (given->size < sizeof options && std::ranges::count(ends, given->size) == 0) misuse(function, fmt::format("`options.size` is {}, where no field ends: set it to `sizeof(tilec_options)`", given->size));
  std::memcpy(&options, given, std::min(given->size, sizeof options));
  const char* const bytes = reinterpret_cast<const char*>(given);
  if (given->size > 65536 || std::any_of(bytes + sizeof options, bytes + std::max(given->size, sizeof options), [](char byte) { return byte != 0; }))
    misuse(function, fmt::format("`options` of {} bytes sets fields that this library, which knows {} bytes, does not have", given->size, sizeof options));
  return options;
}

std::vector<poly::Define> defines_of(const tilec_options& options, const char* function) {
  need_list(options.defines, options.define_count, function, "options.defines");
  std::vector<poly::Define> defines;
  for (std::size_t k = 0; k < options.define_count; ++k) {
    const tilec_define& define = options.defines[k];
    const std::string name = &need(define.name, function, fmt::format("options.defines[{}].name", k));
    if (std::ranges::count(defines, name, &poly::Define::name) > 0) throw runtime::argument_error(messages::given_twice, "parameter", name);
    if (define.text != nullptr && std::isalpha(static_cast<unsigned char>(define.text[0])) == 0 && lang::real_of(define.text)) throw runtime::argument_error(messages::bad_value, name, fmt::format("`{}` is a number as text: give it as a number", lang::shortened(define.text)));
    defines.push_back({name, define.text != nullptr ? decltype(poly::Define::value)(define.text) : define.value});
  }
  return defines;
}

void add_sizes(const tilec_options& options, codegen::Request& request, const char* function) {
  need_list(options.sizes, options.size_count, function, "options.sizes");
  for (std::size_t k = 0; k < options.size_count; ++k) {
    const std::string name = &need(options.sizes[k].name, function, fmt::format("options.sizes[{}].name", k));
    if (!request.sizes.emplace(name, options.sizes[k].value).second) throw runtime::argument_error(messages::given_twice, "size", name);
    request.asked_sizes.push_back(name);
  }
  for (const std::string& name : request.asked_sizes) request.sizes.emplace(fmt::format("#{}", name), request.sizes.at(name));  // a size the text spells in lower case
  request.sizes_from = "size";
}

void add_ranks(const tilec_options& options, codegen::Request& request, const char* function) {
  need_list(options.ranks, options.rank_count, function, "options.ranks");
  for (std::size_t k = 0; k < options.rank_count; ++k) {
    const auto& [given, value] = options.ranks[k];
    const std::string name = &need(given, function, fmt::format("options.ranks[{}].name", k));
    if (!request.signature.ranks.emplace(name, value).second) throw runtime::argument_error(messages::given_twice, "rank", name);
  }
}

codegen::Request request_of(const tilec_options& options, const char* function) {
  codegen::Request request;
  if (options.function != nullptr) request.signature.function = options.function;
  request.signature.defines = defines_of(options, function);
  add_sizes(options, request, function);
  add_ranks(options, request, function);
  if (options.room != 0) request.room = std::max<std::int64_t>(options.room, 0);
  if (options.threads < 0) misuse(function, fmt::format("`options.threads` is {}", options.threads));
  const std::string target = options.target != nullptr ? options.target : "cpu";
  const std::optional<codegen::Target> named = runtime::target_here(target);
  if (!named) throw runtime::argument_error(messages::unknown_target, target).hint(runtime::target_hint(target));
  request.target = *named;
  request.threads_hint = options.threads;
  if (options.checked != 0 && options.checked != 1) misuse(function, fmt::format("`options.checked` is {}, and it is 0 or 1", options.checked));
  request.checked = options.checked != 0;
  return request;
}

std::shared_ptr<const runtime::Cache> cache_of(const tilec_options& options) {
  if (options.cache == nullptr) return runtime::Cache::usual();
  return *options.cache != '\0' ? std::make_shared<const runtime::Cache>(options.cache) : nullptr;
}

// What is equal is shared as long as one who holds it lives.
template <class T> class Shared {
 public:
  template <class Make> std::shared_ptr<const T> get(const std::string& key, Make make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<const T>& place = known_[key];
    std::shared_ptr<const T> one = place.lock();
    if (!one) place = one = make();
    return one;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const T>> known_;
};

std::shared_ptr<const runtime::Loaded> shared_file(runtime::Loaded made) {
  static Shared<runtime::Loaded> shared;
  std::string key;
  for (const lang::Source& source : made.sources) key += source.name + '\0' + source.text + '\0';
  for (const runtime::Resolved& import : made.imports) key += import.path + '\0' + import.importer + '\0' + import.name + '\0';
  return shared.get(key, [&] { return std::make_shared<const runtime::Loaded>(std::move(made)); });
}

// Of equal files there is one, whose address tells it from others: a Callable holds its file, so none of another with this address is known.
std::string key_of(const runtime::Loaded& loaded, const codegen::Request& r, std::size_t kernels, const runtime::Cache* cache) {
  std::string key = fmt::format("{}\n{}\n{} {}{}|{}|{}|{}\n", fmt::ptr(&loaded), r.signature.function.value_or("-"), r.target.name, r.threads_hint, r.checked ? " checked" : "", r.sizes.size(), kernels, cache != nullptr ? cache->folder() : "-");
  for (const codegen::Derivative& d : r.derivatives) key += fmt::format("{}{} {}|{}\n", d.batch ? "batch" : d.forward ? "forward" : "reverse", d.values ? "+" : "", fmt::join(d.of, ","), fmt::join(d.wrt, ","));
  key += fmt::format("{}, {}, room {}\n", r.pair ? "pair" : "one", r.plan ? "planned" : "chosen", r.room.value_or(-1));
  for (const auto& [name, value] : r.sizes) key += fmt::format("{}={};", name, value);
  for (const auto& [name, rank] : r.signature.ranks) key += fmt::format("{}...={};", name, rank);
  for (const auto& define : r.signature.defines) key += std::visit([&](const auto& v) { return fmt::format("{}={};", define.name, v); }, define.value);
  return key;
}

// Programs alike share one Callable, and with it what it has compiled.
std::shared_ptr<const runtime::Callable> shared_callable(const std::shared_ptr<const runtime::Loaded>& loaded, const codegen::Request& request, std::size_t kernels, const std::shared_ptr<const runtime::Cache>& cache) {
  static Shared<runtime::Callable> shared;
  return shared.get(key_of(*loaded, request, kernels, cache.get()), [&] { return std::make_shared<const runtime::Callable>(loaded, request, kernels, cache); });
}

// A function whose inputs all show their sizes can be built at once, so that its errors come now and its names are known.
bool shows_shapes(const runtime::Callable& callable) {
  if (callable.function() == nullptr) return true;       // build says what is wrong
  const std::vector<lang::Name> packs = lang::packs_of(*callable.function());
  const auto& ranks = callable.request().signature.ranks;
  if (ranks.empty() && !packs.empty()) return false;
  const bool unknown = std::ranges::any_of(ranks, [&](const auto& rank) { return std::ranges::count(packs, rank.first, &lang::Name::text) == 0; });  // which build says
  if (!unknown && !std::ranges::all_of(packs, [&](const lang::Name& pack) { return ranks.contains(pack.text); })) return false;
  return std::ranges::all_of(callable.function()->inputs, [](const lang::Input& input) { return input.sizes.has_value(); });
}

// Names from the program when it can be built without arguments, else from the text. False: errors are in `diagnostics`.
bool fill_names(tilec_program& program, lang::Diagnostics& diagnostics) {
  const runtime::Callable& callable = *program.callable;
  const codegen::Request& request = callable.request();
  if (callable.function() != nullptr && callable.function()->name) program.name = callable.function()->name->text;
  program.inputs = callable.input_names();
  if (shows_shapes(callable)) {
    codegen::Request built;
    const std::optional<poly::Program> outline = callable.outline({}, built, diagnostics, true);
    if (!outline) return false;
    if (!request.derivatives.empty()) {                    // inputs that are sizes are no inputs of the outline
      for (const poly::TensorId id : outline->inputs)
        if (const std::string name = runtime::without_mark(outline->tensor(id).name); std::ranges::count(program.inputs, name) == 0) program.inputs.push_back(name);
      for (const poly::TensorId id : outline->outputs) program.outputs.push_back(runtime::without_mark(outline->tensor(id).name));
      return true;
    }
  }
  codegen::Ports ports{program.inputs, callable.result_names()};
  for (const codegen::Derivative& derivative : request.derivatives) ports = codegen::derived(ports, derivative);
  program.inputs = ports.inputs;
  program.outputs = ports.outputs;
  return true;
}

enum class Side { Input, Output };

// What is wrong with a tensor before its type and its strides are looked at; empty: nothing.
std::string fault_of(const DLTensor& tensor) {
  constexpr std::int32_t most = 64;                      // NumPy's
  if (tensor.ndim < 0 || tensor.ndim > most) return fmt::format("it has {} dimensions, where 0 to {} are possible", tensor.ndim, most);
  if (tensor.ndim > 0 && tensor.shape == nullptr) return "its shape is NULL";
  std::int64_t bytes = 16;                               // more than any element has
  for (std::int32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] < 0) return fmt::format("its dimension {} is {}", d + 1, tensor.shape[d]);
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(tensor.shape[d], 1), &bytes)) return "its shape has more bytes than 63 bits count";
  }
  const auto data = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (data == 0 && tensor.byte_offset != 0) return "its data is NULL with an offset";
  if (data + tensor.byte_offset < data) return fmt::format("its byte_offset is {}", tensor.byte_offset);
  return {};
}

// The number that a caller wrote where an enum is due, which may be none of the enum's.
template <class Enum> int number_in(const Enum& place) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &place, sizeof number);
  return number;
}

// What a call does with the tensors it is given: a GPU's have a shape here, and no elements.
enum class Reads { Elements, Shapes };

runtime::Tensor tensor_of(const tilec_argument& given, const std::string& name, bool may_be_gpu) {
  if (given.tensor == nullptr) throw runtime::argument_error(messages::bad_value, name, "its tensor is NULL");
  const int device = number_in(given.tensor->device.device_type);
  if (device != kDLCPU && !(device == kDLCUDA && may_be_gpu && given.tensor->device.device_id >= 0)) throw runtime::argument_error(messages::wrong_device, name, "another device's");
  if (const std::string fault = fault_of(*given.tensor); !fault.empty()) throw runtime::argument_error(messages::bad_tensor, name, fault);
  std::optional<runtime::Tensor> tensor = runtime::borrow(*given.tensor);
  if (!tensor) throw runtime::argument_error(messages::bad_value, name, "its element type is none of Tile's");
  if (device == kDLCUDA) tensor->data = nullptr;
  static_cast<void>(runtime::layout_of(name, tensor->dtype, tensor->shape, tensor->strides));
  return *std::move(tensor);
}

runtime::Argument argument_of(const tilec_argument& given, const std::string& name, Side side, bool may_be_gpu) {
  runtime::Argument argument;
  argument.name = name;
  const int kind = number_in(given.kind);
  switch (kind) {
    case TILEC_INTEGER:
      argument.is_integer = true;
      argument.integer = given.integer;
      argument.real = static_cast<double>(given.integer);
      break;
    case TILEC_UNSIGNED:
      argument.is_integer = true;
      argument.large = given.integer < 0;
      argument.integer = given.integer;
      argument.real = static_cast<double>(static_cast<std::uint64_t>(given.integer));
      break;
    case TILEC_REAL: argument.real = given.real; break;
    case TILEC_ADD:
      if (side == Side::Input) throw runtime::argument_error(messages::bad_value, name, "it is an input, which nothing is added to");
      argument.add = true;
      [[fallthrough]];
    case TILEC_TENSOR: argument.tensor = tensor_of(given, name, may_be_gpu); break;
    case TILEC_NONE:
      if (side == Side::Input) throw runtime::argument_error(messages::bad_value, name, "it is an input: what is not given is left out");
      argument.unwanted = true;
      break;
    default: throw runtime::argument_error(messages::bad_value, name, fmt::format("its kind is {}, which no tilec_argument_kind is", kind));
  }
  if (side == Side::Output && !argument.tensor && !argument.unwanted) throw runtime::argument_error(messages::bad_value, name, "it is an output, which takes a tensor and no number");
  return argument;
}

std::vector<runtime::Argument> arguments_of(const tilec_argument* given, std::size_t count, const tilec_program& program, Side side, const char* function, Reads reads = Reads::Elements) {
  const bool may_be_gpu = reads == Reads::Shapes && program.callable->request().target.family == codegen::Target::Family::Cuda;
  const bool input = side == Side::Input;
  const std::vector<std::string>& names = input ? program.inputs : program.outputs;
  need_list(given, count, function, input ? "arguments" : "results");
  std::vector<runtime::Argument> arguments;
  for (std::size_t k = 0; k < count; ++k) {
    if (given[k].name == nullptr && k >= names.size()) throw runtime::argument_error(messages::unknown_argument, fmt::format("{} {}", input ? "input" : "output", k + 1), "this program");
    arguments.push_back(argument_of(given[k], given[k].name != nullptr ? given[k].name : names[k], side, may_be_gpu));
  }
  if (const auto unwanted = std::ranges::count(arguments, true, &runtime::Argument::unwanted); unwanted > 0 && static_cast<std::size_t>(unwanted) >= names.size()) misuse(function, "each result is TILEC_NONE: nothing is asked for");
  return arguments;
}

// Every argument is one of the program's own names, and that once; an output that a program has twice may be given twice.
bool check_names(const tilec_program& program, const std::vector<runtime::Argument>& arguments, Side side, lang::Diagnostics& diagnostics) {
  const bool input = side == Side::Input;
  const std::vector<std::string>& names = input ? program.inputs : program.outputs;
  for (const runtime::Argument& argument : arguments) {
    const auto known = std::ranges::count(names, argument.name);
    if (known == 0) diagnostics.report({}, messages::unknown_argument, argument.name, program.name.empty() ? "the function" : fmt::format("`{}`", program.name)).hint(fmt::format("it {} {}", input ? "takes" : "gives", fmt::join(names, ", ")));
    else if (std::ranges::count(arguments, argument.name, &runtime::Argument::name) > known) diagnostics.report({}, messages::given_twice, input ? "input" : "output", argument.name);
    else continue;
    return false;
  }
  return true;
}

// Of the text itself, not of its imports, in order.
std::vector<std::string> names_in(const lang::File& file) {
  std::vector<std::string> names;
  for (const auto& item : file.items)
    if (const auto* function = std::get_if<lang::Function>(&item); function != nullptr && function->role == lang::Function::Role::Function)
      names.push_back(function->name ? function->name->text : "");
  return names;
}

// A caller asks for one name after another of the same text, which is parsed for the first.
const std::vector<std::string>& function_names(std::string text) {
  thread_local std::optional<std::pair<std::string, std::vector<std::string>>> known;
  if (known && known->first == text) return known->second;
  lang::Diagnostics diagnostics;
  const std::optional<lang::File> file = lang::parse({"<text>", text}, diagnostics);
  known.emplace(std::move(text), file ? names_in(*file) : std::vector<std::string>());
  return known->second;
}

// Null when the text, or one that it imports, is at fault.
std::shared_ptr<const runtime::Loaded> loaded_from(const lang::Source& source, const lang::Find& find, std::vector<lang::Source>& sources, lang::Diagnostics& diagnostics) {
  std::vector<runtime::Resolved> imports;
  std::optional<lang::File> file = lang::load(source, runtime::recorded(find, imports), sources, diagnostics);
  return file ? shared_file({sources, std::move(*file), std::move(imports)}) : nullptr;
}

std::unique_ptr<tilec_file> file_of(std::shared_ptr<const runtime::Loaded> loaded) {
  auto made = std::make_unique<tilec_file>();
  made->functions = names_in(loaded->file);
  made->loaded = std::move(loaded);
  return made;
}

runtime::Texts texts_of(std::string_view bytes, const char* function) {
  try {
    return runtime::texts_from(bytes);
  } catch (const std::string& why) {
    misuse(function, why);
  }
}

// A size that is an input's extent is none below 0; one that is a number of the text, such as an offset, may be.
void check_extents(const runtime::Callable& callable) {
  if (callable.function() == nullptr) return;
  for (const lang::Input& input : callable.function()->inputs)
    for (const lang::Expr& size : input.sizes.value_or(std::vector<lang::Expr>{})) {
      const auto* variable = size.as<lang::Variable>();
      const auto given = variable != nullptr ? callable.request().sizes.find(variable->name.spelled()) : callable.request().sizes.end();
      if (given != callable.request().sizes.end() && given->second < 0) throw runtime::argument_error(messages::negative_size, variable->name.text, std::to_string(given->second));
    }
}

// The same file, whose last source is the plan.
std::shared_ptr<const runtime::Loaded> planned(const runtime::Loaded& loaded, const std::string& plan, codegen::Request& request) {
  std::vector<lang::Source> sources = loaded.sources;
  request.plan = codegen::PlanText{plan, static_cast<std::uint32_t>(sources.size())};
  sources.push_back({"<plan>", plan});
  return shared_file({std::move(sources), loaded.file, loaded.imports});
}

// The program of the function that `options` names, or null.
std::unique_ptr<tilec_program> program_of(std::shared_ptr<const runtime::Loaded> loaded, codegen::Request request, const tilec_options& options, lang::Diagnostics& diagnostics) {
  auto made = std::make_unique<tilec_program>();
  if (options.plan != nullptr) loaded = planned(*loaded, options.plan, request);
  made->callable = shared_callable(loaded, request, options.kernels != 0 ? options.kernels : runtime::usual_kernels(), cache_of(options));
  check_extents(*made->callable);
  return fill_names(*made, diagnostics) ? std::move(made) : nullptr;
}

tilec_status port_at(const tilec_kernel* kernel, std::vector<runtime::Port> tilec_kernel::* side, std::size_t position, tilec_port* port, const char* function) {
  return guarded([&] {
    const std::vector<runtime::Port>& ports = need(kernel, function, "kernel").*side;
    static_cast<void>(need(port, function, "port"));
    if (position >= ports.size()) misuse(function, fmt::format("there is no port {}, of {}", position, ports.size()));
    const runtime::Port& p = ports[position];
    *port = {p.name.c_str(), runtime::dl_type(p.dtype), static_cast<std::int32_t>(p.shape.size()), p.shape.data(), p.strides.data()};
    return TILEC_OK;
  });
}

tilec_status specialise(const tilec_program& program, const std::vector<runtime::Argument>& in, const std::vector<runtime::Argument>& out, std::shared_ptr<const runtime::Specialisation>& made) {
  lang::Diagnostics diagnostics;
  const runtime::Callable& callable = *program.callable;
  if (!check_names(program, in, Side::Input, diagnostics) || !check_names(program, out, Side::Output, diagnostics)) return failed(diagnostics, callable.sources());
  made = callable.specialise(in, out, diagnostics);
  if (!made) return failed(diagnostics, callable.sources());
  keep(diagnostics, callable.sources(), false);
  return TILEC_OK;
}

struct Names { const char* const* list; std::size_t count; };

std::vector<std::string> different(std::vector<std::string> names, const char* parameter) {
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(names.begin(), name, *name) != name) throw runtime::argument_error(messages::given_twice, fmt::format("`{}`:", parameter), *name);
  return names;
}

codegen::Derivative derivative_from(Names of, Names wrt, const char* function) {
  return {false, different(names_of(of.list, of.count, function, "of"), "of"), different(names_of(wrt.list, wrt.count, function, "wrt"), "wrt")};
}

codegen::Request differentiated(const runtime::Callable& callable, codegen::Derivative derivative, const char* function) {
  codegen::Request request = callable.request();
  request.plan.reset();                                    // it is that of the program
  if (!derivative.batch && std::ranges::any_of(request.derivatives, &codegen::Derivative::values)) misuse(function, "`program` gives values and gradients in one: differentiate the function that it was made of");
  request.derivatives.push_back(std::move(derivative));
  return request;
}

// A plan of the program goes with it: it may say how the pair is compiled.
codegen::Request pair_request(const runtime::Callable& callable, codegen::Derivative derivative, const char* function) {
  codegen::Request request = differentiated(callable, std::move(derivative), function);
  request.pair = true;
  codegen::PlanFault fault;
  if (const auto& plan = callable.request().plan) {
    const auto parts = codegen::parts_of(*plan, fault);
    if (!parts || parts->forward || parts->backward) request.plan = plan;
  }
  return request;
}

tilec_status derivative_of(const tilec_program* program, codegen::Derivative derivative, tilec_program** result, const char* function) {
  const runtime::Callable& callable = *need(program, function, "program").callable;
  static_cast<void>(need(result, function, derivative.batch ? "batched" : derivative.forward ? "tangent" : derivative.values ? "both" : "gradient"));
  const codegen::Request request = differentiated(callable, std::move(derivative), function);
  auto made = std::make_unique<tilec_program>();
  made->callable = shared_callable(callable.loaded(), request, callable.kernels(), callable.disk());
  lang::Diagnostics diagnostics;
  if (!fill_names(*made, diagnostics)) return failed(diagnostics, callable.sources());
  keep(diagnostics, callable.sources(), false);
  *result = made.release();
  return TILEC_OK;
}

tilec_status with_plan(const tilec_program* program, const std::string& plan, tilec_program** result, const char* function) {
  const tilec_program& p = need(program, function, "program");
  static_cast<void>(need(result, function, "planned"));
  codegen::Request request = p.callable->request();
  const auto loaded = planned(*p.callable->loaded(), plan, request);
  auto made = std::make_unique<tilec_program>(tilec_program{shared_callable(loaded, request, p.callable->kernels(), p.callable->disk()), p.inputs, p.outputs, p.name});
  *result = made.release();
  return TILEC_OK;
}

// The memory of every output, in the module's order. What one tensor of a program is twice is told apart by order.
std::vector<runtime::Tensor> memory_of(const runtime::Module& module, std::vector<runtime::Argument> results) {
  std::vector<runtime::Tensor> outputs;
  for (const runtime::Port& port : module.outputs) {
    const auto at = std::ranges::find(results, port.name, &runtime::Argument::name);
    if (at == results.end() || !at->tensor) throw runtime::argument_error(messages::no_result, port.name);
    outputs.push_back(*at->tensor);
    results.erase(at);
  }
  return outputs;
}

tilec_status run_on(const runtime::Module& module, const std::vector<runtime::Argument>& in, const std::vector<runtime::Argument>& out) {
  const std::vector<runtime::Tensor> inputs = runtime::bind_inputs(module, in), outputs = memory_of(module, out);
  std::vector<void*> from, to;
  for (const runtime::Tensor& tensor : inputs) from.push_back(tensor.data);
  for (const runtime::Tensor& tensor : outputs) to.push_back(tensor.data);
  runtime::Caller(module).run(from.data(), to.data());
  return TILEC_OK;
}

const tilec_kernel& runnable(const tilec_kernel* kernel, const char* function) {
  const tilec_kernel& k = need(kernel, function, "kernel");
  if (!k.caller) misuse(function, "`kernel` is ports only: specialise the program to run it");
  return k;
}

// The hot path: warnings of an earlier call stay, an error goes.
template <class Run> tilec_status quickly(Run run) {
  try {
    run();
    if (!last.text.empty()) last = {};
    return TILEC_OK;
  } catch (...) {
    return guarded([&]() -> tilec_status { throw; });
  }
}

template <class Run> tilec_status run_kernel(const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, const char* function, Run run) {
  return quickly([&] {
    const tilec_kernel& k = runnable(kernel, function);
    need_list(static_cast<const void*>(inputs), k.inputs.size(), function, "inputs");
    need_list(static_cast<const void*>(outputs), k.outputs.size(), function, "outputs");
    run(*k.caller, const_cast<void* const*>(inputs));
  });
}

// Strides say nothing of a dimension of one element, nor of a tensor of none.
bool has_layout(const DLTensor& tensor, const runtime::Port& port) {
  std::int64_t dense = 1;
  for (std::size_t d = port.shape.size(); d-- > 0; dense *= port.shape[d])
    if (port.shape[d] > 1 && (tensor.strides != nullptr ? tensor.strides[d] : dense) != port.strides[d]) return std::ranges::count(port.shape, 0) != 0;
  return true;
}

// Where element 0 of a tensor is that a port takes.
void* data_of(const DLTensor* given, const runtime::Port& port, Side side, const DLDevice& device, const char* function) {
  const bool input = side == Side::Input;
  if (given == nullptr) misuse(function, fmt::format("{} `{}` is NULL", input ? "input" : "output", port.name));
  const DLTensor& tensor = *given;
  const DLDataType type = runtime::dl_type(port.dtype);
  if (tensor.dtype.code != type.code || tensor.dtype.bits != type.bits || tensor.dtype.lanes != 1) {
    const auto known = runtime::dtype_of(tensor.dtype);
    lang::Diagnostics one;
    const std::string theirs(known ? lang::name(*known) : "none of Tile's types"), ours(lang::name(port.dtype));
    if (input) one.report({}, messages::given_type, port.name, ours, theirs);
    else one.report({}, messages::result_type, port.name, ours, theirs);
    throw one;
  }
  if (number_in(tensor.device.device_type) != number_in(device.device_type) || tensor.device.device_id != device.device_id) throw runtime::argument_error(messages::wrong_device, port.name, "another device's");
  if (const std::string fault = fault_of(tensor); !fault.empty()) throw runtime::argument_error(messages::bad_tensor, port.name, fault);
  const std::span shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  if (!std::ranges::equal(shape, port.shape)) throw runtime::argument_error(messages::wrong_shape, port.name, runtime::print_shape(port.shape), runtime::print_shape({shape.begin(), shape.end()}));
  if (!has_layout(tensor, port)) throw runtime::argument_error(messages::bad_tensor, port.name, "it has other strides than the kernel was made for").hint("specialise the program for these");
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

struct Results { const tilec_argument* list = nullptr; size_t count = 0; };

// A stage for these arguments, given to `use`. Of `results`, those that are added to count.
template <class Use> tilec_status emitted(const tilec_program* program, const char* name, const tilec_argument* arguments, size_t argument_count, const char* function, Use use, Results results = {}) {
  const tilec_program& p = need(program, function, "program");
  const runtime::StageInfo* stage = runtime::stage_named(&need(name, function, "stage"));
  if (stage == nullptr) throw runtime::argument_error(messages::unknown_stage, name).hint("stages are " + runtime::stage_names());
  const runtime::Callable& callable = *p.callable;
  lang::Diagnostics diagnostics;
  const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, p, Side::Input, function, Reads::Shapes), out = arguments_of(results.list, results.count, p, Side::Output, function, Reads::Shapes);
  codegen::Request request = callable.request();
  if (!in.empty() || !out.empty()) {
    const bool known = check_names(p, in, Side::Input, diagnostics) && check_names(p, out, Side::Output, diagnostics);
    const auto found = known ? callable.request_for(in, out, diagnostics) : std::nullopt;
    if (!found) return failed(diagnostics, callable.sources());
    request = *found;
  }
  runtime::ask_for(*stage, request);
  if (stage->family && *stage->family != request.target.family) request.target = *runtime::target_here(runtime::default_target(*stage, request.target.name, false));
  codegen::Stages stages;
  if (stage->of != runtime::StageInfo::Of::Text) {
    auto computed = codegen::compile(callable.file(), stage->name == "package" ? runtime::as_compiled(request) : request, stage->until, diagnostics);
    if (!computed) return failed(diagnostics, callable.sources());
    stages = std::move(*computed);
  }
  const std::string bytes = runtime::emit(*stage, callable.file(), stages, request);
  keep(diagnostics, callable.sources(), false);
  return use(bytes);
}

tilec_status save(const tilec_program* program, const char* path, const tilec_argument* arguments, size_t argument_count, Results results, const char* function) {
  return guarded([&] {
    static_cast<void>(need(path, function, "path"));
    const auto write = [&](const std::string& bytes) {
      runtime::write_file(path, bytes);
      return TILEC_OK;
    };
    return emitted(program, "package", arguments, argument_count, function, write, results);
  });
}

}  // namespace

extern "C" {

int tilec_version(void) { return TILEC_VERSION_MAJOR * 10000 + TILEC_VERSION_MINOR * 100 + TILEC_VERSION_PATCH; }

const char* tilec_last_error(void) { return last.text.c_str(); }
size_t tilec_last_diagnostic_count(void) { return last.diagnostics.size(); }

tilec_status tilec_last_diagnostic(size_t position, tilec_diagnostic* diagnostic) {
  if (diagnostic == nullptr || position >= last.diagnostics.size()) return TILEC_ARGUMENT_ERROR;  // leaves the diagnostics as they are
  *diagnostic = described(last, position);
  return TILEC_OK;
}

const char* tilec_last_diagnostic_text(size_t position) {
  if (position >= last.diagnostics.size()) return nullptr;
  const tilec_status status = caught([&] {
    last.shown = rendered(last, position);
    return TILEC_OK;
  });
  return status == TILEC_OK ? last.shown.c_str() : nullptr;
}

tilec_status tilec_set_allocator(tilec_allocate_function allocate, tilec_free_function release, void* user) {
  return guarded([&] {
    if ((allocate == nullptr) != (release == nullptr)) misuse("tilec_set_allocator", fmt::format("`{}` is NULL and `{}` is not", allocate == nullptr ? "allocate" : "release", allocate == nullptr ? "release" : "allocate"));
    runtime::allocator_hook().set(allocate != nullptr ? std::optional(runtime::Allocator{allocate, release, user}) : std::nullopt);
    return TILEC_OK;
  });
}

tilec_status tilec_set_parallel_for(tilec_parallel_for_function run, int64_t workers, void* user) {
  return guarded([&] {
    constexpr int64_t most = 65536;
    if (run != nullptr && (workers < 1 || workers > most)) misuse("tilec_set_parallel_for", fmt::format("`workers` is {}, where 1 to {} are possible", workers, most));
    runtime::pool_hook().set(run != nullptr ? std::optional(runtime::HostPool{run, user, workers}) : std::nullopt);
    return TILEC_OK;
  });
}

tilec_status tilec_set_diagnostic_callback(tilec_diagnostic_function hear, void* user) {
  return guarded([&] {
    listener_hook().set(hear != nullptr ? std::optional(Listener{hear, user}) : std::nullopt);
    return TILEC_OK;
  });
}

tilec_status tilec_compile(const char* text, size_t length, const tilec_options* given, tilec_program** program) {
  return guarded([&] {
    constexpr const char* function = "tilec_compile";
    static_cast<void>(need(program, function, "program"));
    const tilec_options options = options_of(given, function);
    const codegen::Request request = request_of(options, function);
    const std::vector<std::string> include = names_of(options.include, options.include_count, function, "options.include");
    lang::Diagnostics diagnostics;
    std::vector<lang::Source> sources;
    const auto loaded = loaded_from({options.file_name != nullptr ? options.file_name : "<text>", text_of(text, length, function)}, runtime::find_in(include), sources, diagnostics);
    if (!loaded) {
      keep(diagnostics, sources, true);
      return TILEC_PROGRAM_ERROR;
    }
    auto made = program_of(loaded, request, options, diagnostics);
    if (!made) return failed(diagnostics, sources);
    keep(diagnostics, sources, false);
    *program = made.release();
    return TILEC_OK;
  });
}

tilec_status tilec_parse(const char* text, size_t length, const char* file_name, const char* const* include, size_t include_count, tilec_file** file) {
  return guarded([&] {
    constexpr const char* function = "tilec_parse";
    static_cast<void>(need(file, function, "file"));
    const std::vector<std::string> folders = names_of(include, include_count, function, "include");
    lang::Diagnostics diagnostics;
    std::vector<lang::Source> sources;
    auto loaded = loaded_from({file_name != nullptr ? file_name : "<text>", text_of(text, length, function)}, runtime::find_in(folders), sources, diagnostics);
    keep(diagnostics, sources, !loaded);
    if (!loaded) return TILEC_PROGRAM_ERROR;
    *file = file_of(std::move(loaded)).release();
    return TILEC_OK;
  });
}

tilec_status tilec_parse_saved(const char* bytes, size_t size, tilec_file** file) {
  return guarded([&] {
    constexpr const char* function = "tilec_parse_saved";
    static_cast<void>(need(bytes, function, "bytes"));
    static_cast<void>(need(file, function, "file"));
    runtime::Texts texts = texts_of({bytes, size}, function);
    const lang::Source text = texts.sources.front();
    lang::Diagnostics diagnostics;
    std::vector<lang::Source> sources;
    auto loaded = loaded_from(text, runtime::find_among(std::move(texts)), sources, diagnostics);
    keep(diagnostics, sources, !loaded);
    if (!loaded) return TILEC_PROGRAM_ERROR;
    *file = file_of(std::move(loaded)).release();
    return TILEC_OK;
  });
}

tilec_status tilec_program_texts(const tilec_program* program, tilec_buffer** buffer) {
  return guarded([&] {
    constexpr const char* function = "tilec_program_texts";
    const runtime::Loaded& loaded = *need(program, function, "program").callable->loaded();
    need(buffer, function, "buffer") = new tilec_buffer{runtime::to_bytes({loaded.sources, loaded.imports})};
    return TILEC_OK;
  });
}

tilec_status tilec_file_texts(const tilec_file* file, tilec_buffer** buffer) {
  return guarded([&] {
    constexpr const char* function = "tilec_file_texts";
    const runtime::Loaded& loaded = *need(file, function, "file").loaded;
    need(buffer, function, "buffer") = new tilec_buffer{runtime::to_bytes({loaded.sources, loaded.imports})};
    return TILEC_OK;
  });
}

tilec_status tilec_file_compile(const tilec_file* file, const tilec_options* given, tilec_program** program) {
  return guarded([&] {
    constexpr const char* function = "tilec_file_compile";
    const tilec_file& f = need(file, function, "file");
    static_cast<void>(need(program, function, "program"));
    const tilec_options options = options_of(given, function);
    if (options.file_name != nullptr) misuse(function, "`options.file_name` is given: the file got its name from tilec_parse");
    if (options.include != nullptr || options.include_count != 0) misuse(function, "`options.include` is given: imports were read by tilec_parse");
    lang::Diagnostics diagnostics;
    auto made = program_of(f.loaded, request_of(options, function), options, diagnostics);
    if (!made) return failed(diagnostics, f.loaded->sources);
    keep(diagnostics, f.loaded->sources, false);
    *program = made.release();
    return TILEC_OK;
  });
}

void tilec_file_destroy(tilec_file* file) {
  const runtime::Busy busy;
  delete file;
}

size_t tilec_file_function_count(const tilec_file* file) { return file != nullptr ? file->functions.size() : 0; }
const char* tilec_file_function_name(const tilec_file* file, size_t position) { return position < tilec_file_function_count(file) ? file->functions[position].c_str() : nullptr; }

size_t tilec_function_count(const char* text, size_t length) {
  size_t count = 0;
  static_cast<void>(guarded([&] {
    count = function_names(text_of(text, length, "tilec_function_count")).size();
    return TILEC_OK;
  }));
  return count;
}

const char* tilec_function_name(const char* text, size_t length, size_t position) {
  const char* name = nullptr;
  static_cast<void>(guarded([&] {
    const std::vector<std::string>& names = function_names(text_of(text, length, "tilec_function_name"));
    if (position >= names.size()) return TILEC_OK;
    last.name = names[position];
    name = last.name.c_str();
    return TILEC_OK;
  }));
  return name;
}

tilec_status tilec_gradient(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt, size_t wrt_count, tilec_program** gradient) {
  static constexpr const char* function = "tilec_gradient";
  return guarded([&] { return derivative_of(program, derivative_from({of, of_count}, {wrt, wrt_count}, function), gradient, function); });
}

tilec_status tilec_value_and_gradient(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt, size_t wrt_count, tilec_program** both) {
  static constexpr const char* function = "tilec_value_and_gradient";
  return guarded([&] {
    codegen::Derivative derivative = derivative_from({of, of_count}, {wrt, wrt_count}, function);
    derivative.values = true;
    return derivative_of(program, std::move(derivative), both, function);
  });
}

tilec_status tilec_jvp(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt, size_t wrt_count, tilec_program** tangent) {
  static constexpr const char* function = "tilec_jvp";
  return guarded([&] {
    codegen::Derivative derivative = derivative_from({of, of_count}, {wrt, wrt_count}, function);
    derivative.forward = true;
    return derivative_of(program, std::move(derivative), tangent, function);
  });
}

tilec_status tilec_vmap(const tilec_program* program, const char* const* inputs, size_t count, tilec_program** batched) {
  static constexpr const char* function = "tilec_vmap";
  return guarded([&] {
    codegen::Derivative batch;
    batch.wrt = different(names_of(inputs, count, function, "inputs"), "inputs");
    batch.batch = true;
    return derivative_of(program, std::move(batch), batched, function);
  });
}

tilec_status tilec_vjp(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt, size_t wrt_count, const tilec_argument* arguments, size_t argument_count,
                       const tilec_argument* results, size_t result_count, tilec_kernel** forward, tilec_kernel** backward) {
  return guarded([&] {
    constexpr const char* function = "tilec_vjp";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(forward, function, "forward"));
    static_cast<void>(need(backward, function, "backward"));
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, p, Side::Input, function);
    const codegen::Request request = pair_request(*p.callable, derivative_from({of, of_count}, {wrt, wrt_count}, function), function);
    tilec_program pair{shared_callable(p.callable->loaded(), request, p.callable->kernels(), p.callable->disk()), {}, {}, {}};
    lang::Diagnostics diagnostics;
    if (result_count > 0 && !fill_names(pair, diagnostics)) return failed(diagnostics, p.callable->sources());
    pair.inputs = p.inputs, pair.name = p.name;          // no cotangents: they come later
    std::shared_ptr<const runtime::Specialisation> made;
    if (const tilec_status status = specialise(pair, in, arguments_of(results, result_count, pair, Side::Output, function), made); status != TILEC_OK) return status;
    auto first = kernel_of(made->module), second = kernel_of(made->backward);
    *forward = first.release();
    *backward = second.release();
    return TILEC_OK;
  });
}

tilec_status tilec_with_plan(const tilec_program* program, const char* plan, size_t length, tilec_program** planned) {
  static constexpr const char* function = "tilec_with_plan";
  return guarded([&] { return with_plan(program, text_of(plan, length, function), planned, function); });
}

tilec_status tilec_tune(const tilec_program* program, const tilec_argument* arguments, size_t argument_count, const tilec_tune_options* given, tilec_program** tuned) {
  return guarded([&] {
    constexpr const char* function = "tilec_tune";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(tuned, function, "tuned"));
    tilec_tune_options options{};
    if (given != nullptr) {
      if (given->size < sizeof(std::size_t)) misuse(function, "`options->size` is not sizeof(tilec_tune_options)");
      std::memcpy(&options, given, std::min(given->size, sizeof options));
    }
    if (!(options.seconds >= 0)) misuse(function, "`options->seconds` is no time");
    runtime::TuneOptions how;
    if (options.seconds > 0) how.seconds = options.seconds;
    if (options.goes_on != nullptr)
      how.goes_on = [&](const runtime::TuneProgress& now) {
        const tilec_tune_progress told{now.elapsed, now.seconds, now.measured, now.first, now.best};
        return options.goes_on(&told, options.user) != 0;
      };
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, p, Side::Input, function);
    lang::Diagnostics diagnostics;
    const auto found = check_names(p, in, Side::Input, diagnostics) ? runtime::tune(*p.callable, in, how, diagnostics) : std::nullopt;
    if (!found) return failed(diagnostics, p.callable->sources());
    keep(diagnostics, p.callable->sources(), false);
    return with_plan(program, found->plan, tuned, function);
  });
}

void tilec_program_destroy(tilec_program* program) {
  const runtime::Busy busy;
  [[maybe_unused]] const bool large = program != nullptr && program->callable.use_count() == 1 && program->callable->kept() > 16;
  delete program;
#ifdef __GLIBC__
  if (large) malloc_trim(0);                             // compiling leaves holes, which glibc keeps otherwise
#endif
}

const char* tilec_program_name(const tilec_program* program) { return program != nullptr ? program->name.c_str() : nullptr; }
const char* tilec_program_target(const tilec_program* program) { return program != nullptr ? program->callable->request().target.name.c_str() : nullptr; }
int tilec_input_is_optional(const tilec_program* program, size_t position) {
  const lang::Function* function = position < tilec_input_count(program) ? program->callable->function() : nullptr;
  if (function == nullptr) return 0;
  return std::ranges::any_of(function->inputs, [&](const lang::Input& input) { return input.value && input.target.name.text == program->inputs[position]; }) ? 1 : 0;
}

size_t tilec_input_count(const tilec_program* program) { return program != nullptr ? program->inputs.size() : 0; }
size_t tilec_output_count(const tilec_program* program) { return program != nullptr ? program->outputs.size() : 0; }
const char* tilec_input_name(const tilec_program* program, size_t position) { return position < tilec_input_count(program) ? program->inputs[position].c_str() : nullptr; }
const char* tilec_output_name(const tilec_program* program, size_t position) { return position < tilec_output_count(program) ? program->outputs[position].c_str() : nullptr; }

size_t tilec_output_first(const tilec_program* program, size_t position) {
  const runtime::Callable* callable = position < tilec_output_count(program) ? program->callable.get() : nullptr;
  if (callable == nullptr || callable->function() == nullptr) return position;
  const auto& derivatives = callable->request().derivatives;
  const auto& results = callable->function()->results;
  if (position >= results.size() || !std::ranges::all_of(derivatives, [](const codegen::Derivative& d) { return d.values || d.batch; })) return position;
  const auto same = std::ranges::find(results, results[position].name.spelled(), [](const lang::Target& result) { return result.name.spelled(); });
  return static_cast<std::size_t>(same - results.begin());
}

tilec_status tilec_specialize(const tilec_program* program, const tilec_argument* arguments, size_t argument_count, const tilec_argument* results, size_t result_count, tilec_kernel** kernel) {
  return guarded([&] {
    constexpr const char* function = "tilec_specialize";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(kernel, function, "kernel"));
    std::shared_ptr<const runtime::Specialisation> made;
    const tilec_status status = specialise(p, arguments_of(arguments, argument_count, p, Side::Input, function, Reads::Shapes), arguments_of(results, result_count, p, Side::Output, function, Reads::Shapes), made);
    if (status == TILEC_OK) *kernel = kernel_of(made->module).release();
    return status;
  });
}

void tilec_kernel_destroy(tilec_kernel* kernel) {
  const runtime::Busy busy;
  delete kernel;
}

size_t tilec_kernel_input_count(const tilec_kernel* kernel) { return kernel != nullptr ? kernel->inputs.size() : 0; }
size_t tilec_kernel_output_count(const tilec_kernel* kernel) { return kernel != nullptr ? kernel->outputs.size() : 0; }
tilec_status tilec_kernel_input(const tilec_kernel* kernel, size_t position, tilec_port* port) { return port_at(kernel, &tilec_kernel::inputs, position, port, "tilec_kernel_input"); }
tilec_status tilec_kernel_output(const tilec_kernel* kernel, size_t position, tilec_port* port) { return port_at(kernel, &tilec_kernel::outputs, position, port, "tilec_kernel_output"); }

size_t tilec_kernel_workspace(const tilec_kernel* kernel) { return kernel != nullptr && kernel->module ? static_cast<size_t>(kernel->module->workspace()) : 0; }

size_t tilec_kernel_device_workspace(const tilec_kernel* kernel) { return kernel != nullptr && kernel->module ? static_cast<size_t>(kernel->module->device_workspace()) : 0; }

size_t tilec_kernel_launch_count(const tilec_kernel* kernel) { return kernel != nullptr && kernel->module ? kernel->module->launches.size() : 0; }
const char* tilec_kernel_launch_name(const tilec_kernel* kernel, size_t position) { return position < tilec_kernel_launch_count(kernel) ? kernel->module->launches[position].c_str() : nullptr; }
int tilec_kernel_adds(const tilec_kernel* kernel, size_t position) { return kernel != nullptr && kernel->module && std::ranges::count(kernel->module->added, position) > 0; }
size_t tilec_kernel_code_size(const tilec_kernel* kernel) { return kernel != nullptr && kernel->module ? static_cast<size_t>(kernel->module->code) : 0; }

tilec_status tilec_kernel_run_timed(const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, double* milliseconds) {
  constexpr const char* function = "tilec_kernel_run_timed";
  return run_kernel(kernel, inputs, outputs, function, [&](const runtime::Caller& caller, void* const* in) {
    need_list(milliseconds, kernel->module->launches.size(), function, "milliseconds");
    std::vector<double> times;
    caller.run_timed(in, outputs, times);
    std::ranges::copy(times, milliseconds);
  });
}

tilec_status tilec_estimate(const tilec_program* program, const tilec_argument* arguments, size_t argument_count, tilec_cost* cost) {
  return guarded([&] {
    constexpr const char* function = "tilec_estimate";
    const tilec_program& p = need(program, function, "program");
    const std::size_t size = need(cost, function, "cost").size;
    if (size < sizeof(tilec_cost)) misuse(function, fmt::format("`cost.size` is {}: set it to `sizeof(tilec_cost)`", size));
    const runtime::Callable& callable = *p.callable;
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, p, Side::Input, function, Reads::Shapes);
    lang::Diagnostics diagnostics;
    const auto request = check_names(p, in, Side::Input, diagnostics) ? callable.request_for(in, {}, diagnostics) : std::nullopt;
    const bool plans = request && request->target.family != codegen::Target::Family::Reference;
    const auto stages = request ? codegen::compile(callable.file(), runtime::as_compiled(*request), plans ? codegen::Until::Plan : codegen::Until::Bound, diagnostics) : std::nullopt;
    if (!stages) return failed(diagnostics, callable.sources());
    keep(diagnostics, callable.sources(), false);
    const codegen::Totals sum = codegen::totals(*stages->bounded);
    *cost = {size, sum.operations, sum.exact, sum.read, sum.written, 0, 0};
    if (!plans) return TILEC_OK;
    const codegen::model::Prediction predicted = codegen::model::predict(*stages->plan, stages->strides, request->target).sum;
    cost->milliseconds = codegen::model::predicts_time(request->target) ? predicted.milliseconds : 0;
    cost->memory_bytes = predicted.bytes.memory;
    return TILEC_OK;
  });
}

tilec_status tilec_kernel_run(const tilec_kernel* kernel, const void* const* inputs, void* const* outputs) {
  return run_kernel(kernel, inputs, outputs, "tilec_kernel_run", [&](const runtime::Caller& caller, void* const* in) { caller.run(in, outputs); });
}

tilec_status tilec_kernel_run_in(const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, void* workspace) {
  return run_kernel(kernel, inputs, outputs, "tilec_kernel_run_in", [&](const runtime::Caller& caller, void* const* in) { caller.run(in, outputs, workspace); });
}

tilec_status tilec_kernel_run_on(const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, void* workspace, void* stream) {
  return run_kernel(kernel, inputs, outputs, "tilec_kernel_run_on", [&](const runtime::Caller& caller, void* const* in) { caller.run_on(in, outputs, workspace, stream); });
}

tilec_status tilec_call(const tilec_kernel* kernel, const DLTensor* const* inputs, size_t input_count, const DLTensor* const* outputs, size_t output_count, void* workspace, void* stream) {
  constexpr const char* function = "tilec_call";
  return quickly([&] {
    const tilec_kernel& k = runnable(kernel, function);
    need_list(static_cast<const void*>(inputs), k.inputs.size(), function, "inputs");
    need_list(static_cast<const void*>(outputs), k.outputs.size(), function, "outputs");
    if (input_count != k.inputs.size() || output_count != k.outputs.size())
      misuse(function, fmt::format("the kernel has {} inputs and {} outputs, and {} and {} are given", k.inputs.size(), k.outputs.size(), input_count, output_count));
    const DLTensor* const first = output_count > 0 ? outputs[0] : nullptr;
    const DLDevice device = first != nullptr ? first->device : DLDevice{kDLCPU, 0};
    const bool on_host = number_in(device.device_type) == kDLCPU;
    if (on_host && stream != nullptr) misuse(function, "`stream` is given, and the tensors lie on the CPU");
    if (!on_host && number_in(device.device_type) != kDLCUDA) throw runtime::argument_error(messages::wrong_device, k.outputs[0].name, "another device's");
    if (!on_host && k.module->has_device() && k.module->device().device_id != device.device_id)
      throw runtime::argument_error(messages::wrong_device, k.outputs[0].name, fmt::format("GPU {}'s", device.device_id)).hint(fmt::format("the kernel is GPU {}'s: specialise the program for tensors that lie there", k.module->device().device_id));
    constexpr std::size_t few = 16;                       // which need no memory
    std::array<void*, few> near{};
    std::vector<void*> far(input_count + output_count > few ? input_count + output_count : 0);
    void** const data = far.empty() ? near.data() : far.data();
    for (std::size_t i = 0; i < input_count; ++i) data[i] = data_of(inputs[i], k.inputs[i], Side::Input, device, function);
    for (std::size_t o = 0; o < output_count; ++o) data[input_count + o] = data_of(outputs[o], k.outputs[o], Side::Output, device, function);
    if (on_host) k.caller->run(data, data + input_count, workspace);
    else k.caller->run_on(data, data + input_count, workspace, stream);
  });
}

tilec_status tilec_run(const tilec_program* program, const tilec_argument* arguments, size_t argument_count, const tilec_argument* results, size_t result_count) {
  std::vector<runtime::Argument> in, out;
  std::shared_ptr<const runtime::Specialisation> made;
  const tilec_status status = guarded([&] {
    constexpr const char* function = "tilec_run";
    const tilec_program& p = need(program, function, "program");
    in = arguments_of(arguments, argument_count, p, Side::Input, function);
    out = arguments_of(results, result_count, p, Side::Output, function);
    return specialise(p, in, out, made);
  });
  if (status != TILEC_OK) return status;
  const tilec_status ran = caught([&] { return run_on(*made->module, in, out); });
  if (ran != TILEC_OK) tell_host();
  return ran;
}

tilec_status tilec_infer(const tilec_program* program, const tilec_argument* arguments, size_t argument_count, tilec_kernel** ports) {
  return guarded([&] {
    constexpr const char* function = "tilec_infer";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(ports, function, "ports"));
    const runtime::Callable& callable = *p.callable;
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, p, Side::Input, function, Reads::Shapes);
    lang::Diagnostics diagnostics;
    auto request = check_names(p, in, Side::Input, diagnostics) ? callable.request_for(in, {}, diagnostics) : std::nullopt;
    if (request) request->checked = false;               // which adds outputs that no caller sees
    const auto stages = request ? codegen::compile(callable.file(), *request, codegen::Until::Bound, diagnostics) : std::nullopt;
    if (!stages) return failed(diagnostics, callable.sources());
    keep(diagnostics, callable.sources(), false);
    const auto reference = runtime::load_reference(*stages->bounded, *request);
    *ports = new tilec_kernel{nullptr, reference->inputs, reference->outputs, std::nullopt};
    return TILEC_OK;
  });
}

// The views are of whole literals, which end with a zero byte.
const char* tilec_standard_file_name(size_t position) {
  const auto files = runtime::standard_library();
  return position < files.size() ? files[position].name.data() : nullptr;
}

const char* tilec_standard_file_text(size_t position) {
  const auto files = runtime::standard_library();
  return position < files.size() ? files[position].text.data() : nullptr;
}

const tilec_stage* tilec_stages(size_t* count) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const runtime::StageInfo& stage : runtime::all_stages()) all.emplace_back(stage.name);
    return all;
  }();
  static const std::vector<tilec_stage> stages = [] {
    std::vector<tilec_stage> all;
    for (const runtime::StageInfo& stage : runtime::all_stages()) all.push_back({names[all.size()].c_str(), stage.what, stage.family ? runtime::family_name(*stage.family) : nullptr, !stage.binary});
    return all;
  }();
  if (count != nullptr) *count = stages.size();
  return stages.data();
}

tilec_status tilec_emit(const tilec_program* program, const char* name, const tilec_argument* arguments, size_t argument_count, tilec_buffer** buffer) {
  return guarded([&] {
    constexpr const char* function = "tilec_emit";
    static_cast<void>(need(buffer, function, "buffer"));
    return emitted(program, name, arguments, argument_count, function, [&](const std::string& bytes) {
      *buffer = new tilec_buffer{bytes};
      return TILEC_OK;
    });
  });
}

tilec_status tilec_save(const tilec_program* program, const char* path, const tilec_argument* arguments, size_t argument_count) {
  return save(program, path, arguments, argument_count, {}, "tilec_save");
}

tilec_status tilec_save_call(const tilec_program* program, const char* path, const tilec_argument* arguments, size_t argument_count, const tilec_argument* results, size_t result_count) {
  return save(program, path, arguments, argument_count, {results, result_count}, "tilec_save_call");
}

tilec_status tilec_save_vjp(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt, size_t wrt_count, const char* path,
                            const tilec_argument* arguments, size_t argument_count) {
  return guarded([&] {
    constexpr const char* function = "tilec_save_vjp";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(path, function, "path"));
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, p, Side::Input, function);
    const codegen::Request request = pair_request(*p.callable, derivative_from({of, of_count}, {wrt, wrt_count}, function), function);
    const auto callable = shared_callable(p.callable->loaded(), request, p.callable->kernels(), p.callable->disk());
    lang::Diagnostics diagnostics;
    const auto asked = check_names(p, in, Side::Input, diagnostics) ? callable->request_for(in, {}, diagnostics) : std::nullopt;
    const auto pair = asked ? runtime::pair_of(callable->file(), runtime::as_compiled(*asked), diagnostics) : std::nullopt;
    if (!pair) return failed(diagnostics, callable->sources());
    runtime::write_file(path, runtime::to_bytes(*pair));
    keep(diagnostics, callable->sources(), false);
    return TILEC_OK;
  });
}

tilec_status tilec_load_vjp(const char* bytes, size_t size, int threads, tilec_kernel** forward, tilec_kernel** backward) {
  static constexpr const char* function = "tilec_load_vjp";
  return guarded([&] {
    static_cast<void>(need(bytes, function, "bytes"));
    static_cast<void>(need(forward, function, "forward"));
    static_cast<void>(need(backward, function, "backward"));
    if (threads < 0) misuse(function, fmt::format("`threads` is {}", threads));
    const codegen::Package package = runtime::package_from({bytes, size}, "the package");
    if (package.backward.empty()) throw runtime::argument_error(messages::no_pair, package.name.empty() ? "the package" : package.name).hint("build it with `tilec build --vjp`, or save it with `vjp=True`");
    const runtime::Halves halves = runtime::load_halves(package, threads);
    auto first = kernel_of(halves.forward), second = kernel_of(halves.backward);
    *forward = first.release();
    *backward = second.release();
    return TILEC_OK;
  });
}

tilec_status tilec_xla_text(const tilec_kernel* kernel, tilec_buffer** text) {
  return guarded([&] {
    constexpr const char* function = "tilec_xla_text";
    static_cast<void>(need(text, function, "text"));
    if (!need(kernel, function, "kernel").module) misuse(function, "`kernel` is ports only: specialise the program to run it");
    *text = new tilec_buffer{runtime::text_for_xla(kernel->module)};
    return TILEC_OK;
  });
}

tilec_status tilec_load(const char* bytes, size_t size, int threads, tilec_kernel** kernel) {
  return guarded([&] {
    constexpr const char* function = "tilec_load";
    static_cast<void>(need(bytes, function, "bytes"));
    static_cast<void>(need(kernel, function, "kernel"));
    if (threads < 0) misuse(function, fmt::format("`threads` is {}", threads));
    const std::shared_ptr<const runtime::Module> module = runtime::load(runtime::package_from({bytes, size}, "the package"), threads);
    *kernel = kernel_of(module).release();
    return TILEC_OK;
  });
}

const char* tilec_buffer_data(const tilec_buffer* buffer) { return buffer != nullptr ? buffer->bytes.c_str() : nullptr; }
size_t tilec_buffer_size(const tilec_buffer* buffer) { return buffer != nullptr ? buffer->bytes.size() : 0; }
void tilec_buffer_destroy(tilec_buffer* buffer) { delete buffer; }

}  // extern "C"
