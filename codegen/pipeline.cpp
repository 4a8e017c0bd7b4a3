// Numbers that no pass can hold are the program's fault, wherever they show.
#include "codegen/pipeline.h"

#include <utility>

#include "lang/messages.h"
#include "poly/exact.h"
#include "poly/size.h"

namespace tilec::codegen {

std::optional<Stages> compile(const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) try {
  if (request.plan && request.target.family == Target::Family::Reference) {
    diagnostics.report({}, lang::messages::plan_unused, "the interpreter").hint("choose a target that compiles: `cpu`, `opencl` or `cuda`");
    return std::nullopt;
  }
  std::optional<Meaning> meaning = meaning_of(file, request, until, diagnostics);
  if (!meaning) return std::nullopt;
  if (until < Until::Plan) return Stages{std::move(*meaning), {}};
  std::optional<Chosen> choice = choose(*meaning->reduced, request, until, meaning->timings, diagnostics);
  if (!choice) return std::nullopt;
  return Stages{std::move(*meaning), std::move(*choice)};
} catch (const poly::Overflow& error) {
  diagnostics.report(error.span, lang::messages::overflow, error.what()).hint("write smaller numbers in its indices and constraints, or give smaller sizes");
  return std::nullopt;
} catch (const poly::SizeError& error) {
  diagnostics.report(error.span, lang::messages::size_arithmetic, error.what());
  return std::nullopt;
}

}  // namespace tilec::codegen
