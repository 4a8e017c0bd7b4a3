// Object files as machine code in this process, callable as long as the Code lives.
//
//   const Code code(object);  auto* k = code.symbol("k0_O");
//
// Needs no LLVM: link.h resolves, the system maps. Any number of them at once, from any thread. Throws LinkError when
// an object is refused, a RuntimeError when the system gives no memory.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/link.h"

namespace tilec::runtime {

class Code {
 public:
  explicit Code(std::span<const std::string> objects);
  explicit Code(const std::string& object) : Code(std::span(&object, 1)) {}
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  void* symbol(std::string_view name) const;           // null when no object defines it

 private:
  char* memory_ = nullptr;
  std::size_t size_ = 0;
  Linker::Symbols symbols_;
};

}  // namespace tilec::runtime
