// What the system's `cc` makes: LLVM's own linker, and a compiler of C, are no part of what tilec links.
#pragma once

#include <string>

namespace tilec::runtime {

// The bytes of a shared library of one object file, and of an object file of one text. RuntimeError E0545 when there is
// no `cc`, or when it fails; E0502 when there is no room for what it reads and writes in TMPDIR, else /tmp.
std::string shared_library_of(const std::string& object);
std::string object_of_c(const std::string& source);

}  // namespace tilec::runtime
