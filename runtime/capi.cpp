// The C API over Callable, Module and emit: handles, the per-thread last error, and nothing else.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <new>

#include "lang/load.h"
#include "lang/parse.h"
#include "lang/render.h"
#include "runtime/emit.h"
#include "runtime/error.h"
#include "runtime/find.h"
#include "runtime/specialise.h"
#include "tilec/tilec.h"

using namespace tilec;
namespace messages = lang::messages;

struct tilec_program {
  std::shared_ptr<const runtime::Callable> callable;
  std::vector<std::string> inputs, outputs;
  std::string name;
};
struct tilec_kernel {
  std::shared_ptr<const runtime::Module> module;         // null: ports only
  std::vector<runtime::Port> inputs, outputs;
};
struct tilec_buffer { std::string bytes; };

namespace {

struct Last {
  std::string text;
  std::vector<lang::Diagnostic> diagnostics;
  std::vector<std::string> hints;                        // joined, per diagnostic
  std::vector<lang::Source> sources;                     // that the diagnostics point into
  std::string name;                                      // what tilec_function_name returned
};
thread_local Last last;

const lang::Source& source_of(const lang::Diagnostic& d) {
  static const lang::Source none{};
  return d.span.source < last.sources.size() ? last.sources[d.span.source] : none;
}

lang::Diagnostic plain(std::string code, std::string message) { return {std::move(code), lang::Severity::Error, std::move(message), {}, {}, {}}; }

void keep(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources, bool failed) {
  last.diagnostics = diagnostics.all();
  last.sources = sources;
  last.hints.clear();
  for (const lang::Diagnostic& d : last.diagnostics) last.hints.push_back(fmt::format("{}", fmt::join(d.hints, "; ")));
  last.text = failed ? lang::render(diagnostics, sources) : std::string();
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
    if (is(messages::given_type, messages::missing_input, messages::unknown_argument, messages::not_a_size)) return TILEC_TYPE_ERROR;
    if (is(messages::size_mismatch, messages::size_expression_mismatch, messages::given_rank, messages::shapes_differ, messages::wrong_shape, messages::requirement_fails, messages::negative_size,
           messages::tensor_too_large, messages::unbound_sizes, messages::bad_value, messages::assertion_fails, messages::size_arithmetic))
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
template <class F> tilec_status guarded(F f) noexcept {
  try {
    last = {};
    return f();
  } catch (const runtime::RuntimeError& fault) {
    return fail(fault.blame == runtime::Blame::Machine ? TILEC_DEVICE_ERROR : TILEC_ARGUMENT_ERROR, fault.diagnostic, fault.sources ? *fault.sources : std::vector<lang::Source>{});
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

tilec_status misuse(std::string what) { return fail(TILEC_ARGUMENT_ERROR, plain("E0509", std::move(what))); }

// Fields that the caller's struct is too old to have are absent.
tilec_options options_of(const tilec_options* given) {
  tilec_options options{};
  if (given != nullptr) std::memcpy(&options, given, std::min(given->size, sizeof options));
  return options;
}

codegen::Request request_of(const tilec_options& options) {
  codegen::Request request;
  if (options.function != nullptr) request.signature.function = options.function;
  for (std::size_t k = 0; k < options.define_count; ++k) {
    const tilec_define& define = options.defines[k];
    request.signature.defines.push_back({define.name, define.text != nullptr ? decltype(poly::Define::value)(define.text) : define.value});
  }
  for (std::size_t k = 0; k < options.size_count; ++k) {
    request.sizes[options.sizes[k].name] = options.sizes[k].value;
    request.sizes.emplace(fmt::format("#{}", options.sizes[k].name), options.sizes[k].value);  // a size the text spells in lower case
  }
  const std::string target = options.target != nullptr ? options.target : "cpu";
  const std::optional<codegen::Target> named = codegen::target_named(target);
  if (!named) throw runtime::argument_error(messages::unknown_target, target).hint("targets are cpu, cpu:ARCH, opencl, cuda, cuda:sm_NN and reference");
  request.target = *named;
  request.threads_hint = options.threads;
  request.checked = options.checked != 0;
  return request;
}

std::string key_of(const std::vector<lang::Source>& sources, const codegen::Request& r) {
  std::string key = fmt::format("{}\n{}\n{} {}{}|{}\n", sources[0].name, r.signature.function.value_or("-"), r.target.name, r.threads_hint, r.checked ? " checked" : "", r.sizes.size());
  for (const codegen::Derivative& d : r.derivatives) key += fmt::format("{} {}|{}\n", d.forward ? "forward" : "reverse", fmt::join(d.of, ","), fmt::join(d.wrt, ","));
  for (const auto& [name, value] : r.sizes) key += fmt::format("{}={};", name, value);
  for (const auto& [name, value] : r.signature.defines) key += std::visit([&](const auto& v) { return fmt::format("{}={};", name, v); }, value);
  for (const lang::Source& source : sources) key += source.text + '\0';
  return key;
}

// Programs alike share one Callable, and with it what it has compiled, as long as one of them lives.
std::shared_ptr<const runtime::Callable> shared_callable(const std::vector<lang::Source>& sources, const lang::File& file, const codegen::Request& request) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const runtime::Callable>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const runtime::Callable>& place = known[key_of(sources, request)];
  std::shared_ptr<const runtime::Callable> callable = place.lock();
  if (!callable) place = callable = std::make_shared<const runtime::Callable>(sources, file, request);
  return callable;
}

// A function whose inputs all show their sizes can be built at once, so that its errors come now and its names are known.
bool shows_shapes(const runtime::Callable& callable) {
  if (callable.function() == nullptr) return true;       // build says what is wrong
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
    const std::optional<poly::Program> outline = callable.outline({}, built, diagnostics);
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

std::vector<runtime::Argument> arguments_of(const tilec_argument* given, std::size_t count, const std::vector<std::string>& names, Side side) {
  std::vector<runtime::Argument> arguments;
  for (std::size_t k = 0; k < count; ++k) {
    runtime::Argument argument;
    if (given[k].name == nullptr && k >= names.size()) throw runtime::argument_error(messages::unknown_argument, fmt::format("{} {}", side == Side::Input ? "input" : "output", k + 1), "this program");
    argument.name = given[k].name != nullptr ? given[k].name : names[k];
    argument.is_integer = given[k].kind == TILEC_INTEGER;
    argument.integer = given[k].integer;
    argument.real = argument.is_integer ? static_cast<double>(given[k].integer) : given[k].real;
    argument.add = given[k].kind == TILEC_ADD;
    if (argument.add && side == Side::Input) throw runtime::argument_error(messages::bad_value, argument.name, "it is an input, which nothing is added to");
    if (given[k].kind == TILEC_TENSOR || argument.add) {
      if (given[k].tensor == nullptr) throw runtime::argument_error(messages::bad_value, argument.name, "its tensor is NULL");
      if (given[k].tensor->device.device_type != kDLCPU) throw runtime::argument_error(messages::wrong_device, argument.name, "another device's");
      argument.tensor = runtime::borrow(*given[k].tensor);
      if (!argument.tensor) throw runtime::argument_error(messages::bad_value, argument.name, "its element type is none of Tile's");
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

// The program's own names for what came by position: a cotangent's name may differ from `dO` when that is taken.
bool check_names(const tilec_program& program, const std::vector<runtime::Argument>& arguments, lang::Diagnostics& diagnostics) {
  for (const runtime::Argument& argument : arguments) {
    if (std::ranges::count(program.inputs, argument.name) > 0) continue;
    diagnostics.report({}, messages::unknown_argument, argument.name, program.name.empty() ? "the function" : program.name)
        .hint(fmt::format("it takes {}", fmt::join(program.inputs, ", ")));
    return false;
  }
  return true;
}

// A caller asks for one name after another of the same text, which is parsed for the first.
const std::vector<std::string>& function_names(const char* text, size_t length) {
  thread_local std::optional<std::pair<std::string, std::vector<std::string>>> known;
  if (known && known->first == std::string_view(text, length)) return known->second;
  lang::Diagnostics diagnostics;
  const std::optional<lang::File> file = lang::parse({"<text>", std::string(text, length)}, diagnostics);
  std::vector<std::string> names;
  for (const auto& item : file ? file->items : decltype(file->items){})
    if (const auto* function = std::get_if<lang::Function>(&item); function != nullptr && function->role == lang::Function::Role::Function)
      names.push_back(function->name ? function->name->text : "");
  known.emplace(std::string(text, length), std::move(names));
  return known->second;
}

tilec_status port_at(const std::vector<runtime::Port>& ports, std::size_t position, tilec_port* port) {
  return guarded([&] {
    if (position >= ports.size()) return misuse("no port at that position");
    const runtime::Port& p = ports[position];
    *port = {p.name.c_str(), runtime::dl_type(p.dtype), static_cast<std::int32_t>(p.shape.size()), p.shape.data(), p.strides.data()};
    return TILEC_OK;
  });
}

tilec_status specialise(const tilec_program& program, const std::vector<runtime::Argument>& in, const std::vector<runtime::Argument>& out, std::shared_ptr<const runtime::Module>& module) {
  lang::Diagnostics diagnostics;
  const runtime::Callable& callable = *program.callable;
  if (!check_names(program, in, diagnostics)) return failed(diagnostics, callable.sources());
  const auto made = callable.specialise(in, out, diagnostics);
  if (!made) return failed(diagnostics, callable.sources());
  keep(diagnostics, callable.sources(), false);
  module = made->module;
  return TILEC_OK;
}

tilec_status derivative_of(const tilec_program& program, const codegen::Derivative& derivative, tilec_program** result) {
  return guarded([&] {
    const runtime::Callable& callable = *program.callable;
    codegen::Request request = callable.request();
    request.derivatives.push_back(derivative);
    auto made = std::make_unique<tilec_program>();
    made->callable = shared_callable(callable.sources(), callable.file(), request);
    lang::Diagnostics diagnostics;
    if (!fill_names(*made, diagnostics)) {
      keep(diagnostics, callable.sources(), true);
      return TILEC_PROGRAM_ERROR;
    }
    *result = made.release();
    return TILEC_OK;
  });
}

}  // namespace

extern "C" {

int tilec_version(void) { return TILEC_VERSION_MAJOR * 10000 + TILEC_VERSION_MINOR * 100 + TILEC_VERSION_PATCH; }

const char* tilec_last_error(void) { return last.text.c_str(); }
size_t tilec_last_diagnostic_count(void) { return last.diagnostics.size(); }

tilec_status tilec_last_diagnostic(size_t position, tilec_diagnostic* diagnostic) {
  if (position >= last.diagnostics.size()) return TILEC_ARGUMENT_ERROR;  // leaves the diagnostics as they are
  const lang::Diagnostic& d = last.diagnostics[position];
  lang::Position begin{0, 0}, end{0, 0};
  if (!d.span.empty()) {
    begin = lang::position(source_of(d), d.span.begin);
    end = lang::position(source_of(d), d.span.end);
  }
  *diagnostic = {static_cast<tilec_severity>(d.severity), d.code.c_str(), d.message.c_str(), source_of(d).name.c_str(), begin.line, begin.column, end.line, end.column, last.hints[position].c_str()};
  return TILEC_OK;
}

tilec_status tilec_compile(const char* text, size_t length, const tilec_options* given, tilec_program** program) {
  return guarded([&] {
    const tilec_options options = options_of(given);
    const codegen::Request request = request_of(options);
    lang::Source source{options.file_name != nullptr ? options.file_name : "<text>", std::string(text, length)};
    lang::Diagnostics diagnostics;
    std::vector<lang::Source> sources;
    const std::optional<lang::File> file = lang::load(source, runtime::find_in({options.include, options.include + options.include_count}), sources, diagnostics);
    if (!file) {
      keep(diagnostics, sources, true);
      return TILEC_PROGRAM_ERROR;
    }
    auto made = std::make_unique<tilec_program>();
    made->callable = shared_callable(sources, *file, request);
    if (!fill_names(*made, diagnostics)) {
      keep(diagnostics, sources, true);
      return TILEC_PROGRAM_ERROR;
    }
    keep(diagnostics, sources, false);
    *program = made.release();
    return TILEC_OK;
  });
}

size_t tilec_function_count(const char* text, size_t length) {
  size_t count = 0;
  static_cast<void>(guarded([&] {
    count = function_names(text, length).size();
    return TILEC_OK;
  }));
  return count;
}

const char* tilec_function_name(const char* text, size_t length, size_t position) {
  const char* name = nullptr;
  static_cast<void>(guarded([&] {
    const std::vector<std::string>& names = function_names(text, length);
    if (position >= names.size()) return TILEC_OK;
    last.name = names[position];
    name = last.name.c_str();
    return TILEC_OK;
  }));
  return name;
}

tilec_status tilec_gradient(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt, size_t wrt_count, tilec_program** gradient) {
  return derivative_of(*program, {false, {of, of + of_count}, {wrt, wrt + wrt_count}}, gradient);
}

tilec_status tilec_jvp(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt, size_t wrt_count, tilec_program** tangent) {
  return derivative_of(*program, {true, {of, of + of_count}, {wrt, wrt + wrt_count}}, tangent);
}

void tilec_program_destroy(tilec_program* program) { delete program; }

const char* tilec_program_name(const tilec_program* program) { return program->name.c_str(); }
size_t tilec_input_count(const tilec_program* program) { return program->inputs.size(); }
size_t tilec_output_count(const tilec_program* program) { return program->outputs.size(); }
const char* tilec_input_name(const tilec_program* program, size_t position) { return position < program->inputs.size() ? program->inputs[position].c_str() : nullptr; }
const char* tilec_output_name(const tilec_program* program, size_t position) { return position < program->outputs.size() ? program->outputs[position].c_str() : nullptr; }

tilec_status tilec_specialize(const tilec_program* program, const tilec_argument* arguments, size_t argument_count, const tilec_argument* results, size_t result_count, tilec_kernel** kernel) {
  return guarded([&] {
    std::shared_ptr<const runtime::Module> module;
    const tilec_status status = specialise(*program, arguments_of(arguments, argument_count, program->inputs, Side::Input), arguments_of(results, result_count, program->outputs, Side::Output), module);
    if (status == TILEC_OK) *kernel = new tilec_kernel{module, module->inputs, module->outputs};
    return status;
  });
}

void tilec_kernel_destroy(tilec_kernel* kernel) { delete kernel; }

size_t tilec_kernel_input_count(const tilec_kernel* kernel) { return kernel->inputs.size(); }
size_t tilec_kernel_output_count(const tilec_kernel* kernel) { return kernel->outputs.size(); }
tilec_status tilec_kernel_input(const tilec_kernel* kernel, size_t position, tilec_port* port) { return port_at(kernel->inputs, position, port); }
tilec_status tilec_kernel_output(const tilec_kernel* kernel, size_t position, tilec_port* port) { return port_at(kernel->outputs, position, port); }

tilec_status tilec_kernel_run(const tilec_kernel* kernel, const void* const* inputs, void* const* outputs) {
  try {                                                  // the hot path: the last error is left alone on success
    if (kernel->module == nullptr) return misuse("these are ports only: specialise the program to run it");
    kernel->module->run(const_cast<void* const*>(inputs), outputs);
    return TILEC_OK;
  } catch (...) {
    return guarded([&]() -> tilec_status { throw; });
  }
}

tilec_status tilec_run(const tilec_program* program, const tilec_argument* arguments, size_t argument_count, const tilec_argument* results, size_t result_count) {
  return guarded([&] {
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, program->inputs, Side::Input), out = arguments_of(results, result_count, program->outputs, Side::Output);
    std::shared_ptr<const runtime::Module> module;
    const tilec_status status = specialise(*program, in, out, module);
    if (status != TILEC_OK) return status;
    std::vector<runtime::Tensor> outputs;
    for (const runtime::Port& port : module->outputs) {
      const auto at = std::ranges::find(out, port.name, &runtime::Argument::name);
      if (at == out.end() || !at->tensor) return misuse(fmt::format("output `{}` has no memory", port.name));
      if (at->tensor->dtype != port.dtype) return fail(TILEC_TYPE_ERROR, plain("E0205", fmt::format("output `{}` is `{}` but its memory is `{}`", port.name, lang::name(port.dtype), lang::name(at->tensor->dtype))));
      outputs.push_back(*at->tensor);
    }
    runtime::run(*module, runtime::bind_inputs(*module, in), outputs);
    return TILEC_OK;
  });
}

tilec_status tilec_infer(const tilec_program* program, const tilec_argument* arguments, size_t argument_count, tilec_kernel** ports) {
  return guarded([&] {
    const runtime::Callable& callable = *program->callable;
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, program->inputs, Side::Input);
    lang::Diagnostics diagnostics;
    const auto request = check_names(*program, in, diagnostics) ? callable.request_for(in, {}, diagnostics) : std::nullopt;
    const auto stages = request ? codegen::compile(callable.file(), *request, codegen::Until::Bound, diagnostics) : std::nullopt;
    if (!stages) return failed(diagnostics, callable.sources());
    const auto reference = runtime::load_reference(*stages->bounded, *request);
    *ports = new tilec_kernel{nullptr, reference->inputs, reference->outputs};
    return TILEC_OK;
  });
}

tilec_status tilec_emit(const tilec_program* program, const char* name, const tilec_argument* arguments, size_t argument_count, tilec_buffer** buffer) {
  return guarded([&] {
    const runtime::StageInfo* stage = runtime::stage_named(name);
    if (stage == nullptr) throw runtime::argument_error(messages::unknown_stage, name).hint("stages are ast source contraction gradient bound bounded reduced plan loops report-text llvm asm object opencl cuda ptx cubin");
    const runtime::Callable& callable = *program->callable;
    lang::Diagnostics diagnostics;
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, program->inputs, Side::Input);
    codegen::Request request = callable.request();
    if (!in.empty()) {
      const auto found = check_names(*program, in, diagnostics) ? callable.request_for(in, {}, diagnostics) : std::nullopt;
      if (!found) return failed(diagnostics, callable.sources());
      request = *found;
    }
    if (stage->name == "gradient" && request.derivatives.empty()) request.derivatives.emplace_back();
    request.split = stage->name == "report-text";
    if (stage->family && *stage->family != request.target.family) request.target = *codegen::target_named(runtime::default_target(*stage, request.target.name, false));
    codegen::Stages stages;
    if (stage->needs_program) {
      auto computed = codegen::compile(callable.file(), request, stage->until, diagnostics);
      if (!computed) return failed(diagnostics, callable.sources());
      stages = std::move(*computed);
    }
    *buffer = new tilec_buffer{runtime::emit(*stage, callable.file(), stages, request.target)};
    return TILEC_OK;
  });
}

const char* tilec_buffer_data(const tilec_buffer* buffer) { return buffer->bytes.c_str(); }
size_t tilec_buffer_size(const tilec_buffer* buffer) { return buffer->bytes.size(); }
void tilec_buffer_destroy(tilec_buffer* buffer) { delete buffer; }

}  // extern "C"
