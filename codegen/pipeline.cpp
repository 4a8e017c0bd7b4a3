// A plan that is given, or stands in the text, goes to the program that it is of.
#include "codegen/pipeline.h"

#include <algorithm>
#include <utility>

#include "lang/messages.h"
#include "poly/exact.h"
#include "poly/signature.h"
#include "poly/size.h"

namespace tilec::codegen {

namespace {

// [[plan("no copy", "group C")]] on the function: a line for each string, at its place in the text.
std::optional<PlanText> plan_in(const lang::File& file, const Request& request) {
  lang::Diagnostics unheard;
  const lang::Function* function = poly::chosen_function(file, request.signature, unheard);
  if (function == nullptr) return std::nullopt;
  const auto plan = std::find_if(function->attributes.begin(), function->attributes.end(),
      [](const lang::Attribute& a) { return a.name.text == "plan"; });
  if (plan == function->attributes.end()) return std::nullopt;
  PlanText lines{"", plan->span.source};
  for (const lang::Value& value : plan->values) {
    const auto* line = std::get_if<std::string>(&value.value);
    if (line == nullptr) continue;                       // lang has refused it
    lines.text.resize(value.span.begin + 1, ' ');        // the quotation mark
    lines.text += *line + "\n";
  }
  return lines;
}

// What is said of the function and of its pair, in the text or by the caller; derivatives of other kinds are programs
// of which nothing is said in the text. Nothing: a part begins twice, or what the caller says is of another program.
std::optional<PlanParts> plan_of(const lang::File& file, const Request& request, lang::Diagnostics& diagnostics) {
  const bool is_own = request.derivatives.size() == (request.pair ? 1 : 0);
  const std::optional<PlanText> plan = request.plan ? request.plan : is_own ? plan_in(file, request) : std::nullopt;
  if (!plan) return PlanParts{};
  PlanFault fault;
  std::optional<PlanParts> parts = parts_of(*plan, fault);
  const bool of_pair = parts && (parts->forward || parts->backward);
  if (parts && request.plan && request.pair && parts->function && !of_pair)
    fault = {parts->first, "a pair is compiled: `forward` or `backward` stands before what is said of it"},
    parts.reset();
  else if (parts && request.plan && !request.pair && !parts->function && of_pair)
    fault = {parts->first, "this part is of a pair, and one program is compiled"}, parts.reset();
  if (!parts) diagnostics.report(fault.span, lang::messages::plan_line, fault.what);
  return parts;
}

std::optional<Stages> planned(Meaning meaning, const Request& request, const std::optional<PlanText>& plan, Until until,
    lang::Diagnostics& diagnostics) {
  if (until < Until::Plan) return Stages{std::move(meaning), {}};
  Request own = request;
  own.plan = plan;
  std::optional<Chosen> choice = choose(*meaning.reduced, own, until, meaning.timings, diagnostics);
  if (!choice) return std::nullopt;
  return Stages{std::move(meaning), std::move(*choice)};
}

std::optional<Pair> pair_of(
    const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) {
  const std::optional<PlanParts> parts = plan_of(file, request, diagnostics);
  std::optional<Meaning> meaning = parts ? meaning_of(file, request, until, diagnostics) : std::nullopt;
  if (!meaning) return std::nullopt;
  const auto half = [&](Half which) {
    const Request asked = request_of(request, which);
    std::optional<Meaning> own = half_of(*meaning, which, asked, until, diagnostics);
    return own
        ? planned(std::move(*own), asked, which == Half::Forward ? parts->forward : parts->backward, until, diagnostics)
        : std::nullopt;
  };
  std::optional<Stages> forward = half(Half::Forward);
  std::optional<Stages> backward = forward ? half(Half::Backward) : std::nullopt;
  if (!backward) return std::nullopt;
  return Pair{std::move(*meaning), std::move(*forward), std::move(*backward)};
}

std::optional<Stages> stages_of(
    const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) {
  if (request.pair && until >= Until::Plan) {
    std::optional<Pair> pair = pair_of(file, request, until, diagnostics);
    if (!pair) return std::nullopt;
    Stages stages{std::move(pair->meaning), {}};
    for (Stages* half : {&pair->forward, &pair->backward}) {
      stages.timings.insert(stages.timings.end(), half->timings.begin(), half->timings.end());
      stages.halves.push_back(std::move(*half->plan));
    }
    return stages;
  }
  const std::optional<PlanParts> parts = until < Until::Plan ? PlanParts{} : plan_of(file, request, diagnostics);
  std::optional<Meaning> meaning = parts ? meaning_of(file, request, until, diagnostics) : std::nullopt;
  return meaning ? planned(std::move(*meaning), request, parts->function, until, diagnostics) : std::nullopt;
}

// Numbers that no pass can hold are the program's fault, wherever they show.
template <class F> auto guarded(const Request& request, lang::Diagnostics& diagnostics, F f) -> decltype(f()) try {
  if (request.plan && request.target.family == Target::Family::Reference) {
    diagnostics.report({}, lang::messages::plan_unused, "the interpreter")
        .hint("choose a target that compiles: `cpu`, `opencl` or `cuda`");
    return std::nullopt;
  }
  return f();
} catch (const poly::Overflow& error) {
  diagnostics.report(error.span, lang::messages::overflow, error.what())
      .hint("write smaller numbers in its indices and constraints, or give smaller sizes");
  return std::nullopt;
} catch (const poly::SizeError& error) {
  diagnostics.report(error.span, lang::messages::size_arithmetic, error.what());
  return std::nullopt;
}

}  // namespace

std::optional<Stages> compile(
    const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) {
  return guarded(request, diagnostics, [&] { return stages_of(file, request, until, diagnostics); });
}

std::optional<Pair> compile_pair(
    const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) {
  Request of_pair = request;
  of_pair.pair = true;
  return guarded(request, diagnostics, [&] { return pair_of(file, of_pair, until, diagnostics); });
}

std::string print(const Plan& forward, const Plan& backward) {
  return "forward\n" + print(forward) + "backward\n" + print(backward);
}

}  // namespace tilec::codegen
