#include "autodiff/total.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "autodiff/apart.h"
#include "autodiff/companion.h"
#include "autodiff/covers.h"
#include "autodiff/graph.h"
#include "autodiff/term.h"

namespace tilec::autodiff {

using namespace term;
using poly::Access;
using poly::Program;
using poly::Size;
using poly::Statement;
using poly::Tensor;
using poly::TensorId;

namespace {

// For every index of a statement the dimension of the target that it is; nothing unless the statement assigns every
// element.
std::optional<std::vector<std::size_t>> dimension_of_index(const Statement& statement, const std::vector<Size>& shape) {
  const auto conditions = image(statement, shape);
  if (statement.aggregation != poly::Aggregation::Assign || !conditions || !conditions->empty()) return std::nullopt;
  std::vector<std::optional<std::size_t>> found(statement.indices.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (const auto k = statement.target.element[d].single_index()) found[*k] = d;
  std::vector<std::size_t> where;
  for (const auto& d : found) {
    if (!d) return std::nullopt;
    where.push_back(*d);
  }
  return where;
}

Expr moved(const Expr& e, const std::vector<std::size_t>& where, std::size_t rank, int first_read) {
  return with_leaves(e, [&](const Expr& leaf) -> Expr {
    if (const auto* read = leaf.as<poly::Read>()) return poly::Read{read->read + first_read, read->type};
    const auto& index = *leaf.as<poly::Index>();
    return poly::Index{index.value.renumber(where, rank), index.type};
  });
}

// A part that is one point for every element needs no tensor: its value, over the indices of the sum.
std::optional<Expr> in_place(const Program& program, const Part& part, const Statement* writer, Statement& sum) {
  const auto where =
      part.fold && writer ? dimension_of_index(*writer, program.tensor(part.tensor).shape) : std::nullopt;
  if (!where) return std::nullopt;
  const std::size_t rank = sum.indices.size();
  const int first_read = static_cast<int>(sum.reads.size());
  if (sum.reads.empty() && where->size() == rank)      // all indices at once: two of one name cannot arise
    for (std::size_t k = 0; k < where->size(); ++k) sum.indices[(*where)[k]] = writer->indices[k];
  for (const Access& read : writer->reads) {
    Access copy{read.tensor, {}};
    for (const auto& form : read.element) copy.element.push_back(form.renumber(*where, rank));
    sum.reads.push_back(std::move(copy));
  }
  for (const auto& row : writer->domain) {
    const poly::Range copy{row.value.renumber(*where, rank), row.extent};
    if (std::find(sum.domain.begin(), sum.domain.end(), copy) == sum.domain.end()) sum.domain.push_back(copy);
  }
  return cast(moved(writer->value, *where, rank, first_read), *part.fold);
}

// The statement that makes each part, by its position; of a parameter or an intrinsic's part, none.
using Positions = std::vector<std::optional<std::size_t>>;
Positions positions_of(const Program& program, Writers& known, const std::vector<Part>& parts) {
  Positions writers;
  for (const Part& part : parts) writers.push_back(known.position(program, part.tensor));
  return writers;
}

Statement& statement_at(Program& program, std::optional<std::size_t> node) {
  return std::get<Statement>(program.nodes[node.value()]);
}

// A part among others is stored in the type it is summed in.
void widen(Program& program, const Part& part, std::optional<std::size_t> writer) {
  if (!part.fold) return;
  program.tensors[at(part.tensor)].dtype = *part.fold;
  statement_at(program, writer).fill = poly::Number{*part.fold};
}

// One statement that adds up parts; after `store`, another that goes on from it.
class Adding {
 public:
  Adding(Program& program, const Tensor& of, DType type)
      : program_(program), of_(of), type_(type), statement_(over_shape(program, of.shape)), empty_(statement_) {}

  bool is_long() const { return length_ > longest; }

  // `writer`: of the part; null where nothing writes it, as a parameter.
  void add(const Part& part, const Statement* writer) {
    std::optional<Expr> term = in_place(program_, part, writer, statement_);
    if (!term) term = read(part.tensor);
    value_ = value_ ? term::add(*value_, cast(*term, type_)) : cast(*term, type_);
    length_ += poly::length(*term) + 1;
  }

  TensorId store(std::string name, DType dtype) {
    const TensorId id = new_tensor(program_, std::move(name), dtype, of_.shape, of_.span);
    statement_.value = *value_;
    statement_.target.tensor = id;
    statement_.fill = poly::Number{dtype};
    statement_.span = of_.span;
    tidy_reads(statement_);
    program_.nodes.emplace_back(std::exchange(statement_, empty_));
    value_ = read(id);
    length_ = 1;
    return id;
  }

 private:
  static constexpr double longest = 300;               // operations and operands of a statement that takes no more
                                                       // parts
  Program& program_;
  const Tensor& of_;
  DType type_;
  Statement statement_, empty_;
  std::optional<Expr> value_;
  double length_ = 0;

  Expr read(TensorId id) {
    statement_.reads.push_back({id, statement_.target.element});
    return poly::Read{static_cast<int>(statement_.reads.size()) - 1, program_.tensor(id).dtype};
  }
};

// ---- slices

// What a statement reaches where that is one element, or a run of elements or of every so many-th, in each dimension.
struct Run {
  Size low;
  std::optional<Size> extent;                          // none: one element, which is no dimension of the slice
  std::int64_t step = 1;
  std::optional<std::size_t> row = {};                 // the domain's: 0 <= form < extent, and the element is
                                                       // step*form + low
  bool operator<(const Run& other) const {
    return std::tie(low, extent, step) < std::tie(other.low, other.extent, other.step);
  }
};
using Slice = std::vector<Run>;

// By its look: which row is taken is a matter of what meets, not of what is right.
bool is_count(const Size& size) {
  const auto counts = [](const Size::Factor& f) {
    return f.kind == Size::Kind::Name ||
        (f.kind == Size::Kind::Divide && is_count(f.arguments[0]) && f.arguments[1].value().value_or(0) > 0);
  };
  return size.constant() >= 0 && std::ranges::all_of(size.terms(), [&](const Size::Term& term) {
    return term.coefficient >= 0 && std::ranges::all_of(term.factors, counts);
  });
}

bool is_within(const Run& a, const Run& b) try {
  return is_count(a.low - b.low) && is_count(b.low + *b.extent - a.low - *a.extent);
} catch (const poly::SizeError&) {
  return false;                                        // too far to say
}

// How many times an index that the row counts the form is, but for constants.
std::optional<std::int64_t> step_of(const poly::Affine& form, const poly::Affine& row) {
  poly::Affine alone = row;
  alone.constant = 0;
  const auto index = alone.single_index();
  const auto step = index ? form.coefficients[*index].value() : std::nullopt;
  return step && *step > 0 && alone.times(*step).coefficients == form.coefficients ? step : std::nullopt;
}

// By the narrowest row that says so: others keep it, and what stands beside it, inside a tensor.
std::optional<Run> run_of(const Statement& statement, const poly::Affine& element) {
  if (!element.divisor.is(1)) return std::nullopt;       // 2/2 is a constant, too
  if (element.is_constant()) return Run{element.constant, std::nullopt};
  std::optional<Run> run;
  for (std::size_t r = 0; r < statement.domain.size(); ++r) {
    const poly::Range& row = statement.domain[r];
    const auto step = row.extent ? step_of(element, row.value) : std::nullopt;
    if (!step) continue;
    const Run other{element.constant - row.value.constant * *step, row.extent, *step, r};
    if (!run || other.step > run->step || (other.step == run->step && is_within(other, *run))) run = other;
  }
  return run;
}

// Nothing where that is the whole tensor, or an index stands twice.
std::optional<Slice> slice_of(const Statement& statement, const std::vector<Size>& shape) {
  Slice slice;
  bool whole = true;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const poly::Affine& element = statement.target.element[d];
    const auto run = run_of(statement, element);
    const auto same_index = [&](const poly::Affine& other) { return other.coefficients == element.coefficients; };
    const auto here = statement.target.element.begin() + static_cast<std::ptrdiff_t>(d);
    if (!run || (run->extent && std::any_of(statement.target.element.begin(), here, same_index))) return std::nullopt;
    whole = whole && (run->extent ? *run->extent == shape[d] : shape[d].is(1));
    slice.push_back(*run);
  }
  return whole ? std::nullopt : std::optional(slice);
}

// A run that ends before it begins has no element: `0 <= p < K - 5` where K is 4.
Size length_of(const Size& extent) { return is_count(extent) ? extent : Size::apply(Size::Kind::Max, {extent, 0}); }

std::vector<Size> shape_of(const Slice& slice) {
  std::vector<Size> shape;
  for (const Run& run : slice) if (run.extent) shape.push_back(length_of(*run.extent));
  return shape;
}

// The part as a tensor of its slice alone.
void cut_down(Program& program, const Part& part, Statement& writer, const Slice& slice) {
  std::vector<poly::Affine> element;
  for (const Run& run : slice) {
    if (!run.row) continue;
    const poly::Range row = writer.domain[*run.row];   // stays, since it may keep what is read inside a tensor
    const Size length = length_of(*row.extent);
    if (length != *row.extent) writer.domain.push_back({row.value, length});
    element.push_back(row.value);
  }
  writer.target.element = std::move(element);
  writer.fill = poly::Number{*part.fold};
  program.tensors[at(part.tensor)].dtype = *part.fold;
  program.tensors[at(part.tensor)].shape = shape_of(slice);
}

// Of very many, all in one tensor of the slice.
std::vector<Part> shortened(Program& program, const Tensor& of, std::vector<Part> parts, const Slice& slice,
    const std::string& name, std::vector<TensorId>& helpers) {
  if (parts.size() <= 100) return parts;
  const poly::DType fold = *parts[0].fold;
  Tensor whole = of;
  whole.shape = shape_of(slice);
  Adding adding(program, whole, fold);
  for (const Part& part : parts) {
    if (adding.is_long()) helpers.push_back(adding.store(name, fold));
    adding.add(part, nullptr);
  }
  helpers.push_back(adding.store(name, fold));
  return {{helpers.back(), fold}};
}

// The sum of parts of one slice, where it lies in the tensor.
Part joined(
    Program& program, const Tensor& of, const std::vector<Part>& parts, const Slice& slice, const std::string& name) {
  Statement sum = over_shape(program, shape_of(slice));
  const poly::DType fold = *parts[0].fold;
  std::optional<Expr> value;
  for (const Part& part : parts) {
    const Expr term = poly::Read{static_cast<int>(sum.reads.size()), fold};
    sum.reads.push_back({part.tensor, sum.target.element});
    value = value ? add(*value, term) : term;
  }
  std::vector<poly::Affine> element;
  for (std::size_t d = 0, next = 0; d < slice.size(); ++d) {
    element.push_back(slice[d].extent ? sum.target.element[next++].times(slice[d].step)
                                      : poly::Affine::of(0, sum.indices.size()));
    element.back().constant = slice[d].low;
    sum.domain.push_back({element.back(), of.shape[d]});
  }
  sum.value = *value;
  sum.target = {new_tensor(program, name, of.dtype, of.shape, of.span), std::move(element)};
  sum.fill = poly::Number{of.dtype};
  sum.span = of.span;
  program.nodes.emplace_back(sum);
  return {sum.target.tensor, fold};
}

// Parts of one slice become one. What is left of them are tensors of that slice.
std::vector<Part> join_slices(Program& program, Writers& known, const Tensor& of, const std::vector<Part>& parts,
    const std::string& name, std::vector<TensorId>& helpers) {
  std::map<std::pair<poly::DType, Slice>, std::vector<std::size_t>> alike;
  const Positions writers = positions_of(program, known, parts);
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const auto slice =
        parts[n].fold && writers[n] ? slice_of(statement_at(program, writers[n]), of.shape) : std::nullopt;
    if (slice) alike[{*parts[n].fold, *slice}].push_back(n);
  }
  std::vector<std::optional<Part>> left(parts.begin(), parts.end());
  for (const auto& [key, members] : alike) {
    if (members.size() < 2) continue;
    std::vector<Part> terms;
    for (const std::size_t n : members) {
      Statement& writer = statement_at(program, writers[n]);
      cut_down(program, parts[n], writer, *slice_of(writer, of.shape));
      terms.push_back(parts[n]);
      left[n].reset();
    }
    left[members[0]] = joined(program, of, shortened(program, of, terms, key.second, name, helpers), key.second, name);
    helpers.push_back(left[members[0]]->tensor);
  }
  std::vector<Part> result;
  for (const auto& part : left) if (part) result.push_back(*part);
  return result;
}

// ---- sums

// Parts that reach different elements, and are summed in one type, together: positions, in the order of the text.
std::vector<std::vector<std::size_t>> sets_of(
    Program& program, const std::vector<Part>& parts, const Positions& writers) {
  std::map<std::optional<DType>, std::vector<std::size_t>> by_type;
  std::vector<std::vector<std::size_t>> sets;
  for (std::size_t n = 0; n < parts.size(); ++n)
    if (parts[n].fold) by_type[parts[n].fold].push_back(n);
    else sets.push_back({n});
  for (const auto& [fold, alike] : by_type) {
    std::vector<const Statement*> statements;
    for (const std::size_t n : alike) statements.push_back(&statement_at(program, writers[n]));
    for (std::vector<std::size_t>& set : apart(program, statements)) {
      for (std::size_t& n : set) n = alike[n];
      sets.push_back(std::move(set));
    }
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

// Each link starts from the one made before it; the last is the sum of all. No element is cleared or added up that one
// of them alone reaches. Which part that is.
std::size_t chained(
    Program& program, const std::vector<Part>& parts, std::vector<std::size_t> set, const Positions& writers) {
  std::sort(set.begin(), set.end(), [&](std::size_t a, std::size_t b) { return writers[a] < writers[b]; });
  for (std::size_t k = 1; k < set.size(); ++k) statement_at(program, writers[set[k]]).fill = parts[set[k - 1]].tensor;
  return set.back();
}

}  // namespace

TensorId sum(Program& program, Writers& known, const Tensor& of, const std::vector<Part>& written, std::string name,
    std::vector<TensorId>& helpers) {
  const std::vector<Part> all = join_slices(program, known, of, written, name, helpers);
  if (all.size() == 1) return all[0].tensor;
  const Positions writers = positions_of(program, known, all);
  const auto sets = sets_of(program, all, writers);
  if (sets.size() == 1) return all[chained(program, all, sets[0], writers)].tensor;
  for (std::size_t n = 0; n < all.size(); ++n) widen(program, all[n], writers[n]);
  DType type = lang::accumulator(of.dtype);
  std::vector<std::size_t> parts;
  for (const auto& set : sets) {
    parts.push_back(chained(program, all, set, writers));
    type = lang::promote(type, program.tensor(all[parts.back()].tensor).dtype);
  }
  Adding adding(program, of, type);
  for (const std::size_t n : parts) {
    if (adding.is_long()) helpers.push_back(adding.store(name, type));
    adding.add(all[n], writers[n] ? &statement_at(program, writers[n]) : nullptr);
  }
  return adding.store(std::move(name), of.dtype);
}

TensorId zeros(Program& program, const Tensor& of, std::string name) {
  Statement statement = over_shape(program, of.shape);
  statement.value = number(of.dtype, 0);
  statement.fill = poly::Number{of.dtype};
  statement.span = of.span;
  statement.target.tensor = new_tensor(program, std::move(name), of.dtype, of.shape, of.span);
  program.nodes.emplace_back(statement);
  return statement.target.tensor;
}

}  // namespace tilec::autodiff
