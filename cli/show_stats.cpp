#include "cli/show_stats.h"

#include "cli/options.h"

namespace tilec::cli {

void print_stats(const codegen::Stages&, const codegen::Target& target) {
  if (target.family != codegen::Target::Family::Cuda) throw UsageError{"--stats counts what a CUDA compiler made", "add `--target cuda`"};
}

}  // namespace tilec::cli
