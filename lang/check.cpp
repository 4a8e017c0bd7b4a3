// Names first (inputs, sizes, assigned names and compile-time parameters of a function share one space), then one walk
// over the statements in which an expression is always read in a role: an elementwise value, a contraction's body, an
// index expression, a constraint or a size. The role decides what a name may be and whether an access may stand there.
//
//   Y = A[i] + b;       an elementwise value reads whole tensors: write `Y[i: N] = =(A[i] + …)`
//   Y[i: N] = +(A);     a body reads elements: write `A[…]`
//
// A lower-case name that the function does not declare is an index; only contractions have indices.

#include "lang/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/builtin.h"
#include "lang/calls.h"
#include "lang/choice.h"
#include "lang/dimension.h"
#include "lang/former.h"
#include "lang/idiom.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/pack.h"
#include "lang/print.h"
#include "lang/type.h"

namespace tilec::lang {
namespace {

constexpr std::string_view aggregations[] = {"sum", "product", "max", "min", "assign"};
constexpr std::string_view attributes[] = {
    "name", "ties", "plan", "recompute", "save", "pid", "allow", "formerly", "before", "after"};
constexpr std::string_view idle[] = {"plan", "pid"};   // accepted on statements with whatever they say, and without
                                                       // effect

// How many arguments a function takes that is not of the text.
std::optional<Count> arity(std::string_view name) {
  if (const std::optional<Op> op = function_named(name)) {
    const auto count = static_cast<std::size_t>(info(*op).arity);
    return Count{count, count};
  }
  if (dtype_named(name) || name.starts_with("assert_")) return Count{1, 1};
  const Builtin* builtin = builtin_named(name);
  return builtin ? std::optional(builtin->arguments) : std::nullopt;
}

std::vector<std::string> builtin_names() {
  std::vector<std::string> all = {"mad", "select"};
  for (const Builtin& each : builtins()) all.emplace_back(each.name);
  for (int op = 0; op <= static_cast<int>(Op::IsFinite); ++op) all.emplace_back(info(static_cast<Op>(op)).name);
  for (const DType type : all_dtypes) all.emplace_back(name(type));
  return all;
}

enum class Role { Elementwise, Body, Index, Constraint, Size, Signature };

std::string_view described(Role role) {
  switch (role) {
    case Role::Elementwise: return "an elementwise statement";
    case Role::Body: return "a body";
    case Role::Index: return "an index";
    case Role::Constraint: return "a constraint";
    case Role::Size: return "a size";
    default: return "a signature";
  }
}

// What a name of the function is.
struct Known {
  enum class Kind { Parameter, Input, Size, Assigned } kind;
  Span where;
  int statement = -1;                                  // that assigns it; -1 in the signature
  std::size_t rank = 0;                                // where the text shows it; else 0
  const std::vector<Expr>* sizes = nullptr;            // where the text shows them
  bool pack = false;                                   // of a size
};

class Checker {
 public:
  Checker(const File& file, Diagnostics& diagnostics) : file_(file), diagnostics_(diagnostics) {}

  void function(const Function& f) {
    known_.clear();
    function_ = &f;
    now_ = -1;
    declare_all(f);
    note_packs(f);
    parameters(f);
    note_integers(f);
    attribute_names(f.attributes);
    no_effect(f.attributes, "on a function", {"name", "ties", "recompute", "save"});
    attribute_values(f.attributes);
    plan_lines(f.attributes);
    former_names(f, diagnostics_);
    sides(f);
    for (const Input& i : f.inputs) signature(i);
    for (const Statement& s : f.statements) {
      ++now_;
      attribute_names(s.attributes);
      attribute_values(s.attributes);
      if (std::holds_alternative<std::monostate>(s.node)) no_effect(s.attributes, "on an empty statement");
      else no_effect(s.attributes, "on a statement", {"plan", "formerly", "before", "after"});
      if (std::holds_alternative<TupleAssignment>(s.node))
        no_effect(s.attributes, "on several results", {"name", "ties"});
      std::visit(Overloaded{[](std::monostate) {}, [&](const Assignment& a) {
                              type(a.target);
                              has_values_ = of_values(a.value);
                              expression(a.value, Role::Elementwise);
                            },
                            [&](const TupleAssignment& t) {
                              for (const Target& each : t.targets) type(each);
                              has_values_ = of_values(t.value);
                              expression(t.value, Role::Elementwise);
                            },
                            [&](const Contraction& c) { contraction(c); }},
                 s.node);
    }
    for (const Target& r : f.results) result(r);
    names_of_packs(f);
  }

 private:
  const File& file_;
  Diagnostics& diagnostics_;
  const Function* function_ = nullptr;                 // being checked
  std::map<std::string, Known> known_;                 // by the name as spelled
  std::set<std::string> integers_;                     // names with an integer type in the text
  std::map<std::string, std::pair<Name, std::string>> index_packs_;  // with what they are first written in
  int now_ = -1;                                       // the statement being checked
  bool has_values_ = false;                            // does it compute more than a size, as `P = K/2 + 1;` does?
  int unknown_ = 0;                                    // names that were found to be none

  // ---- names ----

  void declare(const Name& name, Known fresh) {
    const auto [at, is_new] = known_.emplace(name.spelled(), fresh);
    if (!is_new)
      diagnostics_.report(name.span, messages::redeclared, name.spelled())
          .label(at->second.where, "declared here")
          .hint("every name is given once: choose another");
  }

  // Inputs, results and assigned names that are written with an integer type.
  void note_integers(const Function& f) {
    integers_.clear();
    const auto note = [&](const Target& t) {
      const auto type = t.dtype ? dtype_named(t.dtype->text) : std::nullopt;
      if (type && !is_float(*type)) integers_.insert(t.name.spelled());
    };
    for (const Input& i : f.inputs) note(i.target);
    for (const Target& r : f.results) note(r);
    for (const Statement& s : f.statements)
      std::visit(Overloaded{[](std::monostate) {},
                     [&](const TupleAssignment& t) { std::for_each(t.targets.begin(), t.targets.end(), note); },
                     [&](const auto& a) { note(a.target); }},
          s.node);
  }

  void declare_all(const Function& f) {
    for (const Parameter& p : f.parameters) declare(p.name, {Known::Kind::Parameter, p.name.span});
    for (const Input& i : f.inputs)
      declare(i.target.name,
          {Known::Kind::Input, i.target.name.span, -1, i.sizes ? i.sizes->size() : 0, i.sizes ? &*i.sizes : nullptr});
    for (const Input& i : f.inputs)
      for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
        if (const auto* v = size.as<Variable>()) declare_size(*v);
    int statement = 0;
    for (const Statement& s : f.statements) {
      std::visit(Overloaded{[](std::monostate) {},
                     [&](const Assignment& a) {
                       declare(a.target.name, {Known::Kind::Assigned, a.target.name.span, statement});
                     },
                     [&](const TupleAssignment& t) {
                       for (const Target& each : t.targets)
                         declare(each.name, {Known::Kind::Assigned, each.name.span, statement});
                     },
                     [&](const Contraction& c) {
                       declare(c.target.name,
                           {Known::Kind::Assigned, c.target.name.span, statement, c.element.size(), &c.sizes});
                     }},
          s.node);
      ++statement;
    }
  }

