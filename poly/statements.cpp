// Statement after statement. One that is wrong is reported and its name marked Failed, so that the rest is still
// checked and one run shows every fault once.
#include "poly/statements.h"

#include <algorithm>
#include <set>

#include "lang/limit.h"
#include "lang/messages.h"
#include "lang/print.h"
#include "poly/call.h"
#include "poly/contraction.h"
#include "poly/elementwise.h"
#include "poly/pack.h"
#include "poly/size_expression.h"
#include "poly/tuples.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

// Attributes.

const lang::Word* attribute(const lang::Statement& statement, std::string_view name) {
  for (const auto& word : statement.attributes)
    if (word.name.text == name) return &word;
  return nullptr;
}

std::string first_word(const lang::Word* word) {
  if (!word || word->values.empty()) return "";
  const auto& value = word->values[0].value;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* inner = std::get_if<std::shared_ptr<const lang::Word>>(&value)) return (*inner)->name.text;
  return "";
}

bool read_ties(const lang::Statement& statement, ContractionOptions& options, Scope& scope) {
  const auto* word = attribute(statement, "ties");
  if (!word) return true;
  options.ties_span = word->span;
  const auto policy = first_word(word);
  if (policy == "split") options.ties = Ties::Split;
  else if (policy == "first") options.ties = Ties::First;
  else if (policy == "all") options.ties = Ties::All;
  else {
    scope.diagnostics.report(word->span, messages::unnamed_ties, policy);
    return false;
  }
  return true;
}

// [[save]] and [[recompute]]: what backward keeps of the tensor that the statement makes.
std::optional<Keep> read_keep(const lang::Statement& statement, Scope& scope) {
  const auto *save = attribute(statement, "save"), *recompute = attribute(statement, "recompute");
  if (save && recompute) {
    scope.diagnostics.report(recompute->span, messages::keep_conflict)
        .label(save->span, "and this")
        .hint("keep one of them");
    return std::nullopt;
  }
  return save ? Keep::Save : recompute ? Keep::Recompute : Keep::Free;
}

// Marks the statement that makes the tensor just assigned. `Y = X;` makes none: its statement copies, and goes.
bool keep_assigned(
    const lang::Statement& statement, Keep keep, const lang::Target& target, std::size_t nodes_before, Scope& scope) {
  const auto at = scope.names.find(target.name.spelled());
  if (keep == Keep::Free || at == scope.names.end() || at->second.kind == Named::Kind::Failed) return true;
  bool called = false;
  for (std::size_t n = nodes_before; n < scope.program.nodes.size(); ++n) {
    auto* s = std::get_if<Statement>(&scope.program.nodes[n]);
    called |= s == nullptr;
    if (!s || at->second.kind != Named::Kind::Tensor || s->target.tensor != at->second.tensor) continue;
    if (!std::holds_alternative<lang::Contraction>(statement.node) && s->value.as<Read>()) continue;
    s->keep = keep;
    return true;
  }
  const auto* word = attribute(statement, keep == Keep::Save ? "save" : "recompute");
  scope.diagnostics
      .report(word->span, messages::keep_nothing, word->name.text, target.name.spelled(),
          called ? "moved by a call, which is not computed" : "a name for what exists already")
      .hint("put it before the statement that computes the tensor");
  return false;
}

}  // namespace

bool written_type(
    Scope& scope, const lang::Function& function, const lang::Target& target, std::optional<DType>& type) {
  if (target.dtype) type = lang::dtype_named(target.dtype->text);
  for (const auto& result : function.results) {
    if (!(result.name == target.name) || !result.dtype) continue;
    const auto wanted = lang::dtype_named(result.dtype->text);
    if (type && wanted && *type != *wanted) {
      scope.diagnostics.report(result.span, messages::type_conflict, lang::name(*wanted), lang::name(*type))
          .label(target.span, "assigned here");
      return false;
    }
    if (wanted) type = wanted;
  }
  return true;
}

