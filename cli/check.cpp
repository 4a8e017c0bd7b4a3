// `tilec check FILE…`: reports what is wrong, as far as the file alone tells; with --size, as far as bounds tell.
#include "cli/session.h"

namespace tilec::cli {

namespace {

// A function whose inputs all show their sizes can be built without a call: its ranks, types and domains are checked too.
bool shows_shapes(const lang::Function& function) {
  for (const lang::Input& input : function.inputs)
    if (!input.sizes) return false;
  return true;
}

int check_one(const Options& options, const std::string& path) {
  Session session(options, path);
  const lang::Function* function = session.entry();
  if (function != nullptr && function->parameters.empty() && shows_shapes(*function)) {
    const codegen::Until until = options.sizes.empty() ? codegen::Until::Contraction : codegen::Until::Bound;
    static_cast<void>(codegen::compile(*session.file, session.request(), until, session.diagnostics));
  }
  return session.report();
}

}  // namespace

int check_command(const Options& options) {
  if (options.words.empty()) throw UsageError{"no file of Tile is named", "write `tilec check FILE`"};
  int worst = success;
  for (const std::string& path : options.words) worst = std::max(worst, check_one(options, path));
  return worst;
}

}  // namespace tilec::cli
