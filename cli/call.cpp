#include "cli/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lang/nearest.h"
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
  throw runtime::argument_error(messages::unknown_argument, word.name, name ? name->text : "the function")
      .hint(near ? fmt::format("did you mean `{}`?", *near) : fmt::format("it takes and gives {}", fmt::join(known, ", ")));
}

}  // namespace

bool contains(const std::vector<std::string>& names, const std::string& name) { return std::ranges::count(names, name) > 0; }

void infer_gradient(const Callable& callable, const std::vector<Word>& words, std::vector<std::string>& of, std::vector<std::string>& wrt) {
  const std::vector<std::string> inputs = callable.input_names(), results = callable.result_names();
  const auto written = [&](const std::string& name) { return !contains(inputs, name) && std::ranges::count(words, name, &Word::name) > 0; };
  if (of.empty())
    for (const std::string& name : results)
      if (written("d" + name)) of.push_back(name);
  if (wrt.empty())
    for (const std::string& name : inputs)
      if (written("d" + name) && !contains(results, name)) wrt.push_back(name);
}

// Sorts the words into inputs and outputs. Cotangents are known only once the gradient's outline is.
std::optional<Call> read_call(const Callable& callable, const std::vector<Word>& words, const Reading& reading, lang::Diagnostics& diagnostics) {
  Call call;
  const std::vector<std::string> inputs = callable.input_names();
  for (const Word& word : words)
    if (contains(inputs, word.name)) call.inputs.push_back(parse_argument(word.name, word.value, declared_type(*callable.function(), word.name), reading));
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
      call.inputs.push_back(parse_argument(word.name, word.value, tensor.dtype, reading));
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

}  // namespace tilec::cli
