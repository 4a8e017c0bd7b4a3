#include "runtime/cuda_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace tilec::runtime {

namespace {

using codegen::Launch;
using codegen::Package;

// What does not depend on the program. Its names begin as no entry point's does (why_no_c_name).
constexpr const char* launcher = R"(
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Pieces of code in `code`, addresses of scratch in a workspace in `offsets`. */
struct tilec_launch { const char* kernel; int code; unsigned grid[3], threads, shared; int count, buffers[TILEC_BUFFERS], more; uint64_t numbers[TILEC_NUMBERS]; };  /* numbers stand behind buffers */
struct tilec_version { int codes, launches; const void* const* code; const struct tilec_launch* launch; const size_t* offsets; };
struct tilec_loaded { uint64_t context; const struct tilec_version* version; struct tilec_loaded* next; void* handles[]; };  /* a function for each launch, then modules */
struct tilec_program { int tensors; const unsigned char* used; size_t workspace; int versions; const struct tilec_version* version; struct tilec_loaded* loaded; };

static struct {
  int (*cuCtxGetCurrent)(void** context);
  int (*cuCtxGetId)(void* context, unsigned long long* id);  /* from CUDA 12 on */
  int (*cuModuleLoadData)(void** module, const void* image);
  int (*cuModuleUnload)(void* module);
  int (*cuModuleGetFunction)(void** function, void* module, const char* name);
  int (*cuFuncSetAttribute)(void* function, int attribute, int value);
  int (*cuLaunchKernel)(void* function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, void* stream, void** parameters, void** extra);
} tilec_driver;
static int tilec_has_driver;
static pthread_mutex_t tilec_lock = PTHREAD_MUTEX_INITIALIZER;  /* of what is found and loaded */

static int tilec_open(void) {
  void *library, *function;
  if (tilec_has_driver) return 1;
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return 0;
#define TILEC_FIND(name) function = dlsym(library, #name), memcpy(&tilec_driver.name, &function, sizeof function)
  TILEC_FIND(cuCtxGetCurrent); TILEC_FIND(cuCtxGetId); TILEC_FIND(cuModuleLoadData); TILEC_FIND(cuModuleUnload); TILEC_FIND(cuModuleGetFunction);
  TILEC_FIND(cuFuncSetAttribute); TILEC_FIND(cuLaunchKernel);
#undef TILEC_FIND
  tilec_has_driver = tilec_driver.cuCtxGetCurrent && tilec_driver.cuModuleLoadData && tilec_driver.cuModuleUnload && tilec_driver.cuModuleGetFunction && tilec_driver.cuFuncSetAttribute && tilec_driver.cuLaunchKernel;
  if (!tilec_has_driver) dlclose(library);
  return tilec_has_driver;
}

/* What the driver answers; CUDA_ERROR_NO_BINARY_FOR_GPU as well where a block asks for more shared memory than this GPU has. */
static int tilec_load_version(const struct tilec_version* version, struct tilec_loaded* to) {
  void** const modules = to->handles + version->launches;
  int result = 0, loaded = 0, k;
  while (loaded < version->codes && (result = tilec_driver.cuModuleLoadData(&modules[loaded], version->code[loaded])) == 0) ++loaded;
  for (k = 0; k < version->launches && result == 0; ++k) {
    const struct tilec_launch* const launch = &version->launch[k];
    result = tilec_driver.cuModuleGetFunction(&to->handles[k], modules[launch->code], launch->kernel);
    if (result == 0 && launch->shared > 0 && tilec_driver.cuFuncSetAttribute(to->handles[k], 8 /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */, (int)launch->shared) != 0) result = 209;
  }
  if (result != 0)
    while (loaded > 0) tilec_driver.cuModuleUnload(modules[--loaded]);
  to->version = version;
  return result;
}

/* CUDA_ERROR_INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION: of another GPU, or of a later driver. */
static int tilec_is_foreign(int result) { return result == 200 || result == 209 || result == 218 || result == 222; }

static int tilec_load_first(struct tilec_program* program, uint64_t context, const struct tilec_loaded** found) {
  int k, most = 0;
  struct tilec_loaded* made;
  for (k = 0; k < program->versions; ++k)
    if (program->version[k].codes + program->version[k].launches > most) most = program->version[k].codes + program->version[k].launches;
  made = malloc(sizeof *made + (size_t)most * sizeof(void*));
  if (!made) return 1000 + 2;
  for (k = 0; k < program->versions; ++k) {
    const int result = tilec_load_version(&program->version[k], made);
    if (result == 0) {
      made->context = context, made->next = program->loaded;
      *found = program->loaded = made;
      return 0;
    }
    if (tilec_is_foreign(result)) continue;
    free(made);
    return 1000 + result;
  }
  free(made);
  return 3;
}

static int tilec_find(struct tilec_program* program, const struct tilec_loaded** found) {
  void* context = NULL;
  unsigned long long id = 0;
  int result;
  if (!tilec_open()) return 4;
  result = tilec_driver.cuCtxGetCurrent(&context);
  if (result == 3 /* CUDA_ERROR_NOT_INITIALIZED */ || (result == 0 && !context)) return 5;
  if (result == 0 && tilec_driver.cuCtxGetId) result = tilec_driver.cuCtxGetId(context, &id);
  else id = (uintptr_t)context;
  if (result != 0) return 1000 + result;
  for (*found = program->loaded; *found; *found = (*found)->next)
    if ((*found)->context == id) return 0;
  return tilec_load_first(program, id, found);
}

static int tilec_load(struct tilec_program* program, const struct tilec_loaded** found) {
  int status;
  pthread_mutex_lock(&tilec_lock);
  status = tilec_find(program, found);
  pthread_mutex_unlock(&tilec_lock);
  return status;
}

static int tilec_start(struct tilec_program* program, const void* const* tensors, void* workspace, void* stream) {
  const struct tilec_loaded* loaded;
  const struct tilec_version* version;
  int k, b, status;
  if (program->workspace > 0 && (!workspace || (uintptr_t)workspace % 64 != 0)) return 1;
  for (k = 0; k < program->tensors; ++k)
    if (program->used[k] && (!tensors[k] || (uintptr_t)tensors[k] % 16 != 0)) return 2;
  if ((status = tilec_load(program, &loaded)) != 0) return status;
  version = loaded->version;
  for (k = 0; k < version->launches; ++k) {
    const struct tilec_launch* const launch = &version->launch[k];
    uint64_t addresses[TILEC_BUFFERS];
    void* parameters[TILEC_BUFFERS + TILEC_NUMBERS];
    for (b = 0; b < launch->count; ++b) {
      const int buffer = launch->buffers[b];
      addresses[b] = buffer < program->tensors ? (uintptr_t)tensors[buffer] : (uintptr_t)workspace + version->offsets[buffer - program->tensors];
      parameters[b] = &addresses[b];
    }
    for (b = 0; b < launch->more; ++b) parameters[launch->count + b] = (void*)&launch->numbers[b];
    status = tilec_driver.cuLaunchKernel(loaded->handles[k], launch->grid[0], launch->grid[1], launch->grid[2], launch->threads, 1, 1, launch->shared, stream, parameters, NULL);
    if (status != 0) return 1000 + status;
  }
  return 0;
}
)";

