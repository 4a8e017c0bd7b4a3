// `tilec run FILE NAME=VALUE…`: executes a function or its gradient; compares with the interpreter and with finite differences.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/arguments.h"
#include "cli/compare.h"
#include "lang/nearest.h"
#include "cli/session.h"
#include "runtime/error.h"
#include "runtime/npy.h"
#include "runtime/specialise.h"

namespace tilec::cli {

namespace {

using runtime::Argument;
using runtime::Callable;
using runtime::Tensor;
namespace messages = lang::messages;

struct Word { std::string name, value; };
// What the words say: values of inputs, and the files that outputs go to.
struct Call { std::vector<Argument> inputs; std::vector<Word> outputs; };

std::vector<Word> split_words(const Options& options) {
  std::vector<Word> words;
  for (std::size_t k = 1; k < options.words.size(); ++k) {
    const std::string& text = options.words[k];
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw UsageError{fmt::format("`{}` is not NAME=VALUE", text), "write for instance `A=a.npy`"};
    const Word word{text.substr(0, equals), text.substr(equals + 1)};
    if (std::ranges::count(words, word.name, &Word::name) > 0) throw UsageError{fmt::format("`{}` is given twice", word.name), {}};
    words.push_back(word);
  }
  for (const auto& [name, value] : options.defines)      // `--define S=2` of a scalar input is `S=2`
    if (std::ranges::count(words, name, &Word::name) == 0) words.push_back({name, fmt::format("{}", value)});
  return words;
}

bool contains(const std::vector<std::string>& names, const std::string& name) { return std::ranges::count(names, name) > 0; }

// With --grad, `dO=…` of an output says what to start from and `dX=file` of an input what is wanted, unless --of and --wrt do.
void infer_gradient(const Callable& callable, const std::vector<Word>& words, Options& options) {
  const std::vector<std::string> inputs = callable.input_names(), results = callable.result_names();
  const auto written = [&](const std::string& name) { return !contains(inputs, name) && std::ranges::count(words, name, &Word::name) > 0; };
  if (options.of.empty())
    for (const std::string& name : results)
      if (written("d" + name)) options.of.push_back(name);
  if (options.wrt.empty())
    for (const std::string& name : inputs)
      if (written("d" + name) && !contains(results, name)) options.wrt.push_back(name);
}

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

// Sorts the words into inputs and outputs. Cotangents are known only once the gradient's outline is.
std::optional<Call> read_call(const Callable& callable, const std::vector<Word>& words, Session& session) {
  Call call;
  const std::vector<std::string> inputs = callable.input_names();
  for (const Word& word : words)
    if (contains(inputs, word.name)) call.inputs.push_back(parse_argument(word.name, word.value, declared_type(*callable.function(), word.name), session.options.seed));
  codegen::Request request;
  const std::optional<poly::Program> outline = callable.outline(call.inputs, request, session.diagnostics);
  if (!outline) return std::nullopt;
  std::vector<std::string> known = inputs;
  for (const Word& word : words) {
    if (contains(inputs, word.name)) continue;
    bool found = false;
    for (const poly::TensorId id : outline->inputs) {
      const poly::Tensor& tensor = outline->tensor(id);
      known.push_back(runtime::without_mark(tensor.name));
      if (found || known.back() != word.name) continue;
      call.inputs.push_back(parse_argument(word.name, word.value, tensor.dtype, session.options.seed));
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

// `O=out.npy`, `O=both.npz` with other outputs, `O=both.npz:name`.
void write_outputs(const runtime::Module& module, const std::vector<Tensor>& outputs, const std::vector<Word>& files) {
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, Tensor>>>> archives;
  for (const Word& word : files) {
    const auto port = std::ranges::find(module.outputs, word.name, &runtime::Port::name);
    const Tensor& tensor = outputs[static_cast<std::size_t>(port - module.outputs.begin())];
    const auto archive = word.value.find(".npz");
    if (archive == std::string::npos) {
      runtime::write_npy(word.value, tensor);
      continue;
    }
    const std::string path = word.value.substr(0, archive + 4), rest = word.value.substr(archive + 4);
    auto at = std::ranges::find(archives, path, [](const auto& a) { return a.first; });
    if (at == archives.end()) at = archives.insert(archives.end(), {path, {}});
    at->second.emplace_back(rest.size() > 1 && rest[0] == ':' ? rest.substr(1) : word.name, tensor);
  }
  for (const auto& [path, members] : archives) runtime::write_npz(path, members);
}

void print_summaries(const runtime::Module& module, const std::vector<Tensor>& outputs, const Call& call) {
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const runtime::Port& port = module.outputs[k];
    const auto file = std::ranges::find(call.outputs, port.name, &Word::name);
    if (file == call.outputs.end()) fmt::print("{}", summary(port.name, outputs[k]));
    else fmt::print("{}: {} {} written to {}\n", port.name, runtime::print_shape(port.shape), lang::name(port.dtype), file->value);
  }
}

double milliseconds(auto run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int execute(Session& session, const Callable& callable, const Call& call) {
  std::shared_ptr<const runtime::Specialisation> made;
  const double compile_time = milliseconds([&] { made = callable.specialise(call.inputs, {}, session.diagnostics); });
  if (!made) return session.report();
  const runtime::Module& module = *made->module;
  const std::vector<Tensor> inputs = runtime::bind_inputs(module, call.inputs), outputs = runtime::allocate_outputs(module);
  const double first = milliseconds([&] { runtime::run(module, inputs, outputs); });
  const Options& options = session.options;
  write_outputs(module, outputs, call.outputs);
  if (!options.quiet) print_summaries(module, outputs, call);
  if (options.time) {
    const double again = milliseconds([&] { runtime::run(module, inputs, outputs); });
    for (const codegen::Timing& timing : made->stages.timings) fmt::print(stderr, "{:<20} {:9.3f} ms\n", timing.pass, timing.milliseconds);
    fmt::print(stderr, "{:<20} {:9.3f} ms\n{:<20} {:9.3f} ms\n{:<20} {:9.3f} ms\n", "compile and load", compile_time, "first run", first, "second run", again);
  }
  int status = session.report();
  if (options.check) status = std::max(status, compare_with_interpreter(*made, inputs, outputs));
  if (options.grad_check) status = std::max(status, compare_with_differences(callable, call.inputs, session));
  return status;
}

}  // namespace

int run_command(const Options& given) {
  if (given.words.empty()) throw UsageError{"no file of Tile is named", "write `tilec run FILE NAME=VALUE…`"};
  Session session(given, given.words[0]);
  if (!session.file) return session.report();
  const std::vector<Word> words = split_words(given);
  Options options = given;
  if (options.gradient) infer_gradient(Callable(session.source, *session.file, session.request()), words, options);
  codegen::Request request = session.request();
  request.of = options.of;
  request.wrt = options.wrt;
  const Callable callable(session.source, *session.file, request);
  if (callable.function() == nullptr) {
    static_cast<void>(codegen::compile(*session.file, request, codegen::Until::Contraction, session.diagnostics));
    return session.report();
  }
  const std::optional<Call> call = read_call(callable, words, session);
  if (!call) return session.report();
  return execute(session, callable, *call);
}

}  // namespace tilec::cli