  // A default is known where the parameter is declared: an earlier parameter, a function, an aggregation or a constant.
  // Names to choose from differ.
  void parameters(const Function& f) {
    std::set<std::string> earlier;
    for (const Parameter& p : f.parameters) {
      std::map<std::string, Span> names;
      for (const Name& each : p.choices)
        if (const auto [at, is_new] = names.emplace(each.spelled(), each.span); !is_new)
          diagnostics_.report(each.span, messages::redeclared, each.spelled())
              .label(at->second, "declared here")
              .hint("every name to choose from is given once");
      const auto* name = p.value && p.choices.empty() ? std::get_if<Name>(&p.value->value) : nullptr;
      const Known* known = name ? find(*name) : nullptr;
      const bool is_parameter = known && known->kind == Known::Kind::Parameter;
      if (is_parameter && !earlier.contains(name->spelled()))
        diagnostics_.report(name->span, messages::used_early, name->spelled())
            .label(known->where, "declared here")
            .hint("a default uses parameters that stand in front of it");
      else if (known && !is_parameter)
        diagnostics_
            .report(name->span, messages::parameter_kind, p.name.spelled(), fmt::format("`{}`", name->spelled()),
                "a default")
            .label(known->where, "declared here")
            .hint("a default is a number, a function, an aggregation or an earlier parameter");
      else if (name && !known) default_name(p, *name);
      earlier.insert(p.name.spelled());
    }
  }

  void default_name(const Parameter& p, const Name& name) {
    if (may_stand_in_parameters(name)) return;
    auto entry = diagnostics_.report(name.span, messages::unknown_function, name.spelled());
    if (const auto near = nearest(name.text, function_names(file_)))
      entry.hint(fmt::format("did you mean `{}`?", *near));
    else
      entry.hint(fmt::format(
          "names to choose from stand in braces, the default first: `{}={{{}, …}}`", p.name.spelled(), name.spelled()));
  }

  // A size may repeat, and may be a scalar input or a compile-time parameter.
  void declare_size(const Variable& size) {
    const Name& name = size.name;
    const auto at = known_.find(name.spelled());
    const bool taken = at != known_.end() && size.pack && at->second.kind != Known::Kind::Size;
    if (at == known_.end() || taken || (at->second.kind == Known::Kind::Input && at->second.rank > 0))
      return declare(name, {.kind = Known::Kind::Size, .where = name.span, .pack = size.pack});
    if (at->second.kind == Known::Kind::Size) as_declared(size, at->second);
  }

  const Known* find(const Name& name) const {
    const auto at = known_.find(name.spelled());
    return at == known_.end() ? nullptr : &at->second;
  }

  // ---- packs ----

  void note_packs(const Function& f) {
    index_packs_.clear();
    const auto note = [&](const std::string& tensor, const std::vector<Expr>& element) {
      for (const Expr& e : element)
        if (const Name* name = pack(e); name && is_index(*name))
          index_packs_.try_emplace(name->spelled(), *name, fmt::format("{}[{}]", tensor, listed(element)));
    };
    for (const Statement& s : f.statements)
      if (const auto* c = std::get_if<Contraction>(&s.node)) {
        note(c->target.name.spelled(), c->element);
        visit_accesses(c->body, [&](const Access& a) { note(a.tensor.spelled(), a.element); });
      }
  }

  static std::string listed(const std::vector<Expr>& all) {
    std::string text;
    for (const Expr& e : all) text += (text.empty() ? "" : ", ") + print(e);
    return text;
  }

  // A name is a pack wherever the function writes it, or nowhere.
  bool as_declared(const Variable& v, const Known& known) {
    if (known.kind != Known::Kind::Size || known.pack == v.pack) return true;
    const std::string name = v.name.spelled();
    if (v.pack)
      diagnostics_.report(v.name.span, messages::pack_marked, name)
          .label(known.where, "declared here")
          .hint(fmt::format("write `{}` here, or `{}...` there", name, name));
    else
      diagnostics_.report(v.name.span, messages::pack_unmarked, name, name + "...")
          .label(known.where, "declared here")
          .hint(fmt::format("write `{}...`", name));
    return false;
  }

  // False: it is a pack that lacks its `...`.
  bool as_indexed(const Variable& v) {
    const auto at = index_packs_.find(v.name.spelled());
    if (at == index_packs_.end() || v.pack || find(v.name)) return true;
    diagnostics_.report(v.name.span, messages::pack_unmarked, v.name.spelled(), at->second.second)
        .label(at->second.first.span, "written with `...` here")
        .hint(fmt::format("write `{}...`", v.name.spelled()));
    return false;
  }

  void misplaced(const Name& name, std::string_view where) {
    auto entry = diagnostics_.report(name.span, messages::pack_misplaced, name.spelled(), where);
    entry.hint(is_index(name)
            ? fmt::format("a pack of indices stands alone between brackets, as in `X[{}...]`", name.spelled())
            : fmt::format(
                  "a pack of sizes stands alone: in `X[{0}...]` of the heading, in `Y[i...: {0}...]`, `reshape(X, {0}...)`, and `product({0}...)` is how many elements they hold",
                  name.spelled()));
  }

  // Elements of a list in which packs may stand.
  template <class Check> void elements(const std::vector<Expr>& list, Role role, const Check& check) {
    for (const Expr& e : list)
      if (pack(e)) pack_in_list(*e.as<Variable>(), role);
      else check(e);
  }

  void pack_in_list(const Variable& v, Role role) {
    const Name& name = v.name;
    const Known* known = find(name);
    if (role == Role::Index) {
      if (name.upper && !known)
        diagnostics_.report(name.span, messages::no_such_value, name.spelled())
            .hint("an index begins with a lower-case letter");
      else if (known) misplaced(name, "an index");
      return;
    }
    if (known && known->kind == Known::Kind::Size) {
      as_declared(v, *known);
      return;
    }
    auto entry = diagnostics_.report(name.span, messages::pack_undeclared, name.spelled());
    const auto near = meant(name, [](const Known& each) { return each.pack; });
    if (near) entry.hint(fmt::format("did you mean `{}...`?", *near));
    else entry.hint(fmt::format("name them in the heading, by an input such as `X[{}...]`", name.spelled()));
  }

