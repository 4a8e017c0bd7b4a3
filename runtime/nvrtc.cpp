// NVRTC is one library and its built-ins, a second library that it opens by bare name. In a Python environment neither
// is on the loader's path, so the second must be opened first, by full path; the later open by name then finds it
// loaded.
//
// Looked for, in this order: TILEC_NVRTC (a file or a folder), Python environments (VIRTUAL_ENV, `.venv` above this
// program and above the working folder, the python3 on PATH), CUDA toolkits (CUDA_HOME, CUDA_PATH, /usr/local/cuda),
// the loader's own path.
#include "runtime/nvrtc.h"

#include <fmt/core.h>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>

#include "runtime/library.h"
#include "runtime/saved.h"

namespace tilec::runtime {
namespace {

namespace fs = std::filesystem;

struct Program_;
using Program = Program_*;

#define TILEC_NVRTC_FUNCTIONS(X)                                                                                       \
  X(nvrtcVersion, int (*)(int*, int*)) X(nvrtcGetErrorString, const char* (*)(int))                                    \
  X(nvrtcCreateProgram, int (*)(Program*, const char*, const char*, int, const char* const*, const char* const*))      \
  X(nvrtcDestroyProgram, int (*)(Program*)) X(nvrtcCompileProgram, int (*)(Program, int, const char* const*))          \
  X(nvrtcGetPTXSize, int (*)(Program, std::size_t*)) X(nvrtcGetPTX, int (*)(Program, char*))                           \
  X(nvrtcGetCUBINSize, int (*)(Program, std::size_t*)) X(nvrtcGetCUBIN, int (*)(Program, char*))                       \
  X(nvrtcGetProgramLogSize, int (*)(Program, std::size_t*)) X(nvrtcGetProgramLog, int (*)(Program, char*))

template <class F> using Pointer = F;                  // lets a macro argument be a function type

struct Api {
#define X(name, type) Pointer<type> name = nullptr;
  TILEC_NVRTC_FUNCTIONS(X)
#undef X
  std::string description, missing;
  int major = 0;                                       // of its version
};

constexpr int invalid_option = 5, refused_text = 6;    // NVRTC_ERROR_INVALID_OPTION, NVRTC_ERROR_COMPILATION

// ---- finding the library

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The folders of a Python environment that may hold NVRTC, whatever its version of Python and of CUDA.
void add_environment(std::vector<fs::path>& folders, const fs::path& root) {
  std::error_code ignored;
  if (root.empty()) return;
  for (const auto& version : fs::directory_iterator(root / "lib", ignored)) {
    const fs::path packages = version.path() / "site-packages" / "nvidia";
    if (!version.path().filename().string().starts_with("python3")) continue;
    for (const auto& package : fs::directory_iterator(packages, ignored)) folders.push_back(package.path() / "lib");
  }
}

void add_environments_above(std::vector<fs::path>& folders, fs::path folder) {
  for (; !folder.empty(); folder = folder.parent_path()) {
    add_environment(folders, folder / ".venv");
    if (folder == folder.root_path()) break;
  }
}

fs::path own_folder() {                                // of the program or library this code is part of
  Dl_info info{};
  std::error_code ignored;
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || !info.dli_fname) return {};
  return fs::weakly_canonical(info.dli_fname, ignored).parent_path();
}

std::vector<fs::path> folders() {
  std::vector<fs::path> list;
  std::error_code ignored;
  add_environment(list, variable("VIRTUAL_ENV"));
  add_environments_above(list, own_folder());
  add_environments_above(list, fs::current_path(ignored));
  std::istringstream path(variable("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    const fs::path python = fs::path(folder) / "python3";
    if (folder.empty() || !fs::exists(python, ignored)) continue;
    add_environment(list, fs::path(folder).parent_path());
    add_environment(list, fs::weakly_canonical(python, ignored).parent_path().parent_path());
    break;
  }
  for (const std::string& root : {variable("CUDA_HOME"), variable("CUDA_PATH"), std::string("/usr/local/cuda")}) {
    if (root.empty()) continue;
    list.push_back(fs::path(root) / "lib64");
    list.push_back(fs::path(root) / "lib");
  }
  return list;
}

// The newest file of a folder that is called prefix, digits and dots: `libnvrtc.so.13`, not `libnvrtc.alt.so.13`.
std::optional<fs::path> newest(const fs::path& folder, const std::string& prefix) {
  std::optional<fs::path> best;
  std::vector<int> best_version;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.find_first_not_of(".0123456789", prefix.size()) != std::string::npos)
      continue;
    std::vector<int> version;
    std::istringstream digits(name.substr(prefix.size()));
    for (std::string part; std::getline(digits, part, '.');) version.push_back(std::atoi(part.c_str()));
    if (!best || version > best_version) best = entry.path(), best_version = version;
  }
  return best;
}

