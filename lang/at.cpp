#include "lang/at.h"

#include <algorithm>
#include <array>

#include "lang/builtin.h"
#include "lang/choice.h"
#include "lang/type.h"
#include "lang/walk.h"

namespace tilec::lang {
namespace {

using Kind = Mention::Kind;

bool is_constant(const Name& name) { return !name.upper && (name.text == "inf" || name.text == "nan"); }

void variables(const Expr& expr, std::vector<Name>& names) {
  if (const auto* variable = expr.as<Variable>()) names.push_back(variable->name);
  each_child(expr, [&](const Expr& inner) { variables(inner, names); });
}

template <class Visit> void each_target(const Statement& statement, const Visit& visit) {
  if (const auto* a = std::get_if<Assignment>(&statement.node)) visit(a->target);
  else if (const auto* c = std::get_if<Contraction>(&statement.node)) visit(c->target);
  else if (const auto* t = std::get_if<TupleAssignment>(&statement.node))
    for (const Target& target : t->targets) visit(target);
}

// One walk over a file that names every name.
class Walk {
 public:
  explicit Walk(const File& file) : file_(file) {
    for (const auto& item : file.items) std::visit([&](const auto& each) { walk(each); }, item);
    std::stable_sort(
        found.begin(), found.end(), [](const Mention& a, const Mention& b) { return a.span.begin < b.span.begin; });
  }

  std::vector<Mention> found;

 private:
  const File& file_;
  const Function* function_ = nullptr;
  const Statement* statement_ = nullptr;
  std::set<std::string> declared_, sizes_, parameters_;

  void add(Kind kind, const Name& name) { found.push_back({kind, name, name.span, function_, statement_, nullptr}); }

  void walk(const Import& import) {
    Span span = import.span;
    if (import.prefix) span.end = import.prefix->span.begin - 1;
    found.push_back({Kind::Import, Name{import.path, false, span}, span, nullptr, nullptr, &import});
    if (import.prefix) found.push_back({Kind::Prefix, *import.prefix, import.prefix->span, nullptr, nullptr, &import});
  }
  void walk(const Dim& dim) {
    for (const Name& name : dim.names) add(Kind::Dimension, name);
  }

  void walk(const Function& function) {
    function_ = &function;
    declared_.clear(), sizes_.clear(), parameters_.clear();
    for (const Parameter& p : function.parameters) parameters_.insert(p.name.spelled());
    for (const Target& t : tensors_of(function)) declared_.insert(t.name.spelled());
    for (const Name& name : sizes_of(function)) sizes_.insert(name.spelled());
    attributes(function.attributes);
    if (function.name) add(Kind::Function, *function.name);
    for (const Parameter& p : function.parameters) {
      add(Kind::Parameter, p.name);
      for (const Name& each : p.choices) add(Kind::Constant, each);
      if (p.value && p.choices.empty()) argument(*p.value);
    }
    for (const Input& input : function.inputs) {
      target(input.target);
      if (input.sizes) all(*input.sizes);
    }
    for (const Target& result : function.results) target(result);
    for (const Statement& s : function.statements) statement(s);
    function_ = nullptr, statement_ = nullptr;
  }

  void statement(const Statement& s) {
    statement_ = &s;
    attributes(s.attributes);
    if (const auto* a = std::get_if<Assignment>(&s.node)) target(a->target), expression(a->value);
    else if (const auto* t = std::get_if<TupleAssignment>(&s.node)) {
      for (const Target& each : t->targets) target(each);
      expression(t->value);
    } else if (const auto* c = std::get_if<Contraction>(&s.node)) contraction(*c);
    statement_ = nullptr;
  }

  void contraction(const Contraction& c) {
    target(c.target);
    all(c.element), all(c.sizes);
    if (c.aggregation_name)
      add(parameters_.contains(c.aggregation_name->spelled()) ? Kind::Parameter : Kind::Aggregation,
          *c.aggregation_name);
    expression(c.body);
    for (const Constraint& each : c.constraints) {
      if (each.low) expression(*each.low);
      expression(each.polynomial), expression(each.bound);
    }
    if (c.default_value)
      if (const auto* name = std::get_if<Name>(&c.default_value->value)) variable(*name);
  }

