#include "runtime/capi/error.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "lang/messages.h"
#include "lang/render.h"
#include "runtime/error.h"
#include "runtime/hooks.h"

namespace tilec::capi {
namespace {

namespace messages = lang::messages;

struct Last {
  std::string text;
  std::vector<lang::Diagnostic> diagnostics;
  std::vector<std::string> hints;                        // joined, per diagnostic
  std::vector<lang::Source> sources;                     // that the diagnostics point into
  std::string shown;                                     // what tilec_last_diagnostic_text returned
};
thread_local Last last;

const lang::Source& source_of(const Last& said, const lang::Diagnostic& d) {
  static const lang::Source none{};
  return d.span.source < said.sources.size() ? said.sources[d.span.source] : none;
}

lang::Diagnostic plain(std::string code, std::string message) {
  return {std::move(code), lang::Severity::Error, std::move(message), {}, {}, {}};
}

void remember(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources, bool failed) {
  last.diagnostics = diagnostics.all();
  last.sources = last.diagnostics.empty() ? std::vector<lang::Source>() : sources;
  last.hints.clear();
  for (const lang::Diagnostic& d : last.diagnostics) last.hints.push_back(fmt::format("{}", fmt::join(d.hints, "; ")));
  last.text = failed ? lang::render(diagnostics, sources) : std::string();
}

tilec_diagnostic described(const Last& said, std::size_t position) {
  const lang::Diagnostic& d = said.diagnostics[position];
  const lang::Source& source = source_of(said, d);
  lang::Position begin{0, 0}, end{0, 0};
  if (!d.span.empty()) {
    begin = lang::position(source, d.span.begin);
    end = lang::position(source, d.span.end);
  }
  return {static_cast<tilec_severity>(d.severity), d.code.c_str(), d.message.c_str(), source.name.c_str(), begin.line,
      begin.column, end.line, end.column, said.hints[position].c_str()};
}

std::string rendered(const Last& said, std::size_t position) {
  lang::Diagnostics one;
  one.add(said.diagnostics[position]);
  return lang::render(one, said.sources);
}

struct Listener {
  tilec_diagnostic_function hear;
  void* user;
  bool operator==(const Listener&) const = default;
};

runtime::Hook<Listener>& listener_hook() {
  static auto& hook = *new runtime::Hook<Listener>;
  return hook;
}

tilec_status fail(tilec_status status, lang::Diagnostic diagnostic, const std::vector<lang::Source>& sources = {}) {
  lang::Diagnostics one;
  one.add(std::move(diagnostic));
  remember(one, sources, true);
  return status;
}

// What a diagnostic means to a caller who passed arguments: their type, their shape, or the program.
tilec_status status_of(const lang::Diagnostics& diagnostics) {
  for (const lang::Diagnostic& d : diagnostics.all()) {
    if (d.severity != lang::Severity::Error) continue;
    const auto is = [&](const auto&... m) { return ((d.code == m.code) || ...); };
    if (is(messages::given_type, messages::derivative_type, messages::missing_input, messages::unknown_argument,
            messages::not_a_size, messages::given_twice, messages::result_type))
      return TILEC_TYPE_ERROR;
    if (is(messages::batch_missing, messages::batches_differ, messages::size_mismatch,
            messages::size_expression_mismatch, messages::given_rank, messages::shapes_differ, messages::wrong_shape,
            messages::requirement_fails, messages::negative_size, messages::tensor_too_large, messages::unbound_sizes,
            messages::bad_value, messages::assertion_fails, messages::size_arithmetic, messages::given_size_differs,
            messages::unknown_size, messages::output_overlaps_itself, messages::pack_ranks, messages::pack_rank_missing,
            messages::pack_ranks_open, messages::unknown_pack))
      return TILEC_ARGUMENT_ERROR;
    return TILEC_PROGRAM_ERROR;
  }
  return TILEC_INTERNAL_ERROR;
}

}  // namespace

void keep(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources) {
  remember(diagnostics, sources, false);
}

tilec_status failed(
    tilec_status status, const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources) {
  remember(diagnostics, sources, true);
  return status;
}

tilec_status failed(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources) {
  return failed(status_of(diagnostics), diagnostics, sources);
}

void forget() noexcept { last = {}; }

void forget_error() noexcept {
  if (!last.text.empty()) last = {};
}

// Tells the host what a call had to say. What calls of the host's function say is not told to it again, and is
// forgotten with them.
void tell_host() noexcept {
  thread_local bool telling = false;
  const Listener* const host = telling || last.diagnostics.empty() ? nullptr : listener_hook().get();
  if (host == nullptr) return;
  telling = true;
  Last said = std::exchange(last, {});
  try {
    for (std::size_t k = 0; k < said.diagnostics.size(); ++k) {
      const tilec_diagnostic diagnostic = described(said, k);
      host->hear(host->user, &diagnostic, rendered(said, k).c_str());
    }
  } catch (const std::bad_alloc&) {                      // of what renders; the host's function throws nothing
    said.text = "out of memory";
  }
  last = std::move(said);
  telling = false;
}

// The one place where exceptions become statuses.
tilec_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const runtime::RuntimeError& fault) {
    return fail(fault.blame == runtime::Blame::Machine ? TILEC_DEVICE_ERROR : TILEC_ARGUMENT_ERROR, fault.diagnostic,
        fault.sources ? *fault.sources : std::vector<lang::Source>{});
  } catch (const lang::Diagnostics& diagnostics) {
    return failed(diagnostics, {});
  } catch (const std::bad_alloc&) {
    last.text = "out of memory";
    return TILEC_DEVICE_ERROR;
  } catch (const std::exception& fault) {
    return fail(TILEC_INTERNAL_ERROR, plain("E0570", fmt::format("internal error: {}", fault.what())));
  } catch (...) {
    last.text = "internal error";
    return TILEC_INTERNAL_ERROR;
  }
}

void misuse(const char* function, const std::string& what) {
  throw runtime::argument_error(messages::bad_call, function, what);
}

void misuse_null(const char* function, std::string_view parameter) {
  misuse(function, fmt::format("`{}` is NULL", parameter));
}

void need_list(const void* list, std::size_t count, const char* function, const char* parameter) {
  if (list == nullptr && count > 0) misuse(function, fmt::format("`{}` is NULL but {} are counted", parameter, count));
}

}  // namespace tilec::capi

using namespace tilec;
using namespace tilec::capi;

extern "C" {

const char* tilec_last_error(void) { return last.text.c_str(); }
size_t tilec_last_diagnostic_count(void) { return last.diagnostics.size(); }

tilec_status tilec_last_diagnostic(size_t position, tilec_diagnostic* diagnostic) {
  // leaves the diagnostics as they are
  if (diagnostic == nullptr || position >= last.diagnostics.size()) return TILEC_ARGUMENT_ERROR;
  *diagnostic = described(last, position);
  return TILEC_OK;
}

const char* tilec_last_diagnostic_text(size_t position) {
  if (position >= last.diagnostics.size()) return nullptr;
  const tilec_status status = caught([&] {
    last.shown = rendered(last, position);
    return TILEC_OK;
  });
  return status == TILEC_OK ? last.shown.c_str() : nullptr;
}

tilec_status tilec_set_diagnostic_callback(tilec_diagnostic_function hear, void* user) {
  return guarded([&] {
    listener_hook().set(hear != nullptr ? std::optional(Listener{hear, user}) : std::nullopt);
    return TILEC_OK;
  });
}

}  // extern "C"
