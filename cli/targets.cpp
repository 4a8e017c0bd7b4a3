// `tilec targets`: what this machine can run, and what is missing for the rest.
#include <fmt/core.h>

#include "cli/session.h"
#include "runtime/device.h"

namespace tilec::cli {

int targets_command(const Options& options) {
  if (!options.words.empty())
    throw UsageError{fmt::format("`{}` is one word too many: `tilec targets` takes none", options.words[0]), {}};
  fmt::print("{:<12} the interpreter: slow, and by definition right\n", "reference");
#ifdef TILEC_CPU
  const codegen::Target cpu = target_of("cpu");
  fmt::print("{:<12} {}, {}-bit vectors, L1 {} KiB, L2 {} KiB, L3 {} KiB\n", "cpu", cpu.arch, cpu.vector_bytes * 8,
      cpu.l1 >> 10, cpu.l2 >> 10, cpu.l3 >> 10);
  fmt::print(
      "{:<12} an x86-64 or AArch64 CPU by LLVM's name: x86-64-v2, x86-64-v3, x86-64-v4, znver5, aarch64, neoverse-n1, …; --emit=asm and object\n",
      "cpu:NAME");
#else
  fmt::print("{:<12} absent: this tilec was built without LLVM\n", "cpu");
#endif
  for (const runtime::DeviceLine& line : runtime::list_devices())
    fmt::print("{:<12} {}{}\n", line.target, line.present ? "" : "absent: ", line.description);
  return success;
}

}  // namespace tilec::cli
