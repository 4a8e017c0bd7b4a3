// Objects that were linked run, here and in QEMU at an address that was chosen; objects that were cut or changed are
// refused.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/link.h"
#include "tests/backends/emulated.h"
#include "tests/codegen/kernels.h"

using namespace kernels;
using tilec::runtime::Code;
using tilec::runtime::Linker;
using tilec::runtime::LinkError;

namespace {

constexpr std::int64_t count = 37;

// y[i] = tan(x[i]) * weights[i % 4] + i: a call of libm and a table.
Loops calls_and_tables(const std::string& name) {
  const Expr i = var("i");
  const Expr weight = Convert{at("weights", apply(Op::Mod, {i, Expr(4)}, DType::I64), DType::I64), DType::F32};
  const Expr value = apply(Op::Fma, {apply(Op::Tan, {at("x", i)}), weight, Convert{i, DType::F32}});
  const Function f{name, {{"x", DType::F32}, {"y", DType::F32, Direction::Out}}, {},
      {loop("i", Kind::Serial, Expr(count), {store("y", i, value)})}};
  return {{f}, {{"weights", {3, 5, 7, -11}}}};
}

double expected(std::int64_t i, float x) {
  constexpr std::array<double, 4> weights = {3, 5, 7, -11};
  return std::tan(static_cast<double>(x)) * weights[static_cast<std::size_t>(i % 4)] + static_cast<double>(i);
}

std::vector<float> inputs() {
  std::vector<float> x;
  for (std::int64_t i = 0; i < count; ++i) x.push_back(0.03f * static_cast<float>(i));
  return x;
}

std::string object_for(const char* target, const std::string& name) {
  const Loops loops = calls_and_tables(name);
  verify(loops);
  return llvm_backend::emit({&loops}, *target_named(target)).object;
}

void check(const std::vector<float>& y) {
  const std::vector<float> x = inputs();
  for (std::int64_t i = 0; i < count; ++i)
    CHECK(y[static_cast<std::size_t>(i)] == doctest::Approx(expected(i, x[static_cast<std::size_t>(i)])).epsilon(1e-6));
}

std::uint64_t somewhere(const std::string&) { return 0x7f0000001000; }

// Reads and links; a LinkError is an answer, nothing else that is thrown or written outside is.
bool accepted(const std::string& object) {
  try {
    const std::vector<std::string> objects{object};
    const Linker linker(objects, 4096);
    std::vector<char> memory(linker.size());
    linker.write(memory, 0x10000000, somewhere);
    return true;
  } catch (const LinkError&) {
    return false;
  }
}

}  // namespace

TEST_CASE("two objects in one image call libm and read their own tables") {
  const std::vector<std::string> objects{object_for("cpu", "first"), object_for(narrow_cpu, "second")};
  const Code code(objects);
  CHECK(code.symbol("third") == nullptr);
  for (const char* name : {"first", "second"}) {
    const std::vector<float> x = inputs();
    std::vector<float> y(x.size());
    void* views[] = {const_cast<float*>(x.data()), y.data()};
    reinterpret_cast<Entry>(code.symbol(name))(views, nullptr, nullptr);
    check(y);
  }
}

