// Programs for C: machine code in an object file, an archive or a shared library, and the header that says how it is
// called.
//
//   const Part part{"conv", {{request, stages}}};
//   const Ahead made = ahead_of({part}, {.name = "conv"});
//   write_files({{"conv.o", contained(made, Container::Object, "conv.o")}, {"conv.h", made.header}});
//
// The kernels are those of a package, and the code that calls them does what its runner does: codegen/llvm/ahead.h,
// cuda_source.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/pipeline.h"

namespace tilec::runtime {

// A program compiled for one target.
struct CompiledFor {
  codegen::Request request;
  codegen::Stages stages;
};

// One function of C.
struct Part {
  std::string name;                                    // an identifier for which why_no_c_name has nothing to say
  std::vector<CompiledFor> versions;                   // the same program, for CPUs or for GPUs; of several CPUs the
                                                       // last that a call can run
  std::string what;                                    // a sentence for the header
  std::int64_t kept = 0;                               // outputs, the last ones, that another part takes
};

struct AheadOptions {
  std::string name;                                    // of the whole, a C identifier
  std::int64_t workers = default_workers;              // 1: no turns are shared out
  static constexpr std::int64_t default_workers = 16;
};

struct Ahead {
  std::string object, source;                          // one of them: for CPUs an object file, for GPUs C
  std::string header;
  std::vector<std::string> stats;                      // a line for each function
};
// RuntimeError E0515, E0535, of GPUs E0521, E0524
Ahead ahead_of(const std::vector<Part>& parts, const AheadOptions& options);

enum class Container { Object, Archive, Shared, Source };
std::optional<Container> container_named(std::string_view suffix);  // `.o` `.a` `.so` `.c`
// RuntimeError E0515, E0535, E0545
std::string contained(const Ahead& made, Container container, const std::string& member);

}  // namespace tilec::runtime
