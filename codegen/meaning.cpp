// The passes that know no machine, in order, timed; each comment says what holds from there on.
#include "codegen/meaning.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "autodiff/graph.h"
#include "codegen/accumulate.h"
#include "codegen/asked_sizes.h"
#include "codegen/clock.h"
#include "codegen/matrix_instruction.h"
#include "codegen/model/thresholds.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "poly/bind.h"
#include "poly/bounds.h"
#include "poly/defract.h"
#include "poly/intern.h"
#include "poly/signature.h"
#include "poly/simplify.h"
#include "poly/verify.h"

namespace tilec::codegen {

Meaning::Meaning() = default;
Meaning::Meaning(const Meaning&) = default;
Meaning::Meaning(Meaning&&) noexcept = default;
Meaning& Meaning::operator=(const Meaning&) = default;
Meaning& Meaning::operator=(Meaning&&) noexcept = default;
Meaning::~Meaning() = default;

namespace {

using poly::Program;
using poly::Stage;

// The one thing asked of the target: what the halves of a pair compute again depends on how fast its memory is, and on
// its tensor cores.
autodiff::Roofline roofline_of(const Target& target) {
  if (!has_threads(target)) return {};
  const bool cores = std::ranges::any_of(
      matrix_instructions(), [&](const MatrixInstruction& i) { return has_instruction(target, i); });
  return {model::threads::operations_of_a_byte, cores ? model::threads::narrow_operations : 1};
}

// Errors only: remarks and warnings are those of the Programs alone.
std::optional<autodiff::Split> split_of(
    const Program& program, const Program& derivative, const Request& request, lang::Diagnostics& diagnostics) {
  lang::Diagnostics own;
  std::optional<autodiff::Split> result;
  if (auto joint = poly::bind(together(program, restricted(derivative, request.outputs)), request.sizes, own))
    if (joint = poly::bounds(poly::simplify(*joint), own); joint)
      result = autodiff::split(
          *joint, program.inputs.size(), program.outputs.size(), {roofline_of(request.target), request.room}, own);
  for (const lang::Diagnostic& d : own.all())
    if (d.severity == lang::Severity::Error) diagnostics.add(d);
  return result;
}

// Callers know what is kept by its name without mark, so no other tensor of the pair may share it.
void name_kept(autodiff::Split& split) {
  const Program& forward = split.forward;
  std::map<std::string, std::string> names;              // of what is kept
  for (std::size_t k = split.forward_outputs; k < forward.outputs.size(); ++k)
    names.emplace(forward.tensor(forward.outputs[k]).name, "");
  std::set<std::string> taken;
  for (const Program* program : {&forward, &std::as_const(split.backward)})
    for (const poly::Tensor& tensor : program->tensors)
      if (!names.contains(tensor.name)) taken.insert(autodiff::without_mark(tensor.name));
  for (auto& [was, name] : names) {
    const std::string plain = autodiff::without_mark(was);
    name = plain;
    for (int n = 1; !taken.insert(name).second; ++n) name = fmt::format("{}_{}", plain, n);
    if (name == plain) name = was;
  }
  for (Program* program : {&split.forward, &split.backward})
    for (poly::Tensor& tensor : program->tensors)
      if (const auto at = names.find(tensor.name); at != names.end()) tensor.name = at->second;
}

// Planning and compiling cost about the same for each of these, so there is one limit for both.
bool can_be_compiled(const Program& program, lang::Diagnostics& diagnostics) {
  std::size_t count = program.nodes.size();
  for (const poly::Node& node : program.nodes)
    if (const auto* s = std::get_if<poly::Statement>(&node)) count += poly::parts(s->value).size();
  const lang::Span last = program.nodes.empty()
      ? lang::Span{}
      : std::visit([](const auto& node) { return node.span; }, program.nodes.back());
  return lang::within(lang::Limit::Compiled, static_cast<std::int64_t>(count), last, diagnostics);
}

bool is_compiled(Until until) { return until == Until::Plan || until == Until::Lowered; }

bool reduce(Meaning& meaning, Until until, lang::Diagnostics& diagnostics) {
  Clock timed(meaning.timings);
  meaning.reduced = timed("defract", [&] { return poly::defract(*meaning.bounded); });
  poly::verify(*meaning.reduced, Stage::Bounded);
  // From here on every output element has exactly one writer.
  return !is_compiled(until) || can_be_compiled(*meaning.reduced, diagnostics);  // classes are statements of their own
}

// An input that is its default is a number of the program.
bool are_given(
    const lang::File& file, const Request& request, const Derivative& derivative, lang::Diagnostics& diagnostics) {
  const lang::Function* function = poly::chosen_function(file, request.signature, diagnostics);
  bool all = true;
  for (const std::string& name : derivative.wrt) {
    if (std::ranges::count(request.signature.omitted, name) == 0) continue;
    const auto input =
        std::ranges::find(function->inputs, name, [](const lang::Input& i) { return i.target.name.text; });
    if (derivative.batch)
      diagnostics
          .report(
              input->span, lang::messages::input_missing, name, function->name ? function->name->text : "the function")
          .hint(fmt::format("give `{}` a value for each element of the batch, or leave it out of `--wrt`", name));
    else
      diagnostics.report(input->span, lang::messages::not_given, name)
          .hint(fmt::format("give `{}` a value, or do not ask for its derivative", name));
    all = false;
  }
  return all;
}

}  // namespace

std::optional<Meaning> meaning_of(
    const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) {
  Meaning meaning;
  Clock timed(meaning.timings);
  meaning.contraction = timed("build", [&] { return poly::build(file, request.signature, diagnostics); });
  if (!meaning.contraction || !sizes_fit(file, request, *meaning.contraction, diagnostics)) return std::nullopt;
  poly::verify(*meaning.contraction, Stage::Symbolic);
  // From here on every domain is written out, independent of which operands remain.
  if (until == Until::Contraction) return meaning;

  const Program* source = &*meaning.contraction;
  std::optional<Program> differentiated;               // what the last derivative is of
  for (const Derivative& derivative : request.derivatives) {
    if (!are_given(file, request, derivative, diagnostics)) return std::nullopt;
    if (request.split || request.pair) differentiated = *source;
    meaning.gradient = timed(derivative.batch ? "batch"
            : derivative.forward              ? "forward"
                                              : "reverse",
        [&] { return differentiate(*source, derivative, diagnostics); });
    if (!meaning.gradient) return std::nullopt;
    poly::verify(*meaning.gradient, Stage::Symbolic);
    source = &*meaning.gradient;
  }
  if (until == Until::Gradient) return meaning;

  std::optional<Program> part;                         // the outputs that were asked for
  if (!request.outputs.empty()) part = restricted(*source, request.outputs);
  const Program& wanted = part ? *part : *source;
  // here already: binding takes more than this took
  if (is_compiled(until) && !can_be_compiled(wanted, diagnostics)) return std::nullopt;
  for (const poly::TensorId id : wanted.outputs)
    meaning.outputs.push_back(autodiff::without_mark(wanted.tensor(id).name));
  meaning.bound =
      timed("bind", [&] { return poly::bind(accumulated(wanted, request.accumulate), request.sizes, diagnostics); });
  if (!meaning.bound) return std::nullopt;
  meaning.simplified = timed("simplify", [&] { return poly::simplify(*meaning.bound); });
  if (request.checked) meaning.checks = poly::add_index_checks(*meaning.simplified);
  // From here on every size is an integer.
  meaning.bounded = timed("bounds", [&] { return poly::bounds(*meaning.simplified, diagnostics); });
  if (!meaning.bounded) return std::nullopt;
  poly::verify(*meaning.bounded, Stage::Bounded);
  if (differentiated) {
    meaning.split = timed("split", [&] { return split_of(*differentiated, *meaning.gradient, request, diagnostics); });
    if (!meaning.split) return std::nullopt;
    poly::verify(meaning.split->forward, Stage::Bounded);
    poly::verify(meaning.split->backward, Stage::Bounded);
    if (request.pair) name_kept(*meaning.split);
  }
  if (request.pair) return meaning;
  if (until == Until::Bound) return meaning;

  return reduce(meaning, until, diagnostics) ? std::optional(std::move(meaning)) : std::nullopt;
}

Request request_of(const Request& request, Half half) {
  Request own = request;
  if (request.pair && half == Half::Forward) own.accumulate.clear(), own.output_strides.clear();
  return own;
}

std::optional<Meaning> half_of(
    const Meaning& pair, Half half, const Request& own, Until until, lang::Diagnostics& diagnostics) {
  Meaning meaning;
  meaning.bounded = half == Half::Forward ? pair.split->forward : pair.split->backward;
  for (const poly::TensorId id : meaning.bounded->outputs)
    meaning.outputs.push_back(autodiff::without_mark(meaning.bounded->tensor(id).name));
  meaning.bounded = accumulated(*meaning.bounded, own.accumulate);
  poly::verify(*meaning.bounded, Stage::Bounded);
  if (!pair.checks.empty()) {                          // a half looks at the indices that it reads itself
    meaning.checks = poly::add_index_checks(*meaning.bounded);
    meaning.bounded = poly::bounds(*meaning.bounded, diagnostics);
    if (!meaning.bounded) return std::nullopt;
    poly::verify(*meaning.bounded, Stage::Bounded);
  }
  if (until == Until::Bound) return meaning;
  return reduce(meaning, until, diagnostics) ? std::optional(std::move(meaning)) : std::nullopt;
}

}  // namespace tilec::codegen
