// `tilec check FILE…`: reports what is wrong, as far as the file alone tells; with --size, as far as bounds tell.
#include <algorithm>

#include "cli/session.h"
#include "lang/messages.h"

namespace tilec::cli {

namespace {

// A function whose inputs all show their sizes and whose parameters have values can be built without a call: its ranks, types and domains are checked too.
bool can_be_built(const lang::Function& function, const Options& options) {
  const auto has_value = [&](const lang::Parameter& p) { return p.value || std::ranges::any_of(options.defines, [&](const auto& define) { return define.first == p.name.text; }); };
  return std::ranges::all_of(function.inputs, [](const lang::Input& input) { return input.sizes.has_value(); }) && std::ranges::all_of(function.parameters, has_value);
}

void build(Session& session, const lang::Function& function) {
  if (!can_be_built(function, session.options)) return;
  codegen::Request request = session.request();
  if (function.name) request.signature.function = function.name->text;
  const codegen::Until until = session.options.sizes.empty() ? codegen::Until::Contraction : codegen::Until::Bound;
  static_cast<void>(codegen::compile(*session.file, request, until, session.diagnostics));
}

// The function asked for, or all of them; what several of them call is reported once.
int check_one(const Options& options, const std::string& path) {
  Session session(options, path);
  const bool one = options.function || !options.sizes.empty() || !options.defines.empty();
  if (one && session.entry() != nullptr) build(session, *session.entry());
  // Whoever calls what is beyond a limit is beyond it too, which takes seconds each to find.
  const auto beyond = [&] { return std::ranges::any_of(session.diagnostics.all(), [](const lang::Diagnostic& d) { return d.code == lang::messages::limit.code; }); };
  if (!one && session.file)
    for (const auto& item : session.file->items)
      if (const auto* function = std::get_if<lang::Function>(&item); function != nullptr && function->role == lang::Function::Role::Function && !beyond()) build(session, *function);
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
