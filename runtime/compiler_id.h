// Which compiler this is: a hash of its sources and the version of LLVM (compiler_id.py). Another one may make other
// code of the same text.
#pragma once

#include <string_view>

namespace tilec::runtime {

std::string_view compiler_id();

}  // namespace tilec::runtime
