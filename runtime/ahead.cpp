#include "runtime/ahead.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/assemble.h"
#include "runtime/c_header.h"
#include "runtime/error.h"
#include "runtime/module.h"
#include "runtime/system_linker.h"
#include "tilec/tilec.h"
#ifdef TILEC_CPU
#include "codegen/llvm/ahead.h"
#include "codegen/llvm/emit.h"
#endif

namespace tilec::runtime {

#ifdef TILEC_CPU

namespace {

using codegen::llvm_backend::EntryPoint;

EntryPoint entry_of(const Part& part) {
  EntryPoint entry{part.name, {}, {}};
  for (const CompiledFor& cpu : part.cpus) entry.versions.push_back({cpu.request.target, kernels_of(*cpu.stages.lowered), layout_of(*cpu.stages.lowered, cpu.request)});
  for (const poly::IndexCheck& check : part.cpus[0].stages.checks) entry.checks.push_back(poly::product(check.shape));
  for (const auto& version : entry.versions)
    if (version.layout.inputs != entry.versions[0].layout.inputs || version.layout.outputs != entry.versions[0].layout.outputs) throw lang::InternalError("`" + part.name + "` has other tensors on another CPU");
  return entry;
}

bool is_read(const EntryPoint& entry, int input) {
  return std::ranges::any_of(entry.versions, [&](const auto& version) {
    return std::ranges::any_of(version.layout.launches, [&](const codegen::Launch& launch) { return std::ranges::count(launch.buffers, input) > 0; });
  });
}

Prototype prototype_of(const Part& part, const EntryPoint& entry, std::int64_t workers) {
  const codegen::Package& layout = entry.versions[0].layout;
  Prototype f{part.name, part.what, layout.inputs, layout.outputs, {}, part.kept, codegen::llvm_backend::workspace_bytes(entry, workers), false, {}};
  f.outputs.resize(f.outputs.size() - 2 * entry.checks.size());
  for (std::size_t k = 0; k < f.inputs.size(); ++k) f.read.push_back(is_read(entry, static_cast<int>(k)));
  f.grows = workers > 1 && std::ranges::any_of(entry.versions, [](const auto& version) { return version.layout.locals > 0; });
  for (const poly::IndexCheck& check : part.cpus[0].stages.checks)
    f.faults.push_back(fmt::format("an index in `{}` is not in 0 ... {}, which `{}` takes here", without_mark(check.indices), check.bound - 1, check.reader));
  return f;
}

std::string stats_of(const Part& part, const EntryPoint& entry, const Prototype& f, std::int64_t workers) {
  std::string line = part.name + ": ";
  for (const auto& version : entry.versions) {
    const std::size_t launches = version.layout.launches.size();
    line += fmt::format("{} launch{}, ", launches, launches == 1 ? "" : "es");
  }
  line += fmt::format("workspace {} bytes", f.workspace);
  if (f.grows) line += fmt::format(", some for each of {} workers", workers);
  return line;
}

// What the CPU of a call must have.
std::string needs_of(const Part& part) {
  std::vector<std::string> all;
  for (const CompiledFor& cpu : part.cpus) {
    const codegen::Target& target = cpu.request.target;
    all.push_back(fmt::format("{} with {}", target.triple.substr(0, target.triple.find('-')), fmt::join(codegen::llvm_backend::features_of(target), " ")));
  }
  return fmt::format("{}", fmt::join(all, ",\n * and for "));
}

// f16 becomes f32 and comes back by functions of libgcc where the CPU has no instruction for it.
std::string libraries_of(const Part& part) {
  const bool lacks_f16 = std::ranges::any_of(part.cpus, [](const CompiledFor& cpu) {
    return cpu.request.target.triple.starts_with("x86_64") && std::ranges::count(codegen::llvm_backend::features_of(cpu.request.target), "f16c") == 0;
  });
  return std::string("C's library and its mathematics (-lm)") + (lacks_f16 ? ", and for f16 libgcc, which `cc` links unasked" : "");
}

}  // namespace

Ahead ahead_of(const std::vector<Part>& parts, const AheadOptions& options) {
  std::vector<EntryPoint> entries;
  for (const Part& part : parts) {
    for (const CompiledFor& cpu : part.cpus)
      if (cpu.request.target.family != codegen::Target::Family::Cpu) throw argument_error(messages::no_package, fmt::format("object files are for CPUs, and `{}` is asked for", cpu.request.target.name)).hint("write `--target cpu` or `cpu:ARCH`");
    entries.push_back(entry_of(part));
  }
  const bool parallel = options.workers > 1 && std::ranges::any_of(entries, codegen::llvm_backend::has_parallel_loops);
  std::vector<std::string> targets;
  for (const CompiledFor& cpu : parts.at(0).cpus) targets.push_back(cpu.request.target.name);
  Header header{options.name, fmt::format("{}.{}.{}", TILEC_VERSION_MAJOR, TILEC_VERSION_MINOR, TILEC_VERSION_PATCH), fmt::format("{}", fmt::join(targets, " and ")), needs_of(parts[0]), libraries_of(parts[0]), {}, parallel ? options.workers : 1, targets.size() > 1};
  Ahead made;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    header.functions.push_back(prototype_of(parts[k], entries[k], options.workers));
    made.stats.push_back(stats_of(parts[k], entries[k], header.functions.back(), options.workers));
  }
  made.header = c_header(header);
  made.object = codegen::llvm_backend::object_ahead(entries, options.workers);
  return made;
}

std::string contained(const Ahead& made, Container container, const std::string& member) {
  if (container == Container::Archive) return codegen::llvm_backend::archive_of(made.object, member);
  return container == Container::Shared ? shared_library_of(made.object) : made.object;
}

#else

Ahead ahead_of(const std::vector<Part>&, const AheadOptions&) { throw machine_error(messages::target_not_built, "cpu"); }
std::string contained(const Ahead&, Container, const std::string&) { throw machine_error(messages::target_not_built, "cpu"); }

#endif

std::optional<Container> container_named(std::string_view suffix) {
  if (suffix == ".o") return Container::Object;
  if (suffix == ".a") return Container::Archive;
  if (suffix == ".so") return Container::Shared;
  return std::nullopt;
}

}  // namespace tilec::runtime
