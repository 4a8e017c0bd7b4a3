// `--stats`: what the GPU's compiler made of each kernel.
#pragma once

#include "codegen/pipeline.h"

namespace tilec::cli {

void print_stats(const lang::File& file, const codegen::Stages& stages, const codegen::Request& request);  // registers, spills, shared memory; to stderr

}  // namespace tilec::cli
