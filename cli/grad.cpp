// `tilec grad FILE --of O --wrt I,K`: the gradient, or the derivatives that are asked for, as Tile; with --emit, any
// stage of them.
#include "cli/session.h"

namespace tilec::cli {

int grad_command(const Options& options) {
  Options with_gradient = options;
  if (with_gradient.derivatives.empty()) with_gradient.derivatives.push_back(options.gradient);
  if (with_gradient.stage.empty()) with_gradient.stage = "gradient";
  return emit_command(with_gradient);
}

}  // namespace tilec::cli
