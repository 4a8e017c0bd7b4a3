#include "codegen/rewrite/rest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codegen/cover.h"
#include "codegen/elements.h"
#include "codegen/part.h"
#include "codegen/plan.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/finish.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/tile.h"

namespace tilec::codegen {

namespace {

using poly::Affine;
using poly::Program;
using poly::Statement;

constexpr std::size_t most_parts = 12;                 // a launch of more is no longer one (joined.cpp)

bool shares_launch(const Rewriting& r, TensorId id) {
  return finished(r, id) || in_pass(r, id) || tiled(r, id) || std::ranges::any_of(r.rows, [&](const auto& rows) {
    return std::ranges::find(rows.tensors, id) != rows.tensors.end();
  });
}

// Elements of the chain that begins with this statement which none of its links writes; none: they are no such parts.
std::optional<std::vector<Elements>> rest_of(const Program& program, const Statement& first) {
  const std::vector<TensorId> buffer = buffers(program);
  const auto own = buffer[static_cast<std::size_t>(first.target.tensor)];
  std::vector<Elements> all{all_elements(extents(program.tensor(first.target.tensor)))};
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s || buffer[static_cast<std::size_t>(s->target.tensor)] != own) continue;
    const auto written = elements_of(*s);
    if (!written) return std::nullopt;
    std::vector<Elements> left;
    for (const Elements& part : all) {
      auto some = rest(part, *written, most_parts);
      if (!some) return std::nullopt;
      std::ranges::move(*some, std::back_inserter(left));
    }
    all = std::move(left);
    if (all.size() > most_parts) return std::nullopt;
  }
  return all;
}

// Each element of the part is the number.
Statement statement_of_part(const Elements& part, TensorId target, const Statement& like, const poly::Number& number) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < part.sides.size(); ++d) if (part.sides[d].count != 1) dims.push_back(d);
  Statement s{.target = {target, {}}, .indices = {}, .domain = {}, .value = poly::Expr(number), .reads = {},
      .fill = number, .kernel_name = like.kernel_name, .span = like.span};
  for (std::size_t k = 0; k < dims.size(); ++k) {
    s.indices.push_back(fmt::format("e{}", dims[k]));
    s.domain.push_back({Affine::index(k, dims.size()), poly::Size(part.sides[dims[k]].count)});
  }
  for (const Side& side : part.sides) s.target.element.push_back(Affine::of(poly::Size(side.first), dims.size()));
  for (std::size_t k = 0; k < dims.size(); ++k)
    s.target.element[dims[k]].coefficients[k] = poly::Size(part.sides[dims[k]].step);
  for (const AtLeast0& row : part.rows) {
    Affine form = Affine::of(poly::Size(row.constant), dims.size());
    for (std::size_t k = 0; k < dims.size(); ++k) form.coefficients[k] = poly::Size(row.coefficients[dims[k]]);
    s.domain.push_back({std::move(form), std::nullopt});
  }
  return s;
}

// Whether a reshape reads what the chain leaves: it takes no launch where one statement alone writes its operand
// (reshapes.h).
bool is_reshaped(const Program& program, const Statement& first) {
  const std::vector<TensorId> buffer = buffers(program);
  const auto own = buffer[static_cast<std::size_t>(first.target.tensor)];
  return std::ranges::any_of(program.nodes, [&](const poly::Node& node) {
    const auto* intrinsic = std::get_if<poly::Intrinsic>(&node);
    return intrinsic && intrinsic->op == poly::IntrinsicOp::Reshape &&
        std::ranges::any_of(
            intrinsic->operands, [&](TensorId id) { return buffer[static_cast<std::size_t>(id)] == own; });
  });
}

// The program with them, each going on from the one before.
Program with_parts(const Rewriting& r, std::size_t n, const std::vector<Elements>& parts, Strides& strides) {
  Program program = r.program;
  auto& first = std::get<Statement>(program.nodes[n]);
  const poly::Number number = std::get<poly::Number>(first.fill);
  const auto target = static_cast<std::size_t>(first.target.tensor);
  std::vector<poly::Node> before;
  for (const Elements& part : parts) {
    poly::Tensor tensor = program.tensors[target];
    tensor.name = fresh_name(program, tensor.name + "_rest");
    const auto id = static_cast<TensorId>(program.tensors.size());
    program.tensors.push_back(std::move(tensor));
    strides.push_back(std::vector(strides[target]));
    Statement s = statement_of_part(part, id, first, number);
    if (!before.empty()) s.fill = id - 1, s.held = number;
    before.push_back(std::move(s));
  }
  first.fill = static_cast<TensorId>(program.tensors.size()) - 1, first.held = number;
  program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n), before.begin(), before.end());
  return program;
}

// Whether no fill goes before the statement that stands there.
bool whole(const Program& program, const Strides& strides, std::size_t n) {
  const Fused fused{program, strides, {}, {}};
  return !Cover(fused).needs_fill(std::get<Statement>(program.nodes[n]));
}

struct Written { std::size_t n = 0; std::vector<Elements> parts; Program program; Strides strides; };

Refusal written(const Rewriting& r, const std::string& tensor, Written& found) {
  const auto n = statement_of(r.program, tensor);
  if (!n) return no_statement(tensor);
  const auto& s = std::get<Statement>(r.program.nodes[*n]);
  if (!std::holds_alternative<poly::Number>(s.fill))
    return fmt::format("`{}` goes on from what another statement has written", tensor);
  if (shares_launch(r, s.target.tensor)) return fmt::format("`{}` shares its launch", tensor);
  auto parts = rest_of(r.program, s);
  if (!parts) return fmt::format("what is left of `{}` is not a few boxes, or what rows leave of them", tensor);
  if (parts->empty()) return fmt::format("nothing is left of `{}`", tensor);
  found = {*n, *std::move(parts), {}, r.strides};
  found.program = with_parts(r, found.n, found.parts, found.strides);
  if (!whole(found.program, found.strides, found.n))
    return fmt::format("it is not known that statements write all of `{}`", tensor);
  return std::nullopt;
}

void take(Rewriting& r, Written found, const directives::Rest& directive) {
  r.program = std::move(found.program), r.strides = std::move(found.strides);
  r.done.push_back(directive);
}

}  // namespace

Refusal apply(Rewriting& r, const directives::Rest& directive) {
  Written found;
  if (Refusal why = written(r, directive.tensor, found)) return why;
  take(r, std::move(found), directive);
  return std::nullopt;
}

void write_rests(Rewriting& r) {
  if (!has_threads(r.target)) return;
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    if (!s || !std::holds_alternative<poly::Number>(s->fill) || covers(r.program, *s) ||
        is_reshaped(r.program, *s))
      continue;
    const std::string name = target_name(r.program, *s);
    const double all = elements(r.program, s->target.tensor);
    Written found;
    if (written(r, name, found)) continue;
    const double boxes = std::accumulate(found.parts.begin(), found.parts.end(), 0.0,
        [](double sum, const Elements& part) { return sum + part.box(); });
    if (boxes > 2 * all) continue;
    n += found.parts.size();
    take(r, std::move(found), {name});
  }
}

}  // namespace tilec::codegen
