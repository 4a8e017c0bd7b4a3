// `tilec FILE --emit=STAGE`: shows any stage; --dump-to writes all that there are; `tilec stages` lists them.
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lang/nearest.h"
#include "cli/session.h"
#include "cli/show_stats.h"
#include "runtime/emit.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace tilec::cli {

namespace {

const runtime::StageInfo& stage_of(const std::string& name) {
  const runtime::StageInfo* stage = runtime::stage_named(name);
  if (stage != nullptr) return *stage;
  std::vector<std::string> names;
  for (const runtime::StageInfo& s : runtime::all_stages()) names.emplace_back(s.name);
  const std::optional<std::string> near = lang::nearest(name, names);
  throw runtime::argument_error(runtime::messages::unknown_stage, name)
      .hint(near ? fmt::format("did you mean `--emit={}`?", *near) : "`tilec stages` lists them");
}

}  // namespace

void print_timings(const std::vector<codegen::Timing>& timings) {
  double total = 0;
  for (const codegen::Timing& timing : timings) {
    fmt::print(stderr, "{:<16} {:9.3f} ms\n", timing.pass, timing.milliseconds);
    total += timing.milliseconds;
  }
  fmt::print(stderr, "{:<16} {:9.3f} ms\n", "total", total);
}

void dump(Session& session, const codegen::Stages& stages, const codegen::Request& request) {
  const std::string& folder = session.options.dump_to;
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    throw runtime::machine_error(runtime::messages::unwritable, folder, std::strerror(errno));
  std::vector<std::pair<std::string, const runtime::StageInfo*>> files;
  int number = 0;
  for (const runtime::StageInfo& stage : runtime::all_stages()) {
    ++number;
    if (stage.family && *stage.family != request.target.family) continue;
    if (!runtime::reached(stage, stages)) continue;
    files.emplace_back(fmt::format("{}/{:02}_{}{}", folder, number, stage.name, stage.suffix), &stage);
    session.files.writes(files.back().first);
  }
  for (const auto& [path, which] : files) {
    const runtime::StageInfo& stage = *which;
    try {
      runtime::write_file(path, runtime::emit(stage, *session.file, stages, request));
    } catch (const runtime::RuntimeError& fault) {
      if (fault.diagnostic.code == runtime::messages::unwritable.code) throw;
      // NVRTC is absent: the other stages are still of use
      fmt::print(stderr, "tilec: no {}: {}\n", stage.name, fault.diagnostic.message);
    }
  }
}

int stages_command(const Options& options) {
  if (!options.words.empty())
    throw UsageError{fmt::format("`{}` is one word too many: `tilec stages` takes none", options.words[0]), {}};
  for (const runtime::StageInfo& stage : runtime::all_stages())
    fmt::print("{:<12} {}{}\n", stage.name, stage.what,
        stage.family ? fmt::format(" (target {})", runtime::family_name(*stage.family)) : "");
  return success;
}

int emit_command(const Options& options) {
  const std::string path = only_file(options);
  const bool only_dump = options.stage.empty() && !options.dump_to.empty();
  if (options.stage.empty() && !only_dump && !options.time)
    throw UsageError{fmt::format("what should be done with `{}`?", path),
        fmt::format("write `tilec run {}`, `tilec check {}` or `tilec {} --emit=contraction`", path, path, path)};
  const runtime::StageInfo& stage = stage_of(options.stage.empty() ? "loops" : options.stage);
  const codegen::Target target = target_of(runtime::default_target(stage, options.target, options.target_given));
  if (stage.family && target.family != *stage.family)
    throw UsageError{fmt::format("stage `{}` belongs to target {}, and {} is asked for", stage.name,
                         runtime::family_name(*stage.family), target.name),
        "leave --target out, or ask for a stage of that target: `tilec stages`"};
  if (!options.plan.empty() && stage.until < codegen::Until::Plan)
    throw UsageError{fmt::format("--plan says nothing about `{}`", stage.name),
        "stages from `plan` on follow a plan: `--emit=plan`"};
  Session session(options, path);
  if (!session.file) return session.report();
  codegen::Request request = session.request();
  request.target = target;
  runtime::ask_for(stage, request, options.gradient);
  if (!options.dump_to.empty()) request.split = true;
  codegen::Stages stages;
  if (stage.of != runtime::StageInfo::Of::Text) {
    std::optional<codegen::Stages> computed =
        codegen::compile(*session.file, request, stage.until, session.diagnostics);
    if (!computed || session.failed()) return session.report();
    stages = std::move(*computed);
  }
  if (!options.dump_to.empty()) dump(session, stages, request);
  if (!options.stage.empty()) {
    const std::string text = runtime::emit(stage, *session.file, stages, request);
    put(text, options, stage.binary);
  }
  if (options.stats) print_stats(*session.file, stages, request);
  if (options.time) print_timings(stages.timings);
  return session.report();
}

}  // namespace tilec::cli
