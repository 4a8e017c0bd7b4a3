// `tilec grad FILE --of O --wrt I,K`: the gradient, as Tile; with --emit, any stage of it.
#include "cli/session.h"

namespace tilec::cli {

int grad_command(const Options& options) {
  Options with_gradient = options;
  with_gradient.gradient = true;
  if (with_gradient.stage.empty()) with_gradient.stage = "gradient";
  return emit_command(with_gradient);
}

}  // namespace tilec::cli
