// What to write for an unknown target: `gpu` is `cuda` or `opencl`.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tilec::runtime {

// How targets are written.
inline constexpr std::string_view target_forms =
    "cpu, cpu:ARCH, opencl, opencl:N, cuda, cuda:N, cuda:sm_NN, cuda:math=tf32, cuda:math=bf16 or reference";

// One to write for each kind of target, for help and completion.
std::span<const std::string_view> target_names();

std::string target_hint(std::string_view name);

}  // namespace tilec::runtime
