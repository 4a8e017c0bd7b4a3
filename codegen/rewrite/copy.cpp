#include "codegen/rewrite/copy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "codegen/orders.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/tile.h"
#include "lang/diagnostic.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

// Which of the statement's reads of the same tensor.
std::int64_t ordinal(const Statement& s, std::size_t r) {
  return std::count_if(s.reads.begin(), s.reads.begin() + static_cast<std::ptrdiff_t>(r),
      [&](const Access& read) { return read.tensor == s.reads[r].tensor; });
}

// Rows begin at multiples of so many elements.
std::vector<std::int64_t> with_rows(const poly::Tensor& tensor, std::int64_t multiple) {
  std::vector<std::int64_t> counts = extents(tensor);
  if (!counts.empty()) counts.back() = (counts.back() + multiple - 1) / multiple * multiple;
  return row_major(counts);
}

// The copy stands before the statement at n, which it returns the position of.
std::size_t make_copy(Rewriting& r, std::size_t n, TensorId source, const std::vector<std::size_t>& order,
    std::int64_t bits, std::int64_t rows) {
  Program& program = r.program;
  poly::Tensor tensor = program.tensor(source);
  tensor.name = fresh_name(program, tensor.name + "_t");
  std::vector<poly::Size> shape;
  for (const std::size_t from : order) shape.push_back(tensor.shape[from]);
  tensor.shape = std::move(shape);
  r.strides.push_back(rows ? with_rows(tensor, rows) : strides_between(tensor, r.target));
  program.tensors.push_back(std::move(tensor));
  const TensorId target = static_cast<TensorId>(program.tensors.size()) - 1;
  r.copies.emplace(std::make_tuple(source, order, bits, rows), target);
  Statement made = copy(program, target, source, order);
  if (bits == bits_of_tf32) made.value = poly::Apply{lang::Op::Tf32, {made.value}, lang::DType::F32};
  program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n), std::move(made));
  return n + 1;
}

// The statement that reads the operand, and which of its reads that is.
struct Reading { std::size_t node, read; };
std::variant<Reading, std::string> reading(
    const Program& program, const std::string& operand, const std::string& reader, std::int64_t read) {
  const auto n = statement_of(program, reader);
  if (!n) return no_statement(reader);
  const auto at = read_of(program, std::get<Statement>(program.nodes[*n]), operand, read);
  if (!at)
    return read == 0 ? fmt::format("`{}` does not read `{}`", reader, operand)
                     : fmt::format("`{}` has no read {} of `{}`", reader, read, operand);
  return Reading{*n, *at};
}

}  // namespace

std::optional<std::size_t> dimension_of(const Access& read, std::size_t k) {
  std::optional<std::size_t> found;
  for (std::size_t d = 0; d < read.element.size(); ++d) {
    if (read.element[d].coefficients[k].is(0)) continue;
    if (found) return std::nullopt;
    found = d;
  }
  return found;
}

bool holds_tf32(const Program& program, TensorId tensor) {
  const Statement* s = maker(program, tensor);
  const auto* apply = s ? s->value.as<poly::Apply>() : nullptr;
  return apply && apply->op == lang::Op::Tf32;
}

std::size_t read_copy(Rewriting& r, std::size_t n, std::size_t read, const std::vector<std::size_t>& order,
    std::int64_t bits, std::int64_t rows) {
  Program& program = r.program;
  const auto& s = std::get<Statement>(program.nodes[n]);
  const TensorId source = s.reads[read].tensor;
  r.done.push_back(directives::Copy{program.tensor(source).name, target_name(program, s), {order.begin(), order.end()},
      ordinal(s, read), bits, rows});
  const Rewriting::CopyKey key(source, order, bits, rows);
  n = r.copies.contains(key) ? move_before(program, n, r.copies.at(key)) : make_copy(r, n, source, order, bits, rows);
  Access& was = std::get<Statement>(program.nodes[n]).reads[read];
  Access now{r.copies.at(key), {}};
  for (const std::size_t from : order) now.element.push_back(was.element[from]);
  was = std::move(now);
  return n;
}

