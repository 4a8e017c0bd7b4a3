// `tilec check FILE…`: reports what is wrong, as far as the file alone tells; with --size, as far as bounds tell.
#include "cli/check.h"

#include <algorithm>

#include "cli/session.h"
#include "lang/messages.h"

namespace tilec::cli {

bool can_be_built(const lang::Function& function, const std::vector<std::pair<std::string, std::variant<double, std::string>>>& defines) {
  const auto has_value = [&](const lang::Parameter& p) { return p.value || std::ranges::any_of(defines, [&](const auto& define) { return define.first == p.name.text; }); };
  return std::ranges::all_of(function.inputs, [](const lang::Input& input) { return input.sizes.has_value(); }) && std::ranges::all_of(function.parameters, has_value);
}

std::size_t build_functions(const lang::File& file, std::size_t first, codegen::Request request, lang::Diagnostics& diagnostics, const Built& built, const std::function<bool()>& goes_on) {
  // Whoever calls what is beyond a limit is beyond it too, which takes seconds each to find.
  const auto beyond = [&] { return std::ranges::any_of(diagnostics.all(), [](const lang::Diagnostic& d) { return d.code == lang::messages::limit.code; }); };
  for (std::size_t k = first; k < file.items.size(); ++k) {
    const auto* function = std::get_if<lang::Function>(&file.items[k]);
    if (function == nullptr || function->role != lang::Function::Role::Function || !can_be_built(*function)) continue;
    if (beyond()) break;
    if (!goes_on()) return k;
    request.signature.function = function->name ? std::optional(function->name->text) : std::nullopt;
    built(*function, codegen::compile(file, request, codegen::Until::Contraction, diagnostics));
  }
  return file.items.size();
}

namespace {

void build(Session& session, const lang::Function& function) {
  if (!can_be_built(function, session.options.defines)) return;
  codegen::Request request = session.request();
  if (function.name) request.signature.function = function.name->text;
  const codegen::Until until = session.options.sizes.empty() ? codegen::Until::Contraction : codegen::Until::Bound;
  static_cast<void>(codegen::compile(*session.file, request, until, session.diagnostics));
}

// The function asked for, or all of them.
int check_one(const Options& options, const std::string& path) {
  Session session(options, path);
  const bool one = options.function || !options.sizes.empty() || !options.defines.empty();
  if (one && session.entry() != nullptr) build(session, *session.entry());
  if (!one && session.file) static_cast<void>(build_functions(*session.file, 0, session.request(), session.diagnostics, [](const lang::Function&, std::optional<codegen::Stages>) {}, [] { return true; }));
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