  // `Y[b, n: B..., N]`, and `X[b, n]` of X[B..., N]: an index where there are any number of dimensions.
  void pack_missed(const std::vector<Expr>& element, const std::vector<Expr>& sizes, std::string_view tensor) {
    if (element.size() != sizes.size()) return;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const Name* many = pack(sizes[d]);
      const auto* one = element[d].as<Variable>();
      const Known* declared = many ? find(*many) : nullptr;
      if (!declared || !declared->pack || !one || one->pack || one->name.upper || !is_index(one->name) ||
          index_packs_.contains(one->name.spelled()))
        continue;
      diagnostics_
          .report(
              element[d].span(), messages::pack_unmarked, many->spelled(), fmt::format("{}[{}]", tensor, listed(sizes)))
          .label(many->span, "any number of dimensions")
          .hint(fmt::format("write `{}...`", one->name.spelled()));
    }
  }

  // `B0` beside `B...`
  void names_of_packs(const Function& f) {
    std::vector<Name> packs = packs_of(f);
    for (const auto& [text, written] : index_packs_) packs.push_back(written.first);
    if (packs.empty()) return;
    std::set<std::string> seen;
    const auto see = [&](const Name& name) {
      const auto taken = pack_of_dimension(name, packs);
      if (taken && seen.insert(name.spelled()).second)
        diagnostics_.report(name.span, messages::pack_name_taken, name.spelled(), taken->spelled())
            .label(taken->span, "the pack")
            .hint("choose another name");
    };
    const auto all = [&](const std::vector<Expr>& list) { for (const Expr& e : list) visit_names(e, see); };
    for (const Parameter& p : f.parameters) see(p.name);
    for (const Input& i : f.inputs) {
      see(i.target.name);
      if (i.sizes) all(*i.sizes);
    }
    for (const Statement& s : f.statements)
      std::visit(Overloaded{[](std::monostate) {}, [&](const Assignment& a) { see(a.target.name); },
                     [&](const TupleAssignment& t) {
                       for (const Target& each : t.targets) see(each.name);
                     },
                     [&](const Contraction& c) {
                       see(c.target.name), all(c.element), all(c.sizes), visit_names(c.body, see);
                       for (const Constraint& k : c.constraints) {
                         if (k.low) visit_names(*k.low, see);
                         visit_names(k.polynomial, see), visit_names(k.bound, see);
                       }
                     }},
          s.node);
  }

  bool is_index(const Name& name) const { return !name.upper && !find(name); }

  bool may_search() { return ++unknown_ <= 100; }        // each mistyped word is compared with every name there is

  // The known name of a kind that a mistyped one was meant to be.
  template <class Fits> std::optional<std::string> meant(const Name& name, Fits fits) {
    if (!may_search()) return std::nullopt;
    std::vector<std::string> all;
    for (const auto& [spelled, known] : known_)
      if (fits(known)) all.push_back(spelled);
    return nearest(name.text, all);
  }

  void unknown(const Name& name, std::string_view otherwise) {
    auto entry = diagnostics_.report(name.span, messages::no_such_value, name.spelled());
    if (const auto idiom = hint_for(Idiom::Kind::Value, name.text)) entry.hint(*idiom);
    else if (const auto near = meant(name, [&](const Known& known) { return known.statement < now_; }))
      entry.hint(fmt::format("did you mean `{}`?", *near));
    else if (!otherwise.empty()) entry.hint(std::string(otherwise));
  }

  // A name that must be declared. Null after a report.
  const Known* use(const Name& name, std::string_view otherwise = "") {
    const Known* known = find(name);
    if (!known) unknown(name, otherwise);
    else if (known->statement >= now_ && known->kind == Known::Kind::Assigned) {
      auto entry = diagnostics_.report(name.span, messages::used_early, name.spelled());
      entry.label(known->where, "assigned here");
      if (known->statement > now_)
        entry.hint("statements stand in the order of computation: move that one in front of this");
      else if (known->rank > 0)
        entry.hint(
            "no element is made of others of the same tensor: running sums and products are `cumsum(X)` and `cumprod(X)`, or `+(X[k]), k <= i`; what is repeated is a function: `iterate<step, 20>(X)`");
      else entry.hint(fmt::format("a name gets its value once, from others: call this one `{}2`", name.spelled()));
      return nullptr;
    }
    return known;
  }

  void result(const Target& r) {
    type(r);
    if (find(r.name)) return;
    auto entry = diagnostics_.report(r.name.span, messages::result_missing, r.name.spelled());
    if (const auto near = meant(r.name, [](const Known& known) { return known.kind == Known::Kind::Assigned; }))
      entry.hint(fmt::format("did you mean `{}`?", *near));
  }

  void type(const Target& t) {
    if (!t.dtype || dtype_named(t.dtype->text)) return;
    auto entry = diagnostics_.report(t.dtype->span, messages::unknown_type, t.dtype->spelled());
    std::vector<std::string> all;
    std::string text;
    for (const DType each : all_dtypes) {
      all.emplace_back(name(each));
      text += (text.empty() ? "" : " ") + all.back();
    }
    if (const auto idiom = hint_for(Idiom::Kind::Type, t.dtype->text)) entry.hint(*idiom);
    else if (const auto near = nearest(t.dtype->text, all)) entry.hint(fmt::format("did you mean `{}`?", *near));
    else entry.hint("element types are " + text);
  }

  void attribute_names(const std::vector<Attribute>& words) {
    for (const Attribute& word : words) {
      if (std::find(std::begin(attributes), std::end(attributes), word.name.text) != std::end(attributes)) continue;
      auto entry = diagnostics_.report(word.name.span, messages::unknown_attribute, word.name.spelled());
      if (const auto near = nearest(word.name.text, {std::begin(attributes), std::end(attributes)}))
        entry.hint(fmt::format("did you mean `{}`?", *near));
    }
  }

  static bool is_idle(const Attribute& word) {
    return std::find(std::begin(idle), std::end(idle), word.name.text) != std::end(idle);
  }

  // Of the known ones, or of those in `only`.
  void no_effect(const std::vector<Attribute>& words, std::string_view where,
      const std::vector<std::string_view>& only = {std::begin(attributes), std::end(attributes)}) {
    for (const Attribute& word : words)
      if (!is_idle(word) && std::find(only.begin(), only.end(), word.name.text) != only.end())
        diagnostics_.report(word.name.span, messages::attribute_idle, word.name.text, where);
  }

