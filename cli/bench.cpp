// `tilec bench FILE NAME=VALUE…`: how long a call takes, with the spread of the median, and what part of this machine's
// rates that is.
//
// Calls run in batches long enough for the clock, for a tenth of the time at least, until the median is known to 1 % or
// the time is up. With --vs, batches of a peer stand between ours, so that what else the machine does hits both, and
// the ratio is that of neighbours.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "cli/bench_rows.h"
#include "cli/call.h"
#include "cli/peer.h"
#include "cli/progress.h"
#include "cli/roof.h"
#include "cli/session.h"
#include "codegen/figures.h"
#include "codegen/report.h"
#include "lang/render.h"
#include "runtime/error.h"

namespace tilec::cli {

namespace {

using runtime::Tensor;
using Clock = std::chrono::steady_clock;

// of a batch, so that the clock does not count, nor what a peer leaves in caches
constexpr double batch_seconds = 20e-6, batch_beside_peers = 500e-6;
constexpr double settled = 0.01;                         // half the interval, of the median
constexpr std::size_t least_samples = 20;

// One of those that run in turns.
struct Runner {
  std::function<double(std::size_t)> seconds_of;         // so many calls
  std::size_t batch = 1;
  std::vector<double> samples = {};                      // seconds of a call
};

bool is_settled(const Interval& made) { return made.high - made.low < 2 * settled * made.median; }

void measure(std::vector<Runner>& runners, double budget) {
  ProgressLine line;
  const double least = runners.size() > 1 ? batch_beside_peers : batch_seconds;
  for (Runner& one : runners) {
    double once = one.seconds_of(1);
    for (const auto start = Clock::now(); std::chrono::duration<double>(Clock::now() - start).count() < budget / 10;)
      once = std::min(once, one.seconds_of(1));
    one.batch = static_cast<std::size_t>(std::clamp(std::ceil(least / std::max(once, 1e-9)), 1.0, 1e6));
  }
  budget *= static_cast<double>(runners.size());
  const auto start = Clock::now();
  for (std::size_t next = least_samples;;) {
    for (Runner& one : runners) one.samples.push_back(one.seconds_of(one.batch) / static_cast<double>(one.batch));
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    if (elapsed > budget) return;
    line("measuring", elapsed / budget);
    const std::size_t made = runners.front().samples.size();
    if (made < next || elapsed < budget / 10) continue;
    if (is_settled(runtime::interval_of(runners.front().samples)) &&
        std::all_of(runners.begin() + 1, runners.end(),
            [&](const Runner& one) { return is_settled(runtime::ratio_of(one.samples, runners.front().samples)); }))
      return;
    next = 2 * made;
  }
}

std::vector<std::string> forms_of(const runtime::Module& module) {
  std::vector<std::string> forms;
  for (const runtime::Port& port : module.inputs)
    forms.push_back(fmt::format(
        "{}={}{}{}", port.name, fmt::join(port.shape, "x"), port.shape.empty() ? "" : "x", lang::name(port.dtype)));
  return forms;
}

std::string list_in_json(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(lang::in_json(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string told(const Peer& peer, const Runner& run, const Runner& first) {
  const Interval ratio = runtime::ratio_of(run.samples, first.samples);
  return fmt::format(
      "  {} {}: {} a call, {:.3f} times ours, 95 % between {:.3f} and {:.3f}; results differ by {} of the largest value\n    {}\n",
      peer.name(), peer.version(), time_text(runtime::interval_of(run.samples).median), ratio.median, ratio.low,
      ratio.high, peer.error(), peer.formula());
}

// `, "peers": [{"name": "torch", …}]`; without peers nothing.
std::string in_json(const std::vector<std::unique_ptr<Peer>>& peers, const std::vector<Runner>& runners) {
  std::vector<std::string> all;
  for (std::size_t k = 0; k < peers.size(); ++k) {
    const Interval time = runtime::interval_of(runners[k + 1].samples),
                   ratio = runtime::ratio_of(runners[k + 1].samples, runners.front().samples);
    all.push_back(fmt::format(
        "{{\"name\": {}, \"version\": {}, \"formula\": {}, \"median\": {:.9g}, \"low\": {:.9g}, \"high\": {:.9g}, \"ratio\": {:.6g}, \"ratio_low\": {:.6g}, \"ratio_high\": {:.6g}, \"error\": {}}}",
        lang::in_json(peers[k]->name()), lang::in_json(peers[k]->version()), lang::in_json(peers[k]->formula()),
        time.median, time.low, time.high, ratio.median, ratio.low, ratio.high, peers[k]->error()));
  }
  return all.empty() ? std::string() : fmt::format(", \"peers\": [{}]", fmt::join(all, ", "));
}

int bench(Session& session, const runtime::Callable& callable, const Call& given) {
  const Options& options = session.options;
  const Call call = with_random_inputs(callable, given, options.seed);
  const auto made = callable.specialise(call.inputs, {}, session.diagnostics);
  if (!made || session.failed()) return session.report();
  const runtime::Module& module = *made->module;
  const std::vector<Tensor> inputs = runtime::bind_inputs(module, call.inputs),
                            outputs = runtime::allocate_outputs(module);
  std::vector<void*> in, out;
  for (const Tensor& tensor : inputs) in.push_back(tensor.data);
  for (const Tensor& tensor : outputs) out.push_back(tensor.data);
  module.run(in.data(), out.data());                     // what peers are compared with
  std::vector<std::unique_ptr<Peer>> peers;
  try {
    for (const std::string& asked : options.peers)
      peers.push_back(
          std::make_unique<Peer>(asked, *made->stages.simplified, module, inputs, outputs, options.threads));
  } catch (const runtime::RuntimeError& fault) {
    if (fault.diagnostic.code != lang::messages::peer_differs.code) throw;
    session.diagnostics.add(fault.diagnostic);
    return session.report();
  }
  std::vector<Runner> runners{{[&](std::size_t calls) {
    return runtime::seconds_of([&] {
      for (std::size_t k = 0; k < calls; ++k) module.run(in.data(), out.data());
    });
  }}};
  for (const auto& peer : peers) runners.push_back({[&](std::size_t calls) { return peer->seconds_of(calls); }});
  measure(runners, options.seconds);
  const Interval measured = runtime::interval_of(runners.front().samples);
  const std::size_t calls = runners.front().samples.size() * runners.front().batch;
  const double operations = static_cast<double>(codegen::totals(*made->stages.bounded).operations),
               bytes = bytes_of(module);
  const bool here = session.request().target.family == codegen::Target::Family::Cpu;
  const Rates rates = rates_of(session.request());
  const std::string name = module.name.empty() ? options.words[0] : module.name;
  if (options.json_output) {
    put(fmt::format(
            "{{\"name\": {}, \"inputs\": {}, \"target\": {}, \"threads\": {}, \"median\": {:.9g}, \"low\": {:.9g}, \"high\": {:.9g}, \"calls\": {}, \"operations\": {:.17g}, \"bytes\": {:.17g}, "
            "\"operations_a_second\": {:.6g}, \"bytes_a_second\": {:.6g}, \"matrix_product_operations_a_second\": {:.6g}, \"memory_bytes_a_second\": {:.6g}{}}}\n",
            lang::in_json(name), list_in_json(forms_of(module)), lang::in_json(options.target), options.threads,
            measured.median, measured.low, measured.high, calls, operations, bytes, operations / measured.median,
            bytes / measured.median, rates.operations, rates.bytes, in_json(peers, runners)),
        options);
    return session.report();
  }
  const auto share = [](double rate, double of) {
    return of > 0 ? fmt::format(", {:.0f} % of", 100 * rate / of) : std::string();
  };
  std::string text = fmt::format("{}: {} a call, 95 % between {} and {}, {} calls\n", name, time_text(measured.median),
      time_text(measured.low), time_text(measured.high), calls);
  const double done = operations / measured.median, moved = bytes / measured.median;
  text += fmt::format("  {}{}\n", codegen::scaled(done, " operations a second"),
      here ? share(done, rates.operations) + " a matrix product's" : "");
  text += fmt::format("  {}{}\n", codegen::scaled(moved, "B a second of inputs and outputs"),
      here ? share(moved, rates.bytes) + " a sum's over memory" : "");
  for (std::size_t k = 0; k < peers.size(); ++k) text += told(*peers[k], runners[k + 1], runners.front());
  put(text, options);
  return session.report();
}

}  // namespace

int bench_command(const Options& options) {
  if (options.words.empty()) throw UsageError{"no file of Tile is named", "write `tilec bench FILE NAME=VALUE…`"};
  Options own = options;
  if (!own.peers.empty() && own.threads == 0) own.threads = 1;
  return call_program(own, text_of(own.words[0]), true, bench);
}

}  // namespace tilec::cli
