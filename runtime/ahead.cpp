#include "runtime/ahead.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/assemble.h"
#include "runtime/c_header.h"
#include "runtime/cuda_source.h"
#include "runtime/error.h"
#include "runtime/module.h"
#include "runtime/system_linker.h"
#include "tilec/tilec.h"
#ifdef TILEC_CPU
#include "codegen/llvm/ahead.h"
#include "codegen/llvm/emit.h"
#endif

namespace tilec::runtime {

namespace {

using codegen::Target;

bool is_read(const codegen::Package& layout, int input) {
  return std::ranges::any_of(
      layout.launches, [&](const codegen::Launch& launch) { return std::ranges::count(launch.buffers, input) > 0; });
}

// What does not depend on the machine. `layouts`: of all versions.
Prototype prototype_of(const Part& part, const std::vector<const codegen::Package*>& layouts) {
  Prototype f;
  f.name = part.name, f.what = part.what, f.kept = part.kept;
  f.inputs = layouts.at(0)->inputs, f.outputs = layouts[0]->outputs;
  for (const codegen::Package* layout : layouts)
    if (layout->inputs != f.inputs || layout->outputs != f.outputs)
      throw lang::InternalError("`" + part.name + "` has other tensors on another machine");
  const std::vector<poly::IndexCheck>& checks = part.versions[0].stages.checks;
  f.outputs.resize(f.outputs.size() - 2 * checks.size());
  for (std::size_t k = 0; k < f.inputs.size(); ++k)
    f.read.push_back(
        std::ranges::any_of(layouts, [&](const auto* layout) { return is_read(*layout, static_cast<int>(k)); }));
  for (const poly::IndexCheck& check : checks)
    f.faults.push_back(fmt::format("an index in `{}` is not in 0 ... {}, which `{}` takes here",
        without_mark(check.indices), check.bound - 1, check.reader));
  return f;
}

std::string stats_of(const Prototype& f, const std::vector<const codegen::Package*>& layouts) {
  std::string line = f.name + ": ";
  for (const codegen::Package* layout : layouts) {
    const std::size_t launches = layout->launches.size();
    line += fmt::format("{} launch{}, ", launches, launches == 1 ? "" : "es");
  }
  return line + fmt::format("workspace {} bytes", f.workspace);
}

Header header_of(const std::vector<Part>& parts, const AheadOptions& options) {
  std::vector<std::string> targets;
  for (const CompiledFor& version : parts.at(0).versions) targets.push_back(version.request.target.name);
  Header header;
  header.name = options.name;
  header.compiler = fmt::format("{}.{}.{}", TILEC_VERSION_MAJOR, TILEC_VERSION_MINOR, TILEC_VERSION_PATCH);
  header.target = fmt::format("{}", fmt::join(targets, " and "));
  return header;
}

bool all_are(const std::vector<Part>& parts, Target::Family family) {
  return std::ranges::all_of(parts, [&](const Part& part) {
    return std::ranges::all_of(
        part.versions, [&](const CompiledFor& version) { return version.request.target.family == family; });
  });
}

[[noreturn]] void no_such_target(const std::vector<Part>& parts) {
  throw argument_error(messages::no_package,
      fmt::format("programs for C are for CPUs and NVIDIA's GPUs, and `{}` is asked for",
          parts.at(0).versions.at(0).request.target.name))
      .hint("write `--target cpu`, `cpu:ARCH` or `cuda:sm_NN`");
}

// ---- GPUs

// `sm_90a` before `sm_90`, and both before `sm_80`: what fewer GPUs load comes first.
bool is_for_fewer(const std::string& a, const std::string& b) {
  const auto digits = [](const std::string& name) { return name.substr(0, name.find_last_of("0123456789") + 1); };
  const std::string x = digits(a), y = digits(b);
  return x == y ? a.size() > b.size() : x.size() == y.size() ? x > y : x.size() > y.size();
}

Ahead ahead_for_gpus(const std::vector<Part>& parts, const AheadOptions& options) {
  Ahead made;
  Header header = header_of(parts, options);
  std::vector<GpuFunction> functions;
  for (const Part& part : parts) {
    if (!part.versions[0].stages.checks.empty())
      throw argument_error(
          messages::no_package, "`--checked` waits for what a GPU finds, and its calls wait for nothing")
          .hint("leave `--checked` out, or write `--target cpu`");
    std::vector<const CompiledFor*> order;
    for (const CompiledFor& version : part.versions) order.push_back(&version);
    std::ranges::sort(order, [](const CompiledFor* a, const CompiledFor* b) {
      return is_for_fewer(a->request.target.arch, b->request.target.arch);
    });
    GpuFunction f;
    std::vector<const codegen::Package*> layouts;
    for (const CompiledFor* version : order) f.versions.push_back(assemble(*version->stages.lowered, version->request));
    f.versions.push_back(assemble_ptx(*order[0]->stages.lowered, order[0]->request));
    for (const codegen::Package& version : f.versions) layouts.push_back(&version);
    f.prototype = prototype_of(part, layouts);
    for (const auto* layout : layouts) f.prototype.workspace = std::max(f.prototype.workspace, layout->workspace);
    f.prototype.on_gpu = true;
    layouts.pop_back();                                  // PTX has the launches of the first
    made.stats.push_back(stats_of(f.prototype, layouts));
    functions.push_back(std::move(f));
  }
  std::vector<std::string> architectures;
  for (const codegen::Package& version : functions.at(0).versions) architectures.push_back(version.architecture);
  header.needs = fmt::format("GPUs of {}, and PTX of {} for later ones",
      fmt::join(architectures.begin(), architectures.end() - 1, ", "), architectures.back());
  header.libraries =
      "C's library (with glibc before 2.34 link -ldl and -lpthread), and opens libcuda.so.1 in its first call";
  for (const GpuFunction& f : functions) header.functions.push_back(f.prototype);
  made.header = c_header(header);
  made.source = cuda_source(header, functions);
  return made;
}

}  // namespace

// ---- CPUs

#ifdef TILEC_CPU

namespace {

using codegen::llvm_backend::EntryPoint;

EntryPoint entry_of(const Part& part) {
  EntryPoint entry{part.name, {}, {}};
  for (const CompiledFor& cpu : part.versions)
    entry.versions.push_back(
        {cpu.request.target, kernels_of(*cpu.stages.lowered), layout_of(*cpu.stages.lowered, cpu.request)});
  for (const poly::IndexCheck& check : part.versions[0].stages.checks)
    entry.checks.push_back(poly::product(check.shape));
  return entry;
}

std::vector<const codegen::Package*> layouts_of(const EntryPoint& entry) {
  std::vector<const codegen::Package*> layouts;
  for (const auto& version : entry.versions) layouts.push_back(&version.layout);
  return layouts;
}

// What the CPU of a call must have.
std::string needs_of(const Part& part) {
  std::vector<std::string> all;
  for (const CompiledFor& cpu : part.versions) {
    const codegen::Target& target = cpu.request.target;
    all.push_back(fmt::format("{} with {}", target.triple.substr(0, target.triple.find('-')),
        fmt::join(codegen::llvm_backend::features_of(target), " ")));
  }
  return fmt::format("{}", fmt::join(all, ",\n * and for "));
}

// f16 becomes f32 and comes back by functions of libgcc where the CPU has no instruction for it.
std::string libraries_of(const Part& part) {
  const bool lacks_f16 = std::ranges::any_of(part.versions, [](const CompiledFor& cpu) {
    return cpu.request.target.triple.starts_with("x86_64") &&
        std::ranges::count(codegen::llvm_backend::features_of(cpu.request.target), "f16c") == 0;
  });
  return std::string("C's library and its mathematics (-lm)") +
      (lacks_f16 ? ", and for f16 libgcc, which `cc` links unasked" : "");
}

Ahead ahead_for_cpus(const std::vector<Part>& parts, const AheadOptions& options) {
  std::vector<EntryPoint> entries;
  for (const Part& part : parts) entries.push_back(entry_of(part));
  const bool parallel = options.workers > 1 && std::ranges::any_of(entries, codegen::llvm_backend::has_parallel_loops);
  Ahead made;
  Header header = header_of(parts, options);
  header.needs = needs_of(parts[0]);
  header.libraries = libraries_of(parts[0]);
  header.workers = parallel ? options.workers : 1;
  header.chooses_cpu = parts[0].versions.size() > 1;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::vector<const codegen::Package*> layouts = layouts_of(entries[k]);
    Prototype f = prototype_of(parts[k], layouts);
    f.workspace = codegen::llvm_backend::workspace_bytes(entries[k], options.workers);
    f.grows =
        options.workers > 1 && std::ranges::any_of(layouts, [](const auto* layout) { return layout->locals > 0; });
    made.stats.push_back(
        stats_of(f, layouts) + (f.grows ? fmt::format(", some for each of {} workers", options.workers) : ""));
    header.functions.push_back(std::move(f));
  }
  made.header = c_header(header);
  made.object = codegen::llvm_backend::object_ahead(entries, options.workers);
  return made;
}

}  // namespace

