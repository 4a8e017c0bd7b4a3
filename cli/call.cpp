#include "cli/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "lang/lexis.h"
#include "lang/nearest.h"
#include "poly/scope.h"
#include "runtime/error.h"

namespace tilec::cli {

using runtime::Callable;
namespace messages = lang::messages;

namespace {

std::optional<lang::DType> declared_type(const lang::Function& function, const std::string& name) {
  for (const lang::Input& input : function.inputs)
    if (input.target.name.text == name && input.target.dtype) return lang::dtype_named(input.target.dtype->text);
  return std::nullopt;
}

[[noreturn]] void unknown_word(const Word& word, const Callable& callable, std::vector<std::string> known) {
  const auto& name = callable.function()->name;
  const std::optional<std::string> near = lang::nearest(word.name, known);
  runtime::RuntimeError fault = runtime::argument_error(
      messages::unknown_argument, word.name, name ? fmt::format("`{}`", name->text) : "the function");
  fault.diagnostic.span = word.span;
  throw fault.hint(
      near ? fmt::format("did you mean `{}`?", *near) : fmt::format("it takes and gives {}", fmt::join(known, ", ")));
}

// Names that sizes, index expressions and constraints mention.
std::set<std::string> used_as_sizes(const lang::Function& function) {
  lang::Diagnostics unheard;
  poly::Scope scope{.diagnostics = unheard};
  poly::find_used_as_size(function, scope);
  return scope.used_as_size;
}

void refuse_large_size(const Word& word, const lang::Function& function) {
  if (!is_beyond_64_bits(word.value) || !used_as_sizes(function).contains(word.name)) return;
  runtime::RuntimeError fault =
      runtime::argument_error(messages::scalar_too_large, word.name, lang::shortened(word.value));
  fault.diagnostic.span = word.span;
  throw std::move(fault);
}

}  // namespace

runtime::Argument argument_of(const Word& word, std::optional<lang::DType> declared, const Reading& reading) {
  try {
    return parse_argument(word.name, word.value, declared, reading);
  } catch (runtime::RuntimeError& fault) {
    fault.diagnostic.span = word.span;
    throw;
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::count(names, name) > 0;
}

void infer_derivatives(
    const Callable& callable, const std::vector<Word>& words, std::vector<codegen::Derivative>& derivatives) {
  codegen::Ports ports{callable.input_names(), callable.result_names()};
  for (std::size_t k = 0; k < derivatives.size(); ++k) {
    codegen::Derivative& derivative = derivatives[k];
    if (derivative.batch) continue;                      // of which the ports keep their names
    const codegen::Ports all = codegen::derived(ports, {derivative.forward, {}, {}});
    const std::vector<std::string>& sources = derivative.forward ? ports.inputs : ports.outputs;
    const std::vector<std::string>& wanted = derivative.forward ? ports.outputs : ports.inputs;
    std::vector<std::string>& given = derivative.forward ? derivative.wrt : derivative.of;
    std::vector<std::string>& asked = derivative.forward ? derivative.of : derivative.wrt;
    const auto written = [&](const std::string& name) { return std::ranges::count(words, name, &Word::name) > 0; };
    if (given.empty())
      for (std::size_t n = 0; n < sources.size(); ++n)
        if (written(all.inputs[ports.inputs.size() + n])) given.push_back(sources[n]);
    if (asked.empty() && k + 1 == derivatives.size())
      for (std::size_t n = 0; n < wanted.size(); ++n)
        if (written(all.outputs[n])) asked.push_back(wanted[n]);
    ports = codegen::derived(ports, derivative);
  }
}

// Sorts the words into inputs and outputs. Cotangents are known only once the gradient's outline is.
std::optional<Call> read_call(
    const Callable& callable, const std::vector<Word>& words, const Reading& reading, lang::Diagnostics& diagnostics) {
  Call call;
  const std::vector<std::string> inputs = callable.input_names();
  for (const Word& word : words) {
    if (!contains(inputs, word.name)) continue;
    refuse_large_size(word, *callable.function());
    call.inputs.push_back(argument_of(word, declared_type(*callable.function(), word.name), reading));
  }
  codegen::Request request;
  const std::optional<poly::Program> outline = callable.outline(call.inputs, request, diagnostics);
  if (!outline) return std::nullopt;
  std::vector<std::string> known = inputs;
  for (const Word& word : words) {
    if (contains(inputs, word.name)) continue;
    bool found = false;
    for (const poly::TensorId id : outline->inputs) {
      const poly::Tensor& tensor = outline->tensor(id);
      known.push_back(runtime::without_mark(tensor.name));
      if (found || known.back() != word.name) continue;
      call.inputs.push_back(argument_of(word, tensor.dtype, reading));
      found = true;
    }
    for (const poly::TensorId id : outline->outputs) {
      known.push_back(runtime::without_mark(outline->tensor(id).name));
      if (found || known.back() != word.name) continue;
      call.outputs.push_back(word);
      found = true;
    }
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    if (!found) unknown_word(word, callable, known);
  }
  return call;
}

Call with_random_inputs(const Callable& callable, Call call, std::uint64_t seed) {
  lang::Diagnostics unheard;                             // the call itself says what is wrong
  codegen::Request request;
  const std::optional<poly::Program> outline = callable.outline(call.inputs, request, unheard);
  for (const poly::TensorId id : outline ? outline->inputs : std::vector<poly::TensorId>()) {
    const poly::Tensor& tensor = outline->tensor(id);
    const std::string name = runtime::without_mark(tensor.name);
    // a number may be a size
    if (std::ranges::count(call.inputs, name, &runtime::Argument::name) > 0 ||
        (tensor.shape.empty() && !lang::is_float(tensor.dtype)))
      continue;
    std::vector<std::int64_t> shape;
    for (const poly::Size& extent : tensor.shape)
      if (const auto value = extent.substitute(request.sizes).value()) shape.push_back(*value);
    if (shape.size() < tensor.shape.size()) continue;
    const runtime::Tensor made = runtime::allocate(name, tensor.dtype, shape);
    fill_random(made, name, seed);
    call.inputs.push_back({.name = name, .tensor = made});
  }
  return call;
}

}  // namespace tilec::cli
