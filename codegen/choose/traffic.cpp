// Counts bytes of tensors, each once for every launch that touches it.
#include "codegen/choose/traffic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

using poly::Access;
using poly::Program;
using poly::Statement;

namespace {

constexpr auto of_a_line = static_cast<std::int64_t>(model::element_of_line);  // strips of a part would tear lines

std::vector<Access> accesses(const Statement& s) {
  std::vector<Access> all = s.reads;
  all.push_back(s.target);
  return all;
}

}  // namespace

double bytes_from_memory(const Program& program, TensorId id, const Target& target) {
  const double bytes = bytes_of(program, id);
  return bytes > static_cast<double>(target.l2) ? bytes : 0;
}

RowBytes bytes_of_a_row(const Program& program, const std::vector<Member>& members) {
  std::map<TensorId, double> each, common;
  for (const Member& member : members)
    for (const Access& access : accesses(*member.statement)) {
      double row = bytes_of(program, access.tensor);
      bool last = false;                               // another one for each of the last rows
      for (const std::size_t k : member.rows) {
        last = std::any_of(
            access.element.begin(), access.element.end(), [&](const poly::Affine& e) { return mentions(e, k); });
        if (last) row /= std::max(1.0, static_cast<double>(extent(*member.statement, k)));
      }
      double& most = (last ? each : common)[access.tensor];
      most = std::max(most, row);
    }
  RowBytes sum;
  for (const auto& [id, row] : each) sum.each += row;
  for (const auto& [id, row] : common) if (!each.contains(id)) sum.common += row;
  return sum;
}

double bytes_saved(const Program& program, const std::vector<Member>& members, const Target& target) {
  double apart = 0, together = 0;
  std::set<TensorId> made, read;
  for (const Member& member : members) {
    std::set<TensorId> own;
    for (const Access& access : member.statement->reads) own.insert(access.tensor);
    for (const TensorId id : own) apart += bytes_from_memory(program, id, target);
    apart += bytes_from_memory(program, member.statement->target.tensor, target);
    made.insert(member.statement->target.tensor);
    read.insert(own.begin(), own.end());
  }
  for (const TensorId id : read) if (!made.contains(id)) together += bytes_from_memory(program, id, target);
  const auto inside = [&](const poly::Node& node) {
    return std::any_of(members.begin(), members.end(),
        [&](const Member& member) { return std::get_if<Statement>(&node) == member.statement; });
  };
  for (const TensorId id : made) {
    const double bytes = bytes_from_memory(program, id, target);
    if (bytes == 0) continue;
    const bool outside = is_output(program, id) ||
        std::any_of(program.nodes.begin(), program.nodes.end(),
            [&](const poly::Node& node) { return !inside(node) && reads(node, id); });
    if (outside) together += bytes;
  }
  return apart - together;
}

std::int64_t stride_along(const Access& access, std::size_t k, const Strides& strides) {
  std::int64_t stride = 0;
  for (std::size_t d = 0; d < access.element.size(); ++d)
    stride += access.element[d].coefficients[k].get() * strides[static_cast<std::size_t>(access.tensor)][d];
  return stride;
}

bool lies_along(
    const Program& program, const Strides& strides, const Statement& s, std::size_t k, const Target& target) {
  return std::ranges::any_of(accesses(s), [&](const Access& access) {
    if (bytes_from_memory(program, access.tensor, target) == 0) return false;
    bool others = false;
    for (std::size_t d = 0; d < access.element.size(); ++d)
      for (std::size_t j = 0; j < s.indices.size(); ++j)
        others = others || (j != k && mentions(access.element[d], j) && extent(s, j) > 1);
    return others && stride_along(access, k, strides) == 1;
  });
}

bool fits_strip(const RowBytes& row, const Target& target) {
  return row.of(model::narrowest_strip) <= model::held_in_l2 * static_cast<double>(target.l2);
}

std::int64_t strip_of(const RowBytes& row, std::int64_t extent, const Target& target) {
  const auto lines = [](std::int64_t width) { return std::max<std::int64_t>(1, width / of_a_line) * of_a_line; };
  const auto fit = lines(static_cast<std::int64_t>(
      (model::held_in_l2 * static_cast<double>(target.l2) - row.common) / std::max(1.0, row.each)));
  const auto shared = std::max(
      model::narrowest_strip, lines((extent + model::strips_wanted - 1) / model::strips_wanted + of_a_line - 1));
  return std::max<std::int64_t>(1, std::min({fit, shared, extent}));
}

}  // namespace tilec::codegen
