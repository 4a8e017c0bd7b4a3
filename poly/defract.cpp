// Defract: from a statement to residue classes in which every output element has one writer and constant taps.
//
// The gradient of a stride 3, dilation 2, 3-tap, pad 2 convolution, 224 → 75, scatters
//
//   dI[3*x + 2*k - 2: 224] = +(dO[x] * K[k])             225 atomic additions, or 672 divisions by 3 with a remainder
//                                                        to test
//
// In the coordinates of lattice.cpp, y = 3x + 2k and k = 2y + 3z, the taps of an element depend on y mod 3 only, so
// the statement is three, one per residue, each without a guard on integrality:
//
//   dI_0[3*q: 224]     = +(dO[q] * K[1])                       75 elements, one tap each
//   dI_1[3*q + 1: 224] = +(dO[q + 1] * K[0]) default dI_0      74
//   dI[3*q + 2: 224]   = +(dO[q] * K[2]) default dI_1          74: together 223 points, the other two fell off the
//                                                              border
//
// Why not substitute and keep the fractions (PlaidML): a gather then tests `%` per tap, runs 46 % useful points on
// average and loses terms on carry chains such as 4x + 2p + k. See H. Cohen 2.4 (lattice.cpp); M. Wolf, M. Lam
// (unimodular loops).
//
// classes.cpp makes the classes of one statement; here they become nodes, each starting from the one before.
#include "poly/defract.h"

#include <set>

#include "poly/classes.h"
#include "poly/exact.h"
#include "poly/fit.h"

namespace tilec::poly {
namespace {

// The classes as nodes: each but the last writes a tensor of its own, and the next starts from it.
void append_chain(Program& program, std::vector<Statement> parts, std::set<std::string>& names) {
  const TensorId target = parts.back().target.tensor;
  for (std::size_t c = 0; c < parts.size(); ++c) {
    if (c > 0) parts[c].fill = std::get<Statement>(program.nodes.back()).target.tensor;
    if (c + 1 < parts.size()) {
      Tensor tensor = program.tensor(target);
      const std::string base = tensor.name + "_";
      for (std::size_t number = c; !names.insert(tensor.name).second; ++number)
        tensor.name = base + std::to_string(number);
      parts[c].target.tensor = static_cast<TensorId>(program.tensors.size());
      program.tensors.push_back(std::move(tensor));
    }
    program.nodes.emplace_back(std::move(parts[c]));
  }
}

std::vector<Statement> statements_of(const Program& program, const Statement& statement, int limit) {
  std::vector<Statement> result;
  for (Class& one : classes_of(program, statement, limit).classes) {
    lang::Diagnostics refused;
    auto fit = fitted(program, std::move(one.statement), refused);
    if (!fit) throw Overflow(refused.all().front().message);
    result.push_back(std::move(*fit));
  }
  return result;
}

}  // namespace

Program defract(const Program& program, int limit) {
  Program result = program;
  result.nodes.clear();
  std::set<std::string> names;
  for (const Tensor& tensor : program.tensors) names.insert(tensor.name);
  for (const Node& node : program.nodes) {
    if (const Statement* statement = std::get_if<Statement>(&node))
      append_chain(result, located(statement->span, [&] { return statements_of(program, *statement, limit); }), names);
    else result.nodes.push_back(node);
  }
  return result;
}

std::size_t output_indices(const Statement& statement) {
  std::size_t count = 0;
  for (std::size_t k = 0; k < statement.indices.size(); ++k)
    if (is_output(statement, k)) count = k + 1;
  return count;
}

}  // namespace tilec::poly