  void target(const Target& t) {
    if (t.dtype) add(Kind::Type, *t.dtype);
    add(Kind::Tensor, t.name);
  }

  // A function's name, and its prefix.
  void called(Kind kind, const Name& name) {
    const auto parts = prefixed(name);
    if (!parts) return add(kind, name);
    const Span prefix{
        name.span.begin, name.span.begin + static_cast<std::uint32_t>(parts->prefix.size()), name.span.source};
    found.push_back(
        {Kind::Prefix, Name{parts->prefix, false, prefix}, prefix, function_, statement_, import_under(parts->prefix)});
    found.push_back({kind, name, parts->name.span, function_, statement_});
  }

  const Import* import_under(const std::string& prefix) const {
    for (const auto& item : file_.items)
      if (const auto* import = std::get_if<Import>(&item); import && import->prefix && import->prefix->text == prefix)
        return import;
    return nullptr;
  }

  void label(const Name& name, const Function* callee) {
    found.push_back({Kind::Label, name, name.span, function_, statement_, nullptr, callee});
  }

  void all(const std::vector<Expr>& list) { for (const Expr& e : list) expression(e); }

  void expression(const Expr& expr) {
    if (const auto test = function_ ? choice_test(*function_, expr) : std::nullopt) {
      add(Kind::Parameter, *test->parameter);
      if (const auto* name = test->other->as<Variable>()) add(Kind::Constant, name->name);
      return;
    }
    expr.match([](const Number&) {}, [&](const Variable& v) { variable(v.name); },
        [&](const Unary& u) { expression(u.operand); },
        [&](const Binary& b) { expression(b.left), expression(b.right); },
        [&](const Access& a) { add(Kind::Tensor, a.tensor), all(a.element); },
        [&](const Call& c) {
          called(callee(c.function), c.function);
          const auto meant =
              parameters_.contains(c.function.spelled()) ? std::vector<Definition>{} : definitions(file_, c.function);
          const Function* function = meant.size() == 1 ? meant[0].function : nullptr;
          for (const Argument& a : c.parameters) {
            if (a.label) label(*a.label, function);
            argument(a);
          }
          for (const auto& each : c.labels)
            if (each) label(*each, function);
          all(c.arguments);
        },
        [&](const Select& s) {
          expression(s.condition), expression(s.then);
          if (s.otherwise) expression(*s.otherwise);
        });
  }

  void variable(const Name& name) {
    const std::string spelled = name.spelled();
    if (declared_.contains(spelled)) add(Kind::Tensor, name);
    else if (parameters_.contains(spelled)) add(Kind::Parameter, name);
    else if (sizes_.contains(spelled)) add(Kind::Size, name);
    else if (is_constant(name)) add(Kind::Constant, name);
    else add(name.upper || !statement_ ? Kind::Size : Kind::Index, name);
  }

  Kind callee(const Name& name) const {
    if (parameters_.contains(name.spelled())) return Kind::Parameter;
    return dtype_named(name.text) && definitions(file_, name).empty() ? Kind::Type : Kind::Function;
  }

  void argument(const Argument& argument) {
    if (const auto* computed = std::get_if<Expr>(&argument.value)) return expression(*computed);
    const auto* name = std::get_if<Name>(&argument.value);
    if (!name) return;
    const bool aggregation = is_aggregation(name->text);
    if (parameters_.contains(name->spelled())) add(Kind::Parameter, *name);
    else if (is_constant(*name)) add(Kind::Constant, *name);
    else called(aggregation && definitions(file_, *name).empty() ? Kind::Aggregation : Kind::Function, *name);
  }

