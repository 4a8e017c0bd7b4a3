// The passes for one machine, in order, timed; each comment says what holds from there on.
#include "codegen/choice.h"

#include <algorithm>
#include <set>

#include "autodiff/graph.h"
#include "codegen/choose/leaves.h"
#include "codegen/clock.h"
#include "codegen/fuse.h"
#include "codegen/joined.h"
#include "codegen/narrow.h"
#include "codegen/replay.h"
#include "codegen/reshapes.h"
#include "codegen/schedule.h"
#include "poly/exact.h"
#include "poly/fit.h"

namespace tilec::codegen {

Chosen::Chosen() = default;
Chosen::Chosen(const Chosen&) = default;
Chosen::Chosen(Chosen&&) noexcept = default;
Chosen& Chosen::operator=(const Chosen&) = default;
Chosen& Chosen::operator=(Chosen&&) noexcept = default;
Chosen::~Chosen() = default;

namespace {

using poly::Program;

// Row-major, unless the caller said how an input or output lies in memory.
Strides strides_of(const Program& program, const Request& request) {
  Strides strides;
  for (const poly::Tensor& tensor : program.tensors) strides.push_back(row_major(extents(tensor)));
  for (const auto& [o, given] : request.output_strides) {
    const poly::TensorId id = program.outputs.at(o);
    const bool first = std::find(program.outputs.begin(), program.outputs.end(), id) ==
        program.outputs.begin() + static_cast<std::ptrdiff_t>(o);
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), id) != program.inputs.end();
    if (first && !input) strides[static_cast<std::size_t>(id)] = given;  // all others are copied
  }
  for (const poly::TensorId id : program.inputs)
    if (const auto given = request.strides.find(program.tensor(id).name); given != request.strides.end())
      strides[static_cast<std::size_t>(id)] = given->second;
  for (std::size_t id = 0; id < strides.size(); ++id) {
    const poly::Tensor& tensor = program.tensors[id];
    const std::vector<std::int64_t> dense = row_major(extents(tensor));
    for (std::size_t d = 0; d < dense.size(); ++d)
      // nothing lies in this direction: the caller's may be any number
      if (tensor.shape[d].get() <= 1 || dense[d] == 0) strides[id][d] = dense[d];
  }
  return strides;
}

// Offsets are sums of strides times index expressions, in bytes: none leaves 64 bits, in whatever order a kernel forms
// it. `bounds` has seen to it for row-major tensors and the statements of the text; here are those that fusion made and
// the caller's strides.
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

}  // namespace

std::optional<Chosen> choose(const Program& reduced, const Request& request, Until until, std::vector<Timing>& timings,
    lang::Diagnostics& diagnostics) {
  Chosen choice;
  Clock timed(timings);
  const lang::Span span = span_of(reduced);
  const std::vector<PlanLine> lines =
      request.plan ? lines_of(request.plan->text, request.plan->source) : std::vector<PlanLine>();
  const auto given = given_in(lines, diagnostics);
  if (!given) return std::nullopt;
  const Heard heard{timings, request.keeps_rewrites ? &choice.rewrites : nullptr};
  std::optional<Fused> fused = poly::located(span, [&] {
    return fuse(
        reduced, strides_of(reduced, request), request.output_strides, request.target, *given, heard, diagnostics);
  });
  if (!fused || !offsets_fit(fused->program, fused->strides, diagnostics)) return std::nullopt;
  // From here on no sum of a kernel leaves 64 bits.
  drop_reshapes(*fused);
  if (has_threads(request.target)) narrow(*fused);     // which memory holds, rather than a cache
  choice.plan = timed("schedule", [&] { return poly::located(span, [&] {
    Plan plan = schedule(*fused, request.target);
    choose_leaves(plan, fused->strides, request.target);
    choose_vectors(plan, fused->strides, request.target);
    return plan; }); });
  verify(*choice.plan, fused->strides);
  if (!replay(*choice.plan, *fused, lines, request.target, diagnostics)) return std::nullopt;
  choice.strides = fused->strides;
  if (until == Until::Plan) return choice;

  choice.lowered = timed("lower", [&] {
    return poly::located(span, [&] { return launches(*choice.plan, fused->strides, request.target); });
  });
  std::set<std::string> seen;                          // kernels: several steps may share one
  for (const Step& step : choice.lowered->steps)
    if (seen.insert(step.kernel).second) verify(step.loops);
  return choice;
}

}  // namespace tilec::codegen
