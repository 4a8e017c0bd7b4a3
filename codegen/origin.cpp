#include "codegen/origin.h"

#include <algorithm>
#include <string>

#include "autodiff/graph.h"
#include "lang/at.h"

namespace tilec::codegen {

namespace {

lang::Span span_of(const poly::Node& node) {
  return std::visit([](const auto& one) { return one.span; }, node);
}

std::string target_name(const poly::Program& program, const poly::Node& node) {
  return program.tensor(autodiff::targets(node).front()).name;
}

}  // namespace

Origins::Origins(const lang::File& file) { add(file); }

void Origins::add(const lang::File& file) {
  if (!seen_.insert(&file).second) return;
  std::map<const lang::Statement*, std::size_t> position;
  for (const auto& item : file.items) {
    const auto* function = std::get_if<lang::Function>(&item);
    if (!function) continue;
    for (const lang::Input& input : function->inputs) places_.push_back({input.span, function, true});
    for (const lang::Statement& statement : function->statements) {
      if (std::holds_alternative<std::monostate>(statement.node)) continue;
      position.emplace(&statement, places_.size());
      own_[function].insert(places_.size());
      places_.push_back({statement.span, function, false});
    }
  }
  for (const lang::Mention& mention : lang::mentions(file)) {
    const auto at = position.find(mention.statement);
    if (at == position.end() || mention.kind != lang::Mention::Kind::Function) continue;
    using enum lang::Function::Role;
    for (const lang::Function::Role role : {Function, Gradient, Tangent})
      for (const lang::Definition& definition : lang::definitions(file, mention.name, role))
        calls_[at->second].insert(definition.function);
  }
  for (const auto& item : file.items)
    if (const auto* import = std::get_if<lang::Import>(&item); import && import->file) add(*import->file);
}

Origin Origins::behind(std::size_t place) const {
  Origin found{place};
  std::vector<std::size_t> open{place};
  while (!open.empty()) {
    const auto calls = calls_.find(open.back());
    open.pop_back();
    if (calls == calls_.end()) continue;
    for (const lang::Function* function : calls->second)
      if (const auto own = own_.find(function); own != own_.end())
        for (const std::size_t next : own->second)
          if (found.insert(next).second) open.push_back(next);
  }
  return found;
}

std::optional<std::size_t> Origins::at(lang::Span span) const {
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const lang::Span& place = places_[k].span;
    if (!span.empty() && place.source == span.source && place.begin <= span.begin && span.end <= place.end) return k;
  }
  return std::nullopt;
}

std::vector<Origin> Origins::of(const poly::Program& program) const {
  std::vector<Origin> nodes(program.nodes.size());
  std::map<poly::TensorId, Origin> of_readers;
  for (std::size_t k = nodes.size(); k-- > 0;) {
    const poly::Node& node = program.nodes[k];
    const std::optional<std::size_t> place = at(span_of(node));
    if (place) nodes[k].insert(*place);
    if (!place || places_[*place].is_input)
      for (const poly::TensorId id : autodiff::targets(node))
        nodes[k].insert(of_readers[id].begin(), of_readers[id].end());
    for (const poly::TensorId id : autodiff::operands(node)) of_readers[id].insert(nodes[k].begin(), nodes[k].end());
  }
  return nodes;
}

std::vector<Origin> Origins::of(const poly::Program& reduced, const Plan& plan) const {
  std::vector<Origin> nodes = of(plan.program);
  std::map<std::string, std::size_t> where;
  for (std::size_t k = 0; k < nodes.size(); ++k) where.emplace(target_name(plan.program, plan.program.nodes[k]), k);
  const std::vector<Origin> before = of(reduced);
  std::map<poly::TensorId, Origin> inside;               // of a tensor that no node of the plan makes
  for (std::size_t k = 0; k < before.size(); ++k) {
    Origin more;
    for (const poly::TensorId id : autodiff::operands(reduced.nodes[k]))
      if (const auto at = inside.find(id); at != inside.end()) more.insert(at->second.begin(), at->second.end());
    if (const auto at = where.find(target_name(reduced, reduced.nodes[k])); at != where.end()) {
      nodes[at->second].insert(more.begin(), more.end());
      continue;
    }
    more.insert(before[k].begin(), before[k].end());
    for (const poly::TensorId id : autodiff::targets(reduced.nodes[k])) inside[id].insert(more.begin(), more.end());
  }
  return nodes;
}

Origin Origins::of(const Group& group, const std::vector<Origin>& nodes) {
  Origin found;
  for (const Compute& leaf : group.body) {
    const Origin& one = nodes[static_cast<std::size_t>(leaf.node)];
    found.insert(one.begin(), one.end());
  }
  return found;
}

}  // namespace tilec::codegen
