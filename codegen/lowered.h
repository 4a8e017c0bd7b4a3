// What crosses to the runtime: kernels, buffers, steps, signature. Data only: no isl, no LLVM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/loops.h"

namespace tilec::codegen {

struct Buffer {
  enum class Role { Input, Output, Scratch };
  std::string name;                                    // the tensor's
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;                   // in elements; of inputs and outputs as specialised
  Role role = Role::Scratch;
  std::int64_t count() const;                          // elements to allocate for scratch
};

// One launch: a kernel and what it is called on, position by position of its views.
struct Step {
  std::string kernel;                                  // name of `loops.functions.back()`
  Loops loops;
  std::vector<int> buffers;                            // positions in Lowered::buffers, in the order of the kernel's
                                                       // views
  std::vector<std::int64_t> numbers;                   // in the order of its integers
  std::vector<std::size_t> groups = {};                // positions in Plan::groups; one that has nothing to do has no
                                                       // step
};

struct Lowered {
  Lowered();  // these six are long, so they are compiled once, in a .cpp
  Lowered(const Lowered&);
  Lowered(Lowered&&) noexcept;
  Lowered& operator=(const Lowered&);
  Lowered& operator=(Lowered&&) noexcept;
  ~Lowered();

  std::string name;
  std::string target;                                  // cpu, opencl, cuda:sm_90a …
  std::vector<Buffer> buffers;                         // inputs first, in the program's order, then outputs, then
                                                       // scratch
  std::vector<Step> steps;
  int inputs = 0, outputs = 0;
};

}  // namespace tilec::codegen
