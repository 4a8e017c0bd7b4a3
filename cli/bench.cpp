// `tilec bench FILE NAME=VALUE…`: how long a call takes, with the spread of the median, and what part of this machine's rates that is.
//
// Calls run in batches long enough for the clock, for a tenth of the time at least, until the median is known to 1 % or the time is up. The machine's rates are those of a matrix product and of a sum over memory,
// measured at the same time by tilec itself: a share of them is a share of what is known to be reached here, not of a data sheet.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/bench_rows.h"
#include "cli/call.h"
#include "cli/session.h"
#include "codegen/figures.h"
#include "lang/check.h"
#include "lang/parse.h"
#include "lang/render.h"
#include "poly/count.h"

namespace tilec::cli {

namespace {

using runtime::Tensor;
using Clock = std::chrono::steady_clock;

constexpr double batch_seconds = 20e-6, settled = 0.01;  // of a batch, so that the clock does not count; half the interval, of the median
constexpr std::size_t least_samples = 20;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Measured : Interval {                              // seconds of a call
  std::size_t calls = 0;
};

Measured measure(const std::function<void()>& call, double budget) {
  double once = seconds_of(call);
  for (const auto start = Clock::now(); std::chrono::duration<double>(Clock::now() - start).count() < budget / 10;) once = std::min(once, seconds_of(call));
  const auto batch = static_cast<std::size_t>(std::clamp(std::ceil(batch_seconds / std::max(once, 1e-9)), 1.0, 1e6));
  std::vector<double> samples;
  Measured made;
  const auto start = Clock::now();
  for (std::size_t next = least_samples;;) {
    samples.push_back(seconds_of([&] { for (std::size_t k = 0; k < batch; ++k) call(); }) / static_cast<double>(batch));
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    const bool late = elapsed > budget;
    if ((samples.size() < next || elapsed < budget / 10) && !late) continue;
    made = {interval_of(samples)};
    if (late || made.high - made.low < 2 * settled * made.median) break;
    next = 2 * samples.size();
  }
  made.calls = samples.size() * batch;
  return made;
}

// Of one program of our own, whose inputs are ones.
double best_seconds(const char* text, const codegen::Request& like, const std::vector<std::vector<std::int64_t>>& shapes) {
  lang::Diagnostics diagnostics;
  std::optional<lang::File> file = lang::parse({"rate", text}, diagnostics);
  if (!file || !lang::check(*file, diagnostics)) throw lang::InternalError("a program that measures the machine is wrong");
  codegen::Request request;
  request.target = like.target;
  request.threads_hint = like.threads_hint;
  const runtime::Callable callable({{"rate", text}}, std::move(*file), request);
  std::vector<runtime::Argument> arguments;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    Tensor tensor = runtime::allocate(callable.input_names()[k], lang::DType::F32, shapes[k]);
    std::fill_n(static_cast<float*>(tensor.data), tensor.count(), 1.0F);
    arguments.push_back({.name = callable.input_names()[k], .tensor = tensor});
  }
  const auto made = callable.specialise(arguments, {}, diagnostics);
  if (!made) throw lang::InternalError("a program that measures the machine does not compile");
  const std::vector<Tensor> out = runtime::allocate_outputs(*made->module);
  double best = 1e9;
  for (int k = 0; k < 8; ++k) best = std::min(best, seconds_of([&] { runtime::run(*made->module, runtime::bind_inputs(*made->module, arguments), out); }));
  return best;
}

struct Rates { double operations = 0, bytes = 0; };      // a second

Rates rates_of(const codegen::Request& like) {
  constexpr std::int64_t side = 768, elements = 32 << 20;
  return {2.0 * side * side * side / best_seconds("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }", like, {{side, side}, {side, side}}),
          4.0 * elements / best_seconds("function (X[M, N]) -> (S) { S[j: N] = +(X[i, j]); }", like, {{elements / 4096, 4096}})};
}

double operations_of(const poly::Program& program) {
  double sum = 0;
  for (const poly::Node& node : program.nodes) sum += static_cast<double>(poly::operations(program, node).count);
  return sum;
}

double bytes_of(const runtime::Module& module) {
  double sum = 0;
  for (const auto* ports : {&module.inputs, &module.outputs})
    for (const runtime::Port& port : *ports) sum += static_cast<double>(runtime::byte_count(port.name, port.dtype, port.shape));
  return sum;
}

std::vector<std::string> forms_of(const runtime::Module& module) {
  std::vector<std::string> forms;
  for (const runtime::Port& port : module.inputs) forms.push_back(fmt::format("{}={}{}{}", port.name, fmt::join(port.shape, "x"), port.shape.empty() ? "" : "x", lang::name(port.dtype)));
  return forms;
}

std::string list_in_json(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(lang::in_json(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

int bench(Session& session, const runtime::Callable& callable, const Call& call) {
  const Options& options = session.options;
  const auto made = callable.specialise(call.inputs, {}, session.diagnostics);
  if (!made || session.failed()) return session.report();
  const runtime::Module& module = *made->module;
  const std::vector<Tensor> inputs = runtime::bind_inputs(module, call.inputs), outputs = runtime::allocate_outputs(module);
  std::vector<void*> in, out;
  for (const Tensor& tensor : inputs) in.push_back(tensor.data);
  for (const Tensor& tensor : outputs) out.push_back(tensor.data);
  const Measured measured = measure([&] { module.run(in.data(), out.data()); }, options.seconds);
  const double operations = operations_of(*made->stages.bounded), bytes = bytes_of(module);
  const bool here = session.request().target.family == codegen::Target::Family::Cpu;
  const Rates rates = here ? rates_of(session.request()) : Rates{};
  const std::string name = module.name.empty() ? options.words[0] : module.name;
  if (options.json_output) {
    put(fmt::format("{{\"name\": {}, \"inputs\": {}, \"target\": {}, \"threads\": {}, \"median\": {:.9g}, \"low\": {:.9g}, \"high\": {:.9g}, \"calls\": {}, \"operations\": {:.17g}, \"bytes\": {:.17g}, "
                    "\"operations_a_second\": {:.6g}, \"bytes_a_second\": {:.6g}, \"matrix_product_operations_a_second\": {:.6g}, \"memory_bytes_a_second\": {:.6g}}}\n",
                    lang::in_json(name), list_in_json(forms_of(module)), lang::in_json(options.target), options.threads, measured.median, measured.low, measured.high, measured.calls, operations, bytes, operations / measured.median, bytes / measured.median, rates.operations, rates.bytes),
        options);
    return session.report();
  }
  const auto share = [](double rate, double of) { return of > 0 ? fmt::format(", {:.0f} % of", 100 * rate / of) : std::string(); };
  std::string text = fmt::format("{}: {} a call, 95 % between {} and {}, {} calls\n", name, time_text(measured.median), time_text(measured.low), time_text(measured.high), measured.calls);
  const double done = operations / measured.median, moved = bytes / measured.median;
  text += fmt::format("  {}{}\n", codegen::scaled(done, " operations a second"), here ? share(done, rates.operations) + " a matrix product's" : "");
  text += fmt::format("  {}{}\n", codegen::scaled(moved, "B a second of inputs and outputs"), here ? share(moved, rates.bytes) + " a sum's over memory" : "");
  put(text, options);
  return session.report();
}

}  // namespace

int bench_command(const Options& options) {
  if (options.words.empty()) throw UsageError{"no file of Tile is named", "write `tilec bench FILE NAME=VALUE…`"};
  return call_program(options, text_of(options.words[0]), true, bench);
}

}  // namespace tilec::cli
