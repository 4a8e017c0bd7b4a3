#include "codegen/derive.h"

#include <algorithm>
#include <map>
#include <set>

#include "autodiff/batch.h"
#include "autodiff/forward.h"
#include "autodiff/graph.h"
#include "autodiff/request.h"
#include "autodiff/reverse.h"
#include "autodiff/split.h"
#include "poly/fold.h"
#include "poly/simplify.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::TensorId;

// X ⇒ X, X_1, X_2 …, and X' ⇒ X_1'.
std::string unique(const std::string& wish, const std::set<std::string>& taken) {
  const bool tick = wish.ends_with('\'');
  const std::string body = tick ? wish.substr(0, wish.size() - 1) : wish;
  std::string name = wish;
  for (int n = 1; taken.contains(name); ++n) name = body + "_" + std::to_string(n) + (tick ? "'" : "");
  return name;
}

// `prefix` + each name without its mark. One source has one result, however often it is asked for, but a parameter for
// each time.
void add_ports(std::vector<std::string>& to, const std::vector<std::string>& sources, const char* prefix,
    bool parameters, std::set<std::string>& taken) {
  for (std::size_t k = 0; k < sources.size(); ++k) {
    const auto earlier =
        std::find(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(k), sources[k]) - sources.begin();
    if (!parameters && static_cast<std::size_t>(earlier) < k) {
      to.push_back(to[static_cast<std::size_t>(earlier)]);
      continue;
    }
    to.push_back(unique(prefix + autodiff::without_mark(sources[k]), taken));
    taken.insert(to.back());
  }
}

Ports derived(const Ports& ports, const Derivative& derivative, std::set<std::string> taken) {
  if (derivative.batch) return ports;
  const auto& of = derivative.of.empty() ? ports.outputs : derivative.of;
  const auto& wrt = derivative.wrt.empty() ? ports.inputs : derivative.wrt;
  const char* const prefix = derivative.forward ? "t" : "d";
  Ports result{ports.inputs, {}};
  for (const auto& input : ports.inputs) taken.insert(autodiff::without_mark(input));
  if (derivative.values)
    for (const auto& output : ports.outputs) taken.insert(autodiff::without_mark(output));
  add_ports(result.inputs, derivative.forward ? wrt : of, prefix, true, taken);
  add_ports(result.outputs, derivative.forward ? of : wrt, prefix, false, taken);
  if (derivative.values) result.outputs.insert(result.outputs.begin(), ports.outputs.begin(), ports.outputs.end());
  return result;
}

// As the text spells them: `#a` and `a` are two.
std::vector<std::string> names(const Program& program, const std::vector<TensorId>& ids) {
  std::vector<std::string> list;
  for (const TensorId id : ids) list.push_back(program.tensor(id).name);
  return list;
}

// the cotangent of `efault`
std::string spelled(const std::string& name) { return name == "default" ? "#default" : name; }

// `wanted` are the names of some tensors; any other tensor or index that has one of them gets another.
void rename(Program& program, const std::vector<std::pair<TensorId, std::string>>& wanted) {
  std::vector<std::string> none;
  std::set<std::string> reserved, taken;
  std::set<TensorId> settled;
  for (const auto& [id, name] : wanted) {
    program.tensors[static_cast<std::size_t>(id)].name = spelled(name);
    reserved.insert(name);
    settled.insert(id);
  }
  for (const auto& tensor : program.tensors) taken.insert(autodiff::without_mark(tensor.name));
  for (const auto& size : program.sizes) taken.insert(autodiff::without_mark(size));
  for (const auto& node : program.nodes)
    if (const auto* statement = std::get_if<poly::Statement>(&node))
      taken.insert(statement->indices.begin(), statement->indices.end());

  const auto step_aside = [&](std::string& name) {
    name = unique(autodiff::without_mark(name), taken);
    taken.insert(name);
  };
  for (std::size_t id = 0; id < program.tensors.size(); ++id)
    if (!settled.contains(static_cast<TensorId>(id)) &&
        reserved.contains(autodiff::without_mark(program.tensors[id].name)))
      step_aside(program.tensors[id].name);
  std::map<std::string, std::string> indices;                // one new name wherever the index occurs
  for (auto& node : program.nodes) {
    auto* statement = std::get_if<poly::Statement>(&node);
    for (std::string& index : statement != nullptr ? statement->indices : none) {
      if (!reserved.contains(index)) continue;
      const auto [at, is_new] = indices.emplace(index, index);
      if (is_new) step_aside(at->second);
      index = at->second;
    }
  }
}

