// What launches ask of memory, a line of JSON each in the file that the environment's SIMULATED_REPORT names;
// bench/gpu_static.py says what the figures are. SIMULATED_BLOCKS=4 runs four blocks of a launch at most, each from the
// middle of a fourth: results are wrong, and what was not written may be read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "machine.h"

namespace simulated {

bool reports();
std::uint64_t most_blocks();                           // of a launch that run

// The running thread says that a pointer is aligned, to read or write all that lies there: NVRTC makes one access of
// what the text spells as several.
void note_wide(const void* at, std::size_t bytes);

// An access of the running thread. The n-th of each thread of a warp at one site, since a barrier, are one request.
void note(std::uint64_t site, const void* at, std::size_t bytes, bool write, bool shared);
void end_of_phase();                                   // all threads of the block are at a barrier, or at the end
void end_of_block();
void end_of_launch(const Launch& launch, std::uint64_t blocks, std::uint64_t sampled);

}  // namespace simulated
