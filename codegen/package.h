// A compiled program that needs no compiler any more: code, launches, memory, ports. Plain data; it can be saved and
// shipped.
//
//   ports     A f32[64, 64]  B f32[64, 64]  ->  C f32[64, 64]
//   buffers   A, B, C, and scratch at offsets of one workspace, where what lives at different times shares its place
//   launches  k0_T on (A, T)   k1_C on (T, B, C)
//   code      ELF objects, the text of OpenCL kernels, or cubins
//   backward  of a pair: a package that takes what this one keeps
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lang/type.h"

namespace tilec::codegen {

// An input or output: a caller gives the address of its element 0.
struct Port {
  std::string name;                                    // without mark
  lang::DType dtype = lang::DType::F32;
  std::vector<std::int64_t> shape, strides;            // strides in elements
  bool operator==(const Port&) const = default;
};

// Memory that launches read and write. Inputs first, in the order of their ports, then outputs, then parts of the
// workspace.
struct Place {
  std::int64_t bytes = 0;
  std::int64_t offset = 0;                             // of a part of the workspace
  bool operator==(const Place&) const = default;
};

struct Launch {
  std::string kernel;                                  // its symbol in the code
  std::vector<int> buffers;                            // positions in Package::buffers, in the order of its parameters
  std::vector<std::int64_t> numbers;                   // its parameters behind them
  std::int64_t code = 0;                               // cubins: the position of the one that has it
  std::int64_t grid[3] = {1, 1, 1};                    // simt, x first; a zero: nothing to do
  std::int64_t threads = 1;                            // simt: of a block
  std::int64_t shared = 0, dynamic_shared = 0;         // simt: bytes of a block; how many of them are asked for at
                                                       // launch
  bool operator==(const Launch&) const = default;
};

struct Package {
  enum class Code { Objects, OpenCl, Cubins };
  std::string compiler;                                // the version of tilec that made it
  std::string name;                                    // of the program
  std::uint64_t source = 0;                            // a hash of its text, whatever its layout and comments
  std::string target;                                  // cpu, cpu:x86-64-v3, opencl, cuda:sm_90a …
  std::string architecture;                            // x86_64, aarch64, sm_90a; OpenCL: empty
  std::vector<std::string> features;                   // that a CPU must have, as LLVM names them
  Code form = Code::Objects;
  std::vector<std::string> code;
  std::vector<Port> inputs, outputs;
  std::vector<Place> buffers;
  std::int64_t workspace = 0;                          // bytes, aligned to workspace_alignment
  std::int64_t locals = 0;                             // cpu: bytes behind them for each worker of a pool
  std::vector<Launch> launches;
  std::vector<std::int64_t> accumulate;                // positions of outputs that are added to: what they held are the
                                                       // last inputs, in this order
  std::int64_t kept = 0;                               // outputs, the last ones, that are made for `backward` only
  std::vector<Package> backward;                       // one or none
  bool operator==(const Package&) const = default;
};

inline constexpr std::int64_t workspace_alignment = 512;  // what OpenCL devices ask of a part of a buffer, at most

}  // namespace tilec::codegen
