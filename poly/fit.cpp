// Magnitudes are doubles: their roundings are far below the room that the limit leaves.
#include "poly/fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lang/messages.h"
#include "poly/exact.h"
#include "poly/intern.h"
#include "poly/substitute.h"
#include "poly/view.h"

namespace tilec::poly {
namespace {

double magnitude(const Size& size) { return std::abs(static_cast<double>(size.get())); }
std::int64_t low_of(const Range& hull) { return (-Exact(hull.value.constant.get())).get(); }

struct TooLarge { std::string form; double reached; };

// The first form that may leave 64 bits.
std::optional<TooLarge> too_large(const Statement& s) {
  const std::size_t n = s.indices.size();
  std::optional<TooLarge> found;
  const auto look = [&](const Affine& form, double more) {
    if (found || (form.is_constant() && more == 0)) return;
    const double far = reach(form, s.domain);
    if (far > reach_limit || more > 2 * reach_limit) found = {form.print(s.indices), std::max(far, more)};
  };
  for (std::size_t r = 0; r < s.domain.size(); ++r)
    look(s.domain[r].value, r >= n && s.domain[r].extent ? magnitude(*s.domain[r].extent) : 0);
  for (const Affine& form : s.target.element) look(form, 0);
  for (const Access& read : s.reads)
    for (const Affine& form : read.element) look(form, 0);
  for (const Expr& part : parts(s.value))
    if (const auto* index = part.as<Index>()) look(index->value, 0);
  return found;
}

std::vector<double> row_major(const Tensor& tensor) {
  std::vector<double> strides(tensor.shape.size(), 1);
  for (std::size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * magnitude(tensor.shape[d]);
  return strides;
}

struct FarAccess { std::string tensor; double bytes; };

// The first access whose addresses may leave 64 bits.
std::optional<FarAccess> far_access(const Program& program, const Statement& s) {
  std::vector<const Access*> accesses{&s.target};
  for (const Access& read : s.reads) accesses.push_back(&read);
  for (const Access* access : accesses) {
    const Tensor& tensor = program.tensor(access->tensor);
    const double bytes = reach_in_bytes(*access, tensor.dtype, row_major(tensor), s.domain);
    if (bytes > byte_limit) return FarAccess{tensor.name, bytes};
  }
  return std::nullopt;
}

// Indices of one value become it, in all forms but their hulls; extents come as near as their forms.
Statement narrowed(const Statement& s) {
  const std::size_t n = s.indices.size();
  Map map{lattice::Matrix(n, lattice::Vector(n, 0)), lattice::Vector(n, 0)};
  for (std::size_t k = 0; k < n; ++k) {
    if (s.domain[k].extent->get() <= 1) map.start[k] = low_of(s.domain[k]);
    else map.matrix[k][k] = 1;
  }
  Statement result = substitute(s, map, s.indices);
  std::copy_n(s.domain.begin(), n, result.domain.begin());
  for (std::size_t r = n; r < result.domain.size(); ++r) {
    Range& row = result.domain[r];
    const double far = 2 * reach(row.value, result.domain);
    if (far < reach_limit && row.extent && magnitude(*row.extent) > far && row.extent->get() > 0)
      row.extent = static_cast<std::int64_t>(far);
  }
  result.domain.erase(
      std::remove_if(result.domain.begin() + static_cast<std::ptrdiff_t>(n), result.domain.end(), always_holds),
      result.domain.end());
  return result;
}

}  // namespace

double reach(const Affine& form, const std::vector<Range>& domain) {
  double sum = magnitude(form.constant) + magnitude(form.divisor);
  for (std::size_t k = 0; k < form.coefficients.size(); ++k) {
    if (form.coefficients[k].is(0)) continue;
    const double width = std::max(1.0, static_cast<double>(domain[k].extent->get()));
    sum += magnitude(form.coefficients[k]) * (magnitude(domain[k].value.constant) + width);
  }
  return sum;
}

double reach_in_bytes(
    const Access& access, lang::DType type, const std::vector<double>& strides, const std::vector<Range>& domain) {
  double bytes = 0;
  for (std::size_t d = 0; d < access.element.size(); ++d)
    bytes += lang::bytes(type) * std::abs(strides[d]) * reach(access.element[d], domain);
  return bytes;
}

void report_far(const std::string& tensor, double bytes, lang::Span span, lang::Diagnostics& diagnostics) {
  diagnostics.report(span, lang::messages::offset_too_large, tensor, fmt::format("{:.2g}", bytes))
      .hint("write smaller numbers in its index expressions, or constrain the indices");
}

std::optional<Statement> fitted(const Program& program, Statement statement, lang::Diagnostics& diagnostics) {
  std::optional<TooLarge> found = too_large(statement);
  std::optional<FarAccess> far = far_access(program, statement);
  if (found || far) {
    statement = narrowed(statement);
    found = too_large(statement);
    far = far_access(program, statement);
  }
  if (!found && !far) return statement;
  if (!found) {
    report_far(far->tensor, far->bytes, statement.span, diagnostics);
    return std::nullopt;
  }
  std::string ranges;
  for (std::size_t k = 0; k < statement.indices.size(); ++k)
    ranges += fmt::format("{}`{}` has {}", ranges.empty() ? "" : ", ", statement.indices[k],
        lang::counted(static_cast<std::size_t>(statement.domain[k].extent->get()), "value"));
  diagnostics
      .report(statement.span, lang::messages::index_too_large, found->form, fmt::format("{:.2g}", found->reached))
      .hint(fmt::format("{}: write smaller numbers, or constrain the indices", ranges));
  return std::nullopt;
}

}  // namespace tilec::poly
