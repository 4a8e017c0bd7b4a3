// Object files into this process: link, look up, and keep alive as long as someone may call.
//
//   auto jit = std::make_shared<Jit>(module.object);  auto* k = jit->symbol("k");   ⇒  callable until the last handle is gone
//
// Thread-safe: any number of Jits at once, symbol() from any thread. Throws JitError when the linker refuses the object.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lang/diagnostic.h"

namespace tilec::runtime {

struct JitError : lang::InternalError { using lang::InternalError::InternalError; };

class Jit {
 public:
  explicit Jit(const std::string& object) : Jit(std::vector<std::string>{object}) {}
  explicit Jit(const std::vector<std::string>& objects);
  ~Jit();
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;
  void* symbol(std::string_view name) const;           // null when no object defines it

 private:
  struct Linked;
  std::unique_ptr<Linked> linked_;
};

}  // namespace tilec::runtime
