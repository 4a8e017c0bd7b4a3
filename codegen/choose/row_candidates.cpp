#include "codegen/choose/row_candidates.h"

#include <algorithm>

#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/scan.h"

namespace tilec::codegen {

using poly::Access;
using poly::Program;
using poly::Statement;

Leads row_candidates(const Program& program, const Statement& s, const Strides& strides) {
  Leads leads = leads_of(program, s);
  if (leads.empty()) return leads;
  if (const auto scan = scan_of(s)) {                  // one turn has the whole scan
    const auto along =
        std::find_if(leads.begin(), leads.end(), [&](const Lead& lead) { return lead.index == scan->along; });
    leads.erase(along, leads.end());
    return leads;
  }
  const std::size_t rank = s.target.element.size();
  // A reduction down the unit stride of what it reads wants lanes over its last output dimension, many at a time.
  const auto last = plain_index(s.target.element.back());
  const auto is_down = [&](const Access& read) {
    bool folded = false;                               // what is read once for a whole fold goes down nothing
    for (std::size_t d = 0; d < read.element.size(); ++d)
      for (std::size_t k = 0; k < s.indices.size(); ++k)
        folded = folded || (!is_output_index(s, k) && mentions(read.element[d], k));
    return read.element.size() > 1 && folded && stride_along(read, *last, strides) == 1;
  };
  const bool down = reduces(s) && last && std::any_of(s.reads.begin(), s.reads.end(), is_down);
  if ((down || (rank > 1 && reuses(s))) && leads.back().dim == rank - 1) leads.pop_back();
  return leads;
}

std::vector<std::size_t> row_indices(const Program& program, const Statement& s) {
  if (contracts(program, s) || !s.kernel_name.empty() || has_slice(program, s)) return {};
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (!is_output_index(s, k) && s.domain[k].extent->is(0)) return {};
  if (std::holds_alternative<TensorId>(s.fill)) return {};
  const auto scan = scan_of(s);
  std::vector<std::size_t> found;
  for (const Lead& lead : open_leads(program, s))
    if (!scan || lead.index != scan->along) found.push_back(lead.index);
  if (sums_in_parts(program, s))
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      if (!is_output_index(s, k)) found.push_back(k);
  return found;
}

bool is_slice(const Program& program, const Access& access) {
  const auto& shape = program.tensor(access.tensor).shape;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (access.element[d].is_constant() && !shape[d].is(1)) return true;
  return false;
}

bool has_slice(const Program& program, const Statement& s) {
  return is_slice(program, s.target) ||
      std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) { return is_slice(program, read); });
}

bool is_step(const Rewriting& r, const Statement& s) {
  const auto of_input = [&](const Access& read) {
    return has_threads(r.target) && std::ranges::find(r.program.inputs, read.tensor) != r.program.inputs.end();
  };
  return is_slice(r.program, s.target) || std::ranges::any_of(s.reads, [&](const Access& read) {
    return is_slice(r.program, read) && !of_input(read);
  });
}

bool alike(const Program& program, const Statement& a, const Statement& b) {
  const auto same_kind = [&](const Access& x, const Access& y) {
    const poly::Tensor &s = program.tensor(x.tensor), &t = program.tensor(y.tensor);
    return s.dtype == t.dtype && s.shape == t.shape && x.element.size() == y.element.size();
  };
  return a.aggregation == b.aggregation && a.domain == b.domain && same_kind(a.target, b.target) &&
      a.target.element == b.target.element &&
      std::equal(a.reads.begin(), a.reads.end(), b.reads.begin(), b.reads.end(), same_kind) && a.value == b.value;
}

}  // namespace tilec::codegen
