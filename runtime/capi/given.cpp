#include "runtime/capi/given.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>

#include "lang/lexis.h"
#include "lang/messages.h"
#include "runtime/capi/error.h"
#include "runtime/capi/programs.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/overlap.h"
#include "runtime/target_hint.h"

namespace tilec::capi {
namespace {

namespace messages = lang::messages;

std::vector<poly::Define> defines_of(const tilec_options& options, const char* function) {
  need_list(options.defines, options.define_count, function, "options.defines");
  std::vector<poly::Define> defines;
  for (std::size_t k = 0; k < options.define_count; ++k) {
    const tilec_define& define = options.defines[k];
    const std::string name = &need(define.name, function, fmt::format("options.defines[{}].name", k));
    if (std::ranges::count(defines, name, &poly::Define::name) > 0)
      throw runtime::argument_error(messages::given_twice, "parameter", name);
    if (define.text != nullptr && std::isalpha(static_cast<unsigned char>(define.text[0])) == 0 &&
        lang::real_of(define.text))
      throw runtime::argument_error(messages::bad_value, name,
          fmt::format("`{}` is a number as text: give it as a number", lang::shortened(define.text)));
    defines.push_back({name, define.text != nullptr ? decltype(poly::Define::value)(define.text) : define.value});
  }
  return defines;
}

void add_sizes(const tilec_options& options, codegen::Request& request, const char* function) {
  need_list(options.sizes, options.size_count, function, "options.sizes");
  for (std::size_t k = 0; k < options.size_count; ++k) {
    const std::string name = &need(options.sizes[k].name, function, fmt::format("options.sizes[{}].name", k));
    if (!request.sizes.emplace(name, options.sizes[k].value).second)
      throw runtime::argument_error(messages::given_twice, "size", name);
    request.asked_sizes.push_back(name);
  }
  // a size the text spells in lower case
  for (const std::string& name : request.asked_sizes)
    request.sizes.emplace(fmt::format("#{}", name), request.sizes.at(name));
  request.sizes_from = "size";
}

void add_ranks(const tilec_options& options, codegen::Request& request, const char* function) {
  need_list(options.ranks, options.rank_count, function, "options.ranks");
  for (std::size_t k = 0; k < options.rank_count; ++k) {
    const auto& [given, value] = options.ranks[k];
    const std::string name = &need(given, function, fmt::format("options.ranks[{}].name", k));
    if (!request.signature.ranks.emplace(name, value).second)
      throw runtime::argument_error(messages::given_twice, "rank", name);
  }
}

runtime::Tensor tensor_of(const tilec_argument& given, const std::string& name, bool may_be_gpu) {
  if (given.tensor == nullptr) throw runtime::argument_error(messages::bad_value, name, "its tensor is NULL");
  const int device = number_in(given.tensor->device.device_type);
  if (device != kDLCPU && !(device == kDLCUDA && may_be_gpu && given.tensor->device.device_id >= 0))
    throw runtime::argument_error(messages::wrong_device, name, "another device's");
  if (const std::string fault = fault_of(*given.tensor); !fault.empty())
    throw runtime::argument_error(messages::bad_tensor, name, fault);
  std::optional<runtime::Tensor> tensor = runtime::borrow(*given.tensor);
  if (!tensor) throw runtime::argument_error(messages::bad_value, name, "its element type is none of Tile's");
  if (device == kDLCUDA) tensor->data = nullptr;
  static_cast<void>(runtime::layout_of(name, tensor->dtype, tensor->shape, tensor->strides));
  return *std::move(tensor);
}

// An argument without a name is one by position; where a cotangent or a tangent has its name, positions are those of
// the inputs.
std::vector<std::string> names_of_list(const tilec_argument* given, std::size_t count, const tilec_program& program) {
  const auto end = std::find_if(given, given + count, [](const tilec_argument& each) { return each.name != nullptr; });
  const auto own = program.inputs.begin() + static_cast<std::ptrdiff_t>(program.callable->input_names().size());
  const bool in_front = std::all_of(end, given + count, [&](const tilec_argument& each) {
    return each.name != nullptr && std::find(own, program.inputs.end(), each.name) == program.inputs.end();
  });
  if (!in_front) return program.inputs;
  return names_by_position(program, static_cast<std::size_t>(end - given));
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
      if (side == Side::Input)
        throw runtime::argument_error(messages::bad_value, name, "it is an input, which nothing is added to");
      argument.add = true;
      [[fallthrough]];
    case TILEC_TENSOR: argument.tensor = tensor_of(given, name, may_be_gpu); break;
    case TILEC_NONE:
      if (side == Side::Input)
        throw runtime::argument_error(messages::bad_value, name, "it is an input: what is not given is left out");
      argument.unwanted = true;
      break;
    default:
      throw runtime::argument_error(
          messages::bad_value, name, fmt::format("its kind is {}, which no tilec_argument_kind is", kind));
  }
  if (side == Side::Output && !argument.tensor && !argument.unwanted)
    throw runtime::argument_error(messages::bad_value, name, "it is an output, which takes a tensor and no number");
  return argument;
}

}  // namespace

std::vector<std::string> names_of(
    const char* const* list, std::size_t count, const char* function, const char* parameter) {
  need_list(static_cast<const void*>(list), count, function, parameter);
  std::vector<std::string> names;
  for (std::size_t k = 0; k < count; ++k)
    names.emplace_back(&need(list[k], function, fmt::format("{}[{}]", parameter, k)));
  return names;
}

