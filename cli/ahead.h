// Ahead of time: `tilec build FILE --size … -o f.o` writes machine code for a program in C, and f.h beside it.
#pragma once

#include <string>

#include "cli/session.h"

namespace tilec::cli {

bool is_ahead(const std::string& output);              // by its suffix; UsageError for one that is of no kind of file
                                                       // that `build` writes
int build_ahead(const Options& options);

}  // namespace tilec::cli
