// The passes in order, timed; each comment says what holds from there on.
#include "codegen/pipeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "autodiff/graph.h"
#include "codegen/accumulate.h"
#include "codegen/asked_sizes.h"
#include "codegen/fuse.h"
#include "codegen/lower.h"
#include "codegen/schedule.h"
#include "codegen/share.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "poly/bind.h"
#include "poly/bounds.h"
#include "poly/defract.h"
#include "poly/exact.h"
#include "poly/fit.h"
#include "poly/intern.h"
#include "poly/simplify.h"
#include "poly/verify.h"

namespace tilec::codegen {

Request::Request() = default;
Request::Request(const Request&) = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(const Request&) = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;

Stages::Stages() = default;
Stages::Stages(const Stages&) = default;
Stages::Stages(Stages&&) noexcept = default;
Stages& Stages::operator=(const Stages&) = default;
Stages& Stages::operator=(Stages&&) noexcept = default;
Stages::~Stages() = default;

namespace {

using poly::Program;
using poly::Stage;

// Runs one pass, notes its time under its name.
class Clock {
 public:
  explicit Clock(std::vector<Timing>& timings) : timings_(timings) {}
  template <class F> auto operator()(const char* pass, F f) {
    const auto start = std::chrono::steady_clock::now();
    auto result = f();
    timings_.push_back({pass, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()});
    return result;
  }

 private:
  std::vector<Timing>& timings_;
};

// Row-major, unless the caller said how an input or output lies in memory.
Strides strides_of(const Program& program, const Request& request) {
  Strides strides;
  for (const poly::Tensor& tensor : program.tensors) strides.push_back(row_major(extents(tensor)));
  for (const auto& [o, given] : request.output_strides) {
    const poly::TensorId id = program.outputs.at(o);
    const bool first = std::find(program.outputs.begin(), program.outputs.end(), id) == program.outputs.begin() + static_cast<std::ptrdiff_t>(o);
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), id) != program.inputs.end();
    if (first && !input) strides[static_cast<std::size_t>(id)] = given;  // all others are copied
  }
  for (const poly::TensorId id : program.inputs)
    if (const auto given = request.strides.find(program.tensor(id).name); given != request.strides.end()) strides[static_cast<std::size_t>(id)] = given->second;
  for (std::size_t id = 0; id < strides.size(); ++id) {
    const poly::Tensor& tensor = program.tensors[id];
    const std::vector<std::int64_t> dense = row_major(extents(tensor));
    for (std::size_t d = 0; d < dense.size(); ++d)
      if (tensor.shape[d].get() <= 1 || dense[d] == 0) strides[id][d] = dense[d];  // nothing lies in this direction: the caller's may be any number
  }
  return strides;
}

// Offsets are sums of strides times index expressions, in bytes: none leaves 64 bits, in whatever order a kernel forms it. `bounds`
// has seen to it for row-major tensors and the statements of the text; here are those that fusion made and the caller's strides.
bool offsets_fit(const Program& program, const Strides& strides, lang::Diagnostics& diagnostics) {
  bool all = true;
  const auto look = [&](const poly::Access& access, const poly::Statement& s) {
    const poly::Tensor& tensor = program.tensor(access.tensor);
    const std::vector<std::int64_t>& steps = strides[static_cast<std::size_t>(access.tensor)];
    const double bytes = poly::reach_in_bytes(access, tensor.dtype, {steps.begin(), steps.end()}, s.domain);
    if (bytes <= poly::byte_limit) return;
    all = false;
    poly::report_far(autodiff::without_mark(tensor.name), bytes, s.span, diagnostics);
  };
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<poly::Statement>(&node);
    if (!s) continue;
    look(s->target, *s);
    for (const poly::Access& read : s->reads) look(read, *s);
  }
  return all;
}

// Of its last node: what is said of the whole program stands there.
lang::Span span_of(const Program& program) {
  if (program.nodes.empty()) return {};
  return std::visit([](const auto& node) { return node.span; }, program.nodes.back());
}

// Planning and compiling cost about the same for each of these, so there is one limit for both.
bool can_be_compiled(const Program& program, lang::Diagnostics& diagnostics) {
  std::size_t count = program.nodes.size();
  for (const poly::Node& node : program.nodes)
    if (const auto* s = std::get_if<poly::Statement>(&node)) count += poly::parts(s->value).size();
  return lang::within(lang::Limit::Compiled, static_cast<std::int64_t>(count), span_of(program), diagnostics);
}

// Errors only: remarks and warnings are those of the Programs alone.
std::optional<autodiff::Split> split_of(const Program& program, const Program& derivative, const Request& request, lang::Diagnostics& diagnostics) {
  lang::Diagnostics own;
  std::optional<autodiff::Split> result;
  if (auto joint = poly::bind(together(program, restricted(derivative, request.outputs)), request.sizes, own))
    if (joint = poly::bounds(poly::simplify(*joint), own); joint) result = autodiff::split(*joint, program.inputs.size(), program.outputs.size(), {}, own);
  for (const lang::Diagnostic& d : own.all())
    if (d.severity == lang::Severity::Error) diagnostics.add(d);
  return result;
}

