// Programs as one object file that a C program links: kernels, and the code that a package's runner is for them.
//
//   int conv(I, K, O, workspace):                        int, for C; what its header says of it: runtime/c_header.h
//     pointers are looked at                              1, 2
//     k0_T.body(I, workspace + 0, pool, locals)           launches in order, buffers at their places
//     k1_O.body(workspace + 0, K, O, pool, locals)
//     return 0
//
// A pool is a constant whose `run` calls `tilec_parallel_for`, which is defined here as a weak function: the turns, one
// after the other. All other functions are local to the object. docs/decisions/ahead_of_time.md says why the interface
// is as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loops.h"
#include "codegen/package.h"
#include "codegen/target.h"

namespace tilec::codegen::llvm_backend {

// What a call returns.
inline constexpr int no_workspace = 1, no_tensor = 2, no_cpu = 3, first_index = 16;

struct Version {
  Target target;
  std::vector<const Loops*> kernels;
  Package layout;                                      // ports, buffers, launches; its code is not looked at
};

struct EntryPoint {
  std::string name;                                    // a C identifier, of no function of C's library
  std::vector<Version> versions;                       // several, of x86-64: a call runs the last one that its CPU can
                                                       // run
  std::vector<std::int64_t> checks;                    // of index k, how many there are: two last outputs each, as
                                                       // poly/checked.h makes them
};

// Bytes, with what `workers` that run at one time have of their own.
std::int64_t workspace_bytes(const EntryPoint& entry, std::int64_t workers);
bool has_parallel_loops(const EntryPoint& entry);

// `workers`: how many there may be where they need memory; 1: all turns run in the thread that calls, and
// `tilec_parallel_for` is not there.
std::string object_ahead(const std::vector<EntryPoint>& entries, std::int64_t workers);

std::string archive_of(std::string_view object, const std::string& member);  // of one member, and no date

}  // namespace tilec::codegen::llvm_backend