  // `ties` and `name` take one word, `save` and `recompute` nothing; each stands once.
  void attribute_values(const std::vector<Attribute>& words) {
    for (auto word = words.begin(); word != words.end(); ++word) {
      const std::string& name = word->name.text;
      if (is_idle(*word) || std::find(std::begin(attributes), std::end(attributes), name) == std::end(attributes))
        continue;
      const auto before =
          std::find_if(words.begin(), word, [&](const Attribute& other) { return other.name.text == name; });
      if (before != word)
        diagnostics_.report(word->name.span, messages::attribute_values, name, "is given twice")
            .label(before->name.span, "and here");
      if (name == "allow" && !are_codes(word->values))
        diagnostics_.report(word->name.span, messages::attribute_values, name, "takes codes of warnings")
            .hint("write `[[allow(W0210)]]`");
      const bool one_word = word->values.size() == 1 && !std::holds_alternative<Number>(word->values[0].value);
      if (name == "name" && !one_word)
        diagnostics_.report(word->name.span, messages::attribute_idle, name, "without one word")
            .hint("write `[[name(total)]]`");
      if (name == "ties" && !one_word)
        diagnostics_.report(word->name.span, messages::attribute_values, name, "takes one of split, first and all")
            .hint("write `[[ties(first)]]`");
      if ((name == "save" || name == "recompute") && !word->values.empty())
        diagnostics_.report(word->name.span, messages::attribute_values, name, "takes nothing in parentheses");
    }
  }

  // Of a function, which is compiled as they say.
  void plan_lines(const std::vector<Attribute>& words) {
    const Attribute* before = nullptr;
    for (const Attribute& word : words) {
      if (word.name.text != "plan") continue;
      const bool lines = !word.values.empty() &&
          std::all_of(word.values.begin(), word.values.end(),
              [](const Value& value) { return std::holds_alternative<std::string>(value.value); });
      if (before != nullptr)
        diagnostics_.report(word.name.span, messages::attribute_values, "plan", "is given twice")
            .label(before->name.span, "and here");
      else if (!lines)
        diagnostics_.report(word.name.span, messages::attribute_values, "plan", "takes lines of a plan, each a string")
            .hint("write `[[plan(\"no copy\")]]`");
      before = &word;
    }
  }

  // `[[before(A, dim)]]`: a pack of the heading and a compile-time parameter or a number.
  void sides(const Function& f) {
    const std::vector<Name> packs = packs_of(f);
    for (const Attribute& word : f.attributes) {
      if (word.name.text != "before" && word.name.text != "after") continue;
      const std::optional<Side> side = side_of(word);
      const bool of_pack = side && std::find(packs.begin(), packs.end(), side->pack) != packs.end();
      const Name* axis = side ? std::get_if<Name>(&side->axis.value) : nullptr;
      const bool known =
          side && (!axis || std::any_of(f.parameters.begin(), f.parameters.end(), [&](const Parameter& p) {
            return p.name == *axis && p.choices.empty();
          }));
      if (!of_pack || !known)
        diagnostics_
            .report(word.name.span, messages::attribute_values, word.name.text,
                "takes a pack of the heading and an axis, a compile-time parameter or a number")
            .hint(fmt::format("write `[[{}(B, dim)]]` for `B...`", word.name.text));
    }
  }

