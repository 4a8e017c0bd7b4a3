// `tilec report FILE --size … -o FILE.html`: a compilation as a page to look at.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/arguments.h"
#include "cli/report/page.h"
#include "cli/session.h"
#include "codegen/clock.h"
#include "runtime/assemble.h"
#include "runtime/emit.h"
#include "runtime/module.h"

namespace tilec::cli {

namespace {

using codegen::Target;
using codegen::Until;
using report::Part;
using report::Report;

constexpr double measured_for = 300;                     // milliseconds, of a part
constexpr std::size_t least_calls = 3, most_calls = 200;

// The text that a person reads last: assembly, or the kernels of a GPU.
const char* language_of(Target::Family family) {
  return family == Target::Family::Cpu ? "asm" : family == Target::Family::OpenCl ? "opencl" : "cuda";
}

double median(std::vector<double> samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

// The median of each step's milliseconds, on random inputs.
std::vector<double> measure(const runtime::Module& module, std::uint64_t seed) {
  std::vector<runtime::Tensor> tensors;
  std::vector<void*> in, out;
  for (const runtime::Port& port : module.inputs) {
    tensors.push_back(runtime::allocate(port.name, port.dtype, port.shape));
    fill_random(tensors.back(), port.name, seed);
    in.push_back(tensors.back().data);
  }
  for (const runtime::Port& port : module.outputs) {
    tensors.push_back(runtime::allocate(port.name, port.dtype, port.shape));
    out.push_back(tensors.back().data);
  }
  std::vector<std::vector<double>> samples(module.launches.size());
  std::vector<double> once;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  for (std::size_t calls = 0; calls < least_calls || (calls < most_calls && elapsed() < measured_for); ++calls) {
    module.run_timed(in.data(), out.data(), once);
    for (std::size_t k = 0; k < samples.size(); ++k) samples[k].push_back(once[k]);
  }
  std::vector<double> medians;
  for (std::vector<double>& one : samples) medians.push_back(median(std::move(one)));
  return medians;
}

Part part_of(const Session& session, const codegen::Request& request, std::string title, codegen::Stages stages) {
  Part part{std::move(title), std::move(stages), {}, {}};
  if (!part.stages.lowered) return part;
  codegen::Clock timed(part.stages.timings);
  part.language = language_of(request.target.family);
  part.code = timed(part.language,
      [&] { return runtime::emit(*runtime::stage_named(part.language), *session.file, part.stages, request); });
  if (!session.options.measure) {
    part.workspace = runtime::layout_of(*part.stages.lowered, request).workspace;
    return part;
  }
  const codegen::Package package =
      timed("machine code", [&] { return runtime::assemble(*part.stages.lowered, request); });
  part.workspace = package.workspace;
  part.measured = measure(*runtime::load(package, request), session.options.seed);
  return part;
}

void add_part(Report& page, Part part) {
  page.timings.emplace_back(part.title.empty() ? "program" : part.title, part.stages.timings);
  page.parts.push_back(std::move(part));
}

bool add_program(Session& session, const codegen::Request& request, Report& page) {
  const bool compiles = request.target.family != Target::Family::Reference;
  std::optional<codegen::Stages> stages =
      codegen::compile(*session.file, request, compiles ? Until::Lowered : Until::Reduced, session.diagnostics);
  if (!stages || session.failed()) return false;
  if (!session.options.dump_to.empty()) dump(session, *stages, request);
  page.derivative = stages->gradient;
  page.name = stages->bounded->name;
  add_part(page, part_of(session, request, {}, std::move(*stages)));
  return true;
}

bool add_pair(Session& session, const codegen::Request& request, Report& page) {
  std::optional<codegen::Pair> pair =
      codegen::compile_pair(*session.file, request, Until::Lowered, session.diagnostics);
  if (!pair || session.failed()) return false;
  page.derivative = pair->meaning.gradient;
  page.split = std::move(pair->meaning.split);
  page.name = pair->meaning.contraction->name;
  page.timings.emplace_back("both", pair->meaning.timings);
  add_part(page, part_of(session, request, "forward", std::move(pair->forward)));
  add_part(page, part_of(session, request, "backward", std::move(pair->backward)));
  return true;
}

}  // namespace

int report_command(const Options& options) {
  const std::string path = only_file(options);
  if (options.vjp && !options.dump_to.empty())
    throw UsageError{"--dump-to shows one program, and a pair is two",
        fmt::format("write `tilec {} --grad --dump-to={}`: its stages `forward` and `backward` are the halves", path,
            options.dump_to)};
  if (options.room && !options.vjp)
    throw UsageError{"--room belongs to a pair, and none is asked for", "write `--vjp`"};
  Session session(options, path);
  if (!session.file) return session.report();
  codegen::Request request = session.request();
  const bool compiles = request.target.family != Target::Family::Reference;
  if (!compiles && (options.vjp || options.measure))
    throw UsageError{fmt::format("{} is about what is compiled, and the interpreter compiles nothing",
                         options.vjp ? "--vjp" : "--measure"),
        "choose a target that compiles: `cpu`, `opencl` or `cuda`"};
  if (options.measure && request.threads_hint == 0) request.threads_hint = 1;  // as the model predicts
  Report page{{}, session.sources, *session.file, session.entry(), request, {}, {}, {}, {}};
  if (!(options.vjp ? add_pair(session, request, page) : add_program(session, request, page))) return session.report();
  if (page.name.empty()) page.name = session.sources[0].name;
  put(report::page(page), options);
  if (options.time)
    for (const auto& [of, timings] : page.timings) print_timings(timings);
  return session.report();
}

}  // namespace tilec::cli
