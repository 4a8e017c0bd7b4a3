// `tilec run FILE NAME=VALUE…`: executes a function or its gradient; compares with the interpreter and with finite
// differences.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "cli/arguments.h"
#include "cli/call.h"
#include "cli/compare.h"
#include "cli/package.h"
#include "cli/progress.h"
#include "cli/results.h"
#include "cli/session.h"
#include "cli/standard.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/package_file.h"
#include "runtime/specialise.h"

namespace tilec::cli {

namespace {

using runtime::Callable;
using runtime::Tensor;

bool is_input(const lang::Function* function, const std::string& name) {
  return function != nullptr &&
      std::ranges::any_of(function->inputs, [&](const lang::Input& i) { return i.target.name.text == name; });
}

std::vector<Word> split_words(const Options& options, const lang::Function* function) {
  std::vector<Word> words;
  for (std::size_t k = 1; k < options.words.size(); ++k) {
    const std::string& text = options.words[k];
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError{fmt::format("`{}` is not NAME=VALUE", text), "write for instance `A=a.npy`"};
    const Word word{text.substr(0, equals), text.substr(equals + 1)};
    if (std::ranges::count(words, word.name, &Word::name) > 0)
      throw UsageError{fmt::format("`{}` is given twice", word.name), {}};
    words.push_back(word);
  }
  // not given
  std::erase_if(words, [&](const Word& word) { return word.value == "default" && is_input(function, word.name); });
  for (const auto& [name, value] : options.defines)      // `--define S=2` of a scalar input is `S=2`
    if (is_input(function, name) && std::ranges::count(words, name, &Word::name) == 0)
      words.push_back({name, std::visit([](const auto& v) { return fmt::format("{}", v); }, value)});
  return words;
}

double milliseconds(auto run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::vector<double> run_timed(
    const runtime::Module& module, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  std::vector<void*> in, out;
  for (const Tensor& tensor : inputs) in.push_back(tensor.data);
  for (const Tensor& tensor : outputs) out.push_back(tensor.data);
  std::vector<double> launches;
  module.run_timed(in.data(), out.data(), launches);
  return launches;
}

std::vector<Comparison> check(const Options& options, const runtime::Specialisation& made,
    const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  poly::Effort effort{.seed = options.seed};
  if (options.check_elements) effort = {0, *options.check_elements, options.seed};
  ProgressLine line;
  return compare_with_interpreter(made, inputs, outputs, effort, [&](double done) { line("checking", done); });
}

std::optional<std::vector<Comparison>> differences(
    const Callable& callable, const Options& options, const Call& call, lang::Diagnostics& diagnostics) {
  ProgressLine line;
  return compare_with_differences(
      callable, options.gradient, call.inputs, diagnostics, [&](double done) { line("checking", done); });
}

int print_comparisons(const std::vector<Comparison>& comparisons) {
  int status = success;
  for (const Comparison& one : comparisons) {
    fmt::print("{}\n", describe(one));
    if (one.bad) status = program_error;
  }
  return status;
}

int execute(Session& session, const Callable& callable, const Call& call) {
  const std::vector<OutputFile> files = output_files(call.outputs, session.files);
  std::shared_ptr<const runtime::Specialisation> made;
  const double compile_time = milliseconds([&] { made = callable.specialise(call.inputs, {}, session.diagnostics); });
  if (!made || session.failed()) return session.report();
  if (!session.options.dump_to.empty()) dump(session, made->stages, session.request());
  const runtime::Module& module = *made->module;
  const std::vector<Tensor> inputs = runtime::bind_inputs(module, call.inputs),
                            outputs = runtime::allocate_outputs(module);
  const double first = milliseconds([&] { runtime::run(module, inputs, outputs); });
  const Options& options = session.options;
  write_outputs(module, outputs, files);
  if (!options.quiet) print_summaries(module, outputs, call.outputs);
  if (options.time) {
    std::vector<double> launches;
    const double again = milliseconds([&] { launches = run_timed(module, inputs, outputs); });
    for (const codegen::Timing& timing : made->stages.timings)
      fmt::print(stderr, "{:<20} {:9.3f} ms\n", timing.pass, timing.milliseconds);
    fmt::print(stderr, "{:<20} {:9.3f} ms\n{:<20} {:9.3f} ms\n{:<20} {:9.3f} ms\n", "compile and load", compile_time,
        "first run", first, "second run", again);
    for (std::size_t k = 0; k < launches.size(); ++k)
      fmt::print(stderr, "  {:<18} {:9.3f} ms\n", module.launches[k], launches[k]);
  }
  int status = session.report();
  if (options.check) status = std::max(status, print_comparisons(check(options, *made, inputs, outputs)));
  if (options.grad_check) {
    lang::Diagnostics diagnostics;                       // session's have been shown
    const std::optional<std::vector<Comparison>> compared = differences(callable, options, call, diagnostics);
    if (compared) status = std::max(status, print_comparisons(*compared));
    else show(diagnostics, session.sources, options);
    if (!compared) status = std::max<int>(status, program_error);
  }
  return status;
}

// Of the tensors that are given.
Shapes shapes_of(const Call& call) {
  Shapes all;
  for (const runtime::Argument& input : call.inputs)
    if (input.tensor) all.emplace(input.name, input.tensor->shape);
  return all;
}

}  // namespace

int call_program(const Options& given, const std::string& text, bool shows_stages,
    const std::function<int(Session&, const Callable&, const Call&)>& work) {
  Session session(given, given.words[0], text);
  if (!session.file) return session.report();
  const std::vector<Word> words = split_words(given, session.entry());
  codegen::Request request = session.request();
  infer_derivatives(Callable(session.sources, *session.file, request), words, request.derivatives);
  const Callable callable(session.sources, *session.file, request);
  if (callable.function() == nullptr) {
    static_cast<void>(codegen::compile(*session.file, request, codegen::Until::Contraction, session.diagnostics));
    return session.report();
  }
  std::vector<std::string> read;
  const std::optional<Call> call = read_call(callable, words, {given.seed, {}, &read}, session.diagnostics);
  if (!call) {
    session.diagnostics = with_integers_said(session.diagnostics, words, session.sources);
    return session.report();
  }
  session.refuse_unsaid(shapes_of(*call));
  for (const std::string& path : read) session.files.reads(path);
  for (const Word& word : call->outputs) request.outputs.push_back(word.name);  // others are not computed
  return work(session,
      Callable(callable.loaded(), request, runtime::usual_kernels(), runtime::Cache::usual(), shows_stages), *call);
}

int run_command(const Options& given) {
  if (given.words.empty()) throw UsageError{"no file of Tile is named", "write `tilec run FILE NAME=VALUE…`"};
  const std::string& path = given.words[0];
  if (is_package_file(path)) return run_package(given, split_words(given, nullptr));
  const std::string text = program_or_package(path);  // once: a pipe has no second time
  if (runtime::is_package(text)) return run_package(given, split_words(given, nullptr), text);
  if (text.empty() && path.ends_with(".tilec"))
    throw runtime::machine_error(lang::messages::bad_package, path, "it is empty");
  return call_program(given, text, given.time || given.check || given.grad_check || !given.dump_to.empty(), execute);
}

}  // namespace tilec::cli
