// A CPU that this machine is not, as a Device: machine code is linked with a small program and run by QEMU's user mode.
//
// Needs `aarch64-linux-gnu-gcc` (with its libc) and `qemu-aarch64`; without them Emulated::missing says so, and code is
// only compiled.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "codegen/llvm/emit.h"
#include "codegen/target.h"
#include "runtime/assemble.h"
#include "runtime/device.h"

namespace backends {

// The e_machine of an ELF object, 183 for AArch64 and 62 for x86-64; 0: no such object.
inline int elf_machine(const std::string& object) {
  if (object.size() < 20 || object.compare(0, 4, "\x7f" "ELF") != 0) return 0;
  return static_cast<unsigned char>(object[18]) | static_cast<unsigned char>(object[19]) << 8;
}

// Compiles without running: throws where the objects are another machine's than the target's.
inline void object_for(const tilec::codegen::Lowered& program, const tilec::codegen::Target& target) {
  for (const std::string& object : tilec::runtime::assemble(program, target).code)
    if (elf_machine(object) != (target.triple.starts_with("aarch64") ? 183 : 62))
      throw std::runtime_error("an object for another machine");
}

class Emulated : public tilec::runtime::Device {
 public:
  using Memory = tilec::runtime::Memory;
  using Kernels = tilec::runtime::Kernels;

  // What is not installed; empty if all is there.
  static std::string missing() {
    for (const char* program : {"aarch64-linux-gnu-gcc", "qemu-aarch64"})
      if (std::system(fmt::format("command -v {} >/dev/null", program).c_str()) != 0)
        return fmt::format("{} is not installed", program);
    return {};
  }

  std::string describe() const override { return "qemu-aarch64"; }
  void copy_in(const Memory& to, const void* from, std::int64_t bytes) override {
    std::memcpy(to.get(), from, static_cast<std::size_t>(bytes));
  }
  void copy_out(void* to, const Memory& from, std::int64_t bytes) override {
    std::memcpy(to, from.get(), static_cast<std::size_t>(bytes));
  }
  void wait() override {}

  Memory allocate(std::int64_t bytes) override {
    // one more: no two begin at one place
    auto block = std::make_shared<std::string>(static_cast<std::size_t>(bytes) + 1, '\0');
    sizes_[block->data()] = bytes;
    return Memory(block, block->data());
  }

  Memory part(const Memory& whole, std::int64_t offset, std::int64_t bytes) override {
    char* const place = static_cast<char*>(whole.get()) + offset;
    sizes_[place] = bytes;
    return Memory(whole, place);
  }

  std::shared_ptr<const Kernels> load(const tilec::codegen::Package& package) override {
    auto kernels = std::make_shared<Linked>();
    char folder[] = "/tmp/tilec_emulated_XXXXXX";
    if (!mkdtemp(folder)) throw std::runtime_error("no temporary folder");
    kernels->folder = folder;
    for (std::size_t k = 0; k < package.code.size(); ++k) {
      if (elf_machine(package.code[k]) != 183) throw std::runtime_error("an object for another machine");
      write(kernels->folder / fmt::format("{}.o", k), package.code[k]);
    }
    write(kernels->folder / "main.c", program_of(package));
    shell(fmt::format("cd {} && aarch64-linux-gnu-gcc -O1 -static main.c *.o -o run -lm", folder));
    return kernels;
  }

  void run(const Kernels& kernels, std::span<const Memory> memory, std::vector<double>*) override {
    const std::filesystem::path& folder = dynamic_cast<const Linked&>(kernels).folder;
    std::ofstream in(folder / "in", std::ios::binary);
    for (const Memory& m : memory) {
      const std::int64_t bytes = sizes_.at(m.get());
      in.write(reinterpret_cast<const char*>(&bytes), 8).write(static_cast<const char*>(m.get()), bytes);
    }
    in.close();
    shell(fmt::format("cd {} && qemu-aarch64 ./run", folder.string()));
    std::ifstream out(folder / "out", std::ios::binary);
    for (const Memory& m : memory) out.read(static_cast<char*>(m.get()), sizes_.at(m.get()));
    if (!out) throw std::runtime_error("the emulated program wrote too little");
  }

 private:
  struct Linked : Kernels {
    std::filesystem::path folder;
    ~Linked() override { std::filesystem::remove_all(folder); }
  };

  static void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static void shell(const std::string& command) {
    if (const int status = std::system(command.c_str()); status != 0)
      throw std::runtime_error(fmt::format("status {} of: {}", status, command));
  }

  // Reads every buffer, runs every step with a pool of one thread, writes every buffer.
  static std::string program_of(const tilec::codegen::Package& package) {
    std::string declared, called;
    std::set<std::string> seen;
    for (const tilec::codegen::Launch& step : package.launches) {
      if (seen.insert(step.kernel).second)
        declared += fmt::format("void {}(void* const* views, const struct pool* pool, void* locals);\n", step.kernel);
      std::string views;
      for (const int b : step.buffers) views += fmt::format("buffer[{}], ", b);
      for (const std::int64_t number : step.numbers) views += fmt::format("(void*){}, ", number);
      called += fmt::format("  {{ void* views[] = {{{}0}}; {}(views, &pool, locals); }}\n", views, step.kernel);
    }
    return fmt::format(R"(#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
struct pool {{ void* context; void (*run)(void*, int64_t, void (*)(void*, int64_t, int64_t), void*); int64_t workers; }};
static void run(void* context, int64_t count, void (*body)(void*, int64_t, int64_t), void* arguments) {{ for (int64_t i = 0; i < count; ++i) body(arguments, i, 0); }}
{}int main(void) {{
  static void* buffer[{}];
  static int64_t bytes[{}];
  const struct pool pool = {{0, run, 1}};
  static _Alignas(64) char locals[{}];
  const int count = {};
  FILE *in = fopen("in", "rb"), *out = fopen("out", "wb");
  for (int b = 0; b < count; ++b) {{
    if (fread(&bytes[b], 8, 1, in) != 1) return 1;
    buffer[b] = aligned_alloc(64, (size_t)(bytes[b] + 64) / 64 * 64);
    if (fread(buffer[b], 1, (size_t)bytes[b], in) != (size_t)bytes[b]) return 2;
  }}
{}  for (int b = 0; b < count; ++b) if (fwrite(buffer[b], 1, (size_t)bytes[b], out) != (size_t)bytes[b]) return 3;
  return fclose(out);
}}
)",
        declared, package.buffers.size() + 1, package.buffers.size() + 1, package.locals + 64, package.buffers.size(),
        called);
  }

  std::map<void*, std::int64_t> sizes_;
};

}  // namespace backends