  static bool are_codes(const std::vector<Value>& values) {
    const auto is_code = [](const Value& value) {
      const auto* word = std::get_if<std::shared_ptr<const Word>>(&value.value);
      const std::string code = word && !(*word)->parentheses ? (*word)->name.text : "";
      return code.size() == 5 && code[0] == 'W' &&
          std::all_of(code.begin() + 1, code.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    return !values.empty() && std::all_of(values.begin(), values.end(), is_code);
  }

  void signature(const Input& i) {
    type(i.target);
    const auto* name = i.value ? std::get_if<Name>(&i.value->value) : nullptr;
    if (name && (name->upper || (name->text != "inf" && name->text != "nan")))
      diagnostics_.report(name->span, messages::input_default, i.target.name.spelled(), name->spelled())
          .hint("a default is a number, `inf`, `-inf` or `nan`");
    for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
      if (!size.as<Variable>()) expression(size, Role::Signature);
  }

  // ---- contractions ----

  void contraction(const Contraction& c) {
    type(c.target);
    elements(c.element, Role::Index, [&](const Expr& e) { affine(e, Role::Index); });
    elements(c.sizes, Role::Size, [&](const Expr& e) { expression(e, Role::Size); });
    pack_missed(c.element, c.sizes, c.target.name.spelled());
    counts(c);
    aggregation(c);
    const Select* half = c.body.as<Select>();
    if (half && !half->otherwise) half_select(*half);
    else expression(c.body, Role::Body);
    for (const Constraint& k : c.constraints) {
      if (strict_twice(k)) continue;
      if (k.low) affine(*k.low, Role::Constraint);
      affine(k.polynomial, Role::Constraint);
      affine(k.bound, Role::Constraint);
    }
    indices(c);
    if (c.default_value) default_value(*c.default_value);
  }

  // `3 < i < 5` reads as `3 < (i < 5)`.
  bool strict_twice(const Constraint& k) {
    const Binary* upper = k.form == Constraint::Form::Less ? k.bound.as<Binary>() : nullptr;
    if (!upper || (upper->op != Op::Lt && upper->op != Op::Le)) return false;
    const Number* low = k.polynomial.as<Number>();
    const std::string from = low ? fmt::format("{}", low->integer + 1) : print(k.polynomial) + " + 1";
    diagnostics_.report(k.span, messages::not_affine, "`<` in front of a comparison")
        .hint(fmt::format(
            "write `{} <= {} {} {}`", from, print(upper->left), info(upper->op).symbol, print(upper->right)));
    return true;
  }

  // `-inf` is the number, and there is no `-T` of a tensor; so not where `inf` is one.
  void default_value(const Default& d) {
    const auto* name = std::get_if<Name>(&d.value);
    const auto* number = std::get_if<Number>(&d.value);
    if (number && (number->text == "-inf" || number->text == "-nan") && find(Name{number->text.substr(1), false, {}}))
      diagnostics_.report(
          d.span, messages::syntax, "a number or a tensor", fmt::format("`{}` of a tensor", number->text));
    if (const Known* known = name ? find(*name) : nullptr; known && known->pack) return misplaced(*name, "`default`");
    if (name && (find(*name) || (name->text != "inf" && name->text != "nan")))
      use(*name, "`default` takes a number or a tensor");
  }

  void counts(const Contraction& c) {
    // counted once ranks are known
    const bool open = !c.sizes.empty() &&
        (std::any_of(c.element.begin(), c.element.end(), pack) || std::any_of(c.sizes.begin(), c.sizes.end(), pack));
    if (c.element.size() == c.sizes.size() || open) return;
    auto entry = diagnostics_.report(c.target.name.span, messages::sizes_count, c.target.name.spelled(),
        counted(c.element.size(), "index"), counted(c.sizes.size(), "size"));
    std::string list;
    std::string sizes;
    for (const Expr& e : c.element) {
      list += (list.empty() ? "" : ", ") + print(e);
      sizes += (sizes.empty() ? "" : ", ") + size_read_with(c.body, e).value_or("…");
    }
    if (c.sizes.empty())
      entry.hint(fmt::format("sizes follow the indices: `{}[{}: {}]`", c.target.name.spelled(), list, sizes));
  }

  // The size of the dimension that the body reads at exactly this index.
  std::optional<std::string> size_read_with(const Expr& body, const Expr& index) {
    std::optional<std::string> found;
    visit_accesses(body, [&](const Access& a) {
      const Known* known = find(a.tensor);
      for (std::size_t d = 0; known && known->sizes && d < std::min(known->sizes->size(), a.element.size()); ++d)
        if (!found && a.element[d] == index) found = print((*known->sizes)[d]);
    });
    return found;
  }

  template <class Visit> void visit_accesses(const Expr& e, const Visit& visit) {
    const auto go = [&](const Expr& inner) { visit_accesses(inner, visit); };
    e.match([](const Number&) {}, [](const Variable&) {}, [&](const Unary& u) { go(u.operand); },
        [&](const Binary& b) { go(b.left), go(b.right); }, [&](const Access& a) { visit(a); },
        [&](const Call& c) { std::for_each(c.arguments.begin(), c.arguments.end(), go); },
        [&](const Select& s) {
          go(s.condition), go(s.then);
          if (s.otherwise) go(*s.otherwise);
        });
  }

  void aggregation(const Contraction& c) {
    if (!c.aggregation_name) return;
    const Name& name = *c.aggregation_name;
    const Known* known = find(name);
    if ((known && known->kind == Known::Kind::Parameter) ||
        std::find(std::begin(aggregations), std::end(aggregations), name.text) != std::end(aggregations))
      return;
    diagnostics_.report(name.span, messages::unknown_aggregation, name.spelled())
        .hint("aggregations are `+ * > < =`, by name sum product max min assign");
  }

  // `A[…] == B[…] ? C[…]`; Tile took `+` and `*` for `==` there
  void half_select(const Select& s) {
    const Binary* pair = s.condition.as<Binary>();
    const bool known_form = pair && (pair->op == Op::Eq || pair->op == Op::Add || pair->op == Op::Mul) &&
        pair->left.as<Access>() && pair->right.as<Access>();
    if (!known_form)
      diagnostics_.report(s.condition.span(), messages::half_select_form).hint("say what the rest is: `a ? b : 0`");
    else if (pair->op != Op::Eq)
      diagnostics_.report(s.condition.span(), messages::half_select_operator, info(pair->op).symbol)
          .hint(fmt::format("write `{} == {}`", print(pair->left), print(pair->right)));
    expression(s.condition, Role::Body);
    expression(s.then, Role::Body);
  }

  // An index that only constraints mention ranges over something only if one of them is two-sided.
  void indices(const Contraction& c) {
    std::set<std::string> bounded;
    const auto collect = [&](const Expr& e) {
      visit_names(e, [&](const Name& n) { bounded.insert(n.spelled()); });
    };
    for (const Expr& e : c.element) collect(e);
    collect(c.body);
    for (const Constraint& k : c.constraints)
      if (k.low) collect(k.polynomial);
    for (const Constraint& k : c.constraints)
      for (const Expr* side : {&k.polynomial, &k.bound})
        visit_names(*side, [&](const Name& n) {
          if (!is_index(n) || !bounded.insert(n.spelled()).second) return;
          diagnostics_.report(n.span, messages::constraint_only_index, n.spelled())
              .hint(fmt::format("use it in an access, or bound it on both sides: `0 <= {} < 3`", n.spelled()));
        });
  }

  template <class Visit> void visit_names(const Expr& e, const Visit& visit) {
    const auto all = [&](const std::vector<Expr>& list) { for (const Expr& each : list) visit_names(each, visit); };
    if (choice_test(*function_, e)) return;
    e.match([](const Number&) {}, [&](const Variable& v) { visit(v.name); },
        [&](const Unary& u) { visit_names(u.operand, visit); },
        [&](const Binary& b) { visit_names(b.left, visit), visit_names(b.right, visit); },
        [&](const Access& a) { all(a.element); }, [&](const Call& c) { all(c.arguments); },
        [&](const Select& s) {
          visit_names(s.condition, visit), visit_names(s.then, visit);
          if (s.otherwise) visit_names(*s.otherwise, visit);
        });
  }

  // ---- expressions ----

  // Checks the names of an index expression; then that indices are only added, and scaled by sizes.
  void affine(const Expr& e, Role role) {
    expression(e, role);
    depends(e);
  }

  bool not_affine(const Expr& e, const std::string& why) {
    auto entry = diagnostics_.report(e.span(), messages::not_affine, why);
    const auto quote = why.find('`', 1);
    const std::string name = why.starts_with('`') ? why.substr(1, quote - 1) : "product";
    if (const auto idiom = hint_for(Idiom::Kind::Index, name)) entry.hint(*idiom);
    return false;                                      // said once, not at every level above
  }

  // `mode == zeros`: of the names that the parameter may be.
  bool choice(const Expr& e) {
    const auto test = choice_test(*function_, e);
    if (!test) return false;
    const auto& choices = choices_of(*function_, *test->parameter);
    const auto* name = test->other->as<Variable>();
    if (name && std::find(choices.begin(), choices.end(), name->name) != choices.end()) return true;
    auto entry = diagnostics_.report(test->other->span(), messages::no_such_choice, test->parameter->spelled(),
        lang::listed(choices), print(*test->other));
    std::vector<std::string> all;
    for (const Name& each : choices) all.push_back(each.spelled());
    if (const auto near = name ? nearest(name->name.text, all) : std::nullopt)
      entry.hint(fmt::format("did you mean `{}`?", *near));
    return true;
  }

  // Does `e` depend on an index?
  bool depends(const Expr& e) {
    if (choice_test(*function_, e)) return false;
    const auto any = [&](const std::vector<Expr>& list) {
      return std::any_of(list.begin(), list.end(), [&](const Expr& each) { return depends(each); });
    };
    return e.match([](const Number&) { return false; }, [&](const Variable& v) { return is_index(v.name); },
        [&](const Unary& u) {
          const bool inside = depends(u.operand);
          return inside && u.op != Op::Neg ? not_affine(e, fmt::format("`{}` of an index", info(u.op).symbol)) : inside;
        },
        [&](const Binary& b) {
          const bool left = depends(b.left), right = depends(b.right);
          if (b.op == Op::Mul && left && right) return not_affine(e, "a product of indices");
          if (b.op == Op::Div && right) return not_affine(e, "division by an index");
          const bool plain = b.op == Op::Add || b.op == Op::Sub || b.op == Op::Mul || b.op == Op::Div;
          return !plain && (left || right) ? not_affine(e, fmt::format("`{}` of an index", info(b.op).symbol))
                                           : left || right;
        },
        [](const Access&) { return false; },
        [&](const Call& c) {
          return any(c.arguments) ? not_affine(e, fmt::format("`{}` of an index", c.function.spelled())) : false;
        },
        [&](const Select& s) {
          const bool inside = any({s.condition, s.then}) || (s.otherwise && depends(*s.otherwise));
          return inside ? not_affine(e, "`?:` of an index") : false;
        });
  }

  void expression(const Expr& e, Role role) {
    if (choice(e)) return;
    e.match([](const Number&) {}, [&](const Variable& v) { variable(v, role); },
        [&](const Unary& u) { expression(u.operand, role); },
        [&](const Binary& b) {
          expression(b.left, role), expression(b.right, role);
          if (b.op == Op::Xor) power(b, e);
          if (b.op == Op::Div && (role == Role::Body || (role == Role::Elementwise && has_values_))) quotient(b, e);
        },
        [&](const Access& a) { access(a, e, role); }, [&](const Call& c) { call(c, e, role); },
        [&](const Select& s) {
          expression(s.condition, role), expression(s.then, role);
          if (s.otherwise) expression(*s.otherwise, role);
        });
  }

  // `X^2`. Where nothing says that integers are meant, it is most often a power.
  void power(const Binary& b, const Expr& e) {
    // `X^2 + 1` reads as `X ^ (2 + 1)`.
    const Expr* right = &b.right;
    while (const Binary* sum = right->as<Binary>()) right = &sum->left;
    const auto exponent = [](const Expr& side, std::uint64_t least, std::uint64_t most) {
      const Number* number = side.as<Number>();
      return number && !number->is_float && number->integer >= least && number->integer <= most;
    };
    const bool looks = (exponent(*right, 2, 10) && !of_integers(b.left)) ||
        (exponent(b.left, 2, 2) && !of_integers(b.right)) || (exponent(b.left, 10, 10) && !of_integers(b.right));
    if (!looks) return;
    const Expr* of = base(e, b.left);
    diagnostics_.report(e.span(), messages::xor_power)
        .hint(fmt::format("a power is `pow({}, {})`", of ? print(*of) : "x", print(*right)))
        .hint("where integers are meant, declare them, as in `u32 X[N]`, or cast: `u32(x) ^ 2`");
  }

  // What `^` would raise if it were a power, which binds tighter than Tile's `^`: `X` in `3*X^2` and `-X^2`, `X + 1` in
  // `3*(X + 1)^2`. Null: the tree does not tell where parentheses stood.
  static const Expr* base(const Expr& whole, const Expr& left) {
    const Binary* binary = left.as<Binary>();
    const Unary* unary = left.as<Unary>();
    if (!binary && !unary) return &left;
    const bool begins_grouped = first_of(left).span().begin != whole.span().begin;
    if (begins_grouped) return binary && binary->left.as<Binary>() ? nullptr : &left;
    const Expr& last = binary ? binary->right : unary->operand;
    const bool last_grouped = last.span().end != left.span().end || first_of(last).span().begin != last.span().begin;
    return last_grouped ? &last : base(last, last);
  }
  static const Expr& first_of(const Expr& e) {
    const Binary* binary = e.as<Binary>();
    return binary ? first_of(binary->left) : e;
  }

  // `1/2*A`: the quotient of two integers is truncated, before anything else is looked at.
  void quotient(const Binary& b, const Expr& e) {
    const auto left = constant(b.left), right = constant(b.right);
    const auto* size = b.right.as<Variable>();
    const Known* known = size ? find(size->name) : nullptr;
    const bool by_size = known && known->kind == Known::Kind::Size && left && (*left == 1 || *left == -1);
    const bool truncates = left && right && *right != 0 && *left % *right != 0;
    if (!truncates && !by_size) return;
    const std::string value = by_size ? fmt::format("0 wherever `{}` is more than 1", size->name.spelled())
                                      : fmt::format("{}", *left / *right);
    diagnostics_.report(e.span(), messages::integer_quotient, print(e), value)
        .hint(fmt::format("write `{}.0/{}`", *left, right ? print(b.right) : size->name.spelled()));
  }

  // Of integer literals alone.
  static std::optional<std::int64_t> constant(const Expr& e) {
    if (const Number* n = e.as<Number>())
      return n->is_float || n->integer > 1'000'000'000 ? std::nullopt
                                                       : std::optional(static_cast<std::int64_t>(n->integer));
    if (const Unary* u = e.as<Unary>(); u && u->op == Op::Neg)
      if (const auto value = constant(u->operand)) return -*value;
    return std::nullopt;
  }

  bool of_values(const Expr& e) const {
    const auto go = [&](const Expr& each) { return of_values(each); };
    return e.match([](const Number& n) { return n.is_float; },
        [&](const Variable& v) {
          const Known* known = find(v.name);
          return known && (known->kind == Known::Kind::Input || known->kind == Known::Kind::Assigned);
        },
        [&](const Unary& u) { return go(u.operand); }, [&](const Binary& b) { return go(b.left) || go(b.right); },
        [](const Access&) { return true; },
        [&](const Call& c) { return std::any_of(c.arguments.begin(), c.arguments.end(), go); },
        [&](const Select& s) { return go(s.condition) || go(s.then) || (s.otherwise && go(*s.otherwise)); });
  }

  // Does the text say that this is an integer: a declared type, a cast, another operation on bits?
  bool of_integers(const Expr& e) const {
    const auto named = [&](const Name& name) { return integers_.contains(name.spelled()); };
    return e.match([](const Number&) { return true; }, [&](const Variable& v) { return named(v.name); },
        [&](const Unary& u) { return u.op == Op::Not || of_integers(u.operand); },
        [&](const Binary& b) { return info(b.op).integers_only || of_integers(b.left) || of_integers(b.right); },
        [&](const Access& a) { return named(a.tensor); },
        [&](const Call& c) {
          const auto type = dtype_named(c.function.text);
          return (type && !is_float(*type)) || c.function.text == "as_int" || c.function.text == "as_uint";
        },
        [&](const Select& s) { return of_integers(s.then) || (s.otherwise && of_integers(*s.otherwise)); });
  }

  void variable(const Variable& v, Role role) {
    const Name& name = v.name;
    if (v.pack) return misplaced(name, described(role));
    if (!as_indexed(v)) return;
    const bool has_indices = role == Role::Body || role == Role::Index || role == Role::Constraint;
    if (is_index(name)) {
      const bool constant =
          (role == Role::Body || role == Role::Elementwise) && (name.text == "inf" || name.text == "nan");
      if (!constant && !has_indices)
        unknown(name,
            role == Role::Elementwise ? "indices are for contractions: `O[i: N] = =(…);`"
                                      : "an index is not known where sizes are");
      return;
    }
    if (const Known* size = find(name); size && !as_declared(v, *size)) return;
    if (const auto& choices = choices_of(*function_, name); !choices.empty()) {
      diagnostics_
          .report(name.span, messages::parameter_kind, name.spelled(), "one of " + lang::listed(choices), "a value")
          .hint(fmt::format("ask which: `{} == {} ? … : …`", name.spelled(), choices.back().spelled()));
      return;
    }
    const Known* known = use(name,
        has_indices ? "an index begins with a lower-case letter"
            : role == Role::Size
            ? fmt::format("sizes are named in the heading, by an input such as `X[{}]`", name.spelled())
            : "");
    if (known && role == Role::Body && known->rank > 0)
      diagnostics_.report(name.span, messages::whole_tensor, name.spelled()).label(known->where, "declared here")
          .hint(fmt::format("read an element: `{}[{}]`", name.spelled(), sample_indices(known->rank)));
  }

  static std::string sample_indices(std::size_t rank) {
    static constexpr std::string_view letters[] = {"i", "j", "k"};
    if (rank > 3) return "…";
    std::string out;
    for (std::size_t d = 0; d < rank; ++d) out.append(d ? ", " : "").append(letters[d]);
    return out;
  }

  void access(const Access& a, const Expr& e, Role role) {
    const Known* known = use(a.tensor);
    if (role == Role::Body) {
      elements(a.element, Role::Index, [&](const Expr& index) { affine(index, Role::Index); });
      if (known && known->sizes) pack_missed(a.element, *known->sizes, a.tensor.spelled());
      return;
    }
    if (a.element.empty() && role != Role::Elementwise) return;  // `S[]`, a scalar
    auto entry = diagnostics_.report(e.span(), messages::element_misplaced, print(e), described(role));
    if (role != Role::Elementwise) return;
    if (a.element.empty()) entry.hint(fmt::format("write `{}`", a.tensor.spelled()));
    else if (known && known->sizes)
      entry.hint(fmt::format("write `{}` for all of it, or a contraction: `{}`", a.tensor.spelled(),
          read_by_contraction(a, *known->sizes)));
    else entry.hint(fmt::format("write `{}` for all of it, or a contraction: `O[i: N] = =(…);`", a.tensor.spelled()));
    if (known) entry.label(known->where, "declared here");
  }

  // `X[0]` of X[M, N]: `T[j: N] = =(X[0, j]);`
  static std::string read_by_contraction(const Access& a, const std::vector<Expr>& sizes) {
    static constexpr std::string_view letters[] = {"i", "j", "k", "l"};
    std::string target, extents, read;
    const auto add = [](std::string& list, std::string_view text) {
      list.append(list.empty() ? "" : ", ").append(text);
    };
    for (std::size_t d = 0; d < std::max(sizes.size(), a.element.size()); ++d) {
      const std::string index =
          d < a.element.size() ? print(a.element[d]) : std::string(letters[std::min<std::size_t>(d, 3)]);
      const bool kept =
          d >= a.element.size() || (a.element[d].as<Variable>() && !a.element[d].as<Variable>()->name.upper);
      add(read, index);
      if (kept && d < sizes.size()) add(target, index), add(extents, print(sizes[d]));
    }
    return fmt::format("T[{}{}{}] = =({}[{}]);", target, target.empty() ? "" : ": ", extents, a.tensor.spelled(), read);
  }

  // `reshape(X, B..., N)`: of a built-in function that takes any number of sizes.
  static bool takes_pack(const Call& c, std::size_t k) {
    const Builtin* builtin = builtin_named(c.function.text);
    return builtin && k >= builtin->sizes_from && builtin->arguments.most >= any_number;
  }

  void call(const Call& c, const Expr& e, Role role) {
    const std::string& name = c.function.text;
    const bool is_product =
        name == "product" && c.arguments.size() == 1 && pack(c.arguments[0]) && !is_function(c.function);
    if (is_product) return pack_in_list(*c.arguments[0].as<Variable>(), Role::Size);
    const bool known = is_function(c.function) || name == "iterate" || arity(name);
    if (!known) return no_function(c.function);          // what it would take is not known either
    for (std::size_t k = 0; k < c.arguments.size(); ++k) {
      if (pack(c.arguments[k]) && takes_pack(c, k) && !is_function(c.function)) {
        pack_in_list(*c.arguments[k].as<Variable>(), Role::Size);
        continue;
      }
      // of a whole tensor, of which nothing is read
      const bool type_only = k == 1 && name == "as_float" && role == Role::Body;
      expression(c.arguments[k], type_only ? Role::Elementwise : role);
    }
    for (std::size_t k = 0; k < c.parameters.size(); ++k)
      if (const auto* parameter = std::get_if<Name>(&c.parameters[k].value); parameter && !may_be_choice(c, k))
        argument_name(*parameter);
    if (const auto label = std::find_if(
            c.parameters.begin(), c.parameters.end(), [](const Argument& a) { return a.label.has_value(); });
        label != c.parameters.end() && !is_function(c.function))
      diagnostics_.report(label->label->span, messages::unknown_parameter, name, label->label->spelled())
          .hint(fmt::format("`{}` is built in: what stands in its `< >` has no name", name));
    if (is_function(c.function) || name == "iterate") return;  // calls.cpp
    if (const auto label =
            std::find_if(c.labels.begin(), c.labels.end(), [](const auto& each) { return each.has_value(); });
        label != c.labels.end()) {
      diagnostics_.report((*label)->span, messages::names_of_builtin, name)
          .hint(fmt::format(
              "leave the name out: `{}`", print(Expr(Call{c.function, c.parameters, c.arguments}, e.span()))));
      return;
    }
    const std::optional<Count> takes = arity(name);
    const Builtin* builtin = builtin_named(name);
    const Count parameters = builtin ? builtin->parameters : Count{};
    if (!takes->holds(c.arguments.size()))
      wrong_count(c, e, *takes);
    else if (!parameters.holds(c.parameters.size()))
      diagnostics_.report(e.span(), messages::argument_count, name, described(parameters, "number") + " in `< >`",
          std::to_string(c.parameters.size()));
  }

  // `max(X)`, where a reduction is meant
  void wrong_count(const Call& c, const Expr& e, const Count& takes) {
    const std::string& name = c.function.text;
    auto entry = diagnostics_.report(
        e.span(), messages::argument_count, name, described(takes, "argument"), std::to_string(c.arguments.size()));
    const Builtin* builtin = builtin_named(name);
    const auto written = with_parameter(c);
    if (written && builtin && builtin->parameters.holds(1) && takes.holds(c.arguments.size() - 1)) entry.hint(*written);
    else if (const auto idiom = hint_for(Idiom::Kind::Function, name)) entry.hint(*idiom);
  }

  void no_function(const Name& name, const std::optional<std::string>& otherwise = std::nullopt) {
    std::vector<std::string> own, all, standard;
    if (may_search()) {
      for (const StandardName& each : standard_names()) standard.emplace_back(each.name);
      own = function_names(file_);
      all = builtin_names();
      all.insert(all.end(), own.begin(), own.end());
    }
    if (const auto whole = name_with_prefix(file_, name)) {
      diagnostics_.report(name.span, messages::prefix_missing, name.spelled())
          .hint(fmt::format("write `{}`", whole->text));
      return;
    }
    auto entry = diagnostics_.report(name.span, messages::unknown_function, name.spelled());
    if (const auto parts = prefixed(name)) {
      const auto near = nearest(name.text, own);
      const auto elsewhere = near ? std::nullopt : hint_for(Idiom::Kind::Function, parts->name.text);
      entry.hint(near ? fmt::format("did you mean `{}`?", *near) : elsewhere.value_or(with_functions(parts->prefix)));
    } else if (const auto hidden = hidden_definition(file_, name))
      entry.label(hidden->function->name->span, "defined in a file that an import imports")
          .hint("import that file too");
    else if (const auto near = nearest(name.text, own); near && near->size() == name.text.size())
      entry.hint(fmt::format("did you mean `{}`?", *near));
    else if (const auto idiom = hint_for(Idiom::Kind::Function, name.text)) entry.hint(*idiom);
    else if (const auto near = nearest(name.text, all)) entry.hint(fmt::format("did you mean `{}`?", *near));
    else if (const auto near = nearest(name.text, standard))
      entry.hint(fmt::format("did you mean `{}`? {}", *near, hint_for(Idiom::Kind::Function, *near).value()));
    else entry.hint(otherwise && name.upper ? *otherwise : "`tilec explain E0116` says which there are");
  }

  // What an import under this prefix has.
  std::string with_functions(const std::string& prefix) const {
    constexpr std::size_t most = 5;
    std::vector<std::string> names;
    for (const std::string& each : function_names(file_))
      if (each.starts_with(prefix + '.')) names.push_back(each);
    if (names.empty()) return fmt::format("`{}` has no functions", prefix);
    std::string text;
    for (std::size_t k = 0; k < std::min(most, names.size()); ++k) text += (k == 0 ? "`" : ", `") + names[k] + "`";
    return fmt::format("there {} {}{}", names.size() == 1 ? "is" : "are", text, names.size() > most ? ", …" : "");
  }

  // A name in < >: something of this function, a function, an aggregation or a constant; build knows which is wanted.
  void argument_name(const Name& name) {
    if (const Known* known = find(name); known && known->pack) return misplaced(name, "`< >`");
    if (!find(name) && !may_stand_in_parameters(name))
      no_function(name, fmt::format("a number has to be declared in the heading: `function f<{}=3>(…)`", name.text));
  }

  bool may_stand_in_parameters(const Name& name) const {
    const bool constant = name.text == "inf" || name.text == "nan";
    const bool aggregation =
        std::find(std::begin(aggregations), std::end(aggregations), name.text) != std::end(aggregations);
    return constant || aggregation || is_function(name) || arity(name.text);
  }

  // One of the names of a parameter of the callee, or of one that is not known here; calls.cpp and build say more.
  bool may_be_choice(const Call& c, std::size_t k) const {
    const Known* known = find(c.function);
    if (known && known->kind == Known::Kind::Parameter) return true;
    const auto all = definitions(file_, c.function);
    if (all.size() != 1) return false;
    const Parameter* parameter = parameter_of(*all[0].function, c.parameters, k);
    return !parameter || !choices_of(*all[0].function, parameter->name).empty();
  }

  // A parameter or a function of this file.
  bool is_function(const Name& name) const {
    const Known* known = find(name);
    if (known && known->kind == Known::Kind::Parameter) return true;
    return !definitions(file_, name).empty();
  }
};

void distinct(const File& file, Diagnostics& diagnostics) {
  std::map<std::pair<Function::Role, std::string>, Span> seen;
  for (const auto& item : file.items) {
    const auto* f = std::get_if<Function>(&item);
    if (!f) continue;
    const Span where = f->name ? f->name->span : Span{f->span.begin, f->span.begin + 1, f->span.source};
    const auto [at, is_new] = seen.emplace(std::pair(f->role, f->name ? f->name->spelled() : ""), where);
    const std::string_view role = f->role == Function::Role::Function ? ""
        : f->role == Function::Role::Gradient                         ? "the gradient of "
                                                                      : "the tangent of ";
    if (is_new) continue;
    diagnostics
        .report(where, messages::function_redefined,
            f->name ? fmt::format("{}`{}`", role, f->name->spelled()) : "the unnamed function")
        .label(at->second, "first defined here");
  }
}

}  // namespace

std::vector<Allowed> allowed_warnings(const File& file) {
  std::vector<Allowed> allowed;
  const auto mark = [&](const std::vector<Attribute>& words, Span where) {
    for (const Attribute& word : words)
      for (const Value& value : word.name.text == "allow" ? word.values : std::vector<Value>{})
        if (const auto* code = std::get_if<std::shared_ptr<const Word>>(&value.value))
          allowed.push_back({(*code)->name.text, where});
  };
  std::set<const File*> seen;
  std::vector<const File*> files = {&file};
  for (std::size_t next = 0; next < files.size(); ++next)
    for (const auto& item : files[next]->items) {
      if (const auto* import = std::get_if<Import>(&item);
          import && import->file && seen.insert(import->file.get()).second)
        files.push_back(import->file.get());
      const auto* f = std::get_if<Function>(&item);
      if (!f) continue;
      mark(f->attributes, f->span);
      for (const Statement& s : f->statements) mark(s.attributes, s.span);
    }
  return allowed;
}

bool is_allowed(const std::vector<Allowed>& allowed, std::string_view code, Span at) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const Allowed& each) {
    return each.code == code && each.where.source == at.source && each.where.begin <= at.begin &&
        at.end <= each.where.end;
  });
}

bool check(const File& file, Diagnostics& diagnostics) {
  Diagnostics found;
  distinct(file, found);
  Checker checker(file, found);
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item)) checker.function(*f);
  check_calls(file, found);
  check_dimensions(file, found);
  std::vector<Diagnostic> sorted = found.all();
  std::stable_sort(sorted.begin(), sorted.end(),
      [](const Diagnostic& a, const Diagnostic& b) { return a.span.begin < b.span.begin; });
  const std::vector<Allowed> allowed = allowed_warnings(file);
  for (Diagnostic& diagnostic : sorted)
    if (diagnostic.severity != Severity::Warning || !is_allowed(allowed, diagnostic.code, diagnostic.span))
      diagnostics.add(std::move(diagnostic));
  return !found.has_errors();
}

}  // namespace tilec::lang
