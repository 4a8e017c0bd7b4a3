// The rewrites in order, chosen or given; each has a file of its own.
#include "codegen/fuse.h"

#include <algorithm>

#include "codegen/choose/finish.h"
#include "codegen/choose/pairs.h"
#include "codegen/choose/rows.h"
#include "codegen/clock.h"
#include "codegen/cover.h"
#include "codegen/operands.h"
#include "codegen/plan.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/factor.h"
#include "codegen/rewrite/inline.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/rest.h"
#include "codegen/rewrite/rows.h"
#include "codegen/rewrite/seek.h"
#include "codegen/rewrite/split.h"
#include "codegen/rewrite/sums_first.h"
#include "codegen/scan.h"
#include "codegen/scratch.h"
#include "lang/messages.h"
#include "poly/fold.h"

namespace tilec::codegen {

namespace {

// Outputs that are inputs, or the same tensor twice, get a buffer of their own.
void copy_outputs(
    poly::Program& program, Strides& strides, const std::map<std::size_t, std::vector<std::int64_t>>& output_strides) {
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    const TensorId id = program.outputs[o];
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), id) != program.inputs.end();
    const bool repeated = std::find(program.outputs.begin(), program.outputs.begin() + static_cast<std::ptrdiff_t>(o),
                              id) != program.outputs.begin() + static_cast<std::ptrdiff_t>(o);
    if (!input && !repeated) continue;
    poly::Tensor tensor = program.tensor(id);
    tensor.name = fresh_name(program, tensor.name);
    const auto given = output_strides.find(o);
    strides.push_back(given == output_strides.end() ? row_major(extents(tensor)) : given->second);
    program.tensors.push_back(std::move(tensor));
    const TensorId target = static_cast<TensorId>(program.tensors.size()) - 1;
    program.nodes.push_back(copy(program, target, id, in_order(program.tensor(id).shape.size())));
    program.outputs[o] = target;
  }
}

// One index of the hull: values from `low` below `high`.
struct Run { std::int64_t low, high; };
Run run_of(const poly::Range& hull) {
  const std::int64_t low = -hull.value.constant.get();
  return {low, low + hull.extent->get()};
}

void clip(poly::Statement& s, const poly::Affine& element, std::int64_t extent) {
  std::int64_t least = element.constant.get(), most = least;
  std::optional<std::size_t> only;
  int mentioned = 0;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    const std::int64_t c = element.coefficients[k].get();
    if (!c) continue;
    const Run run = run_of(s.domain[k]);
    if (run.high <= run.low) return;
    (c > 0 ? least : most) += c * run.low;
    (c > 0 ? most : least) += c * (run.high - 1);
    only = k, ++mentioned;
  }
  if (least >= 0 && most < extent) return;
  if (mentioned != 1) {
    s.domain.push_back({element, poly::Size(extent)});
    return;
  }
  // 0 <= c q + b < extent
  const std::int64_t c = element.coefficients[*only].get(), b = element.constant.get();
  const auto floor = [](std::int64_t a, std::int64_t d) { return a / d - (a % d < 0); };
  const std::int64_t low = c > 0 ? -floor(b, c) : -floor(extent - 1 - b, -c),
                     high = c > 0 ? floor(extent - 1 - b, c) + 1 : floor(b, -c) + 1;
  Run run = run_of(s.domain[*only]);
  run = {std::max(run.low, low), std::min(run.high, high)};
  s.domain[*only].value.constant = poly::Size(-run.low);
  s.domain[*only].extent = poly::Size(std::max<std::int64_t>(0, run.high - run.low));
}

// A leaf writes every element that the hull and the rows over output indices leave, its fill where no point is. A hull
// may be loose, and that the element exists may follow from rows over reductions: then it is said again, of the output
// indices alone.
void clip_targets(poly::Program& program) {
  for (poly::Node& node : program.nodes) {
    auto* s = std::get_if<poly::Statement>(&node);
    if (!s) continue;
    const std::vector<std::int64_t> shape = extents(program.tensor(s->target.tensor));
    for (std::size_t d = 0; d < shape.size(); ++d) clip(*s, poly::Affine(s->target.element[d]), shape[d]);
  }
}

// Numbers computed of numbers are numbers; what is rounded to 16 bits where it is stored is not rounded before.
poly::Expr as_computed(const poly::Program& program, const poly::Statement& s) {
  poly::Expr value = poly::with_rounded_numbers(s.value);
  const lang::DType stored = program.tensor(s.target.tensor).dtype;
  const auto* cast = value.as<poly::Cast>();
  const bool rounds = cast && cast->type == stored && cast->operand.type() == lang::DType::F32 &&
      lang::is_float(stored) && lang::bytes(stored) == 2;
  return rounds && s.aggregation == Aggregation::Assign ? cast->operand : value;
}

