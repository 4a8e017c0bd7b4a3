#include "codegen/rewrite/tile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "codegen/part.h"
#include "codegen/product.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"

namespace tilec::codegen {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

namespace {

const Statement* statement_at(const Program& program, std::size_t n) {
  return n < program.nodes.size() ? std::get_if<Statement>(&program.nodes[n]) : nullptr;
}

int readers(const Program& program, TensorId id) {
  return static_cast<int>(std::count_if(
      program.nodes.begin(), program.nodes.end(), [&](const poly::Node& node) { return reads(node, id); }));
}
bool inner(const Program& program, TensorId id) {
  return !is_output(program, id) &&
      std::find(program.inputs.begin(), program.inputs.end(), id) == program.inputs.end() && readers(program, id) == 1;
}

// Each dimension is an index of its own, which counts from 0.
bool own_indices(const Statement& s, const Access& access) {
  std::set<std::size_t> seen;
  for (const Affine& e : access.element) {
    const auto k = plain_index(e);
    if (!k || low(s, *k) != 0 || !seen.insert(*k).second) return false;
  }
  return true;
}
bool plain(const Statement& s) {
  return s.aggregation == Aggregation::Assign && s.reads.size() == 1 && s.value.as<poly::Read>() &&
      std::holds_alternative<poly::Number>(s.fill);
}
bool copies_in(const Program& program, const Statement& s) {
  return plain(s) && covers(program, s) && own_indices(s, s.target) && s.indices.size() == s.target.element.size();
}
bool copies_out(const Statement& s) {
  return plain(s) && own_indices(s, s.reads[0]) && s.indices.size() == s.reads[0].element.size();
}

// A read that a box of the tensor can answer: the only one of this tensor.
bool read_once(const Statement& s, TensorId id) {
  return std::count_if(s.reads.begin(), s.reads.end(), [&](const Access& read) { return read.tensor == id; }) == 1;
}

}  // namespace

std::vector<std::size_t> tiled_with(const Program& program, std::size_t n) {
  std::vector<std::size_t> nodes{n};
  const Statement& sum = *statement_at(program, n);
  for (std::size_t at = n; at-- > 0;) {
    const Statement* s = statement_at(program, at);
    if (!s || !copies_in(program, *s) || !inner(program, s->target.tensor) || !read_once(sum, s->target.tensor)) break;
    nodes.insert(nodes.begin(), at);
  }
  const Statement* after = statement_at(program, n + 1);
  const bool is_of_a_turn = inner(program, sum.target.tensor) && !std::holds_alternative<TensorId>(sum.fill);
  if (after && copies_out(*after) && after->reads[0].tensor == sum.target.tensor && is_of_a_turn &&
      own_indices(sum, sum.target))
    nodes.push_back(n + 1);
  return nodes;
}

bool may_tile(const Program& program, const Strides& strides, const Statement& s) {
  if (!reduces(s) || s.aggregation == Aggregation::Assign || scan_of(s) ||
      has_scale(s.aggregation, compute_type(s.value.type())))
    return false;
  if (program.tensor(s.target.tensor).dtype != compute_type(s.value.type())) return false;
  if (std::any_of(s.domain.begin(), s.domain.begin() + static_cast<std::ptrdiff_t>(s.indices.size()),
          [](const poly::Range& hull) { return hull.extent->get() < 1; }))
    return false;
  const Nest nest = nest_of(s, strides);
  return identity_is_fill(nest) || always_reached(nest);
}

bool tiled(const Rewriting& r, TensorId target) {
  return std::any_of(r.tiles.begin(), r.tiles.end(), [&](const Rewriting::Tile& tile) {
    return std::find(tile.tensors.begin(), tile.tensors.end(), target) != tile.tensors.end();
  });
}

bool bounds_outputs(const Statement& s, std::size_t k) {
  return !is_output_index(s, k) &&
      std::any_of(s.domain.begin() + static_cast<std::ptrdiff_t>(s.indices.size()), s.domain.end(),
          [&](const poly::Range& row) { return mentions(row.value, k); });
}

void tile(
    Rewriting& r, const std::vector<std::size_t>& nodes, std::vector<std::pair<std::string, std::int64_t>> steps) {
  Rewriting::Tile made{{}, std::move(steps)};
  directives::Tile done;
  for (const std::size_t n : nodes) {
    const Statement& s = std::get<Statement>(r.program.nodes[n]);
    made.tensors.push_back(s.target.tensor);
    done.tensors.push_back(target_name(r.program, s));
    // nobody else can read it
    std::erase_if(r.copies, [&](const auto& copy) { return copy.second == s.target.tensor; });
  }
  for (const auto& [index, step] : made.steps) done.over.push_back(index), done.by.push_back(step);
  r.done.push_back(std::move(done));
  r.tiles.push_back(std::move(made));
}

namespace {

// Elements of the box of all outputs.
double reached(const Statement& s) {
  double count = 1;
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (is_output_index(s, k)) count *= static_cast<double>(extent(s, k));
  return count;
}

// Whether the copy leaves out every element that rows of the sum leave out.
bool keeps_rows(const Statement& sum, const Statement& copy) {
  const std::size_t rank = copy.indices.size();
  std::vector<Affine> map;
  // of a reduction with one value
  for (std::size_t k = 0; k < sum.indices.size(); ++k) map.push_back(Affine::of(poly::Size(low(sum, k)), rank));
  for (std::size_t d = 0; d < sum.target.element.size(); ++d) {
    const std::size_t k = *plain_index(sum.target.element[d]);
    map[k] = copy.reads[0].element[d];
    map[k].constant = poly::Size(map[k].constant.get() - sum.target.element[d].constant.get());
  }
  return std::all_of(sum.domain.begin() + static_cast<std::ptrdiff_t>(sum.indices.size()), sum.domain.end(),
      [&](const poly::Range& row) {
        for (std::size_t k = 0; k < sum.indices.size(); ++k)
          if (mentions(row.value, k) && !is_output_index(sum, k) && extent(sum, k) > 1) return true;
        return std::ranges::count(copy.domain, poly::Range{row.value.compose(map, rank), row.extent}) > 0;
      });
}

}  // namespace

Refusal apply(Rewriting& r, const directives::Tile& directive) {
  std::vector<std::size_t> nodes;
  std::optional<std::size_t> sum;
  for (const std::string& name : directive.tensors) {
    const auto n = statement_of(r.program, name);
    if (!n) return no_statement(name);
    const auto& s = std::get<Statement>(r.program.nodes[*n]);
    if (tiled(r, s.target.tensor)) return fmt::format("`{}` is tiled already", name);
    if (!nodes.empty() && *n != nodes.back() + 1)
      return fmt::format("`{}` does not follow `{}`", name, directive.tensors[nodes.size() - 1]);
    if (reduces(s)) {
      if (sum)
        return fmt::format(
            "`{}` and `{}` both fold", name, target_name(r.program, std::get<Statement>(r.program.nodes[*sum])));
      sum = n;
    }
    nodes.push_back(*n);
  }
  if (has_threads(r.target)) return std::string("blocks of threads have no boxes");
  if (!sum) return std::string("nothing of it folds");
  const auto& s = std::get<Statement>(r.program.nodes[*sum]);
  if (!may_tile(r.program, r.strides, s))
    return fmt::format("parts of `{}` cannot be added up in its memory", target_name(r.program, s));
  const std::vector<std::size_t> most = tiled_with(r.program, *sum);
  for (const std::size_t n : nodes)
    if (std::find(most.begin(), most.end(), n) == most.end())
      return fmt::format("`{}` is no copy that belongs to `{}` alone",
          target_name(r.program, std::get<Statement>(r.program.nodes[n])), target_name(r.program, s));
  if (nodes.back() != *sum &&
      (reached(s) < elements(r.program, s.target.tensor) ||
          (bounds_elements(nest_of(s, r.strides)) &&
              !keeps_rows(s, std::get<Statement>(r.program.nodes[nodes.back()])))))
    return fmt::format(
        "no box of `{}` has the elements without a point, which its copy reads", target_name(r.program, s));
  if (directive.over.size() != directive.by.size())
    return fmt::format("{} and {} do not go together", lang::counted(directive.over.size(), "index"),
        lang::counted(directive.by.size(), "step"));
  std::vector<std::pair<std::string, std::int64_t>> steps;
  for (std::size_t k = 0; k < directive.over.size(); ++k) {
    const auto index = index_of(s, directive.over[k]);
    if (!index || std::count(directive.over.begin(), directive.over.end(), directive.over[k]) > 1)
      return fmt::format(
          "`{}` is no index of `{}`, or stands there twice", directive.over[k], target_name(r.program, s));
    if (bounds_outputs(s, *index))
      return fmt::format(
          "which elements `{}` reaches depends on its value, so a box has all of them", directive.over[k]);
    if (directive.by[k] < 1 || directive.by[k] >= extent(s, *index))
      return fmt::format(
          "{} is no part of the {} values of `{}`", directive.by[k], extent(s, *index), directive.over[k]);
    steps.emplace_back(directive.over[k], directive.by[k]);
  }
  tile(r, nodes, std::move(steps));
  return std::nullopt;
}

}  // namespace tilec::codegen