namespace {

// `Y = cumsum(X);`: the tensor that a call has made is Y itself. What it passes through, or of another type, is copied.
std::optional<Named> called_as(Scope& scope, const Named& made, TensorId before, const ElementwiseTarget& target) {
  if (made.kind != Named::Kind::Tensor)
    return made.kind == Named::Kind::Tuple || !target.dtype ? std::optional(made) : std::nullopt;
  auto& tensor = scope.program.tensors[static_cast<std::size_t>(made.tensor)];
  const bool mine = made.tensor >= before && target.dtype.value_or(tensor.dtype) == tensor.dtype;
  const bool given = std::any_of(scope.names.begin(), scope.names.end(), [&](const auto& entry) {
    return entry.second.kind == Named::Kind::Tensor && entry.second.tensor == made.tensor &&
        entry.first != target.name && scope.declared.contains(entry.first);
  });
  if (!mine || given) return copied(scope, made.tensor, target);
  tensor.name = wished_name(scope, target.name);
  return Named::of_tensor(made.tensor, target.span);
}

std::optional<Named> assigned_call(
    Scope& scope, const lang::Call& call, const ElementwiseTarget& target, const lang::Assignment& a) {
  const auto before = static_cast<TensorId>(scope.program.tensors.size());
  const auto made = made_by(scope, call, target.name, a.value.span());
  if (!made) return std::nullopt;
  const bool scalar = made->kind == Named::Kind::Size || made->kind == Named::Kind::Weak;
  if (!scalar || !target.dtype) return called_as(scope, *made, before, target);
  const auto id = stored(scope, *made, target);
  return id ? std::optional(Named::of_tensor(*id, target.span)) : std::nullopt;
}

// What a name that sizes or indices use is assigned: an integer known before the run. Comparisons count as 0 and 1
// here.
std::optional<Named> as_size(Scope& scope, const lang::Expr& value, Span span) {
  const auto size = size_of(scope, value);
  std::vector<lang::Name> names;
  names_in(value, names);
  return size ? std::optional(Named::of_size(*size, span, names.empty())) : std::nullopt;
}

std::optional<Named> assignment(
    Scope& scope, const lang::Function& function, const lang::Statement& statement, const lang::Assignment& a) {
  ElementwiseTarget target{
      .name = a.target.name.spelled(), .kernel_name = first_word(attribute(statement, "name")), .span = a.target.span};
  if (!written_type(scope, function, a.target, target.dtype)) return std::nullopt;
  if (const auto* ties = attribute(statement, "ties")) {
    scope.diagnostics.report(ties->span, messages::ties_misplaced, "=");
    return std::nullopt;
  }
  if (makes_tuple(scope, a.value)) return tuple_made(scope, a.value, target.name);
  if (const auto* tuple = known_tuple(scope, a.value); tuple && !a.value.as<lang::Variable>()) return *tuple;
  if (const auto* call = a.value.as<lang::Call>(); call && makes_tensors(scope, *call))
    return assigned_call(scope, *call, target, a);
  if (!target.dtype && (scope.used_as_size.contains(target.name) || is_assertion(a.value)) &&
      is_size_expression(scope, a.value))
    return as_size(scope, a.value, a.target.span);
  return elementwise(scope, target, a.value);
}

std::optional<Named> contracted(
    Scope& scope, const lang::Function& function, const lang::Statement& statement, const lang::Contraction& c) {
  ContractionOptions options{.kernel_name = first_word(attribute(statement, "name"))};
  if (!read_ties(statement, options, scope) || !written_type(scope, function, c.target, options.dtype))
    return std::nullopt;
  return contraction(scope, c, options, statement.span);
}

void declare(Scope& scope, const lang::Target& target, std::optional<Named> named) {
  scope.failed |= !named;
  scope.names[target.name.spelled()] = named ? std::move(*named) : Named{};
}

// One of `(A, B) = …`, under its name and, where that is written, of its type.
std::optional<Named> component(
    Scope& scope, const lang::Function& function, const lang::Target& written, const Named& value, TensorId before) {
  ElementwiseTarget target{.name = written.name.spelled(), .span = written.span};
  if (!written_type(scope, function, written, target.dtype)) return std::nullopt;
  if (value.kind == Named::Kind::Tensor) return called_as(scope, value, before, target);
  if (!target.dtype || value.kind == Named::Kind::Tuple) return value;
  const auto id = stored(scope, value, target);
  return id ? std::optional(Named::of_tensor(*id, written.span)) : std::nullopt;
}

// What stands on the right of `(A, B) = …`. Of one target it may be what that is assigned alone.
std::optional<Named> tuple_assigned(Scope& scope, const lang::Expr& value, const std::string& stem) {
  const auto* call = value.as<lang::Call>();
  if (makes_tuple(scope, value)) return tuple_made(scope, value, stem);
  if (const auto* tuple = known_tuple(scope, value)) return *tuple;
  if (call && makes_tensors(scope, *call)) return made_by(scope, *call, fresh(scope, stem), value.span());
  if (const auto* variable = value.as<lang::Variable>()) {
    const auto* known = find(scope, variable->name, value.span());
    return known ? std::optional(*known) : std::nullopt;
  }
  scope.diagnostics.report(value.span(), messages::not_elementwise, lang::print(value))
      .hint("a tuple is made by `tuple(A, B)`, or by a function or an operator on tuples alone");
  return std::nullopt;
}

// Its components, one for each target.
std::optional<std::vector<Named>> components(Scope& scope, const Named& value, const lang::TupleAssignment& t) {
  if (value.kind != Named::Kind::Tuple && t.targets.size() == 1) return std::vector{value};
  if (value.kind != Named::Kind::Tuple)
    scope.diagnostics.report(t.value.span(), messages::not_elementwise, lang::print(t.value))
        .label(value.span, "it is no tuple")
        .hint("a tuple is made by `tuple(A, B)`");
  else if (value.elements.size() != t.targets.size())
    scope.diagnostics.report(t.value.span(), messages::result_count, lang::print(t.value),
        counted(value.elements.size(), "component"), lang::are(t.targets.size()));
  else return value.elements;
  return std::nullopt;
}

// (A, B) = tuple(X, Y);   (V, I) = top_k<3>(X);
void assign_tuple(Scope& scope, const lang::Function& function, const lang::TupleAssignment& t) {
  const auto before = static_cast<TensorId>(scope.program.tensors.size());
  const auto value = tuple_assigned(scope, t.value, t.targets.empty() ? "T" : t.targets[0].name.spelled());
  const auto parts = value ? components(scope, *value, t) : std::nullopt;
  for (std::size_t k = 0; k < t.targets.size(); ++k)
    declare(scope, t.targets[k], parts ? component(scope, function, t.targets[k], parts->at(k), before) : std::nullopt);
}

}  // namespace

