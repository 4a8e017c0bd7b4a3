// Shared libraries, made by the system's `cc`: LLVM's own linker is no part of what tilec links.
#pragma once

#include <string>

namespace tilec::runtime {

// The bytes of a shared library of one object file. RuntimeError E0545 when there is no `cc`, or when it fails; E0502 when there is no room
// for what it reads and writes in TMPDIR, else /tmp.
std::string shared_library_of(const std::string& object);

}  // namespace tilec::runtime
