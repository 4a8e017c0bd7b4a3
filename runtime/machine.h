// What the CPU of this machine is, as the operating system says: whether machine code may run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilec::runtime {

// "this machine is x86_64, its code is aarch64", "this machine lacks avx512f"; empty: it runs. Features are named as
// LLVM names them.
std::string cannot_run(std::string_view architecture, const std::vector<std::string>& features);

}  // namespace tilec::runtime
