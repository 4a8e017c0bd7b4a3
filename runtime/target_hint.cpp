#include "runtime/target_hint.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/nearest.h"

namespace tilec::runtime {
namespace {

struct Other { std::string_view names, hint; };

// Names that other compilers and frameworks have, between blanks.
constexpr Other others[] = {
    {" gpu ", "a GPU of NVIDIA is `cuda`, any other `opencl`"},
    {" nvidia nvptx ptx hopper cublas ", "a GPU of NVIDIA is `cuda`"},
    {" ocl cl amd rocm hip metal mps vulkan intel-gpu xpu ", "a GPU that is not of NVIDIA is `opencl`"},
    {" host native llvm x86 x86-64 x86_64 intel c openmp serial ", "this machine's processor is `cpu`"},
    {" avx2 avx ", "a processor with AVX2 is `cpu:x86-64-v3`"},
    {" avx512 avx-512 ", "a processor with AVX-512 is `cpu:x86-64-v4`"},
    {" arm arm64 aarch64 neon ", "a processor of AArch64 is `cpu:aarch64`"},
    {" interpreter interpret python debug numpy ", "the interpreter is `reference`"},
};

constexpr std::string_view names[] = {"cpu", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64", "opencl",
    "opencl:1", "cuda", "cuda:1", "cuda:sm_90a", "cuda:math=tf32", "cuda:math=bf16",
    "reference"};

}  // namespace

std::span<const std::string_view> target_names() { return names; }

std::string target_hint(std::string_view name) {
  std::string word(name.substr(0, name.find(':')));
  const std::string_view kind = name.substr(0, name.find(':')),
                         rest = kind.size() < name.size() ? name.substr(kind.size() + 1) : std::string_view();
  std::transform(word.begin(), word.end(), word.begin(),
      [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto look = [](std::string_view text) {
    return std::find_if(std::begin(others), std::end(others),
        [&](const Other& o) { return o.names.find(fmt::format(" {} ", text)) != std::string_view::npos; });
  };
  const auto* known = look(kind == "cpu" ? rest : std::string_view(word));
  if (!rest.empty() || known == std::end(others)) {
    if (kind == "cpu" && known != std::end(others)) return fmt::format("{}; a target is {}", known->hint, target_forms);
  }
  if (known != std::end(others)) return fmt::format("{}; `tilec targets` lists what is here", known->hint);
  if (const auto near = lang::nearest(name, {std::begin(names), std::end(names)}))
    return fmt::format("did you mean `{}`?", *near);
  return fmt::format("a target is {}", target_forms);
}

}  // namespace tilec::runtime
