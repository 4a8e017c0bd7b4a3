// Arguments become a Request: types, shapes, sizes and strides, each against what the program says of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "codegen/target_words.h"
#include "lang/pack.h"
#include "runtime/batches.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/numbers.h"
#include "runtime/overlap.h"
#include "runtime/specialise.h"

namespace tilec::runtime {

namespace {

std::optional<DType> declared_type(const lang::Input& input) {
  return input.target.dtype ? lang::dtype_named(input.target.dtype->text) : std::nullopt;
}

poly::Given given_of(const Argument& argument) {
  poly::Given given{argument.name, std::nullopt, std::vector<poly::Size>{}, std::nullopt, !argument.tensor};
  if (!argument.tensor) {
    // wide enough for any number; what it meets decides
    given.dtype = argument.large ? DType::U64 : argument.is_integer ? DType::I64 : DType::F64;
    return given;
  }
  given.dtype = argument.tensor->dtype;
  for (const std::int64_t extent : argument.tensor->shape) given.shape->push_back(extent);
  return given;
}

// `A[M, K]` given a 4 by 5 tensor says M = 4 and K = 5: an input that is absent may share those names. Build checks the
// rest.
void learn_sizes(const lang::Input& input, const Argument& argument, std::map<std::string, std::int64_t>& sizes) {
  const auto shown = argument.tensor ? lang::sizes_shown(input, argument.tensor->shape.size()) : std::nullopt;
  for (std::size_t d = 0; shown && d < shown->size(); ++d)
    if (const auto* variable = (*shown)[d].as<lang::Variable>())
      sizes.emplace(variable->name.spelled(), argument.tensor->shape[d]);
}

bool is_read(const poly::Program& program, poly::TensorId id) {
  const auto reads_it = [&](const poly::Statement& s) {
    const auto* fill = std::get_if<poly::TensorId>(&s.fill);
    return (fill != nullptr && *fill == id) ||
        std::any_of(s.reads.begin(), s.reads.end(), [&](const poly::Access& a) { return a.tensor == id; });
  };
  for (const poly::Node& node : program.nodes) {
    if (const auto* statement = std::get_if<poly::Statement>(&node); statement != nullptr
            ? reads_it(*statement)
            : std::ranges::count(std::get<poly::Intrinsic>(node).operands, id) > 0)
      return true;
  }
  return std::ranges::count(program.outputs, id) > 0;
}

// From 2^63 on: `integer_of` gives the bits of such a one.
bool is_large(const Argument& argument) {
  return argument.tensor
      ? argument.tensor->dtype == DType::U64 && argument.tensor->shape.empty() && integer_of(argument) < 0
      : argument.large;
}

std::string unsigned_text(const Argument& argument) {
  return fmt::format("{}", static_cast<std::uint64_t>(integer_of(argument)));
}

// Where an argument's shape and the program's symbolic shape meet: a lone name takes the extent, everything else must
// agree.
bool unify(const poly::Tensor& tensor, const Argument& argument, std::map<std::string, std::int64_t>& sizes,
    lang::Diagnostics& diagnostics) {
  const std::vector<std::int64_t> shape = argument.tensor ? argument.tensor->shape : std::vector<std::int64_t>{};
  bool same = shape.size() == tensor.shape.size();
  std::vector<std::string> wanted;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const poly::Size& extent = tensor.shape[d];
    const auto* name = extent.lone_factor();
    if (same && name && name->kind == poly::Size::Kind::Name) sizes.emplace(name->name, shape[d]);
    const poly::Size bound = poly::located(tensor.span, [&] { return extent.substitute(sizes); });
    wanted.push_back(bound.print());
    same = same && (!bound.value() || bound.is(shape[d]));
  }
  if (!same)
    diagnostics.report(tensor.span, messages::wrong_shape, without_mark(tensor.name),
        wanted.empty() ? "a scalar" : fmt::format("{}", fmt::join(wanted, " by ")), describe_shape(shape));
  return same;
}

// The outputs that a caller does not leave out, by name.
std::vector<std::string> wanted(const poly::Program& program, const std::vector<Argument>& results) {
  std::vector<std::string> names;
  for (const poly::TensorId id : program.outputs) {
    const std::string name = without_mark(program.tensor(id).name);
    const Argument* result = argument_named(results, name);
    if (result == nullptr || !result->unwanted) names.push_back(name);
  }
  return names;
}

const lang::Input* input_around(const lang::Function* function, lang::Span span) {
  if (function == nullptr) return nullptr;
  const auto holds = [&](const lang::Input& input) {
    return input.span.source == span.source && input.span.begin <= span.begin && span.end <= input.span.end;
  };
  const auto at = std::ranges::find_if(function->inputs, holds);
  return at == function->inputs.end() ? nullptr : &*at;
}

// Makes the target the GPU in whose memory tensors lie. All have to lie on one, and it has to be the one that the
// target names, where it names one. False: none lies on a GPU.
bool follow_tensors(
    const std::vector<Argument>& arguments, const std::vector<Argument>& results, codegen::Target& target) {
  const Argument* first = nullptr;
  for (const std::vector<Argument>* all : {&arguments, &results})
    for (const Argument& a : *all) {
      if (!a.tensor || a.tensor->device.device_type != kDLCUDA) continue;
      if (first == nullptr) first = &a;
      const int here = a.tensor->device.device_id, there = first->tensor->device.device_id;
      if (here != there)
        throw argument_error(messages::wrong_device, a.name, fmt::format("GPU {}'s", here))
            .hint(fmt::format("`{}` lies in GPU {}'s: copy one to the other's GPU", first->name, there));
    }
  if (first == nullptr) return false;
  const auto device = static_cast<std::size_t>(first->tensor->device.device_id);
  const auto words = codegen::target_words(target.name);
  if (!words || words->kind != "cuda" || words->device.value_or(device) != device)
    throw argument_error(messages::wrong_device, first->name, fmt::format("GPU {}'s", device))
        .hint(fmt::format("compile for `cuda:{}`, or for `cuda`, which runs where its tensors lie", device));
  if (device != words->device.value_or(0)) target = *target_here(codegen::with_device(*words, device));
  return true;
}

}  // namespace