// `resolved` are the tensors of `before` that the derivative was taken of and by.
void name_ports(
    Program& program, const Program& before, const autodiff::Request& resolved, const Derivative& derivative) {
  std::set<std::string> sizes;
  for (const auto& size : program.sizes) sizes.insert(autodiff::without_mark(size));
  const std::vector<std::string> values =
      derivative.values ? names(before, before.outputs) : std::vector<std::string>{};
  const Ports ports = derived({names(before, before.inputs), values},
      {derivative.forward, names(before, resolved.of), names(before, resolved.wrt), derivative.values}, sizes);
  std::vector<std::pair<TensorId, std::string>> wanted;
  for (std::size_t k = before.inputs.size(); k < program.inputs.size(); ++k)
    wanted.emplace_back(program.inputs[k], ports.inputs.at(k));
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    const TensorId id = program.outputs[k];                  // an input that is passed on keeps its name
    if (std::find(program.inputs.begin(), program.inputs.end(), id) == program.inputs.end())
      wanted.emplace_back(id, ports.outputs.at(values.size() + k));
  }
  rename(program, wanted);
}

}  // namespace

Ports derived(const Ports& ports, const Derivative& derivative) { return derived(ports, derivative, {}); }

std::optional<Program> differentiate(
    const Program& program, const Derivative& derivative, lang::Diagnostics& diagnostics) {
  if (derivative.batch) return autodiff::batch(program, derivative.wrt, derivative.extent, diagnostics);
  const auto resolved = autodiff::request(program, derivative.of, derivative.wrt, diagnostics);
  if (!resolved) return std::nullopt;
  const Program meant = poly::decided(program);
  std::optional<Program> result = derivative.forward
      ? autodiff::forward(meant, derivative.of, derivative.wrt, diagnostics)
      : autodiff::reverse(meant, derivative.of, derivative.wrt, diagnostics);
  if (!result) return std::nullopt;
  result = poly::simplify(*result);
  name_ports(*result, program, *resolved, derivative);
  return derivative.values ? poly::simplify(together(program, *result)) : *result;
}

Program together(const Program& program, const Program& derivative) {
  Program both = autodiff::joined(program, derivative);
  std::set<std::string> ports;                           // of the program: they keep their names
  for (const std::string& name : names(program, program.inputs)) ports.insert(autodiff::without_mark(name));
  for (const std::string& name : names(program, program.outputs)) ports.insert(autodiff::without_mark(name));
  std::vector<std::pair<TensorId, std::string>> wanted;
  const auto want = [&](TensorId id, const std::string& name) {
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), id) != program.inputs.end();
    if (!input && !ports.contains(autodiff::without_mark(name))) wanted.emplace_back(id, name);
  };
  for (std::size_t k = program.inputs.size(); k < both.inputs.size(); ++k)
    want(both.inputs[k], derivative.tensor(derivative.inputs.at(k)).name);
  for (std::size_t k = 0; k < derivative.outputs.size(); ++k)
    want(both.outputs.at(program.outputs.size() + k), derivative.tensor(derivative.outputs[k]).name);
  rename(both, wanted);
  return both;
}

Program restricted(const Program& program, const std::vector<std::string>& outputs) {
  if (outputs.empty()) return program;
  Program some = program;
  std::erase_if(some.outputs, [&](TensorId id) {
    return std::find(outputs.begin(), outputs.end(), autodiff::without_mark(program.tensor(id).name)) == outputs.end();
  });
  return poly::simplify(some);
}

}  // namespace tilec::codegen
