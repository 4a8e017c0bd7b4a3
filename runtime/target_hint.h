// What to write for a target that there is none of: `gpu` is `cuda` or `opencl`.
#pragma once

#include <string>
#include <string_view>

namespace tilec::runtime {

std::string target_hint(std::string_view name);

}  // namespace tilec::runtime