#else

namespace {

Ahead ahead_for_cpus(const std::vector<Part>&, const AheadOptions&) {
  throw machine_error(messages::target_not_built, "cpu");
}

}  // namespace

#endif

Ahead ahead_of(const std::vector<Part>& parts, const AheadOptions& options) {
  if (all_are(parts, Target::Family::Cpu)) return ahead_for_cpus(parts, options);
  if (all_are(parts, Target::Family::Cuda)) return ahead_for_gpus(parts, options);
  no_such_target(parts);
}

std::string contained(const Ahead& made, Container container, const std::string& member) {
  if (container == Container::Source) {
    if (made.source.empty())
      throw argument_error(messages::no_package, "for a CPU it is machine code and no text of C")
          .hint("write `-o f.o`; `--emit=llvm` and `--emit=asm` show text");
    return made.source;
  }
  const std::string object = made.source.empty() ? made.object : object_of_c(made.source);
  if (container == Container::Shared) return shared_library_of(object);
  if (container == Container::Object) return object;
#ifdef TILEC_CPU
  return codegen::llvm_backend::archive_of(object, member);
#else
  throw machine_error(messages::target_not_built, member)
      .hint("archives are written by LLVM: write `-o f.o`, and `ar rcs f.a f.o`");
#endif
}

std::optional<Container> container_named(std::string_view suffix) {
  if (suffix == ".o") return Container::Object;
  if (suffix == ".a") return Container::Archive;
  if (suffix == ".so") return Container::Shared;
  if (suffix == ".c") return Container::Source;
  return std::nullopt;
}

}  // namespace tilec::runtime