std::size_t read_panels(Rewriting& r, std::size_t n, const Panels& panels, std::int64_t width) {
  Program& program = r.program;
  Statement use = std::get<Statement>(program.nodes[n]);
  r.done.push_back(directives::Panels{program.tensor(use.reads[panels.read].tensor).name, target_name(program, use),
      use.indices[panels.index], width, ordinal(use, panels.read)});
  const std::size_t count = use.indices.size();
  const std::int64_t extent = use.domain[panels.index].extent->get(), pieces = (extent + width - 1) / width;
  // The packed operand: panel, the other dimensions in their order, element within the panel.
  const TensorId source = use.reads[panels.read].tensor;
  poly::Tensor packed{
      fresh_name(program, program.tensor(source).name + "_p"), program.tensor(source).dtype, {poly::Size(pieces)}, {}};
  for (std::size_t d = 0; d < program.tensor(source).shape.size(); ++d)
    if (d != panels.dimension) packed.shape.push_back(program.tensor(source).shape[d]);
  packed.shape.push_back(poly::Size(width));
  const std::size_t rank = packed.shape.size();
  r.strides.push_back(strides_between(packed, r.target));
  program.tensors.push_back(packed);
  const TensorId id = static_cast<TensorId>(program.tensors.size()) - 1;
  Statement pack = copy(program, id, id, in_order(rank));
  Affine whole = Affine::index(0, rank).times(poly::Size(width)).plus(Affine::index(rank - 1, rank));
  Access from{source, {}};
  for (std::size_t d = 0, next = 1; d < program.tensor(source).shape.size(); ++d)
    from.element.push_back(d == panels.dimension ? whole : Affine::index(next++, rank));
  pack.reads = {std::move(from)};
  if (pieces * width != extent) pack.domain.push_back({whole, poly::Size(extent)});
  // The use: its lane index becomes width·b + l.
  std::vector<Affine> map;
  for (std::size_t k = 0; k < count; ++k) map.push_back(Affine::index(k, count + 1));
  map[panels.index].coefficients[count] = poly::Size(width);
  Access read{id, {Affine::index(count, count + 1)}};
  for (std::size_t d = 0; d < use.reads[panels.read].element.size(); ++d)
    if (d != panels.dimension) read.element.push_back(use.reads[panels.read].element[d].compose(map, count + 1));
  read.element.push_back(Affine::index(panels.index, count + 1));
  for (Affine& e : use.target.element) e = e.compose(map, count + 1);
  for (Access& access : use.reads) for (Affine& e : access.element) e = e.compose(map, count + 1);
  use.reads[panels.read] = std::move(read);
  for (std::size_t r = 0; r < use.domain.size(); ++r)
    use.domain[r].value = r == panels.index ? Affine::index(r, count + 1) : use.domain[r].value.compose(map, count + 1);
  use.domain[panels.index].extent = poly::Size(width);
  use.domain.insert(
      use.domain.begin() + static_cast<std::ptrdiff_t>(count), {Affine::index(count, count + 1), poly::Size(pieces)});
  if (pieces * width != extent) use.domain.push_back({map[panels.index], poly::Size(extent)});
  std::vector<int> same;
  for (std::size_t r = 0; r < use.reads.size(); ++r) same.push_back(static_cast<int>(r));
  use.value = seen_from(use.value, map, count + 1, same);
  use.indices.push_back(fresh_index(use, use.indices[panels.index] + "_p"));
  program.nodes[n] = std::move(use);
  program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n), std::move(pack));
  return n + 1;
}

Refusal may_not_round(const Rewriting& r, const Statement& s, std::size_t read) {
  if (r.target.family != Target::Family::Cuda || r.target.math == Math::F32)
    return std::string("it rounds f32 to tf32, which CUDA with `math=tf32` allows");
  const auto* product = s.value.as<poly::Apply>();
  const bool is_factor = s.aggregation == Aggregation::Sum && product && product->op == lang::Op::Mul &&
      product->type == lang::DType::F32 && std::ranges::any_of(product->operands, [&](const poly::Expr& factor) {
        const auto* one = poly::below_casts(factor).as<poly::Read>();
        return one && one->read == static_cast<int>(read);
      });
  const poly::Tensor& operand = r.program.tensor(s.reads[read].tensor);
  if (is_factor && operand.dtype == lang::DType::F32) return std::nullopt;
  return fmt::format("`{}` is no f32 that a sum takes products of", operand.name);
}

Refusal apply(Rewriting& r, const directives::Copy& directive) {
  const auto found = reading(r.program, directive.operand, directive.reader, directive.read);
  if (const auto* why = std::get_if<std::string>(&found)) return *why;
  const auto [n, read] = std::get<Reading>(found);
  const auto& s = std::get<Statement>(r.program.nodes[n]);
  if (tiled(r, s.target.tensor)) return fmt::format("`{}` is tiled", directive.reader);
  if (std::any_of(r.copies.begin(), r.copies.end(), [&](const auto& made) { return made.second == s.target.tensor; }))
    return fmt::format("`{}` is a copy itself", directive.reader);
  const std::size_t rank = s.reads[read].element.size();
  std::vector<std::size_t> order(directive.order.begin(), directive.order.end()), sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != in_order(rank))
    return fmt::format("`{}` has {}, and {} is no order of them", directive.operand, lang::counted(rank, "dimension"),
        fmt::join(order, " "));
  if (directive.bits != 0 && directive.bits != bits_of_tf32) return fmt::format("f32 keep {} bits, or all", bits_of_tf32);
  if (Refusal why = directive.bits == 0 ? std::nullopt : may_not_round(r, s, read)) return why;
  if (directive.rows != 0 && (!has_threads(r.target) || directive.rows < 1 || directive.rows > most_of_row))
    return fmt::format("rows of a copy begin at multiples of 1 to {} elements, on a GPU", most_of_row);
  static_cast<void>(read_copy(r, n, read, order, directive.bits, directive.rows));
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Panels& directive) {
  const auto found = reading(r.program, directive.operand, directive.reader, directive.read);
  if (const auto* why = std::get_if<std::string>(&found)) return *why;
  const auto [n, read] = std::get<Reading>(found);
  const auto& s = std::get<Statement>(r.program.nodes[n]);
  if (tiled(r, s.target.tensor)) return fmt::format("`{}` is tiled", directive.reader);
  const auto index = index_of(s, directive.index);
  if (!index || !is_output_index(s, *index) || low(s, *index) != 0)
    return fmt::format(
        "`{}` is no index of `{}` that runs over its elements from 0", directive.index, directive.reader);
  const auto d = dimension_of(s.reads[read], *index);
  if (!d || plain_index(s.reads[read].element[*d]) != index)
    return fmt::format("no dimension of `{}` is read at `{}` itself", directive.operand, directive.index);
  if (directive.width < 1 || directive.width >= extent(s, *index))
    return fmt::format("panels of {} are not narrower than the {} values of `{}`, or are empty", directive.width,
        extent(s, *index), directive.index);
  static_cast<void>(read_panels(r, n, {read, *d, *index}, directive.width));
  return std::nullopt;
}

}  // namespace tilec::codegen