// Bytes as numbers of 64 bits, as aligned as a driver may want them: bytes behind the last are 0, which ends PTX.
std::string words_of(const std::string& bytes) {
  std::string text;
  for (std::size_t at = 0; at <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    text += fmt::format("{}{:#x},", at % 64 == 0 ? "\n  " : "", word);
  }
  return text;
}

// A launch without blocks is left out.
std::vector<Launch> launches_of(const Package& package) {
  std::vector<Launch> launches;
  for (const Launch& launch : package.launches)
    if (std::ranges::count(launch.grid, 0) == 0) launches.push_back(launch);
  return launches;
}

std::string print(const Launch& l) {
  std::string numbers;
  for (const std::int64_t number : l.numbers) numbers += fmt::format("{}u, ", static_cast<std::uint64_t>(number));
  return fmt::format("  {{\"{}\", {}, {{{}u, {}u, {}u}}, {}u, {}u, {}, {{{}}}, {}, {{{}}}}},\n", l.kernel, l.code,
      l.grid[0], l.grid[1], l.grid[2], l.threads, l.dynamic_shared, l.buffers.size(), fmt::join(l.buffers, ", "),
      l.numbers.size(), numbers.empty() ? "0" : numbers);
}

// `static const TYPE NAME[] = {…};`, and its name; nothing, and NULL, where it has no elements.
std::string table(std::string& text, const std::string& type, const std::string& name, const std::string& elements) {
  if (elements.empty()) return "NULL";
  text += fmt::format("static const {} {}[] = {{{}}};\n", type, name, elements);
  return name;
}