std::string text_of(const char* text, std::size_t length, const char* function) {
  need_list(text, length, function, "text");
  return length == 0 ? std::string() : runtime::without_byte_order_mark(std::string(text, length));
}

tilec_options options_of(const tilec_options* given, const char* function) {
  tilec_options options{};
  if (given == nullptr) return options;
  constexpr std::size_t ends[] = {offsetof(tilec_options, function), offsetof(tilec_options, target),
      offsetof(tilec_options, file_name), offsetof(tilec_options, defines), offsetof(tilec_options, define_count),
      offsetof(tilec_options, sizes), offsetof(tilec_options, size_count), offsetof(tilec_options, threads),
      offsetof(tilec_options, include), offsetof(tilec_options, include_count), offsetof(tilec_options, checked),
      offsetof(tilec_options, kernels), offsetof(tilec_options, plan), offsetof(tilec_options, room),
      offsetof(tilec_options, cache), offsetof(tilec_options, ranks), offsetof(tilec_options, rank_count)};
  if (given->size < sizeof options && std::ranges::count(ends, given->size) == 0)
    misuse(function,
        fmt::format("`options.size` is {}, where no field ends: set it to `sizeof(tilec_options)`", given->size));
  std::memcpy(&options, given, std::min(given->size, sizeof options));
  const char* const bytes = reinterpret_cast<const char*>(given);
  if (given->size > 65536 ||
      std::any_of(
          bytes + sizeof options, bytes + std::max(given->size, sizeof options), [](char byte) { return byte != 0; }))
    misuse(function,
        fmt::format("`options` of {} bytes sets fields that this library, which knows {} bytes, does not have",
            given->size, sizeof options));
  return options;
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
  if (options.checked != 0 && options.checked != 1)
    misuse(function, fmt::format("`options.checked` is {}, and it is 0 or 1", options.checked));
  request.checked = options.checked != 0;
  return request;
}

std::shared_ptr<const runtime::Cache> cache_of(const tilec_options& options) {
  if (options.cache == nullptr) return runtime::Cache::usual();
  return *options.cache != '\0' ? std::make_shared<const runtime::Cache>(options.cache) : nullptr;
}

std::string fault_of(const DLTensor& tensor) {
  constexpr std::int32_t most = 64;                      // NumPy's
  if (tensor.ndim < 0 || tensor.ndim > most)
    return fmt::format("it has {} dimensions, where 0 to {} are possible", tensor.ndim, most);
  if (tensor.ndim > 0 && tensor.shape == nullptr) return "its shape is NULL";
  std::int64_t bytes = 16;                               // more than any element has
  for (std::int32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] < 0) return fmt::format("its dimension {} is {}", d + 1, tensor.shape[d]);
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(tensor.shape[d], 1), &bytes))
      return "its shape has more bytes than 63 bits count";
  }
  const auto data = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (data == 0 && tensor.byte_offset != 0) return "its data is NULL with an offset";
  if (data + tensor.byte_offset < data) return fmt::format("its byte_offset is {}", tensor.byte_offset);
  return {};
}

std::vector<runtime::Argument> arguments_of(const tilec_argument* given, std::size_t count,
    const tilec_program& program, Side side, const char* function, Reads reads) {
  const bool may_be_gpu =
      reads == Reads::Shapes && program.callable->request().target.family == codegen::Target::Family::Cuda;
  const bool input = side == Side::Input;
  need_list(given, count, function, input ? "arguments" : "results");
  const std::vector<std::string> names = input ? names_of_list(given, count, program) : program.outputs;
  std::vector<runtime::Argument> arguments;
  for (std::size_t k = 0; k < count; ++k) {
    if (given[k].name == nullptr && k >= names.size())
      throw runtime::argument_error(
          messages::unknown_argument, fmt::format("{} {}", input ? "input" : "output", k + 1), "this program");
    arguments.push_back(argument_of(given[k], given[k].name != nullptr ? given[k].name : names[k], side, may_be_gpu));
  }
  if (const auto unwanted = std::ranges::count(arguments, true, &runtime::Argument::unwanted);
      unwanted > 0 && static_cast<std::size_t>(unwanted) >= names.size())
    misuse(function, "each result is TILEC_NONE: nothing is asked for");
  return arguments;
}

bool check_names(const tilec_program& program, const std::vector<runtime::Argument>& arguments, Side side,
    lang::Diagnostics& diagnostics) {
  const bool input = side == Side::Input;
  const std::vector<std::string>& names = input ? program.inputs : program.outputs;
  for (const runtime::Argument& argument : arguments) {
    const auto known = std::ranges::count(names, argument.name);
    if (known == 0)
      diagnostics
          .report({}, messages::unknown_argument, argument.name,
              program.name.empty() ? "the function" : fmt::format("`{}`", program.name))
          .hint(fmt::format("it {} {}", input ? "takes" : "gives", fmt::join(names, ", ")));
    else if (std::ranges::count(arguments, argument.name, &runtime::Argument::name) > known)
      diagnostics.report({}, messages::given_twice, input ? "input" : "output", argument.name);
    else continue;
    return false;
  }
  return true;
}

}  // namespace tilec::capi
