#include "autodiff/total.h"

#include <algorithm>
#include <map>
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

// For every index of a statement the dimension of the target that it is; nothing unless the statement assigns every element.
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
  const auto where = part.fold && writer ? dimension_of_index(*writer, program.tensor(part.tensor).shape) : std::nullopt;
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

// A part among others is stored in the type it is summed in.
void widen(Program& program, Writers& known, const Part& part) {
  if (!part.fold) return;
  program.tensors[at(part.tensor)].dtype = *part.fold;
  known.of(program, part.tensor)->fill = poly::Number{*part.fold};
}

// Parts that reach different elements, and are summed in one type, together: positions, in the order of the text.
std::vector<std::vector<std::size_t>> sets_of(const Program& program, const std::vector<Part>& parts, const std::vector<Statement*>& writers) {
  std::map<std::optional<DType>, std::vector<std::size_t>> by_type;
  std::vector<std::vector<std::size_t>> sets;
  for (std::size_t n = 0; n < parts.size(); ++n)
    if (parts[n].fold) by_type[parts[n].fold].push_back(n);
    else sets.push_back({n});
  for (const auto& [fold, alike] : by_type) {
    std::vector<const Statement*> statements;
    for (const std::size_t n : alike) statements.push_back(writers[n]);
    for (std::vector<std::size_t>& set : apart(program, statements)) {
      for (std::size_t& n : set) n = alike[n];
      sets.push_back(std::move(set));
    }
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

// Each link starts from the one made before it; the last is the sum of all. No element is cleared or added up that one of them
// alone reaches.
Part chained(const std::vector<Part>& parts, std::vector<std::size_t> set, const std::vector<Statement*>& writers) {
  std::sort(set.begin(), set.end(), [&](std::size_t a, std::size_t b) { return writers[a] < writers[b]; });
  for (std::size_t k = 1; k < set.size(); ++k) writers[set[k]]->fill = parts[set[k - 1]].tensor;
  return parts[set.back()];
}

// One statement that adds up parts; after `store`, another that goes on from it.
class Adding {
 public:
  Adding(Program& program, const Tensor& of, DType type) : program_(program), of_(of), type_(type), statement_(over_shape(program, of.shape)), empty_(statement_) {}

  bool is_long() const { return length_ > longest; }

  // `writer`: of the part; null where it is none's, as a parameter.
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
  static constexpr double longest = 300;               // operations and operands of a statement that takes no more parts
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

}  // namespace

TensorId sum(Program& program, Writers& known, const Tensor& of, const std::vector<Part>& all, std::string name, std::vector<TensorId>& helpers) {
  std::vector<Statement*> writers;
  for (const Part& part : all) writers.push_back(known.of(program, part.tensor));
  const auto sets = sets_of(program, all, writers);
  if (sets.size() == 1) return chained(all, sets[0], writers).tensor;
  for (const Part& part : all) widen(program, known, part);
  DType type = lang::accumulator(of.dtype);
  std::vector<Part> parts;
  for (const auto& set : sets) {
    parts.push_back(chained(all, set, writers));
    type = lang::promote(type, program.tensor(parts.back().tensor).dtype);
  }
  Adding adding(program, of, type);
  for (const Part& part : parts) {
    if (adding.is_long()) helpers.push_back(adding.store(name, type));
    adding.add(part, known.of(program, part.tensor));
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
