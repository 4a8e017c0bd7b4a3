// `tilec tune FILE NAME=VALUE…`: looks for a faster plan by measuring, and keeps it where later compilations find it.
//
//   [######..............] 18/60 s  214 plans  best 1.234 ms  1.41x  63 % of roof  eta 42 s
//     on a terminal, while it goes on
//   conv: 1.234 ms a call, 1.41 times as fast as before, 95 % between 1.40 and 1.43; 402 plans in 60 s
//
// Ctrl-C ends the search between two candidates; what is best by then is kept. A second one ends the command.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "cli/bench_rows.h"
#include "cli/call.h"
#include "cli/progress.h"
#include "cli/roof.h"
#include "cli/session.h"
#include "codegen/report.h"
#include "runtime/error.h"
#include "runtime/tune.h"

namespace tilec::cli {

namespace {

volatile std::sig_atomic_t stopped = 0;

// While it stands, Ctrl-C is a wish.
class Interrupt {
 public:
  Interrupt() {
    struct sigaction wish{};
    wish.sa_handler = [](int) { stopped = 1; };
    wish.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &wish, &before_);
  }
  ~Interrupt() { ::sigaction(SIGINT, &before_, nullptr); }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  struct sigaction before_{};
};

// What a call takes at least, where this is known.
double roof_of(const runtime::Callable& callable, const std::vector<runtime::Argument>& inputs, const Rates& rates) {
  lang::Diagnostics unheard;
  const auto request = callable.request_for(inputs, {}, unheard);
  const auto stages =
      request ? codegen::compile(callable.file(), *request, codegen::Until::Reduced, unheard) : std::nullopt;
  if (!stages) return 0;
  double bytes = 0;
  for (const auto* ids : {&stages->bounded->inputs, &stages->bounded->outputs})
    for (const poly::TensorId id : *ids) {
      const runtime::Port port = runtime::port_of(stages->bounded->tensor(id));
      bytes += static_cast<double>(runtime::byte_count(port.name, port.dtype, port.shape));
    }
  return least_seconds(static_cast<double>(codegen::totals(*stages->bounded).operations), bytes, rates);
}

std::string line_of(const runtime::TuneProgress& now, double roof) {
  const std::string of_roof = roof > 0 ? fmt::format("  {:.0f} % of roof", 100 * roof / now.best) : std::string();
  return fmt::format("{} {:.0f}/{:.0f} s  {} plans  best {}  {:.2f}x{}  eta {:.0f} s", bar(now.elapsed / now.seconds),
      now.elapsed, now.seconds, now.measured, time_text(now.best), now.first / now.best, of_roof,
      std::max(0.0, now.seconds - now.elapsed));
}

int tune(Session& session, const runtime::Callable& callable, const Call& given) {
  const Options& options = session.options;
  const Call call = with_random_inputs(callable, given, options.seed);
  const double roof = roof_of(callable, call.inputs, rates_of(session.request()));
  std::optional<runtime::Tuned> tuned;
  double took = 0;
  {
    const Interrupt interrupt;
    ProgressLine line(!options.quiet);
    took = runtime::seconds_of([&] {
      tuned = runtime::tune(callable, call.inputs,
          {.seconds = options.seconds,
              .goes_on =
                  [&](const runtime::TuneProgress& now) {
                    line([&] { return line_of(now, roof); });
                    return stopped == 0;
                  }},
          session.diagnostics);
    });
  }
  if (!tuned || session.failed()) return session.report();
  if (!options.output.empty()) put(tuned->plan, options);
  const std::string name = callable.function()->name ? callable.function()->name->text : options.words[0];
  const std::string plans = fmt::format("{} plans in {:.0f} s", tuned->measured, took);
  if (!options.quiet && options.output != "-") {
    if (tuned->ratio > 1)
      fmt::print("{}: {} a call, {:.2f} times as fast as before, 95 % between {:.2f} and {:.2f}; {}\n", name,
          time_text(tuned->best), tuned->ratio, tuned->low, tuned->high, plans);
    else fmt::print("{}: {} a call, and no plan is faster; {}\n", name, time_text(tuned->first), plans);
    if (tuned->ratio > 1 && !tuned->kept)
      fmt::print("the plan is not kept{}: {}\n", options.output.empty() ? "" : " in the cache",
          callable.disk() ? "it cannot be written" : "TILEC_CACHE is `off`, or there is no home");
  }
  return session.report();
}

}  // namespace

int tune_command(const Options& options) {
  if (options.words.empty())
    throw UsageError{"no file of Tile is named", "write `tilec tune FILE NAME=VALUE…`, or `--size N=8,…`"};
  return call_program(options, text_of(options.words[0]), true, tune);
}

}  // namespace tilec::cli
