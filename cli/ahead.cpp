#include "cli/ahead.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/ahead.h"
#include "runtime/c_header.h"
#include "runtime/error.h"

namespace tilec::cli {

namespace {

using runtime::CompiledFor;
using runtime::Part;

struct Path { std::string folder, stem, suffix; };     // `a/f.o`: `a/`, `f`, `.o`

Path path_of(const std::string& text) {
  const std::size_t slash = text.rfind('/'), name = slash == std::string::npos ? 0 : slash + 1, dot = text.rfind('.');
  if (dot == std::string::npos || dot < name) return {text.substr(0, name), text.substr(name), ""};
  return {text.substr(0, name), text.substr(name, dot - name), text.substr(dot)};
}

void refuse_options(const Options& options) {
  if (options.room && !options.vjp)
    throw UsageError{"--room belongs to a pair, and none is asked for", "write `--vjp`"};
  if (options.vjp && !options.dump_to.empty())
    throw UsageError{"--dump-to shows one program, and a pair is two",
        fmt::format("write `tilec {} --grad --dump-to={}`: its stages `forward` and `backward` are the halves",
            only_file(options), options.dump_to)};
  if (!options.multi_target) return;
  if (options.target_given)
    throw UsageError{"--multi-target chooses the CPUs, and --target another one", "leave one of them out"};
}

// What belongs to one target.
void refuse_for_several(const Options& options) {
  if (!options.plan.empty())
    throw UsageError{"--plan is for one target, and this compiles for several", "leave one of them out"};
  if (!options.dump_to.empty())
    throw UsageError{"--dump-to shows one program, and this makes several", "write `--target` with one of them"};
}

// `cuda:sm_80,sm_90a` is two.
std::vector<codegen::Target> targets_of(const Options& options) {
  if (options.multi_target) return {target_of("cpu:x86-64-v3"), target_of("cpu:x86-64-v4")};
  constexpr std::string_view cuda = "cuda:";
  if (!options.target.starts_with(cuda)) return {target_of(options.target)};
  std::vector<codegen::Target> targets;
  for (std::size_t at = cuda.size(), end = 0; end != std::string::npos; at = end + 1) {
    end = options.target.find(',', at);
    targets.push_back(target_of(std::string(cuda) + options.target.substr(at, end - at)));
    for (std::size_t k = 0; k + 1 < targets.size(); ++k)
      if (targets[k].arch == targets.back().arch)
        throw UsageError{fmt::format("--target names {} twice", targets[k].arch), "write each architecture once"};
  }
  return targets;
}

// What the text calls it, else the file.
std::string name_of(const Session& session, const std::string& path) {
  const lang::Function* function = session.entry();
  if (function && function->name) return function->name->text;
  return path == "-" ? "tile" : runtime::c_identifier(path_of(path).stem);
}

std::string suffix_of_derivatives(const Options& options) {
  std::string suffix;
  const std::size_t plain = options.derivatives.size() - (options.vjp ? 1 : 0);
  for (std::size_t k = 0; k < plain; ++k) suffix += options.derivatives[k].forward ? "_tangent" : "_grad";
  return suffix;
}

void check_names(const std::vector<std::string>& names, bool given) {
  for (const std::string& name : names)
    if (const std::string why = runtime::why_no_c_name(name); !why.empty())
      throw UsageError{fmt::format("`{}` {}", name, why),
          given ? "write another --name"
                : fmt::format("say how C should call it: `--name my_{}`", runtime::c_identifier(name))};
}

// Nothing where the program is at fault.
std::vector<Part> compiled_parts(Session& session, const std::vector<codegen::Target>& targets, const std::string& name,
    std::vector<codegen::Timing>& timings) {
  const Options& options = session.options;
  std::vector<Part> parts(options.vjp ? 2 : 1);
  for (const codegen::Target& target : targets) {
    codegen::Request request = session.request();
    request.target = target;
    const auto hear = [&](const std::vector<codegen::Timing>& more) {
      timings.insert(timings.end(), more.begin(), more.end());
    };
    if (options.vjp) {
      std::optional<codegen::Pair> pair =
          codegen::compile_pair(*session.file, request, codegen::Until::Lowered, session.diagnostics);
      if (!pair || session.failed()) return {};
      hear(pair->meaning.timings), hear(pair->forward.timings), hear(pair->backward.timings);
      const auto made = static_cast<std::size_t>(pair->forward.lowered->outputs) - 2 * pair->forward.checks.size();
      parts[0].kept = static_cast<std::int64_t>(made - pair->meaning.split->forward_outputs);
      parts[0].versions.push_back({request, std::move(pair->forward)});
      parts[1].versions.push_back({request, std::move(pair->backward)});
    } else {
      request.split = !options.dump_to.empty();
      std::optional<codegen::Stages> stages =
          codegen::compile(*session.file, request, codegen::Until::Lowered, session.diagnostics);
      if (!stages || session.failed()) return {};
      if (!options.dump_to.empty()) dump(session, *stages, request);
      hear(stages->timings);
      parts[0].versions.push_back({request, std::move(*stages)});
    }
  }
  parts[0].name = options.vjp ? name + "_forward" : name;
  if (options.vjp) {
    parts[0].what = fmt::format("Forward: the last {} of its outputs {} what `{}_backward` takes.", parts[0].kept,
        parts[0].kept == 1 ? "is" : "are", name);
    if (parts[0].kept == 0)
      parts[0].what = fmt::format("Forward of `{}_backward`, which takes nothing of it but its outputs.", name);
    parts[1].name = name + "_backward";
    parts[1].what = fmt::format("Backward: gradients from cotangents, and from what `{}_forward` took and gave.", name);
  }
  return parts;
}

}  // namespace

bool is_ahead(const std::string& output) {
  const Path path = path_of(output);
  const std::optional<runtime::Container> container = runtime::container_named(path.suffix);
  if (!container && !path.suffix.empty() && path.suffix != ".tilec")
    throw UsageError{fmt::format("`{}` is no suffix of what `tilec build` writes", path.suffix),
        "f.tilec is a package; f.o, f.a and f.so are for a program in C, and f.c is one for GPUs"};
  if (container && path.stem.empty())
    throw UsageError{
        fmt::format("`{}` has no name in front of its suffix", output), fmt::format("write `-o f{}`", path.suffix)};
  return container.has_value();
}

int build_ahead(const Options& given) {
  refuse_options(given);
  const std::vector<codegen::Target> targets = targets_of(given);
  if (targets.size() > 1) refuse_for_several(given);
  if (given.threads > 0 && targets[0].family == codegen::Target::Family::Cuda)
    throw UsageError{"--threads is for CPUs, and a GPU is asked for", "leave it out"};
  Options options = given;
  options.target = targets[0].name;
  const Path path = path_of(options.output);
  const std::string file = only_file(options), header = path.folder + path.stem + ".h";
  Session session(options, file);
  if (!session.file) return session.report();
  session.files.writes(header);
  const std::string name = options.name ? *options.name : name_of(session, file) + suffix_of_derivatives(options);
  check_names(
      options.vjp ? std::vector{name + "_forward", name + "_backward"} : std::vector{name}, options.name.has_value());
  std::vector<codegen::Timing> timings;
  const std::vector<Part> parts = compiled_parts(session, targets, name, timings);
  if (parts.empty()) return session.report();
  runtime::AheadOptions how{name};
  if (options.threads > 0) how.workers = options.threads;
  const runtime::Ahead made = runtime::ahead_of(parts, how);
  const std::string code = runtime::contained(made, *runtime::container_named(path.suffix), path.stem + ".o");
  runtime::write_files({{options.output, code}, {header, made.header}});
  if (options.stats) {
    for (const std::string& line : made.stats) fmt::print(stderr, "{}\n", line);
    fmt::print(stderr, "{} bytes of code\n", code.size());
  }
  if (options.time) print_timings(timings);
  return session.report();
}

}  // namespace tilec::cli