// Callers know what is kept by its name without mark, so no other tensor of the pair may share it.
void name_kept(autodiff::Split& split) {
  const Program& forward = split.forward;
  std::map<std::string, std::string> names;              // of what is kept
  for (std::size_t k = split.forward_outputs; k < forward.outputs.size(); ++k) names.emplace(forward.tensor(forward.outputs[k]).name, "");
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

// From here on there is one Program again: forward, whose last outputs are kept, or backward, which begins with them.
void take_half(Stages& stages, Request::Half half) {
  stages.bounded = half == Request::Half::Forward ? stages.split->forward : stages.split->backward;
  stages.outputs.clear();
  for (const poly::TensorId id : stages.bounded->outputs) stages.outputs.push_back(autodiff::without_mark(stages.bounded->tensor(id).name));
}

}  // namespace

namespace {

std::optional<Stages> stages_of(const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) {
  Stages stages;
  Clock timed(stages.timings);
  stages.contraction = timed("build", [&] { return poly::build(file, request.signature, diagnostics); });
  if (!stages.contraction || !sizes_fit(file, request, *stages.contraction, diagnostics)) return std::nullopt;
  poly::verify(*stages.contraction, Stage::Symbolic);
  // From here on every domain is written out, independent of which operands remain.
  if (until == Until::Contraction) return stages;

  const Program* source = &*stages.contraction;
  std::optional<Program> differentiated;               // what the last derivative is of
  for (const Derivative& derivative : request.derivatives) {
    if (request.split || request.half != Request::Half::Both) differentiated = *source;
    stages.gradient = timed(derivative.forward ? "forward" : "reverse", [&] { return differentiate(*source, derivative, diagnostics); });
    if (!stages.gradient) return std::nullopt;
    poly::verify(*stages.gradient, Stage::Symbolic);
    source = &*stages.gradient;
  }
  if (until == Until::Gradient) return stages;

  const Program wanted = restricted(*source, request.outputs);
  for (const poly::TensorId id : wanted.outputs) stages.outputs.push_back(autodiff::without_mark(wanted.tensor(id).name));
  stages.bound = timed("bind", [&] { return poly::bind(accumulated(wanted, request.accumulate), request.sizes, diagnostics); });
  if (!stages.bound) return std::nullopt;
  stages.bound = timed("simplify", [&] { return poly::simplify(*stages.bound); });
  if (request.checked) stages.checks = poly::add_index_checks(*stages.bound);
  // From here on every size is an integer.
  const bool compiled = until == Until::Plan || until == Until::Lowered;
  if (compiled && !can_be_compiled(*stages.bound, diagnostics)) return std::nullopt;
  stages.bounded = timed("bounds", [&] { return poly::bounds(*stages.bound, diagnostics); });
  if (!stages.bounded) return std::nullopt;
  poly::verify(*stages.bounded, Stage::Bounded);
  if (differentiated) {
    stages.split = timed("split", [&] { return split_of(*differentiated, *stages.gradient, request, diagnostics); });
    if (!stages.split) return std::nullopt;
    poly::verify(stages.split->forward, Stage::Bounded);
    poly::verify(stages.split->backward, Stage::Bounded);
    if (request.half != Request::Half::Both) {
      name_kept(*stages.split);
      take_half(stages, request.half);
    }
  }
  if (until == Until::Bound) return stages;

  stages.reduced = timed("defract", [&] { return poly::defract(*stages.bounded); });
  poly::verify(*stages.reduced, Stage::Bounded);
  // From here on every output element has exactly one writer.
  if (until == Until::Reduced) return stages;

  if (!can_be_compiled(*stages.reduced, diagnostics)) return std::nullopt;  // classes are statements of their own
  const lang::Span span = span_of(*stages.reduced);
  const Fused fused = timed("fuse", [&] { return poly::located(span, [&] { return fuse(*stages.reduced, strides_of(*stages.reduced, request), request.output_strides, request.target); }); });
  if (!offsets_fit(fused.program, fused.strides, diagnostics)) return std::nullopt;
  // From here on no sum of a kernel leaves 64 bits.
  stages.plan = timed("schedule", [&] { return poly::located(span, [&] { return schedule(fused, request.target); }); });
  verify(*stages.plan, fused.strides);
  if (until == Until::Plan) return stages;

  stages.lowered = timed("lower", [&] { return poly::located(span, [&] { return share_kernels(lower(*stages.plan, fused.strides, request.target)); }); });
  std::set<std::string> seen;                          // kernels: several steps may share one
  for (const Step& step : stages.lowered->steps)
    if (seen.insert(step.kernel).second) verify(step.loops);
  return stages;
}

}  // namespace

std::optional<Stages> compile(const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics) try {
  return stages_of(file, request, until, diagnostics);
} catch (const poly::Overflow& error) {
  diagnostics.report(error.span, lang::messages::overflow, error.what()).hint("write smaller numbers in its indices and constraints, or give smaller sizes");
  return std::nullopt;
} catch (const poly::SizeError& error) {
  diagnostics.report(error.span, lang::messages::size_arithmetic, error.what());
  return std::nullopt;
}

}  // namespace tilec::codegen
