// Contractions on tensor cores: random ones, under random blocks, printed as CUDA, run by an emulation of the instructions (warps.h), and
// compared with the interpreter bit for bit; and NVRTC compiles what is chosen for large ones without a spill.
#include <doctest/doctest.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>

#include "codegen/pipeline.h"
#include "codegen/simt/emit.h"
#include "codegen/tensor_cores.h"
#include "lang/parse.h"
#include "lang/render.h"
#include "poly/interpret.h"
#include "runtime/nvrtc.h"
#include "runtime/tensor.h"
#include "tests/backends/programs.h"

namespace tilec::test {
namespace {

using namespace codegen;
using lang::DType;
using backends::Random;
using Sizes = std::map<std::string, std::int64_t>;

std::optional<Stages> compiled(const std::string& text, const Sizes& sizes, const char* target, Until until, const std::string& plan, std::string& message) {
  lang::Diagnostics diagnostics;
  const lang::Source source{"test.tile", text};
  const auto file = lang::parse(source, diagnostics);
  REQUIRE_MESSAGE(file, lang::render(diagnostics, {source}, {}));
  Request request;
  request.sizes = sizes;
  request.target = *target_named(target);
  if (!plan.empty()) request.plan = PlanText{plan};
  auto stages = codegen::compile(*file, request, until, diagnostics);
  message = stages ? "" : lang::render(diagnostics, {source}, {});
  return stages;
}

Stages compiled(const std::string& text, const Sizes& sizes, const char* target, Until until = Until::Plan, const std::string& plan = "") {
  std::string message;
  auto stages = compiled(text, sizes, target, until, plan, message);
  REQUIRE_MESSAGE(stages, message, plan);
  return std::move(*stages);
}

const Compute* on_tensor_cores(const Plan& plan) {
  for (const Group& group : plan.groups)
    for (const Compute& leaf : group.body) if (leaf.is<forms::TensorCores>()) return &leaf;
  return nullptr;
}

// ---- CUDA text on this machine

// asm("a.b %0;" : "=r"(x) : "r"(y));  ⇒  ptx_a_b(x, y);
std::string without_asm(const std::string& text) {
  static const std::regex whole(R"re(asm(?:\s+volatile)?\s*\(\s*"(?:\{[^"]*; )?([\w.:]+)[^"]*"\s*:([^;]*?)\)\s*;)re"), operand(R"re("[^"]*"\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\))re");
  std::string result;
  auto at = text.begin();
  for (std::sregex_iterator m(text.begin(), text.end(), whole), end; m != end; ++m) {
    std::string name = (*m)[1], list;
    const std::string operands = (*m)[2];
    std::ranges::replace(name, '.', '_');
    for (std::sregex_iterator o(operands.begin(), operands.end(), operand); o != end; ++o) list += (list.empty() ? "" : ", ") + (*o)[1].str();
    result.append(at, text.begin() + m->position()).append("ptx_" + name + "(" + list + ");");
    at = text.begin() + m->position() + m->length();
  }
  return result.append(at, text.end());
}

// Kernels as functions of one library.
class Library {
 public:
  Library(const std::vector<const Loops*>& kernels, const std::string& flags) {
    char folder[] = "/tmp/tilec_warps_XXXXXX";
    REQUIRE(mkdtemp(folder));
    std::string text = std::regex_replace(without_asm(simt::emit(kernels, simt::Dialect::Cuda)), std::regex(R"(extern\s+__shared__(.*)tc_pool\[\])"), "static $1 tc_pool[232448]");
    for (const Loops* loops : kernels)
      text += fmt::format("extern \"C\" int run_{0}(void** a, const unsigned* grid, unsigned threads) {{ return warps::run([](void** x) {{ warps::call({0}, x); }}, a, *(const unsigned(*)[3])grid, threads); }}\n", simt::symbol(loops->functions.back().name));
    std::ofstream(std::string(folder) + "/kernels.cpp") << text;
    const std::string command = fmt::format("c++ -std=c++20 -w -O1 -fPIC -shared {} -include '" TILEC_TESTS "/runtime/warps.h' {}/kernels.cpp -o {}/kernels.so", flags, folder, folder);
    if (std::system(command.c_str()) == 0) library_ = dlopen((std::string(folder) + "/kernels.so").c_str(), RTLD_NOW);
    REQUIRE_MESSAGE(library_, command);
    std::filesystem::remove_all(folder);
  }

  void run(const Loops& loops, std::vector<void*> memory) const {
    const simt::Launch launch = simt::launch(loops, simt::Dialect::Cuda);
    const unsigned grid[3] = {static_cast<unsigned>(launch.grid[0]), static_cast<unsigned>(launch.grid[1]), static_cast<unsigned>(launch.grid[2])};
    const auto entry = reinterpret_cast<int (*)(void**, const unsigned*, unsigned)>(dlsym(library_, ("run_" + simt::symbol(loops.functions.back().name)).c_str()));
    const bool found = entry;
    REQUIRE(found);
    CHECK(entry(memory.data(), grid, static_cast<unsigned>(launch.threads)) == 0);
  }

 private:
  void* library_ = nullptr;
};

// Memory whose last byte, or whose first, is followed or preceded by none that may be touched.
class Guarded {
 public:
  Guarded(std::size_t bytes, bool at_end) : whole_((bytes + page - 1) / page * page + 2 * page) {
    base_ = static_cast<char*>(mmap(nullptr, whole_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + page, whole_ - 2 * page, PROT_READ | PROT_WRITE) == 0);
    data = at_end ? base_ + whole_ - page - bytes : base_ + page;
  }
  ~Guarded() { munmap(base_, whole_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  char* data;

 private:
  static constexpr std::size_t page = 4096;
  std::size_t whole_;
  char* base_;
};

// ---- random contractions

struct Drawn { std::string text; Sizes sizes; };

// A window over an image with zeros around it, whose rows bound m; or the gradient of its filter.
Drawn convolution(Random& random, const MatrixInstruction& i) {
  const std::string type(lang::name(i.operand)), wide(lang::name(i.accumulator));
  const int height = random.between(9, 14), width = random.between(9, 14), channels = 8 * random.between(3, 6) + (random.chance(3) ? 3 : 0), outputs = 8 * random.between(3, 6) + (random.chance(3) ? 5 : 0);
  Drawn d{"", {{"N", random.between(1, 3)}, {"H", height}, {"W", width}, {"C", channels}, {"O", outputs}}};
  const bool apart = random.chance(3);
  const std::string stride = apart ? "2 * " : "";
  if (apart) d.sizes["P"] = (height + 1) / 2, d.sizes["Q"] = (width + 1) / 2;
  else d.sizes["P"] = height, d.sizes["Q"] = width;
  if (random.chance(2))
    d.text = fmt::format("function f({0} I[N, H, W, C], {0} K[3, 3, C, O]) -> ({1} R) {{ R[n, y, x, o: N, {3}, {4}, O] = +({1}(I[n, {2}y + j - 1, {2}x + k - 1, c]) * {1}(K[j, k, c, o])); }}", type, wide, stride, d.sizes["P"], d.sizes["Q"]);
  else
    d.text = fmt::format("function f({0} I[N, H, W, C], {0} D[N, H, W, O]) -> ({1} R) {{ R[j, k, c, o: 3, 3, C, O] = +({1}(I[n, y + j - 1, x + k - 1, c]) * {1}(D[n, y, x, o])); }}", type, wide);
  d.sizes.erase("P"), d.sizes.erase("Q");
  return d;
}

// Batches, layouts, a second reduction that moves A, ragged sizes, results of other types, bounds of k.
Drawn contraction(Random& random, const MatrixInstruction& i) {
  const std::string type(lang::name(i.operand)), wide(lang::name(i.accumulator));
  if (random.chance(3)) return convolution(random, i);
  const bool batch = random.chance(3), taps = random.chance(3), swap_a = random.chance(2), swap_b = random.chance(2), swap_c = random.chance(3), triangle = batch && random.chance(2);
  const auto size = [&](int least, int most) { return random.chance(2) ? std::int64_t{16} * random.between(least / 16, most / 16) : random.between(least, most); };
  Drawn d{"", {{"M", size(64, 160)}, {"N", size(64, 160)}, {"K", size(64, 144)}}};
  if (batch) d.sizes["Z"] = 2;
  if (taps) d.sizes["R"] = 3, d.sizes["P"] = d.sizes["M"] + 2;
  const std::string z = batch ? "Z, " : "", at_z = batch ? "z, " : "", r = taps ? "R, " : "", at_r = taps ? "r, " : "";
  const std::string rows = taps ? "P" : "M", row = taps ? "i + r" : "i";
  const bool same = lang::is_float(i.operand) && random.chance(2);  // a product of f16 is one of f32 in a sum
  const auto factor = [&](const std::string& read) { return same ? read : wide + "(" + read + ")"; };
  const std::string a = swap_a ? fmt::format("A[{}k, {}]", at_z, row) : fmt::format("A[{}{}, k]", at_z, row), b = swap_b ? fmt::format("B[{}{}j, k]", at_z, at_r) : fmt::format("B[{}{}k, j]", at_z, at_r);
  const std::string result = lang::is_float(i.operand) && random.chance(3) ? type : wide;
  d.text = fmt::format("function f({0} A[{1}{2}], {0} B[{1}{3}{4}]) -> ({5} C) {{ C[{6}{7}: {12}{8}] = +({9} * {10}){11}; }}", type, z, swap_a ? "K, " + rows : rows + ", K", r, swap_b ? "N, K" : "K, N", result, at_z, swap_c ? "j, i" : "i, j",
                       swap_c ? fmt::format("{}, {}", d.sizes["N"], d.sizes["M"]) : fmt::format("{}, {}", d.sizes["M"], d.sizes["N"]), factor(a), factor(b), triangle ? ", k < 37 + 30 * z" : "", batch ? "2, " : "");
  if (taps) d.sizes.erase("M");
  return d;
}

// Any block of warps that fits.
void draw(Compute& leaf, Group& group, const MatrixInstruction& i, Random& random) {
  auto& cores = *leaf.as<forms::TensorCores>();
  do {
    const bool wide = i.from_shared();
    cores.instruction = i.name, leaf.lanes = i.threads();
    leaf.rows = random.between(1, wide ? 2 : 4), leaf.vectors = wide ? 8 * random.between(1, 4) : 2 * random.between(1, 4);
    cores.warps_m = random.between(1, wide ? 2 : 3), cores.warps_n = random.between(1, wide ? 2 : 3);
    cores.depth = wide ? 128 / lang::bytes(i.operand) * random.between(1, 2) : i.k * random.between(1, 5), cores.buffers = random.between(wide ? 3 : 2, 4);
  } while (shared_bytes_of(leaf) > (i.from_shared() ? 227 : 99) << 10 || leaf.rows * leaf.vectors > 32);
  group.threads = cores.threads();
}

poly::Array drawn(const poly::Tensor& t, Random& random) {
  poly::Array a{t.dtype, {}, {}, {}};
  for (const poly::Size& n : t.shape) a.shape.push_back(n.get());
  for (std::int64_t k = 0; k < a.count(); ++k) {
    const int x = lang::is_float(t.dtype) || t.dtype == DType::I8 ? random.between(-5, 5) : random.between(0, 200);
    if (lang::is_float(t.dtype)) a.reals.push_back(x / 4.0);
    else a.integers.push_back(x * (t.dtype == DType::I8 ? 25 : 1));
  }
  return a;
}

std::string bytes_of(const poly::Array& a) {
  const runtime::Tensor t = runtime::allocate("t", a.dtype, a.shape);
  runtime::from_array(a, t);
  return {static_cast<const char*>(t.data), static_cast<std::size_t>(a.count() * lang::bytes(a.dtype))};
}

// Bit for bit, but for what is no number.
bool same(DType type, const std::string& wanted, const char* got) {
  if (type != DType::F32) return std::equal(wanted.begin(), wanted.end(), got);
  for (std::size_t at = 0; at < wanted.size(); at += 4) {
    float x = 0, y = 0;
    std::memcpy(&x, wanted.data() + at, 4), std::memcpy(&y, got + at, 4);
    if (std::memcmp(&x, &y, 4) != 0 && !(x != x && y != y)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("random contractions are what the interpreter makes of them, under any block of warps") {
  struct Ready { Drawn drawn; std::string plan; Stages stages; bool at_end; };
  std::vector<Ready> ready;
  Random random(7);
  for (const MatrixInstruction& i : matrix_instructions())
    for (int n = 0, tries = 0; n < (i.only ? 3 : 4); ++n) {
      Drawn d = contraction(random, i);
      CAPTURE(d.text);
      const char* const target = i.only ? "cuda:sm_90a" : i.operand == DType::F32 ? "cuda:sm_80:math=tf32" : "cuda:sm_80";
      Stages stages = compiled(d.text, d.sizes, target, Until::Plan, "no split\n");
      if (!on_tensor_cores(*stages.plan)) {                // too small
        --n;
        REQUIRE(++tries < 50);
        continue;
      }
      for (Group& group : stages.plan->groups)
        for (Compute& leaf : group.body) if (leaf.is<forms::TensorCores>() && (n || i.only)) draw(leaf, group, i, random);
      const std::string plan = print(*stages.plan);
      Stages made = compiled(d.text, d.sizes, target, Until::Lowered, "no split\n" + plan);
      CHECK(print(*made.plan) == plan);
      made.lowered->steps.back().loops.functions.back().name = fmt::format("k{}", ready.size());
      REQUIRE(made.lowered->steps.size() == 1);
      ready.push_back({d, plan, std::move(made), random.chance(2)});
    }
  std::vector<const Loops*> kernels;
  for (const Ready& r : ready) kernels.push_back(&r.stages.lowered->steps.back().loops);
  const Library library(kernels, "");
  for (Ready& r : ready) {
    CAPTURE(r.drawn.text);
    CAPTURE(r.plan);
    const poly::Program& program = *r.stages.bounded;
    std::vector<poly::Array> inputs;
    for (const poly::TensorId id : program.inputs) inputs.push_back(drawn(program.tensor(id), random));
    if (program.tensor(program.outputs[0]).dtype == DType::F32 && random.chance(3)) inputs[1].reals[static_cast<std::size_t>(random.between(0, static_cast<int>(inputs[1].reals.size()) - 1))] = std::numeric_limits<double>::infinity();
    const poly::Interpretation wanted = poly::interpret(program, inputs);
    std::vector<std::unique_ptr<Guarded>> memory;
    const auto place = [&](const std::string& bytes) { return memory.emplace_back(std::make_unique<Guarded>(bytes.size(), r.at_end))->data; };
    for (const poly::Array& a : inputs) {
      const std::string bytes = bytes_of(a);
      std::ranges::copy(bytes, place(bytes));
    }
    const std::string output = bytes_of(wanted.outputs[0]);
    const char* const got = place(output);
    std::vector<void*> arguments;
    for (const int b : r.stages.lowered->steps.back().buffers) arguments.push_back(memory[static_cast<std::size_t>(b)]->data);
    library.run(r.stages.lowered->steps.back().loops, arguments);
    CHECK(same(wanted.outputs[0].dtype, output, got));
  }
}

TEST_CASE("what is chosen for tensor cores compiles without a spill") {
  std::string why;
  if (runtime::nvrtc_library(why).empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    std::vector<Stages> made;
    for (const MatrixInstruction& i : {*matrix_instruction("m16n8k16.bf16"), *matrix_instruction("m16n8k32.i8"), *matrix_instruction("m16n8k8.tf32")})
      for (const auto& sizes : {Sizes{{"M", 4096}, {"N", 4096}, {"K", 4096}}, Sizes{{"M", 1001}, {"N", 903}, {"K", 1100}}})
        for (const char* factors : {"A[M, K], B[K, N] A[i, k] B[k, j]", "A[K, M], B[N, K] A[k, i] B[j, k]"}) {
          const std::string words = factors, type(lang::name(i.operand)), wide(lang::name(i.accumulator));
          const std::string text = fmt::format("function f({0} {1}, {0} {2}) -> (C) {{ C[i, j: M, N] = +({3}({4}) * {3}({5})); }}", type, words.substr(0, 7), words.substr(9, 7), wide, words.substr(17, 7), words.substr(25));
          CAPTURE(text);
          made.push_back(compiled(text, sizes, fmt::format("cuda:{}:math=tf32", architecture).c_str(), Until::Lowered));
          REQUIRE(on_tensor_cores(*made.back().plan));
          made.back().lowered->steps.front().loops.functions.back().name = fmt::format("k{}", made.size());
        }
    for (const char* text : {"function f(f16 I[N, H, W, C], f16 K[3, 3, C, O]) -> (R) { R[n, y, x, o: N, H, W, O] = +(I[n, y + j - 1, x + k - 1, c] * K[j, k, c, o]); }",
                             "function f(f16 I[N, H, W, C], f16 D[N, H, W, O]) -> (R) { R[j, k, c, o: 3, 3, C, O] = +(I[n, y + j - 1, x + k - 1, c] * D[n, y, x, o]); }"}) {
      made.push_back(compiled(text, {{"N", 8}, {"H", 57}, {"W", 56}, {"C", 256}, {"O", 264}}, (std::string("cuda:") + architecture).c_str(), Until::Lowered, "no split\n"));
      REQUIRE(on_tensor_cores(*made.back().plan));
      made.back().lowered->steps.front().loops.functions.back().name = fmt::format("k{}", made.size());
    }
    std::vector<const Loops*> kernels;
    for (const Stages& s : made) kernels.push_back(&s.lowered->steps.front().loops);
    for (const runtime::KernelStats& k : runtime::compile_cuda(simt::emit(kernels, simt::Dialect::Cuda), architecture).kernels)
      CHECK_MESSAGE(k.spill_stores + k.spill_loads + k.stack == 0, architecture, " ", k.name, ": spills of ", k.spill_stores, " and ", k.spill_loads, " bytes, a stack of ", k.stack);
  }
}

TEST_CASE("a plan that cannot be spelled is refused with its reason") {
  const std::string text = "function f(bf16 A[M, K], bf16 B[K, N]) -> (C) { C[i, j: M, N] = +(f32(A[i, k]) * f32(B[k, j])); }";
  const Sizes sizes{{"M", 512}, {"N", 512}, {"K", 512}};
  const auto message = [&](const char* target, const std::string& block, const std::string& program = "") {
    std::string said;
    const auto stages = compiled(program.empty() ? text : program, sizes, target, Until::Plan, "no split\ngroup C  threads 256\n  contract C  m i  n j  k k  " + block + "\n", said);
    return said;
  };
  const auto says = [](const std::string& message, const char* part) { return message.find(part) != std::string::npos; };
  CHECK(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3") == "");
  CHECK(message("cuda:sm_90a", "block 1x32  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 4") == "");
  CHECK(says(message("cuda:sm_100", "block 1x32  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 4"), "runs on sm_90a alone"));
  CHECK(says(message("cuda:sm_90a", "block 1x12  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 4"), "have 64, 128, 192 or 256 columns"));
  CHECK(says(message("cuda:sm_90a", "block 1x32  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 2"), "three buffers at least"));
  CHECK(says(message("cuda:sm_90a", "block 1x32  lanes 128  stage 32  mma m64n8k16.bf16  warps 2x1  buffers 4"), "whole lines of 128 bytes"));
  CHECK(says(message("cuda:sm_75", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3"), "runs on CUDA from sm_80 on"));
  CHECK(says(message("opencl", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3"), "runs on CUDA from sm_80 on"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m16n8k16.f16  warps 2x4  buffers 3"), "is no sum of products of two reads that `m16n8k16.f16` multiplies"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m8n8k4  warps 2x4  buffers 3"), "is no instruction of tensor cores"));
  CHECK(says(message("cuda:sm_80", "block 2x3  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3"), "no odd number along `n`"));
  CHECK(says(message("cuda:sm_80", "block 4x16  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3"), "16 products of two instructions side by side at most"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 40  mma m16n8k16.bf16  warps 2x4  buffers 3"), "no multiple of the 16"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x2  buffers 3"), "are not the 256 threads of a block"));
  CHECK(says(message("cuda:sm_80", "block 4x8  lanes 32  stage 64  mma m16n8k16.bf16  warps 2x4  buffers 4"), "bytes of shared memory"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3", "function f(bf16 A[M, K], bf16 B[K, N]) -> (C) { C[i, j: M, N] = +(exp(f32(A[i, k])) * f32(B[k, j])); }"), "no sum of products of two reads"));
}

TEST_CASE("other types, small shapes and older machines have no tensor cores") {
  const auto chosen = [](const std::string& factors, const char* target, std::int64_t size = 512) {
    const std::string text = "function f(bf16 A[M, K], bf16 B[K, N], f16 H[K, N], f32 F[K, N], i8 I[M, K]) -> (C) { C[i, j: M, N] = +(" + factors + "); }";
    return on_tensor_cores(*compiled(text, {{"M", size}, {"N", size}, {"K", size}}, target).plan) != nullptr;
  };
  CHECK(chosen("f32(A[i, k]) * f32(B[k, j])", "cuda:sm_80"));
  CHECK(chosen("A[i, k] * B[k, j]", "cuda:sm_90a"));
  CHECK(!chosen("A[i, k] * B[k, j]", "cuda:sm_75"));
  CHECK(!chosen("A[i, k] * B[k, j]", "opencl"));
  CHECK(!chosen("A[i, k] * B[k, j]", "cuda:sm_80", 32));
  CHECK(chosen("A[i, k] * H[k, j]", "cuda:sm_80"));    // tf32 holds both
  CHECK(!chosen("A[i, k] * F[k, j]", "cuda:sm_80"));   // but not f32,
  CHECK(chosen("A[i, k] * F[k, j]", "cuda:sm_80:math=tf32"));  // unless it may be rounded
  CHECK(chosen("F[k, i] * F[k, j]", "cuda:sm_80:math=tf32"));
  CHECK(!chosen("F[k, i] * F[k, j]", "cuda:sm_80"));
  CHECK(!chosen("f64(A[i, k]) * f64(B[k, j])", "cuda:sm_80"));
  CHECK(!chosen("f16(f32(A[i, k])) * H[k, j]", "cuda:sm_80"));  // the cast rounds
  CHECK(!chosen("I[i, k] * H[k, j]", "cuda:sm_80"));
}

}  // namespace tilec::test
