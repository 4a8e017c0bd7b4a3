// Memory of a turn that is too large for a stack: a block of the workspace for each worker that runs turns.
//
//   for i in parallel 8 { local P f32[20000]  for k … { local Q f32[30000] … }  local R f32[10000] }
//     ⇒  80000 + 120000 bytes
//
// What lives at one time lies one behind the other; R takes the place of Q.
#pragma once

#include <cstdint>

#include "codegen/loops.h"

namespace tilec::codegen {

inline constexpr std::int64_t stack_limit = 32 << 10;  // bytes of one local that a thread has on its stack

// Whole cache lines; 0: it stands on the stack, or in registers.
std::int64_t local_bytes(const Allocate& allocate);

// Of one worker, for the kernel of `loops`. Throws InternalError when a function that it calls asks for such memory.
std::int64_t local_bytes(const Loops& loops);

}  // namespace tilec::codegen
