// What a pass on tensor cores takes of a multiprocessor besides what thresholds.h has.
#pragma once

namespace tilec::codegen::model::pass {

inline constexpr double line_bytes = 128;              // that shared memory gives a cycle
inline constexpr double of_result = 1.5;               // registers: an element takes the place of its product, but not
                                                       // of all at once; 199 to 255 of a thread as NVRTC 13 counts them

}  // namespace tilec::codegen::model::pass