// A line of the table of versions; the tables it names go to `text`.
std::string print(std::string& text, const Package& package, const std::string& name) {
  std::string codes, launches, offsets;
  for (std::size_t k = 0; k < package.code.size(); ++k)
    codes += fmt::format(
        "{}, ", table(text, "uint64_t", fmt::format("tilec_code_{}_{}", name, k), words_of(package.code[k])));
  const std::vector<Launch> steps = launches_of(package);
  for (const Launch& launch : steps) launches += print(launch);
  for (std::size_t k = package.inputs.size() + package.outputs.size(); k < package.buffers.size(); ++k)
    offsets += fmt::format("{}u, ", package.buffers[k].offset);
  const std::string code_name = table(text, "void* const", "tilec_codes_" + name, codes),
                    launch_name = table(
                        text, "struct tilec_launch", "tilec_launches_" + name, launches.empty() ? "" : "\n" + launches),
                    offset_name = table(text, "size_t", "tilec_offsets_" + name, offsets);
  return fmt::format(
      "{{{}, {}, {}, {}, {}}}, ", package.code.size(), steps.size(), code_name, launch_name, offset_name);
}

std::string print(const GpuFunction& f) {
  const std::string& name = f.prototype.name;
  const std::size_t tensors = f.prototype.inputs.size() + f.prototype.outputs.size();
  std::string text, versions, used;
  for (std::size_t v = 0; v < f.versions.size(); ++v) {
    text += fmt::format("\n/* {} for {} */\n", name, f.versions[v].architecture);
    versions += print(text, f.versions[v], fmt::format("{}_{}", name, v));
  }
  for (std::size_t k = 0; k < tensors; ++k) {
    const bool is_used = std::ranges::any_of(f.versions, [&](const Package& p) {
      return p.buffers[k].bytes > 0 && std::ranges::any_of(launches_of(p), [&](const Launch& l) {
        return std::ranges::count(l.buffers, static_cast<int>(k)) > 0;
      });
    });
    used += is_used ? "1, " : "0, ";
  }
  text += "\n";
  const std::string used_name = table(text, "unsigned char", "tilec_used_" + name, used),
                    version_name = table(text, "struct tilec_version", "tilec_versions_" + name, versions);
  text += fmt::format("static struct tilec_program tilec_program_{} = {{{}, {}, {}u, {}, {}, NULL}};\n", name, tensors,
      used_name, f.prototype.workspace, f.versions.size(), version_name);
  text += fmt::format("\nsize_t {}_workspace(void) {{ return {}u; }}\n", name, f.prototype.workspace);
  text += fmt::format(
      "int {0}_load(void) {{\n  const struct tilec_loaded* loaded;\n  return tilec_load(&tilec_program_{0}, &loaded);\n}}\n",
      name);
  const std::vector<std::string> parameters = parameters_of(f.prototype);
  const std::string all = parameters.empty() ? "NULL" : fmt::format("{}", fmt::join(parameters, ", "));
  text += fmt::format(
      "{} {{\n  const void* const tensors[] = {{{}}};\n  return tilec_start(&tilec_program_{}, tensors, workspace, stream);\n}}\n",
      declaration(f.prototype), all, name);
  return text;
}

}  // namespace

std::string cuda_source(const Header& header, const std::vector<GpuFunction>& functions) {
  std::size_t most = 1, most_numbers = 1;
  for (const GpuFunction& f : functions)
    for (const Package& version : f.versions)
      for (const Launch& launch : version.launches) {
        most = std::max(most, launch.buffers.size());
        most_numbers = std::max(most_numbers, launch.numbers.size());
      }
  std::string text = fmt::format(
      "/* {0}, compiled by tilec {1} for {2}: C11. {0}.h says how it is called. */\n#define TILEC_BUFFERS {3}\n#define TILEC_NUMBERS {4}\n",
      header.name, header.compiler, header.target, most, most_numbers);
  text += launcher;
  for (const GpuFunction& f : functions) text += print(f);
  return text;
}

}  // namespace tilec::runtime
