#include "poly/chain.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "poly/fold.h"
#include "poly/hull.h"
#include "poly/intern.h"
#include "poly/simplify_statement.h"
#include "poly/tidy.h"
#include "poly/view.h"

namespace tilec::poly {
namespace {

int nodes(const Expr& value) {
  return value.match(
      [](const Apply& a) {
        return std::accumulate(
            a.operands.begin(), a.operands.end(), 1, [](int sum, const Expr& e) { return sum + nodes(e); });
      },
      [](const Cast& c) { return 1 + nodes(c.operand); }, [](const auto&) { return 1; });
}

// The index that alone is dimension d of an access, for each, where the domain is a box and these run over the whole
// tensor.
std::optional<std::vector<std::size_t>> whole(const Program& program, const Statement& s, const Access& access) {
  if (!std::ranges::all_of(s.domain, has_numbers)) return std::nullopt;
  Box box{false, std::vector<Interval>(s.indices.size())};
  const auto rows = rows_of(s);
  tighten(rows, box);
  if (box.empty || !std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return implied(row, box); }))
    return std::nullopt;
  std::vector<std::size_t> index;
  for (std::size_t d = 0; d < access.element.size(); ++d) {
    const auto k = access.element[d].single_index();
    const auto extent = program.tensor(access.tensor).shape[d].value();
    if (!k || !extent || std::find(index.begin(), index.end(), *k) != index.end() || box.index[*k].lower != 0 ||
        box.index[*k].upper != *extent - 1)
      return std::nullopt;
    index.push_back(*k);
  }
  return index;
}

// Does every dimension take one index as it is, in their order? Lanes then lie side by side as before.
bool in_order(const Access& target, const std::vector<std::size_t>& indices) {
  std::vector<std::size_t> seen;
  for (const auto& form : target.element) {
    if (form.is_constant()) continue;
    Affine alone = form;
    alone.constant = 0;
    const auto k = alone.single_index();
    if (!k) return false;
    seen.push_back(*k);
  }
  return seen == indices;
}

}  // namespace

std::optional<Statement> placed(const Program& program, const Statement& producer, const Statement& copy) {
  const auto& read = copy.reads[static_cast<std::size_t>(copy.value.as<Read>()->read)];
  if (copy.aggregation != Aggregation::Assign || copy.keep != Keep::Free || !copy.kernel_name.empty() ||
      program.tensor(read.tensor).dtype != program.tensor(copy.target.tensor).dtype)
    return std::nullopt;
  const auto from = whole(program, copy, read), to = whole(program, producer, producer.target);
  if (!from || !to || from->size() != copy.indices.size() || !in_order(copy.target, *from)) return std::nullopt;
  const auto count = producer.indices.size();
  std::vector<Affine> map(copy.indices.size());
  for (std::size_t d = 0; d < from->size(); ++d) map[(*from)[d]] = Affine::index((*to)[d], count);
  Statement result = producer;
  result.target = {copy.target.tensor, {}};
  for (const auto& form : copy.target.element) result.target.element.push_back(form.compose(map, count));
  for (const auto& row : copy.domain) result.domain.push_back({row.value.compose(map, count), row.extent});
  result.fill = copy.fill;
  tidy_domain(result);
  return result;
}

bool mergeable(const Program& program, const Statement& producer, const Statement& reader, std::size_t r) {
  const auto type = program.tensor(producer.target.tensor).dtype;
  const auto stored = folded(Cast{producer.value, type});
  if (const auto* cast = stored.as<Cast>(); cast && cast->operand.type() == type) return false;
  const auto& element = reader.reads[r].element;
  std::set<std::size_t> alone;
  for (const auto& form : element) {
    if (!form.divisor.is(1)) return false;           // producer values may hold index values
    if (const auto k = form.single_index()) alone.insert(*k);
  }
  int occurs = 0;
  with_leaves(reader.value, [&](const Expr& leaf) {
    const auto* read = leaf.as<Read>();
    occurs += read && read->read == static_cast<int>(r);
    return leaf;
  });
  return alone.size() == reader.indices.size() && occurs == 1 && producer.reads.size() + reader.reads.size() <= 10 &&
      nodes(producer.value) + nodes(reader.value) <= 80;
}

void merge(const Program& program, const Statement& producer, Statement& reader, std::size_t r) {
  const auto element = reader.reads[r].element;
  const auto count = reader.indices.size();
  const auto first = static_cast<int>(reader.reads.size());
  for (const auto& read : producer.reads) {
    Access copy{read.tensor, {}};
    for (const auto& form : read.element) copy.element.push_back(form.compose(element, count));
    reader.reads.push_back(std::move(copy));
  }
  const auto type = program.tensor(producer.target.tensor).dtype;
  const Expr moved = with_leaves(producer.value, [&](const Expr& leaf) -> Expr {
    if (const auto* read = leaf.as<Read>()) return Read{first + read->read, read->type};
    const auto& index = *leaf.as<Index>();
    return Index{index.value.compose(element, count), index.type};
  });
  reader.value = with_leaves(reader.value, [&](const Expr& leaf) -> Expr {
    const auto* read = leaf.as<Read>();
    return read && read->read == static_cast<int>(r) ? folded(Cast{moved, type}) : leaf;
  });
  tidy_reads(reader);
}

}  // namespace tilec::poly