// Callers write names without their marks, so `#a` and `a` would be one.
bool Callable::names_differ(lang::Diagnostics& diagnostics) const {
  if (function_ == nullptr) return true;
  const auto differ = [&](const auto& all, std::string_view what, auto target) {
    for (auto one = all.begin(); one != all.end(); ++one)
      for (auto other = all.begin(); other != one; ++other) {
        const lang::Name &name = std::invoke(target, *one).name, &earlier = std::invoke(target, *other).name;
        if (name.text != earlier.text || name.spelled() == earlier.spelled()) continue;
        diagnostics.report(std::invoke(target, *one).span, messages::given_twice, what, name.text)
            .label(std::invoke(target, *other).span, "the other")
            .hint("names of a function that is called lose their marks: rename one");
        return false;
      }
    return true;
  };
  return differ(function_->inputs, "input", &lang::Input::target) &&
      differ(function_->results, "output", std::identity());
}

std::optional<poly::Program> Callable::outline(const std::vector<Argument>& arguments, codegen::Request& request,
    lang::Diagnostics& diagnostics, bool whole) const {
  request = request_;
  request.signature.inputs.clear();
  bool fits = names_differ(diagnostics);
  const std::optional<Leading> leading = settle_batches(*this, arguments, request, diagnostics);
  if (!leading) return std::nullopt;
  std::vector<std::size_t> plain;                        // numbers of undeclared scalars
  for (const lang::Input& input : function_ == nullptr ? std::vector<lang::Input>{} : function_->inputs) {
    const Argument* given = argument_named(arguments, input.target.name.text);
    // given by name, as a size
    const bool is_size = std::ranges::count(request.asked_sizes, input.target.name.text) > 0;
    if (given == nullptr && input.value && !whole && !is_size)
      request.signature.omitted.push_back(input.target.name.text);
    if (given == nullptr) continue;
    const Argument one = without_leading(*given, *leading);
    const Argument* argument = &one;
    const std::optional<DType> declared = declared_type(input);
    if (declared && argument->tensor && argument->tensor->dtype != *declared) {
      diagnostics.report(
          input.span, messages::given_type, argument->name, lang::name(*declared), lang::name(argument->tensor->dtype));
      fits = false;
    }
    if (declared && !argument->tensor && !holds(*declared, number_of(*argument))) {
      diagnostics.report(input.span, messages::does_not_fit, misfit(*argument), lang::name(*declared));
      fits = false;
    }
    if (!declared && !argument->tensor) plain.push_back(request.signature.inputs.size());
    request.signature.inputs.push_back(given_of(*argument));
    // a weak integer is an i64 where nothing is met
    if (argument->large && !declared) request.signature.inputs.back().weak = false;
    learn_sizes(input, *argument, request.sizes);
  }
  if (!fits || !settle_numbers(file(), arguments, plain, request, diagnostics)) return std::nullopt;
  const codegen::Until until = !request.derivatives.empty() ? codegen::Until::Gradient : codegen::Until::Contraction;
  lang::Diagnostics found;
  std::optional<codegen::Stages> stages = codegen::compile(file(), request, until, found);
  for (const lang::Diagnostic& each : found.all()) {
    // its shape would tell
    const lang::Input* missing =
        each.code == messages::pack_rank_missing.code && !whole ? input_around(function_, each.span) : nullptr;
    const bool is_given = missing == nullptr || missing->value ||
        argument_named(arguments, missing->target.name.text) != nullptr;
    if (is_given) diagnostics.add(each);
    else
      diagnostics.report(missing->span, messages::missing_input, missing->target.name.text)
          .hint(fmt::format("give it as `{}=…`", missing->target.name.text));
  }
  if (!stages) return std::nullopt;
  return codegen::restricted(stages->gradient ? *stages->gradient : *stages->contraction, request.outputs);
}