  void attributes(const std::vector<Attribute>& words) {
    for (const Attribute& word : words) add(Kind::Attribute, word.name);
  }
};

bool covers(Span span, std::size_t offset) { return span.begin <= offset && offset <= span.end; }

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '\'' ||
      c == '#' || c == '$';
}

// What is a comment, a string or none, character by character; `seen` gets each character that is neither, with its
// offset.
template <class Seen> Surroundings::Where scan(std::string_view text, std::size_t stop, const Seen& seen) {
  for (std::size_t at = 0; at < stop;) {
    const std::string_view two = text.substr(at, 2);
    if (two == "//" || two == "/*") {
      const std::size_t end = two == "//" ? text.find('\n', at) : text.find("*/", at + 2);
      const std::size_t behind = end == std::string_view::npos ? text.size() + 1 : two == "//" ? end + 1 : end + 2;
      if (stop < behind) return Surroundings::Where::Comment;
      at = behind;
    } else if (text[at] == '"') {
      const std::size_t end = text.find_first_of("\"\n", at + 1);
      if (end == std::string_view::npos || stop <= end) return Surroundings::Where::String;
      at = end + 1;
    } else {
      seen(at, text[at]);
      ++at;
    }
  }
  return Surroundings::Where::Top;
}

std::string_view trimmed(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

std::vector<Mention> mentions(const File& file) { return Walk(file).found; }

std::optional<Mention> mention_at(const File& file, std::size_t offset) {
  std::optional<Mention> touching;
  for (const Mention& mention : mentions(file)) {
    if (!covers(mention.span, offset)) continue;
    if (offset < mention.span.end) return mention;
    touching = mention;
  }
  return touching;
}

const Function* function_at(const File& file, std::size_t offset) {
  for (const auto& item : file.items)
    if (const auto* function = std::get_if<Function>(&item); function && covers(function->span, offset))
      return function;
  return nullptr;
}

const Statement* statement_at(const Function& function, std::size_t offset) {
  for (const Statement& statement : function.statements)
    if (covers(statement.span, offset)) return &statement;
  return nullptr;
}

std::vector<Target> tensors_of(const Function& function) {
  std::vector<Target> all;
  std::set<std::string> seen;
  const auto add = [&](const Target& target) { if (seen.insert(target.name.spelled()).second) all.push_back(target); };
  for (const Input& input : function.inputs) add(input.target);
  for (const Statement& statement : function.statements) each_target(statement, add);
  return all;
}

std::vector<Name> sizes_of(const Function& function) {
  std::set<std::string> taken;
  for (const Target& target : tensors_of(function)) taken.insert(target.name.spelled());
  for (const Parameter& parameter : function.parameters) taken.insert(parameter.name.spelled());
  std::vector<Name> names, all;
  for (const Input& input : function.inputs)
    if (input.sizes) for (const Expr& size : *input.sizes) variables(size, names);
  for (const Name& name : names)
    if (taken.insert(name.spelled()).second) all.push_back(name);
  return all;
}

std::vector<const Input*> inputs_that_show(const Function& function, const Name& size) {
  std::vector<const Input*> all;
  for (const Input& input : function.inputs) {
    std::vector<Name> names;
    if (input.sizes) for (const Expr& each : *input.sizes) variables(each, names);
    if (std::ranges::find(names, size) != names.end()) all.push_back(&input);
  }
  return all;
}

std::vector<const Statement*> statements_that_assign(const Function& function, const Name& name) {
  std::vector<const Statement*> all;
  for (const Statement& statement : function.statements)
    each_target(statement, [&](const Target& target) {
      if (target.name == name && (all.empty() || all.back() != &statement)) all.push_back(&statement);
    });
  return all;
}

std::optional<Span> declaration(const Mention& mention) {
  if (mention.kind == Kind::Label && mention.callee) {
    for (const Parameter& parameter : mention.callee->parameters)
      if (parameter.name == mention.name) return parameter.name.span;
    for (const Input& input : mention.callee->inputs)
      if (input.target.name == mention.name) return input.target.name.span;
  }
  if (!mention.function) return std::nullopt;
  const Function& function = *mention.function;
  switch (mention.kind) {
    case Kind::Tensor:
      for (const Target& target : tensors_of(function)) if (target.name == mention.name) return target.name.span;
      return std::nullopt;
    case Kind::Size:
      for (const Name& name : sizes_of(function)) if (name == mention.name) return name.span;
      return std::nullopt;
    case Kind::Parameter:
      for (const Parameter& parameter : function.parameters)
        if (parameter.name == mention.name) return parameter.name.span;
      return std::nullopt;
    case Kind::Index: {
      const auto* contraction = mention.statement ? std::get_if<Contraction>(&mention.statement->node) : nullptr;
      std::vector<Name> names;
      if (contraction) {
        for (const Expr& e : contraction->element) variables(e, names);
        variables(contraction->body, names);
        for (const Constraint& each : contraction->constraints) {
          if (each.low) variables(*each.low, names);
          variables(each.polynomial, names), variables(each.bound, names);
        }
      }
      for (const Name& name : names) if (name == mention.name) return name.span;
      return mention.span;
    }
    default: return std::nullopt;
  }
}

Surroundings surroundings(std::string_view text, std::size_t offset) {
  using Where = Surroundings::Where;
  offset = std::min(offset, text.size());
  Surroundings around;
  bool body = false, heading = false;
  int brackets = 0;
  std::size_t attribute = std::string_view::npos, word = 0;
  const auto is_heading = [&](std::size_t begin, std::size_t end) {
    const std::string_view name = text.substr(begin, end - begin);
    return name == "function" || name == "gradient" || name == "tangent";
  };
  around.where = scan(text, offset, [&](std::size_t at, char c) {
    const bool letter = is_letter(c);
    if (letter && (at == 0 || !is_letter(text[at - 1]))) word = at;
    if (letter && (at + 1 == text.size() || !is_letter(text[at + 1])) && !body && is_heading(word, at + 1))
      heading = true, around.function = word;
    if (c == '[' && at > 0 && text[at - 1] == '[' && attribute == std::string_view::npos && brackets == 1)
      attribute = at + 1;
    if (c == '[') ++brackets;
    if (c == ']' && --brackets <= 0) attribute = std::string_view::npos;
    if (c == '{') body = true, heading = false;
    if (c == '}') body = false;
    if (c == '{' || c == '}' || c == ';') around.statement = at + 1, brackets = 0, attribute = std::string_view::npos;
  });
  around.word = offset;
  if (around.where == Where::Comment) return around;
  if (around.where == Where::String) {
    around.word = text.rfind('"', offset - 1) + 1;
    const std::string_view before = trimmed(text.substr(0, around.word - 1));
    if (!body && before.ends_with("import")) around.where = Where::ImportPath;
    return around;
  }
  while (around.word > 0 && is_letter(text[around.word - 1])) --around.word;
  around.where = attribute != std::string_view::npos ? Where::Attribute
      : body                                         ? Where::Body
      : heading                                      ? Where::Heading
                                                     : Where::Top;
  around.statement_end = std::min(text.find_first_of(";{}", offset), text.size());
  return around;
}

std::string comment_above(std::string_view text, std::size_t offset) {
  std::vector<std::string_view> lines;
  std::size_t begin = std::min(offset, text.size());
  begin = begin == 0 ? 0 : text.rfind('\n', begin - 1) == std::string_view::npos ? 0 : text.rfind('\n', begin - 1) + 1;
  while (begin > 0) {
    const std::size_t end = begin - 1, newline = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
    const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    const std::string_view line = trimmed(text.substr(start, end - start));
    if (!line.starts_with("//")) break;
    lines.push_back(trimmed(line.substr(2)));
    begin = start;
  }
  std::string out;
  for (auto line = lines.rbegin(); line != lines.rend() && !line->starts_with("=="); ++line)
    out += (out.empty() ? "" : "\n") + std::string(*line);
  return out;
}

}  // namespace tilec::lang
