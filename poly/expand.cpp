// A function of tilec's own, inlined.
#include "poly/expand.h"

#include "lang/parse.h"
#include "poly/statements.h"

namespace tilec::poly {
namespace {

// The scope of the function, over the caller's Program; whatever happens, the caller gets that back.
class Inside {
 public:
  Inside(Scope& caller, lang::Diagnostics& faults)
      : scope{.diagnostics = faults,
            .program = std::move(caller.program),
            .derivations = caller.derivations,
            .inlined = caller.inlined,
            .texts = caller.texts,
            .nested = caller.nested,
            .depth = caller.depth + 1},
        caller_(caller) {}
  ~Inside() { caller_.program = std::move(scope.program); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  Scope scope;

 private:
  Scope& caller_;
};

void bind(Scope& scope, const lang::Function& function, const std::vector<Named>& inputs) {
  for (std::size_t k = 0; k < function.inputs.size(); ++k) {
    const auto& input = function.inputs[k];
    scope.names[input.target.name.spelled()] = inputs[k];
    if (!input.sizes || inputs[k].kind != Named::Kind::Tensor) continue;
    const auto& shape = scope.tensor(inputs[k].tensor).shape;
    for (std::size_t d = 0; d < input.sizes->size(); ++d)
      scope.names[(*input.sizes)[d].as<lang::Variable>()->name.spelled()] = Named::of_size(shape[d], inputs[k].span);
  }
}

// What was made gets the place of its call.
void place(Program& program, std::size_t tensors, std::size_t nodes, std::size_t requirements, Span span) {
  for (std::size_t k = tensors; k < program.tensors.size(); ++k) program.tensors[k].span = span;
  for (std::size_t k = nodes; k < program.nodes.size(); ++k)
    std::visit([&](auto& node) { node.span = span; }, program.nodes[k]);
  for (std::size_t k = requirements; k < program.requirements.size(); ++k) {
    program.requirements[k].span = span;
    program.requirements[k].labels.clear();
  }
}

lang::File parsed(const std::string& text) {
  lang::Diagnostics faults;
  auto file = lang::parse({"<built-in>", text}, faults);
  if (!file) throw lang::InternalError("a built-in is not Tile: " + faults.all()[0].message + " in " + text);
  return std::move(*file);
}

}  // namespace

std::optional<std::vector<Named>> expand(Scope& scope, const std::string& text, const std::vector<Named>& inputs,
    const std::vector<std::string>& names, Span span) {
  const auto file = parsed(text);
  const auto& function = std::get<lang::Function>(file.items.at(0));
  const std::size_t tensors = scope.program.tensors.size(), nodes = scope.program.nodes.size(),
                    requirements = scope.program.requirements.size();
  lang::Diagnostics faults;
  std::vector<Named> results;
  bool whole = false;
  {
    Inside inside(scope, faults);
    find_declared(function, inside.scope);
    find_used_as_size(function, inside.scope);
    bind(inside.scope, function, inputs);
    for (std::size_t k = 0; k < names.size(); ++k)
      inside.scope.called[function.results[k].name.spelled()] = wished_name(scope, names[k]);
    for (const auto& statement : function.statements) add_statement(inside.scope, function, statement);
    for (const auto& result : function.results) results.push_back(inside.scope.names[result.name.spelled()]);
    whole = !inside.scope.failed;
  }
  place(scope.program, tensors, nodes, requirements, span);
  for (auto fault : faults.all()) {
    fault.span = span;
    fault.labels.clear();
    scope.diagnostics.add(std::move(fault));
  }
  return whole ? std::optional(std::move(results)) : std::nullopt;
}

}  // namespace tilec::poly
