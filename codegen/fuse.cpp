#include "codegen/fuse.h"
namespace tilec::codegen {
Fused fuse(const poly::Program& program, const Strides& strides, const Target& target) {
  (void)target;
  Fused fused{program, strides, {}};
  for (std::size_t n = 0; n < program.nodes.size(); ++n) fused.sets.push_back({{static_cast<int>(n)}, {}});
  return fused;
}
}  // namespace tilec::codegen