TEST_CASE("objects are linked by several threads at once and go when nobody holds them") {
  const std::string object = object_for("cpu", "k");
  std::vector<std::thread> threads;
  std::array<int, 4> right{};
  for (std::size_t t = 0; t < right.size(); ++t)
    threads.emplace_back([&, t] {
      for (int turn = 0; turn < 50; ++turn) {
        const Code code(object);
        const std::vector<float> x = inputs();
        std::vector<float> y(x.size());
        void* views[] = {const_cast<float*>(x.data()), y.data()};
        reinterpret_cast<Entry>(code.symbol("k"))(views, nullptr, nullptr);
        right[t] += std::abs(static_cast<double>(y[5]) - expected(5, x[5])) < 1e-4;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int n : right) CHECK(n == 50);
}

TEST_CASE("a name that two objects define, and a function that nobody has, are refused by name") {
  const std::vector<std::string> twice(2, object_for("cpu", "k"));
  CHECK_THROWS_WITH_AS(Code{twice}, "machine code: `k` is defined twice", LinkError);
  const std::vector<std::string> objects{object_for("cpu", "k")};
  const Linker linker(objects, 4096);
  std::vector<char> memory(linker.size());
  CHECK_THROWS_WITH_AS(linker.write(memory, 4096, [](const std::string&) { return std::uint64_t{0}; }),
      "machine code: it calls `tanf`, which this process does not have", LinkError);
}

TEST_CASE(
    "an object that was cut, or of which any byte was changed, is linked or refused: nothing is read or written outside it") {
  for (const char* target : {"cpu", "cpu:aarch64", "cpu:x86-64-v3"}) {
    const std::string object = object_for(target, "k");
    REQUIRE(accepted(object));
    for (std::size_t size = 0; size < object.size(); size += 7) CHECK(!accepted(object.substr(0, size)));
    int refused = 0;
    for (std::size_t at = 0; at < object.size(); ++at)
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string changed = object;
        changed[at] = static_cast<char>(changed[at] ^ change);
        refused += !accepted(changed);
      }
    CHECK(refused > 200);
  }
  CHECK(!accepted(""));
  CHECK(!accepted("no object"));
}

namespace {

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (char part[256]; fgets(part, sizeof part, pipe) != nullptr;) text += part;
  CHECK(pclose(pipe) == 0);
  return text;
}

// Without arguments: where tanf is. With an offset: maps `image` at the address it was linked for and calls what lies
// there.
constexpr const char* loader = R"(#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
float (*volatile function)(float) = tanf;
int main(int argc, char** argv) {
  if (argc == 1) return printf("%ld\n", (long)function) < 0;
  char* base = mmap((void*)0x550000000, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  FILE* image = fopen("image", "rb");
  size_t bytes = fread(base, 1, 1 << 20, image);
  __builtin___clear_cache(base, base + bytes);
  static float x[37], y[37];
  for (int i = 0; i < 37; ++i) x[i] = 0.03f * (float)i;
  void* views[] = {x, y};
  ((void (*)(void**, void*, void*))(base + atol(argv[1])))(views, 0, 0);
  for (int i = 0; i < 37; ++i) printf("%a\n", (double)y[i]);
  return 0;
}
)";

}  // namespace

TEST_CASE("AArch64 code linked for an address runs there in QEMU, its calls too") {
  if (const std::string missing = backends::Emulated::missing(); !missing.empty()) {
    MESSAGE(missing);
    return;
  }
  char folder[] = "/tmp/tilec_link_XXXXXX";
  REQUIRE(mkdtemp(folder));
  const std::filesystem::path path = folder;
  std::ofstream(path / "main.c") << loader;
  REQUIRE(
      std::system(
          fmt::format("cd {} && aarch64-linux-gnu-gcc -O1 -static -no-pie main.c -o run -lm", folder).c_str()) == 0);
  const std::uint64_t tangent = std::stoull(output_of(fmt::format("cd {} && qemu-aarch64 ./run", folder)));
  const std::vector<std::string> objects{object_for("cpu:aarch64", "other"), object_for("cpu:aarch64", "k")};
  const Linker linker(objects, 65536);
  std::vector<char> memory(linker.size());
  linker.write(memory, 0x550000000, [&](const std::string& name) { return name == "tanf" ? tangent : 0; });
  std::ofstream(path / "image", std::ios::binary).write(memory.data(), static_cast<std::streamsize>(memory.size()));
  std::istringstream text(output_of(fmt::format("cd {} && qemu-aarch64 ./run {}", folder, linker.symbols().at("k"))));
  std::vector<float> y;
  for (std::string line; std::getline(text, line);) y.push_back(std::stof(line));
  REQUIRE(y.size() == count);
  check(y);
  std::filesystem::remove_all(path);
}
