// Numbers that no pass can hold are the program's fault, wherever they show.
#include "codegen/pipeline.h"

#include <algorithm>
#include <utility>

#include "lang/messages.h"
#include "poly/exact.h"
#include "poly/signature.h"
#include "poly/size.h"

namespace tilec::codegen {

namespace {

// [[plan("no copy", "group C")]] on the function: a line for each string, at its place in the text. Derivatives are other programs.
std::optional<PlanText> plan_in(const lang::File& file, const Request& request) {
  lang::Diagnostics unheard;
  const lang::Function* function = poly::chosen_function(file, request.signature, unheard);
  if (function == nullptr || !request.derivatives.empty()) return std::nullopt;
  const auto plan = std::find_if(function->attributes.begin(), function->attributes.end(), [](const lang::Attribute& a) { return a.name.text == "plan"; });
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

std::optional<Stages> stages_of(const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) {
  std::optional<Meaning> meaning = meaning_of(file, request, until, diagnostics);
  if (!meaning) return std::nullopt;
  if (until < Until::Plan) return Stages{std::move(*meaning), {}};
  Request planned = request;
  if (!planned.plan) planned.plan = plan_in(file, request);
  std::optional<Chosen> choice = choose(*meaning->reduced, planned, until, meaning->timings, diagnostics);
  if (!choice) return std::nullopt;
  return Stages{std::move(*meaning), std::move(*choice)};
}

}  // namespace

std::optional<Stages> compile(const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) try {
  if (request.plan && request.target.family == Target::Family::Reference) {
    diagnostics.report({}, lang::messages::plan_unused, "the interpreter").hint("choose a target that compiles: `cpu`, `opencl` or `cuda`");
    return std::nullopt;
  }
  return stages_of(file, request, until, diagnostics);
} catch (const poly::Overflow& error) {
  diagnostics.report(error.span, lang::messages::overflow, error.what()).hint("write smaller numbers in its indices and constraints, or give smaller sizes");
  return std::nullopt;
} catch (const poly::SizeError& error) {
  diagnostics.report(error.span, lang::messages::size_arithmetic, error.what());
  return std::nullopt;
}

}  // namespace tilec::codegen
