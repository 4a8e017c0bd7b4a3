// `--stats`: launches, code and memory of what was compiled, and what the GPU's compiler made of each kernel.
#pragma once

#include "codegen/package.h"
#include "codegen/pipeline.h"

namespace tilec::cli {

// Both to stderr.
void print_stats(const lang::File& file, const codegen::Stages& stages, const codegen::Request& request);
void print_stats(const codegen::Package& package, const char* title = "");

}  // namespace tilec::cli
