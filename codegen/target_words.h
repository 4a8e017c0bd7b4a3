// The name of a target in its words, for all who read one.
//
//   cuda:1:sm_90a:math=tf32   ⇒   kind cuda, device 1, arch sm_90a, tf32
//   opencl:2                  ⇒   kind opencl, device 2
//   cpu:znver5                ⇒   kind cpu, arch znver5
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tilec::codegen {

struct TargetWords {
  std::string_view kind, arch;                         // of the text that was read
  std::optional<std::size_t> device;                   // that the name says; the first one where it says none
  bool tf32 = false;
};

// Null: no name is written like this. Whether there is such an architecture is another question.
std::optional<TargetWords> target_words(std::string_view name);

std::string with_device(const TargetWords& words, std::size_t device);  // `cuda:sm_90a` on device 1 ⇒ `cuda:1:sm_90a`

}  // namespace tilec::codegen
