// `tilec check FILE…`: reports what is wrong, as far as the file alone tells; with --size, as far as bounds tell.
#include "cli/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/session.h"
#include "lang/former.h"
#include "lang/messages.h"
#include "lang/pack.h"

namespace tilec::cli {

bool can_be_built(const lang::Function& function,
    const std::vector<std::pair<std::string, std::variant<double, std::string>>>& defines) {
  const auto has_value = [&](const lang::Parameter& p) {
    return p.value || std::ranges::any_of(defines, [&](const auto& define) {
      return lang::parameter_called(function, define.first) == &p;
    });
  };
  return std::ranges::all_of(function.inputs, [](const lang::Input& input) { return input.sizes.has_value(); }) &&
      std::ranges::all_of(function.parameters, has_value);
}

namespace {

// Packs that nobody gave a rank stand for two dimensions, then for none: what is wrong with one of them is wrong with
// the function.
std::optional<codegen::Stages> build_packs(const lang::File& file, codegen::Request request, codegen::Until until,
    const std::vector<lang::Name>& packs, lang::Diagnostics& diagnostics) {
  std::optional<codegen::Stages> shown;
  for (const std::int64_t rank : {2, 0}) {
    for (const lang::Name& pack : packs) request.signature.ranks[pack.text] = rank;
    lang::Diagnostics found;
    std::optional<codegen::Stages> stages = codegen::compile(file, request, until, found);
    const bool first = rank == 2, wrong = found.has_errors();
    for (lang::Diagnostic each : first || wrong ? found.all() : std::vector<lang::Diagnostic>()) {
      if (each.severity == lang::Severity::Error)
        for (const lang::Name& pack : packs)
          each.labels.push_back(
              {pack.span, fmt::format("with {} here", lang::counted(static_cast<std::size_t>(rank), "dimension"))});
      if (first || each.severity == lang::Severity::Error) diagnostics.add(std::move(each));
    }
    if (first) shown = std::move(stages);
    if (wrong) break;
  }
  return shown;
}

std::optional<codegen::Stages> build_for_check(const lang::File& file, const lang::Function& function,
    const codegen::Request& request, codegen::Until until, lang::Diagnostics& diagnostics) {
  std::vector<lang::Name> packs = lang::packs_of(function);
  std::erase_if(packs, [&](const lang::Name& pack) {
    return request.signature.ranks.contains(pack.text) || lang::is_told(function, pack);
  });
  lang::Diagnostics found;
  std::optional<codegen::Stages> stages =
      packs.empty() ? codegen::compile(file, request, until, found) : build_packs(file, request, until, packs, found);
  const auto is_of_callers = [&](const lang::Diagnostic& each) {  // what is checked may go, and nobody calls it here
    return each.code == lang::messages::deprecated_function.code && each.span == function.span_of_head();
  };
  for (const lang::Diagnostic& each : found.all())
    if (!poly::waits_for_shapes(each) && !is_of_callers(each)) diagnostics.add(each);
  return stages;
}

}  // namespace

std::size_t build_functions(const lang::File& file, std::size_t first, codegen::Request request,
    lang::Diagnostics& diagnostics, const Built& built, const std::function<bool()>& goes_on) {
  // Whoever calls what is beyond a limit is beyond it too, which takes seconds each to find.
  const auto beyond = [&] {
    return std::ranges::any_of(
        diagnostics.all(), [](const lang::Diagnostic& d) { return d.code == lang::messages::limit.code; });
  };
  for (std::size_t k = first; k < file.items.size(); ++k) {
    const auto* function = std::get_if<lang::Function>(&file.items[k]);
    if (function == nullptr || function->role != lang::Function::Role::Function || !can_be_built(*function)) continue;
    if (beyond()) break;
    if (!goes_on()) return k;
    request.signature.function = function->name ? std::optional(function->name->text) : std::nullopt;
    built(*function, build_for_check(file, *function, request, codegen::Until::Contraction, diagnostics));
  }
  return file.items.size();
}

namespace {

void build(Session& session, const lang::Function& function) {
  if (!can_be_built(function, session.options.defines)) return;
  codegen::Request request = session.request();
  if (function.name) request.signature.function = function.name->text;
  const codegen::Until until = session.options.sizes.empty() ? codegen::Until::Contraction : codegen::Until::Bound;
  static_cast<void>(build_for_check(*session.file, function, request, until, session.diagnostics));
}

// The function asked for, or all of them.
int check_one(const Options& options, const std::string& path) {
  Session session(options, path);
  const bool one = session.entry_name || !options.sizes.empty() || !options.ranks.empty() || !options.defines.empty();
  if (one && session.entry() != nullptr) build(session, *session.entry());
  if (!one && session.file)
    static_cast<void>(build_functions(
        *session.file, 0, session.request(), session.diagnostics,
        [](const lang::Function&, const std::optional<codegen::Stages>&) {}, [] { return true; }));
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
