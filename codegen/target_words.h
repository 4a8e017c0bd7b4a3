// The name of a target in its words, for all who read one.
//
//   cuda:1:sm_90a:math=tf32   ⇒   kind cuda, device 1, arch sm_90a, math Tf32
//   opencl:2                  ⇒   kind opencl, device 2
//   cpu:znver5                ⇒   kind cpu, arch znver5
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tilec::codegen {

// What the factors of sums of f32 products may be rounded to, where tensor cores multiply them: 24, 11 or 8 bits.
enum class Math { F32, Tf32, Bf16 };

struct TargetWords {
  std::string_view kind, arch;                         // of the text that was read
  std::optional<std::size_t> device;                   // that the name says; the first one where it says none
  Math math = Math::F32;
};

// Null: no name is written like this. Whether there is such an architecture is another question.
std::optional<TargetWords> target_words(std::string_view name);

std::string with_device(const TargetWords& words, std::size_t device);  // `cuda:sm_90a` on device 1 ⇒ `cuda:1:sm_90a`
// What opens a device: `cuda:1:math=tf32` ⇒ `cuda:1`.
std::string_view without_math(std::string_view name);

}  // namespace tilec::codegen