// What is chosen for each stage, in the order in which they are done.
struct Pass { RewriteStage stage; std::string_view name; void (*choose)(Rewriting&); };
constexpr Pass passes[] = {
    {RewriteStage::Inline, "inline", inline_elementwise}, {RewriteStage::Sums, "sums", factor_sums},
    {RewriteStage::Seeks, "seeks", seek_rows},
    {RewriteStage::Online, "online", pass_online},         {RewriteStage::Scans, "scans", split_scans},
    {RewriteStage::Pairs, "pairs", choose_pairs},          {RewriteStage::Splits, "splits", split_reductions},
    {RewriteStage::Copies, "copies", copy_operands},       {RewriteStage::Panels, "panels", panel_operands},
    {RewriteStage::Finishes, "finishes", finish_sums},     {RewriteStage::Rows, "rows", share_rows_that_pay},
    {RewriteStage::Rests, "rests", write_rests},
};

// False: one of them does not apply.
bool follow(Rewriting& r, const Given& given, RewriteStage stage, lang::Diagnostics& diagnostics) {
  for (const auto& [directive, span] : given.directives) {
    if (stage_of(directive) != stage) continue;
    const Refusal why = apply(r, directive);
    if (!why) continue;
    diagnostics.report(span, lang::messages::plan_refused, print(directive), *why);
    return false;
  }
  const auto last = std::find_if(given.directives.rbegin(), given.directives.rend(),
      [&](const Given::Said& said) { return stage_of(said.directive) == stage; });
  const Refusal why =
      stage == RewriteStage::Online && last != given.directives.rend() ? computed_apart(r) : std::nullopt;
  if (why) diagnostics.report(last->span, lang::messages::plan_refused, print(last->directive), *why);
  return !why;
}

// What a given line shares finishes nothing, and nothing finishes it.
void keep_shared(Rewriting& r, const Given& given) {
  for (const auto& [directive, span] : given.directives)
    if (const auto* share = std::get_if<directives::Share>(&directive))
      for (const std::string& name : share->tensors)
        if (const auto n = statement_of(r.program, name))
          r.of_columns.insert(std::get<poly::Statement>(r.program.nodes[*n]).target.tensor);
}

// Neither is chosen: kernels need the memory, and links of a chain live in the last one's buffer, whose strides may be
// the caller's.
void give_memory(Rewriting& r) {
  give_scratch(r.program, r.strides, r.target);
  const std::vector<TensorId> buffer = buffers(r.program);
  for (std::size_t id = 0; id < buffer.size(); ++id) r.strides[id] = r.strides[static_cast<std::size_t>(buffer[id])];
}

}  // namespace

std::optional<Fused> fuse(const poly::Program& program, const Strides& strides,
    const std::map<std::size_t, std::vector<std::int64_t>>& output_strides, const Target& target, const Given& given,
    const Heard& heard, lang::Diagnostics& diagnostics) {
  Rewriting r{program, strides, target};
  clip_targets(r.program);
  for (poly::Node& node : r.program.nodes)
    if (auto* s = std::get_if<poly::Statement>(&node)) s->value = as_computed(r.program, *s);
  note_held(r.program);
  copy_outputs(r.program, r.strides, output_strides);
  if (has_threads(target)) put_small_sums_first(r);
  Clock timed(heard.timings);
  for (const Pass& pass : passes) {
    const bool applies = timed(pass.name, [&] {
      if (pass.stage == RewriteStage::Finishes) keep_shared(r, given);
      if (pass.stage == RewriteStage::Rows) give_memory(r);
      if (given.stages.contains(pass.stage)) return follow(r, given, pass.stage, diagnostics);
      return pass.choose(r), true;
    });
    if (!applies) return std::nullopt;
    if (heard.programs != nullptr) heard.programs->emplace_back(pass.name, r.program);
  }
  return in_sets(std::move(r));
}

Fused fuse(const poly::Program& program, const Strides& strides,
    const std::map<std::size_t, std::vector<std::int64_t>>& output_strides, const Target& target) {
  lang::Diagnostics none;
  std::vector<Timing> timings;
  return fuse(program, strides, output_strides, target, {}, {timings}, none).value();
}

}  // namespace tilec::codegen
