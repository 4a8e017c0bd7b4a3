// The files of std/, as text inside the library; written by embed.py.
#pragma once

#include <span>
#include <string_view>

namespace tilec::runtime {

struct StandardFile { std::string_view name, text; };  // `nn`, for "std/nn.tile"
std::span<const StandardFile> standard_library();

}  // namespace tilec::runtime
