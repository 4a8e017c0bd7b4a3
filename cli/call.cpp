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

namespace {

bool is_in(std::string_view line, std::string_view name) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = line.find(name); at != line.npos; at = line.find(name, at + 1))
    if ((at == 0 || !letter(line[at - 1])) && (at + name.size() == line.size() || !letter(line[at + name.size()])))
      return true;
  return false;
}

// `random:3` as `random:3xi32:0..9`, `3=[0 2 1]` as `3xi32=[0 2 1]`; nullopt: it has a type, is a number or a file.
std::optional<std::string> of_integers(const std::string& value) {
  const bool makes = value.starts_with("random:"), repeats = value.starts_with("ones:") || value.starts_with("zeros:");
  const std::size_t begin = makes || repeats ? value.find(':') + 1 : 0,
                    end = std::min(value.find_first_not_of("0123456789x", begin), value.size());
  const bool lists = begin == 0 && end > 0 && end < value.size() && value[end] == '=';
  if (!lists && (begin == 0 || end < value.size())) return std::nullopt;
  return value.substr(0, end) + "xi32" + (makes ? ":0..9" : value.substr(end));
}

// The inputs that a fault is about: those that the file names there, and of several those that each call on the way in
// names too, where one does.
std::vector<std::string> names_at(
    const lang::Diagnostic& fault, const std::vector<Word>& words, const std::vector<lang::Source>& sources) {
  std::vector<lang::Label> places{{fault.span, ""}};     // outermost first
  places.insert(places.end(), fault.labels.rbegin(), fault.labels.rend());
  if (fault.span.source != 0) places.erase(places.begin());
  std::vector<std::string> found;
  for (const Word& word : words) found.push_back(word.name);
  bool first = true;
  for (const auto& [place, text] : places) {
    if (place.empty() || (first && place.source != 0)) continue;
    const lang::Source& source = sources[place.source];
    const std::string_view whole = line(source, position(source, place.begin).line);
    const bool declares = text == "declared here" && !whole.starts_with("function");
    const std::string_view shown =
        declares ? whole : std::string_view(source.text).substr(place.begin, place.end - place.begin);
    std::vector<std::string> here;
    std::ranges::copy_if(found, std::back_inserter(here), [&](const std::string& name) { return is_in(shown, name); });
    if (!here.empty()) found = here;
    first = first && here.empty();
  }
  return first ? std::vector<std::string>() : found;
}

}  // namespace

lang::Diagnostics with_integers_said(
    const lang::Diagnostics& diagnostics, const std::vector<Word>& words, const std::vector<lang::Source>& sources) {
  lang::Diagnostics said;
  for (lang::Diagnostic each : diagnostics.all()) {
    const std::vector<std::string> names = names_at(each, words, sources);
    const auto word = names.size() == 1 ? std::ranges::find(words, names[0], &Word::name) : words.end();
    const std::optional<std::string> value = word != words.end() ? of_integers(word->value) : std::nullopt;
    if (value && (each.code == "E0214" || each.code == "E0231"))
      each.hints.push_back(fmt::format("`{0}` is f32 where its word has no type: write `'{0}={1}'`", names[0], *value));
    said.add(std::move(each));
  }
  return said;
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