// Scalars that the text uses as sizes: their values become numbers of the program. Build has seen that they are
// integers.
bool Callable::bind_scalars(const poly::Program& program, const std::vector<Argument>& arguments,
    codegen::Request& request, lang::Diagnostics& diagnostics) const {
  bool fits = true;
  for (poly::Given& given : request.signature.inputs) {
    const auto size = std::find_if(program.sizes.begin(), program.sizes.end(),
        [&](const std::string& s) { return without_mark(s) == given.name; });
    if (size == program.sizes.end() || !given.shape->empty()) continue;
    // of no batch: that of a size is an error by now
    const Argument& argument = *argument_named(arguments, given.name);
    given.integer = integer_of(argument);
    request.sizes.emplace(*size, *given.integer);        // extents that it is part of are compared with what was given
    if (!is_large(argument)) continue;
    const auto input =
        std::ranges::find(function_->inputs, given.name, [](const lang::Input& i) { return i.target.name.text; });
    diagnostics.report(input->span, messages::scalar_too_large, given.name, unsigned_text(argument));
    fits = false;
  }
  return fits;
}

// An input of the function, or a derivative's: `dY`, which nobody declared.
void Callable::refuse_type(
    const poly::Tensor& tensor, const std::string& name, DType given, lang::Diagnostics& diagnostics) const {
  const auto is = [&](const std::vector<std::string>& names, char prefix) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& n) { return name == prefix + n; });
  };
  const std::string role = is(result_names(), 'd') ? "cotangent" : is(input_names(), 't') ? "tangent" : "derivative";
  if (const std::vector<std::string> inputs = input_names();
      std::find(inputs.begin(), inputs.end(), name) != inputs.end()) {
    diagnostics.report(tensor.span, messages::given_type, name, lang::name(tensor.dtype), lang::name(given));
    return;
  }
  diagnostics
      .report(tensor.span, messages::derivative_type, name, fmt::format("{} of `{}`", role, name.substr(1)),
          lang::name(tensor.dtype), lang::name(given))
      .hint(fmt::format("convert it to `{}`", lang::name(tensor.dtype)));
}

