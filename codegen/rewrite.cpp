// Facts about statements that the rewrites ask for.
#include "codegen/rewrite.h"

#include <fmt/core.h>

#include <algorithm>

#include "codegen/model/thresholds.h"
#include "codegen/scan.h"

namespace tilec::codegen {

using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Range;
using poly::Statement;

std::string fresh_name(const Program& program, const std::string& stem) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(
        program.tensors.begin(), program.tensors.end(), [&](const poly::Tensor& t) { return t.name == name; });
  };
  std::string base = stem;
  while (!base.empty() && base.back() == '\'') base.pop_back();
  std::string name = base;
  for (int n = 1; taken(name); ++n) name = fmt::format("{}_{}", base, n);
  return name;
}

// target[o] = source[o with its dimensions in the order `order`].
Statement copy(const Program& program, TensorId target, TensorId source, const std::vector<std::size_t>& order) {
  const std::size_t rank = order.size();
  Statement s{{target, {}}, {}, {}, Aggregation::Assign, Expr(poly::Read{0, program.tensor(source).dtype}), {},
      poly::Number{program.tensor(target).dtype}, {}, "", {}, {}};
  Access read{source, std::vector<Affine>(rank)};
  for (std::size_t d = 0; d < rank; ++d) {
    s.indices.push_back(fmt::format("c{}", d));
    s.target.element.push_back(Affine::index(d, rank));
    s.domain.push_back({Affine::index(d, rank), program.tensor(target).shape[d]});
    read.element[order[d]] = Affine::index(d, rank);
  }
  s.reads.push_back(std::move(read));
  return s;
}

std::vector<std::size_t> in_order(std::size_t rank) {
  std::vector<std::size_t> order(rank);
  for (std::size_t d = 0; d < rank; ++d) order[d] = d;
  return order;
}

std::optional<std::size_t> plain_index(const Affine& e) { return e.single_index(); }

bool only_element(const Affine& e, const poly::Size& extent) {
  return e.is_constant() && e.constant.is(0) && extent.is(1);
}

// Each target dimension is an index of its own that runs over the whole extent, and nothing else restricts the outputs:
// every element is written.
bool covers(const Program& program, const Statement& s) {
  const poly::Tensor& tensor = program.tensor(s.target.tensor);
  std::vector<bool> output(s.indices.size(), false);
  for (std::size_t d = 0; d < s.target.element.size(); ++d) {
    const auto k = plain_index(s.target.element[d]);
    if (only_element(s.target.element[d], tensor.shape[d])) continue;
    if (!k || output[*k]) return false;
    output[*k] = true;
    const Range& hull = s.domain[*k];
    if (!hull.value.constant.is(0) || hull.extent != tensor.shape[d]) return false;
  }
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (!output[k] && s.domain[k].extent->is(0)) return false;
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r) {
    bool reduces = false;
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      reduces = reduces || (!output[k] && !s.domain[r].value.coefficients[k].is(0));
    if (!reduces) return false;
  }
  return !std::holds_alternative<TensorId>(s.fill);
}

bool reduces(const Statement& s) {
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (std::all_of(
            s.target.element.begin(), s.target.element.end(), [&](const Affine& e) { return e.coefficients[k].is(0); }))
      return true;
  return false;
}

bool elementwise(const Program& program, const Statement& s) {
  return s.aggregation == Aggregation::Assign && !reduces(s) && s.domain.size() == s.indices.size() &&
      covers(program, s);
}

bool contracts(const Program& program, const Statement& s) {
  if (!reuses(s)) return false;
  double largest = elements(program, s.target.tensor);
  for (const Access& read : s.reads) largest = std::max(largest, elements(program, read.tensor));
  return points(s) >= 2 * largest;
}

std::vector<Tie> ties(const Statement& s) {
  std::vector<Tie> found;
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r) {
    const auto& [row, size] = s.domain[r];
    if (!size || !row.constant.is(0) || !row.divisor.is(1)) continue;
    std::optional<std::size_t> whole, part;
    bool two = true;
    for (std::size_t k = 0; k < s.indices.size(); ++k) {
      if (row.coefficients[k].is(0)) continue;
      if (row.coefficients[k].is(1) && !whole) whole = k;
      else if (row.coefficients[k].is(-size->get()) && !part) part = k;
      else two = false;
    }
    if (two && whole && part && s.domain[*whole].value.constant.is(0) && s.domain[*part].value.constant.is(0))
      found.push_back({*whole, *part, size->get()});
  }
  return found;
}

