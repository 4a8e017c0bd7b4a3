// libnvrtc.so.13: CUDA text → a library for this machine, made by the compiler that made this one. Every access of the
// text to memory becomes a call (-fsanitize=thread), and an index or a number that leaves its range a trap; machine.cpp
// answers them.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int ok = 0, invalid_option = 5, refused_text = 6;
struct Program { std::string source, cubin, log; };

// asm("a.b %0;" : "=r"(x) : "r"(y));  ⇒  ptx_a_b(__LINE__, x, y);
std::string without_asm(const std::string& text) {
  static const std::regex whole(R"re(asm(?:\s+volatile)?\s*\(\s*"(?:\{[^"]*; )?([\w.:]+)[^"]*"\s*:([^;]*?)\)\s*;)re"),
      operand(R"re("[^"]*"\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\))re");
  std::string result;
  auto at = text.begin();
  for (std::sregex_iterator m(text.begin(), text.end(), whole), end; m != end; ++m) {
    std::string name = (*m)[1], list = "__LINE__";
    const std::string operands = (*m)[2];
    for (char& c : name) if (c == '.' || c == ':') c = '_';
    for (std::sregex_iterator o(operands.begin(), operands.end(), operand); o != end; ++o) list += ", " + (*o)[1].str();
    result.append(at, text.begin() + m->position()).append("ptx_" + name + "(" + list + ");");
    at = text.begin() + m->position() + m->length();
  }
  return result.append(at, text.end());
}

// alone: parameters that are __restrict__
struct Heading { std::string name, bound; std::size_t at; unsigned long long alone; };
std::vector<Heading> headings(const std::string& text) {
  static const std::regex kernel(R"(__global__\s+void\s+(?:__launch_bounds__\((\d+)[\d, ]*\)\s+)?(\w+)\s*\()");
  std::vector<Heading> found;
  for (std::sregex_iterator m(text.begin(), text.end(), kernel), end; m != end; ++m) {
    const auto at = static_cast<std::size_t>(m->position()), from = at + m->str().size();
    const std::size_t close = text.find(')', from);
    if (text.compare(close, 2, ");") == 0) continue;   // a declaration
    std::istringstream parameters(text.substr(from, close - from));
    unsigned long long alone = 0, bit = 1;
    for (std::string one; bit && std::getline(parameters, one, ','); bit <<= 1)
      if (one.find("__restrict__") != std::string::npos) alone |= bit;
    found.push_back({(*m)[2], (*m)[1].matched ? (*m)[1].str() : "1024", at, alone});
  }
  return found;
}

// Each kernel's shared memory in a section of its own; the dynamic one is declared, and defined behind all kernels.
std::string without_shared(const std::string& text) {
  const std::vector<Heading> kernels = headings(text);
  std::string result = text.substr(0, kernels.empty() ? text.size() : kernels[0].at);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const std::string body =
        text.substr(kernels[k].at, (k + 1 < kernels.size() ? kernels[k + 1].at : text.size()) - kernels[k].at);
    result += std::regex_replace(std::regex_replace(body, std::regex(R"(extern\s+__shared__)"), "extern"),
        std::regex("__shared__"), "simulated_shared_of(" + kernels[k].name + ")");
  }
  return result;
}

// The table of the kernels, and where a block's memory lies.
std::string trailer(const std::string& text) {
  std::string table, sections;
  for (const auto& [name, bound, at, alone] : headings(text)) {
    const std::string low = "__start_simulated_shared_" + name, high = "__stop_simulated_shared_" + name;
    sections += "extern char " + low + "[] __attribute__((weak, visibility(\"hidden\"))), " + high +
        "[] __attribute__((weak, visibility(\"hidden\")));\n";
    table += "  {\"" + name + "\", [](void** a) { simulated_call(" + name + ", a, simulated_count(" + name +
        ")); }, simulated_number(" + name + "), " + bound + ", " + std::to_string(alone) + "ull, " + low + ", " + high + "},\n";
  }
  return R"(
#line 1 "trailer"
template <unsigned long... I> struct simulated_pack {};
template <class... P> auto simulated_count(void (*)(P...)) -> simulated_pack<__integer_pack(sizeof...(P))...> { return {}; }
template <class... P> constexpr int simulated_number(void (*)(P...)) { return sizeof...(P); }
template <class... P, unsigned long... I> inline void simulated_call(void (*f)(P...), void** a, simulated_pack<I...>) { f(*(P*)a[I]...); }
struct simulated_kernel { const char* name; void (*entry)(void**); int parameters; unsigned bound; unsigned long long alone; char *shared, *shared_end; };
#define SIMULATED_SHOWN extern "C" __attribute__((visibility("default")))
)" + sections +
      std::string(text.find("extern __shared__") == std::string::npos
              ? ""
              : "alignas(1024) unsigned char tc_pool[227 << 10];\nSIMULATED_SHOWN char* simulated_dynamic() { return (char*)tc_pool; }\n") +
      "extern const simulated_kernel simulated_kernels[] __attribute__((visibility(\"default\"))) = {\n" + table +
      "  {nullptr, nullptr, 0, 0, 0, nullptr, nullptr}\n};\n";
}