// Of the last derivative. A pair is compiled before anybody has one: it lies row-major.
bool Callable::is_cotangent(const std::string& name) const {
  codegen::Ports ports{input_names(), result_names()};
  for (std::size_t k = 0; k + 1 < request_.derivatives.size(); ++k)
    ports = codegen::derived(ports, request_.derivatives[k]);
  return std::ranges::count(ports.inputs, name) == 0;
}

std::optional<codegen::Request> Callable::request_for(const std::vector<Argument>& arguments,
    const std::vector<Argument>& results, lang::Diagnostics& diagnostics) const try {
  codegen::Request request;
  std::optional<poly::Program> program = outline(arguments, request, diagnostics);
  const bool on_gpu = follow_tensors(arguments, results, request.target);
  if (program && std::ranges::any_of(results, &Argument::unwanted))
    program = codegen::restricted(*program, request.outputs = wanted(*program, results));
  if (!program || !have_extents(*this, request, diagnostics)) return std::nullopt;
  if (!bind_scalars(*program, arguments, request, diagnostics)) return std::nullopt;
  bool fits = true;
  for (const poly::TensorId id : program->inputs) {
    const poly::Tensor& tensor = program->tensor(id);
    const std::string name = without_mark(tensor.name);
    const Argument* argument = argument_named(arguments, name);
    if (argument == nullptr) {
      if (request.pair ? is_cotangent(name) : !is_read(*program, id)) continue;  // what is asked for does not need it
      diagnostics.report(tensor.span, messages::missing_input, name).hint(fmt::format("give it as `{}=…`", name));
      fits = false;
      continue;
    }
    if (argument->tensor && argument->tensor->dtype != tensor.dtype) {
      refuse_type(tensor, name, argument->tensor->dtype, diagnostics);
      fits = false;
    }
    if (!argument->tensor && !holds(tensor.dtype, number_of(*argument))) {
      diagnostics.report(tensor.span, messages::does_not_fit, misfit(*argument), lang::name(tensor.dtype));
      fits = false;
    }
    fits = unify(tensor, *argument, request.sizes, diagnostics) && fits;
    if (argument->tensor && !argument->tensor->is_row_major()) request.strides[tensor.name] = argument->tensor->strides;
  }
  for (std::size_t o = 0; o < program->outputs.size(); ++o) {
    const poly::TensorId id = program->outputs[o];
    const std::string name = without_mark(program->tensor(id).name);
    // A tensor may be several outputs: they are told apart by their order.
    auto earlier = std::count(program->outputs.begin(), program->outputs.begin() + static_cast<std::ptrdiff_t>(o), id);
    const auto result = std::find_if(
        results.begin(), results.end(), [&](const Argument& a) { return a.name == name && earlier-- == 0; });
    if (result == results.end()) continue;
    fits = unify(program->tensor(id), *result, request.sizes, diagnostics) &&
        check_result(program->tensor(id), *result, diagnostics) && fits;
    if (result->add) request.accumulate.push_back(o);
    if (!result->tensor->is_row_major()) request.output_strides[o] = result->tensor->strides;
  }
  if (!fits) return std::nullopt;
  request.in_place = on_gpu && !(request.strides.empty() && request.output_strides.empty());
  return request;
} catch (const poly::SizeError& error) {
  diagnostics.report(error.span, messages::size_arithmetic, error.what());
  return std::nullopt;
}

// The memory of an output: of its type, and every element at a place of its own.
bool Callable::check_result(const poly::Tensor& tensor, const Argument& result, lang::Diagnostics& diagnostics) const {
  if (result.tensor->dtype != tensor.dtype) {
    diagnostics.report(
        tensor.span, messages::result_type, result.name, lang::name(tensor.dtype), lang::name(result.tensor->dtype));
    return false;
  }
  if (!overlaps_itself(layout_of(result.name, result.tensor->dtype, result.tensor->shape, result.tensor->strides)))
    return true;
  diagnostics.report(tensor.span, messages::output_overlaps_itself, result.name)
      .hint("give it memory in which no stride is 0 and no two elements meet");
  return false;
}

}  // namespace tilec::runtime