void* open_in(const fs::path& folder, std::string& name, std::string& fault) {
  const std::optional<fs::path> library = newest(folder, "libnvrtc.so.");
  if (!library) return nullptr;
  if (const std::optional<fs::path> builtins = newest(folder, "libnvrtc-builtins.so."))
    dlopen(builtins->c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* handle = dlopen(library->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fault = dlerror();
  name = library->string();
  return handle;
}

void* open_library(std::string& name, std::string& fault) {
  if (const fs::path asked = variable("TILEC_NVRTC"); !asked.empty()) {
    std::error_code ignored;
    const fs::path folder = fs::is_directory(asked, ignored) ? asked : asked.parent_path();
    void* handle = open_in(folder, name, fault);
    if (!handle && fault.empty()) fault = "TILEC_NVRTC is `" + asked.string() + "`, where no libnvrtc.so lies";
    return handle;                                     // what was asked for, or an error: no other one in its stead
  }
  for (const fs::path& folder : folders()) {
    if (void* handle = open_in(folder, name, fault)) return handle;
  }
  for (const char* plain : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
    if (void* handle = dlopen(name.assign(plain).c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  if (fault.empty())
    fault = "NVRTC (libnvrtc.so) is in no Python environment, in no CUDA toolkit and not on the loader's path";
  return nullptr;
}

Api find_compiler() {
  Api a;
  std::string name;
  void* library = open_library(name, a.missing);
  if (!library) return a;
  a.missing.clear();
#define X(function, ...)                                                          \
  a.function = reinterpret_cast<decltype(a.function)>(dlsym(library, #function)); \
  if (!a.function) a.missing = name + " has no " #function;
  TILEC_NVRTC_FUNCTIONS(X)
#undef X
  int minor = 0;
  if (a.missing.empty() && a.nvrtcVersion(&a.major, &minor) != 0) a.missing = name + " does not say its version";
  if (!a.missing.empty()) dlclose(library);
  else a.description = fmt::format("NVRTC {}.{}, {}", a.major, minor, name);
  return a;
}

const Api& api() { return found_once<Api, find_compiler>(); }

// ---- compiling

std::string version_text() { return api().description.substr(0, api().description.find(',')); }

void check(int error, const char* function) {
  if (error != 0)
    throw machine_error(messages::device_call, function, version_text(), api().nvrtcGetErrorString(error));
}

// A text being compiled.
class Compilation {
 public:
  explicit Compilation(const std::string& source) {
    check(api().nvrtcCreateProgram(&program_, source.c_str(), "tilec.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  }
  ~Compilation() { api().nvrtcDestroyProgram(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  int compile(const std::vector<const char*>& options) {
    return api().nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
  }
  std::string cubin() const {
    return bytes(api().nvrtcGetCUBINSize, "nvrtcGetCUBINSize", api().nvrtcGetCUBIN, "nvrtcGetCUBIN");
  }
  std::string ptx() const {
    return without_end(bytes(api().nvrtcGetPTXSize, "nvrtcGetPTXSize", api().nvrtcGetPTX, "nvrtcGetPTX"));
  }
  std::string log() const {
    return without_end(
        bytes(api().nvrtcGetProgramLogSize, "nvrtcGetProgramLogSize", api().nvrtcGetProgramLog, "nvrtcGetProgramLog"));
  }

 private:
  std::string bytes(int (*size_of)(Program, std::size_t*), const char* size_name, int (*get)(Program, char*),
      const char* name) const {
    std::size_t size = 0;
    check(size_of(program_, &size), size_name);
    std::string bytes(size, '\0');
    if (size > 0) check(get(program_, bytes.data()), name);
    return bytes;
  }
  static std::string without_end(std::string text) {
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }

  Program program_ = nullptr;
};

// The number before `word` in `line`: ("128 bytes spill stores, …", " bytes spill stores") ⇒ 128.
int number_before(std::string_view line, std::string_view word) {
  const std::size_t end = line.find(word);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

// ptxas info    : Compiling entry function 'k' for 'sm_90a'
// ptxas info    : Function properties for k
//     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// ptxas info    : Used 8 registers, used 1 barriers, 512 bytes smem, 528 bytes cmem[0]
std::vector<KernelStats> parse_stats(const std::string& log) {
  std::vector<KernelStats> kernels;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (const std::size_t at = line.find("Compiling entry function '"); at != std::string::npos) {
      const std::size_t begin = at + 26;
      kernels.push_back({line.substr(begin, line.find('\'', begin) - begin)});
    }
    if (kernels.empty()) continue;
    KernelStats& k = kernels.back();
    if (line.find("bytes stack frame") != std::string::npos) {
      k.stack += number_before(line, " bytes stack frame");
      k.spill_stores += number_before(line, " bytes spill stores");
      k.spill_loads += number_before(line, " bytes spill loads");
    }
    if (line.find(" registers") != std::string::npos) {
      k.registers = number_before(line, " registers");
      k.shared = number_before(line, " bytes smem");
    }
  }
  return kernels;
}

// sm_90a; what follows `sm_` must be what NVRTC takes, which it checks itself.
void check_architecture(std::string_view architecture) {
  const bool plain = architecture.size() > 3 && architecture.starts_with("sm_") &&
      std::all_of(architecture.begin() + 3, architecture.end(),
          [](char c) { return (c >= '0' && c <= '9') || c == 'a' || c == 'f'; });
  if (!plain)
    throw argument_error(messages::unknown_target, fmt::format("cuda:{}", architecture))
        .hint("write `cuda:sm_80` or `cuda:sm_90a`");
}

// As many texts as there are cores are compiled at one time, whoever asks; the others wait.
class Slot {
 public:
  Slot() {
    std::unique_lock lock(mutex());
    free().wait(lock, [] { return taken() < std::max(1u, std::thread::hardware_concurrency()); });
    ++taken();
  }
  ~Slot() {
    {
      const std::lock_guard lock(mutex());
      --taken();
    }
    free().notify_one();
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex the;
    return the;
  }
  static std::condition_variable& free() {
    static std::condition_variable the;
    return the;
  }
  static unsigned& taken() {
    static unsigned count = 0;
    return count;
  }
};

}  // namespace

std::string nvrtc_library(std::string& why) {
  why = api().missing;
  return api().description;
}

int nvrtc_major() { return api().major; }

namespace {

int bytes_spilled(const KernelStats& k) { return k.spill_stores + k.spill_loads + k.stack; }

// Where a block has few registers a thread left, the assembler may spill some to make room for a second block. Those
// are alone on their multiprocessor in the text that this returns: __launch_bounds__(1024) k0(…)  ⇒
// __launch_bounds__(1024, 1) k0(…)
std::string alone_where_spilled(std::string source, const std::vector<KernelStats>& kernels) {
  for (const KernelStats& k : kernels) {
    const std::size_t name = bytes_spilled(k) == 0 ? std::string::npos : source.find(") " + k.name + "(");
    if (name == std::string::npos) continue;
    constexpr std::string_view bounds = "__launch_bounds__(";
    const std::size_t begin = source.rfind(bounds, name);
    if (begin == std::string::npos || source.find_first_not_of("0123456789, ", begin + bounds.size()) != name) continue;
    const std::size_t end = std::min(name, source.find(',', begin));
    source.replace(end, name - end, ", 1");
  }
  return source;
}

CudaObject compile_once(const std::string& source, std::string_view architecture, CudaOutput output) {
  if (const std::string missing = api().missing; !missing.empty())
    throw machine_error(messages::no_nvrtc, missing)
        .hint("`pip install nvidia-cuda-nvrtc`, or set TILEC_NVRTC to the folder that holds it");
  const bool binary = output == CudaOutput::Cubin;
  const std::string target =
      fmt::format("--gpu-architecture={}{}", binary ? "sm_" : "compute_", architecture.substr(3));
  // fmad: Loops say where a multiplication and an addition are one
  std::vector<const char*> options = {target.c_str(), "--std=c++17", "-default-device", "--fmad=false"};
  if (binary) options.push_back("--ptxas-options=-v");
  Compilation compilation(source);
  const int error = [&] {
    const Slot slot;
    return compilation.compile(options);
  }();
  if (error == invalid_option)
    throw machine_error(
        messages::no_nvrtc, fmt::format("{} does not know the architecture {}", version_text(), architecture));
  CudaObject object;
  object.log = compilation.log();
  if (error == refused_text)
    throw machine_error(messages::device_compile, version_text(), save_text(source, ".cu"),
        object.log.empty() ? std::string(api().nvrtcGetErrorString(error)) : object.log);
  check(error, "nvrtcCompileProgram");
  if (binary) object.cubin = compilation.cubin();
  object.ptx = compilation.ptx();
  object.kernels = parse_stats(object.log);
  return object;
}

}  // namespace

CudaObject compile_cuda(const std::string& source, std::string_view architecture, CudaOutput output) {
  check_architecture(architecture);
  CudaObject object = compile_once(source, architecture, output);
  const auto spilled = [](const CudaObject& made) {
    return std::accumulate(made.kernels.begin(), made.kernels.end(), 0,
        [](int sum, const KernelStats& k) { return sum + bytes_spilled(k); });
  };
  if (spilled(object) == 0) return object;
  const std::string other = alone_where_spilled(source, object.kernels);
  if (other == source) return object;
  CudaObject alone = compile_once(other, architecture, output);
  return spilled(alone) < spilled(object) ? alone : object;
}

std::vector<CudaObject> compile_cuda(
    const std::vector<std::string>& sources, std::string_view architecture, CudaOutput output) {
  std::vector<CudaObject> objects(sources.size());
  std::vector<std::exception_ptr> faults(sources.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t k = next++; k < sources.size(); k = next++) {
      try {
        objects[k] = compile_cuda(sources[k], architecture, output);
      } catch (...) {
        faults[k] = std::current_exception();
        next = sources.size();                         // the others are of no use
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (
          others.size() + 1 < std::min<std::size_t>(sources.size(), std::max(1u, std::thread::hardware_concurrency())))
        others.emplace_back(work);
    } catch (const std::system_error&) {               // no more threads: those there are do all
    }
    work();
  }
  for (const std::exception_ptr& fault : faults) if (fault) std::rethrow_exception(fault);
  return objects;
}

}  // namespace tilec::runtime