void add_statement(Scope& scope, const lang::Function& function, const lang::Statement& written) {
  auto& over = scope.inlined->over;                     // what follows a limit is not looked at
  over =
      over || !lang::within(lang::Limit::Statements, std::ssize(scope.program.nodes), written.span, scope.diagnostics);
  scope.failed |= over;
  if (over) return;
  const auto plain = without_packs(scope, written);
  if (!plain) {
    std::visit(lang::Overloaded{[](std::monostate) {},
                   [&](const lang::TupleAssignment& t) {
                     for (const auto& each : t.targets) declare(scope, each, std::nullopt);
                   },
                   [&](const auto& one) { declare(scope, one.target, std::nullopt); }},
        written.node);
    return;
  }
  const lang::Statement& statement = *plain;
  try {
    const auto nodes_before = scope.program.nodes.size();
    const auto keep = read_keep(statement, scope);
    scope.failed |= !keep;
    scope.keeps = keep.value_or(Keep::Free) != Keep::Free;
    const auto keep_it = [&](const lang::Target& target) {
      scope.failed |= !keep_assigned(statement, keep.value_or(Keep::Free), target, nodes_before, scope);
    };
    if (const auto* a = std::get_if<lang::Assignment>(&statement.node)) {
      declare(scope, a->target, assignment(scope, function, statement, *a));
      keep_it(a->target);
    }
    if (const auto* c = std::get_if<lang::Contraction>(&statement.node)) {
      declare(scope, c->target, contracted(scope, function, statement, *c));
      keep_it(c->target);
    }
    if (const auto* t = std::get_if<lang::TupleAssignment>(&statement.node)) {
      assign_tuple(scope, function, *t);
      std::for_each(t->targets.begin(), t->targets.end(), keep_it);
    }
  } catch (const SizeError& error) {                    // of products and strides formed on the way
    scope.failed = true;
    scope.diagnostics.report(statement.span, messages::size_arithmetic, error.what());
  }
}

}  // namespace tilec::poly
