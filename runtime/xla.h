// Kernels that XLA calls by number.
//
// An executable of XLA holds what its custom calls are told as numbers and text, and nothing tells when it goes: JAX keeps some longer than
// the Python that made them. So a kernel that was given a number keeps it, and is kept, until the process ends. Numbers start at
// a random place: an executable that another process had compiled and a cache on disk brought here finds nothing, instead of another kernel.
#pragma once
#include <cstdint>

#include "tilec/tilec.h"

namespace tilec::runtime {

// The kernel belongs to the table from here on. Throws where it has no more room.
std::int64_t keep_for_xla(tilec_kernel* kernel);

}  // namespace tilec::runtime
