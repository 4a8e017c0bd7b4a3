// Frames, and the little that every part of a statement needs.
#include "codegen/part.h"

#include <algorithm>

#include "codegen/rewrite.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

std::int64_t low(const Statement& s, std::size_t k) { return -s.domain[k].value.constant.get(); }
std::int64_t extent(const Statement& s, std::size_t k) { return s.domain[k].extent->get(); }

std::string fresh_index(const Statement& s, std::string stem) {
  while (std::find(s.indices.begin(), s.indices.end(), stem) != s.indices.end()) stem += "_";
  return stem;
}

Frame frame(const Statement& s, const std::vector<std::size_t>& kept, const std::vector<Dim>& more) {
  Frame f;
  const std::size_t count = kept.size() + more.size();
  f.map.assign(s.indices.size(), Affine::of(poly::Size(0), count));
  for (std::size_t n = 0; n < count; ++n) {
    const bool old = n < kept.size();
    f.names.push_back(old ? s.indices[kept[n]] : more[n - kept.size()].name);
    f.hull.push_back({Affine::index(n, count), poly::Size(old ? extent(s, kept[n]) : more[n - kept.size()].extent)});
    if (!old) continue;
    f.map[kept[n]] = Affine::index(n, count);
    f.map[kept[n]].constant = poly::Size(low(s, kept[n]));
  }
  return f;
}

Statement seen_in(const Statement& s, const Frame& f, const std::function<bool(const Affine&)>& keeps) {
  Statement result = s;
  result.indices = f.names;
  const auto seen = [&](const Affine& e) { return e.compose(f.map, f.count()); };
  for (Affine& e : result.target.element) e = seen(e);
  for (Access& read : result.reads) for (Affine& e : read.element) e = seen(e);
  std::vector<int> same;
  for (std::size_t r = 0; r < s.reads.size(); ++r) same.push_back(static_cast<int>(r));
  result.value = seen_from(s.value, f.map, f.count(), same);
  result.domain = f.hull;
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r)
    if (keeps(s.domain[r].value)) result.domain.push_back({seen(s.domain[r].value), s.domain[r].extent});
  return result;
}

bool mentions(const Affine& e, std::size_t k) { return !e.coefficients[k].is(0); }

TensorId new_tensor(Program& program, Strides& strides, const Statement& s, const std::string& suffix, const Frame& f,
    std::size_t rank) {
  poly::Tensor tensor{fresh_name(program, program.tensor(s.target.tensor).name + suffix), s.value.type(), {}, s.span};
  for (std::size_t d = 0; d < rank; ++d) tensor.shape.push_back(*f.hull[d].extent);
  strides.push_back(row_major(extents(tensor)));
  program.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(program.tensors.size()) - 1;
}

void write_part(Statement& part, TensorId target, std::size_t rank) {
  part.target = {target, {}};
  for (std::size_t d = 0; d < rank; ++d) part.target.element.push_back(Affine::index(d, part.indices.size()));
  const auto none = identity(part.aggregation, part.value.type());
  const auto* constant = none.as<Constant>();
  part.fill = poly::Number{part.value.type(), constant->integer, constant->real};
  part.kernel_name.clear();
}

void drop_unused(Statement& s) {
  std::vector<bool> used(s.reads.size(), false);
  const std::function<void(const poly::Expr&)> visit = [&](const poly::Expr& e) {
    e.match([&](const poly::Read& r) { used[static_cast<std::size_t>(r.read)] = true; },
        [&](const poly::Cast& c) { visit(c.operand); },
        [&](const poly::Apply& a) {
          for (const poly::Expr& o : a.operands) visit(o);
        },
        [](const auto&) {});
  };
  visit(s.value);
  std::vector<Access> reads;
  std::vector<int> at;
  for (std::size_t r = 0; r < used.size(); ++r) {
    at.push_back(static_cast<int>(reads.size()));
    if (used[r]) reads.push_back(s.reads[r]);
  }
  std::vector<Affine> same;
  for (std::size_t k = 0; k < s.indices.size(); ++k) same.push_back(Affine::index(k, s.indices.size()));
  s.value = seen_from(s.value, same, same.size(), at);
  s.reads = std::move(reads);
}

void insert(Program& program, std::size_t n, std::vector<Statement> before) {
  for (Statement& s : before)
    program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n++), std::move(s));
}

bool is_output_index(const Statement& s, std::size_t k) {
  return std::any_of(
      s.target.element.begin(), s.target.element.end(), [&](const Affine& e) { return !e.coefficients[k].is(0); });
}

}  // namespace tilec::codegen