std::string here() {                                   // the folder of this library
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&here), &info);
  return std::filesystem::canonical(info.dli_fname).parent_path();
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A process compiles a text once: different shapes and gradients often have the same kernel.
std::mutex mutex;
std::unordered_map<std::string, std::string> cubins;   // by architecture and text

int compile(Program& p, const std::string& architecture) {
  const std::string known = architecture + p.source;
  {
    const std::lock_guard lock(mutex);
    if (const auto at = cubins.find(known); at != cubins.end()) return p.cubin = at->second, ok;
  }
  const std::string text = without_shared(without_asm(p.source));
  char folder[] = "/tmp/tilec_simulated_XXXXXX";
  if (!mkdtemp(folder)) return p.log = "no folder in /tmp", refused_text;
  const std::string base = std::string(folder) + "/kernel";
  std::ofstream(base + ".cpp") << text << trailer(p.source);
  // Compiling is most of what a run takes. It is twice as quick unoptimised, where calls are calls (device.h), and
  // nearly twice again where what leaves its range traps: a handler is told much of each sum. A report counts what a
  // compiler leaves.
  const std::string level = std::getenv("SIMULATED_REPORT") ? " -O1 -DSIMULATED_REPORT" : " -O0";
  const std::string command = TILEC_COMPILER + level +
      std::string(" -std=c++17 -g1 -w -fPIC -shared -fvisibility=hidden -fno-strict-aliasing -ffp-contract=off -fno-builtin -fno-exceptions -fno-rtti -fno-stack-protector "
          "-fsanitize=thread --param tsan-instrument-func-entry-exit=0 -fsanitize=bounds,signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow "
          "-fsanitize-undefined-trap-on-error ") +
      "-D__CUDA_ARCH__=" + std::to_string(std::atoi(architecture.c_str() + 3)) + "0 -include '" TILEC_DEVICE "' " +
      base + ".cpp -nostdlib '" + here() + "/libcuda.so.1' -lm -lgcc -o " + base + ".so 2>" + base + ".log";
  const bool made = std::system(command.c_str()) == 0;
  const std::string library = made ? content(base + ".so") : "";
  if (made) {
    p.cubin = "simulated " + architecture + " " + std::to_string(p.source.size()) + " " +
        std::to_string(library.size()) + "\n" + p.source + library;
    const std::lock_guard lock(mutex);
    cubins.emplace(known, p.cubin);
  } else p.log = command + "\n" + content(base + ".log");
  std::filesystem::remove_all(folder);
  return made ? ok : refused_text;
}

}  // namespace

API nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, ok; }
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int error) {
  return error == refused_text ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}
API nvrtcCreateProgram(Program** p, const char* source, const char*, int, const char* const*, const char* const*) {
  return *p = new Program{source, {}, {}}, ok;
}
API nvrtcDestroyProgram(Program** p) { return delete *p, *p = nullptr, ok; }
API nvrtcCompileProgram(Program* p, int count, const char* const* options) {
  static const std::regex known("--gpu-architecture=(sm_[0-9]+[af]?)");
  for (int k = 0; k < count; ++k)
    if (std::cmatch m; std::regex_match(options[k], m, known)) return compile(*p, m[1]);
  return invalid_option;                               // it makes no PTX
}
#define GET(what, field)                                                                              \
  API nvrtcGet##what##Size(Program* p, std::size_t* bytes) { return *bytes = p->field.size() + 1, ok; } \
  API nvrtcGet##what(Program* p, char* to) { return std::memcpy(to, p->field.c_str(), p->field.size() + 1), ok; }
GET(CUBIN, cubin)
GET(PTX, source)
GET(ProgramLog, log)
