#include "codegen/rewrite/rewriting.h"

#include <fmt/core.h>

#include <algorithm>

#include "codegen/model/machine.h"
#include "codegen/plan.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/finish.h"
#include "codegen/rewrite/online.h"

namespace tilec::codegen {

using poly::Program;
using poly::Statement;

namespace {

// The tensors whose statements a directive changes.
directives::Names changed(const Directive& directive) {
  return std::visit([](const auto& d) -> directives::Names {
    if constexpr (requires { d.tensors; }) return d.tensors;
    else if constexpr (requires { d.reader; }) return {d.reader};
    else return {d.tensor};
  }, directive);
}

}  // namespace

Refusal apply(Rewriting& r, const Directive& directive) {
  if (stage_of(directive) > RewriteStage::Online && stage_of(directive) != RewriteStage::Finishes)
    for (const std::string& name : changed(directive))
      if (const auto n = statement_of(r.program, name);
          n && in_pass(r, std::get<Statement>(r.program.nodes[*n]).target.tensor))
        return fmt::format("`{}` belongs to a pass", name);
  if (stage_of(directive) > RewriteStage::Finishes)
    for (const std::string& name : changed(directive))
      if (const auto n = statement_of(r.program, name);
          n && finished(r, std::get<Statement>(r.program.nodes[*n]).target.tensor))
        return fmt::format("`{}` is finished, or finishes a sum", name);
  return std::visit([&](const auto& d) { return apply(r, d); }, directive);
}

std::optional<std::size_t> statement_of(const Program& program, const std::string& tensor) {
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&program.nodes[n]);
    if (s != nullptr && target_name(program, *s) == tensor) return n;
  }
  return std::nullopt;
}

std::string no_statement(const std::string& tensor) { return fmt::format("no statement computes `{}` here", tensor); }

std::vector<std::int64_t> strides_between(const poly::Tensor& tensor, const Target& target) {
  return target.family == Target::Family::Cpu ? rows_apart(extents(tensor), lang::bytes(tensor.dtype))
                                              : row_major(extents(tensor));
}

namespace {

// What touches a tensor in between; none: an intrinsic does, or its memory is not its own.
std::vector<const Statement*> statements_around(
    const Program& program, const std::vector<TensorId>& buffer, TensorId id) {
  std::vector<const Statement*> found;
  if (is_output(program, id) || std::ranges::find(program.inputs, id) != program.inputs.end() ||
      std::ranges::count(buffer, buffer[static_cast<std::size_t>(id)]) > 1)
    return found;
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (s == nullptr &&
        (reads(node, id) ||
            std::ranges::find(std::get<poly::Intrinsic>(node).targets, id) !=
                std::get<poly::Intrinsic>(node).targets.end()))
      return {};
    if (s != nullptr && (s->target.tensor == id || reads(node, id))) found.push_back(s);
  }
  return found;
}

}  // namespace

void align_rows(const Program& program, Strides& strides, const Target& target) {
  if (target.family != Target::Family::Cpu) return;
  const std::vector<TensorId> buffer = buffers(program);
  for (std::size_t id = 0; id < program.tensors.size(); ++id) {
    const std::int64_t bytes = lang::bytes(program.tensors[id].dtype);
    const std::size_t rank = strides[id].size();
    if (rank < 2 || strides[id][rank - 2] * bytes % static_cast<std::int64_t>(model::line) == 0) continue;
    std::vector<std::int64_t> lie = rows_apart(extents(program.tensors[id]), bytes, true);
    if (lie == strides[id]) continue;
    const std::vector<const Statement*> around = statements_around(program, buffer, static_cast<TensorId>(id));
    if (around.empty()) continue;
    const auto loops = [&] {
      std::size_t count = 0;
      for (const Statement* s : around) count += nest_of(*s, strides).dims.size();
      return count;
    };
    const std::size_t today = loops();
    std::swap(strides[id], lie);
    if (loops() != today) std::swap(strides[id], lie);
  }
}

std::optional<std::size_t> index_of(const Statement& s, const std::string& name) {
  const auto at = std::find(s.indices.begin(), s.indices.end(), name);
  return at == s.indices.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - s.indices.begin()));
}

std::optional<std::size_t> read_of(
    const Program& program, const Statement& s, const std::string& tensor, std::int64_t read) {
  for (std::size_t k = 0; k < s.reads.size(); ++k)
    if (program.tensor(s.reads[k].tensor).name == tensor && read-- == 0) return k;
  return std::nullopt;
}

std::size_t move_before(Program& program, std::size_t n, TensorId made) {
  std::size_t at = n;
  const auto makes = [&](const poly::Node& node) {
    const auto* s = std::get_if<Statement>(&node);
    return s && s->target.tensor == made;
  };
  while (at < program.nodes.size() && !makes(program.nodes[at])) ++at;
  if (at == program.nodes.size()) return n;
  const auto begin = program.nodes.begin();
  std::rotate(begin + static_cast<std::ptrdiff_t>(n), begin + static_cast<std::ptrdiff_t>(at),
      begin + static_cast<std::ptrdiff_t>(at) + 1);
  return n + 1;
}

const std::string& target_name(const Program& program, const Statement& s) {
  return program.tensor(s.target.tensor).name;
}

}  // namespace tilec::codegen