double points(const Statement& s) {
  double count = 1;
  for (std::size_t k = 0; k < s.indices.size(); ++k) count *= static_cast<double>(s.domain[k].extent->get());
  for (const Tie& tie : ties(s)) count /= std::max(1.0, static_cast<double>(s.domain[tie.part].extent->get()));
  if (const auto scan = scan_of(s))
    count /= std::max(
        1.0, static_cast<double>(std::min(s.domain[scan->along].extent->get(), s.domain[scan->over].extent->get())));
  return count;
}

double elements(const Program& program, TensorId id) {
  double count = 1;
  for (const poly::Size& size : program.tensor(id).shape) count *= static_cast<double>(size.get());
  return count;
}

double bytes_of(const Program& program, TensorId id) {
  return elements(program, id) * lang::bytes(program.tensor(id).dtype);
}

// A reduction some operand of which does not depend on some output index: blocks of m and n pay.
bool reuses(const Statement& s) {
  if (!reduces(s) || scan_of(s)) return false;
  for (const Affine& e : s.target.element) {
    const auto k = plain_index(e);
    for (const Access& read : s.reads)
      if (k && std::all_of(read.element.begin(), read.element.end(), [&](const Affine& x) {
            return x.coefficients[*k].is(0);
          }))
        return true;
  }
  return false;
}

int weight(const Expr& e) {
  return e.match(
      [](const poly::Apply& a) {
        int sum = a.op == lang::Op::Add || a.op == lang::Op::Sub || a.op == lang::Op::Mul || a.op == lang::Op::Neg ||
                a.op == lang::Op::Max || a.op == lang::Op::Min || a.op == lang::Op::Relu || a.op == lang::Op::Select
            ? 1
            : model::function_operations;
        for (const Expr& o : a.operands) sum += weight(o);
        return sum;
      },
      [](const poly::Cast& c) { return weight(c.operand); }, [](const auto&) { return 0; });
}

double cycles(const Statement& s) { return points(s) * std::max(1, weight(s.value)) / model::operations_a_cycle; }

int nodes(const Expr& e) {
  return e.match(
      [](const poly::Apply& a) {
        int sum = 1;
        for (const Expr& o : a.operands) sum += nodes(o);
        return sum;
      },
      [](const poly::Cast& c) { return 1 + nodes(c.operand); }, [](const auto&) { return 1; });
}

const poly::Statement* maker(const poly::Program& program, TensorId id) {
  for (const poly::Node& node : program.nodes)
    if (const auto* s = std::get_if<poly::Statement>(&node); s && s->target.tensor == id) return s;
  return nullptr;
}

bool reads(const poly::Node& node, TensorId id) {
  if (const auto* s = std::get_if<Statement>(&node)) {
    if (std::holds_alternative<TensorId>(s->fill) && std::get<TensorId>(s->fill) == id) return true;
    return std::any_of(s->reads.begin(), s->reads.end(), [&](const Access& r) { return r.tensor == id; });
  }
  const auto& operands = std::get<poly::Intrinsic>(node).operands;
  return std::find(operands.begin(), operands.end(), id) != operands.end();
}

// `e` over the producer's indices, seen from the consumer: index k of the producer is map[k].
Expr seen_from(const Expr& e, const std::vector<Affine>& map, std::size_t count, const std::vector<int>& read_at) {
  return e.match([&](const poly::Number& n) { return Expr(n); },
      [&](const poly::Read& r) {
        const int at = read_at[static_cast<std::size_t>(r.read)];
        return at == r.read ? e : Expr(poly::Read{at, r.type});
      },
      [&](const poly::Index& i) { return Expr(poly::Index{i.value.compose(map, count), i.type}); },
      [&](const poly::Cast& c) {
        Expr operand = seen_from(c.operand, map, count, read_at);
        return operand.same_as(c.operand) ? e : Expr(poly::Cast{std::move(operand), c.type});
      },
      [&](const poly::Apply& a) {
        std::vector<Expr> operands;
        bool same = true;
        for (const Expr& o : a.operands) {
          operands.push_back(seen_from(o, map, count, read_at));
          same = same && operands.back().same_as(o);
        }
        return same ? e : Expr(poly::Apply{a.op, std::move(operands), a.type});
      });
}

bool is_output(const Program& program, TensorId id) {
  return std::find(program.outputs.begin(), program.outputs.end(), id) != program.outputs.end();
}

}  // namespace tilec::codegen
