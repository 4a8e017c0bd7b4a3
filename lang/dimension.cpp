#include "lang/dimension.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/calls.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/pack.h"
#include "lang/print.h"
#include "lang/type.h"

namespace tilec::lang {
namespace {

using Dimension = std::optional<std::string>;          // a plain size name, or a pack: `B...` is one dimension here
// name: where it is all there is
struct Shape { std::vector<Dimension> dimensions; Span where; std::string name = {}; };
// Of a value: its dimensions where they can be told, or what a tuple is made of.
struct Value { std::optional<Shape> shape = {}; std::vector<Value> parts = {}; };

Dimension plain(const Expr& size) {
  const auto* v = size.as<Variable>();
  return v ? Dimension(v->name.spelled() + (v->pack ? "..." : "")) : std::nullopt;
}

bool is_pack(const Dimension& d) { return d && d->ends_with("..."); }

// Is each dimension read with one index, and each pack with a pack?
bool fits(const std::vector<Expr>& element, const std::vector<Dimension>& dimensions) {
  return std::equal(element.begin(), element.end(), dimensions.begin(), dimensions.end(),
      [](const Expr& e, const Dimension& d) { return (pack(e) != nullptr) == is_pack(d); });
}

// The dimension that each index stands for: `X[b..., n]` of [M, K, N] is M and K for `b...`, then N. Nothing where they
// do not fit, or two packs leave it open.
struct Part { const Expr* index; std::size_t number; Dimension dimension; };  // number: in its pack
std::vector<Part> parts_of(const std::vector<Expr>& element, const std::vector<Dimension>& dimensions) {
  std::vector<Part> parts;
  const auto packs = static_cast<std::size_t>(std::count_if(element.begin(), element.end(), pack));
  const bool alike = fits(element, dimensions);
  if (!alike && (packs != 1 || dimensions.size() + 1 < element.size())) return parts;
  const std::size_t in_pack = alike ? 1 : dimensions.size() + 1 - element.size();
  std::size_t next = 0;
  for (const Expr& e : element)
    for (std::size_t k = 0; k < (pack(e) ? in_pack : 1); ++k) parts.push_back({&e, k, dimensions[next++]});
  // one index for a pack
  const bool misread =
      std::any_of(parts.begin(), parts.end(), [](const Part& p) { return !pack(*p.index) && is_pack(p.dimension); });
  return misread ? std::vector<Part>{} : parts;
}

// What stands behind the last pack: aligned at the right, it meets the same of another shape.
std::vector<Dimension> behind_packs(const std::vector<Dimension>& dimensions) {
  const auto last = std::find_if(dimensions.rbegin(), dimensions.rend(), is_pack);
  return {last.base(), dimensions.end()};
}

// Where an index stands alone as one dimension of a tensor.
struct Use { std::string tensor, dimension; Span index, declared; const Access* access; };
using Uses = std::map<std::string, std::vector<Use>>;  // by index

// Functions whose result has the dimensions of their first argument, whatever else they take.
constexpr std::string_view keeps_shape[] = {"ident", "rsqrt", "isinf", "as_float", "as_int", "as_uint", "as_bool",
    "index", "cumsum", "cumprod", "sort", "argsort", "argsort_descending", "builtin_softmax", "builtin_logsoftmax",
    "reverse_grad"};

constexpr std::size_t most_components = 1000;          // of a tuple that is followed, those of its tuples included
constexpr int most_nested = 100;                       // calls in calls; recursion is reported elsewhere

// What a file's functions share.
struct Shared {
  const File& file;
  const std::set<std::string>& apart;                  // names that a `dim` of the file declares
  Diagnostics in_calls = {};                           // what calls bring together, function by function
  std::map<std::string, std::vector<Value>> known = {};  // results of functions, by the dimensions they are called with
};

// The statements of one function: on its own, or as a call finds them, its size names standing for those of the caller.
class Dimensions {
 public:
  Dimensions(Shared& shared, const File& file, Diagnostics& diagnostics, int depth = 0)
      : shared_(shared), file_(file), diagnostics_(diagnostics), depth_(depth) {}

  void function(const Function& f) {
    for (const Input& i : f.inputs)
      for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
        if (const Dimension name = plain(size)) means_.emplace(*name, std::vector{name});
    for (const Input& i : f.inputs)
      if (i.sizes) values_[i.target.name.spelled()].shape = shape_of(*i.sizes, i.span);
    for (const Statement& s : f.statements)
      if (const auto* a = std::get_if<Assignment>(&s.node)) note_assertion(a->value);
    statements(f);
  }

  std::vector<Value> called(const Function& f, const std::vector<Value>& arguments) {
    for (std::size_t k = 0; k < arguments.size(); ++k)
      if (f.inputs[k].sizes && arguments[k].shape) bind(f, f.inputs[k], *arguments[k].shape);
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      const Input& i = f.inputs[k];
      values_[i.target.name.spelled()] = i.sizes ? Value{shape_of(*i.sizes, i.span)} : arguments[k];
    }
    statements(f);
    std::vector<Value> results;
    for (const Target& result : f.results) results.push_back(value_named(result.name));
    return results;
  }

 private:
  Shared& shared_;
  const File& file_;                                   // whose functions are called by name
  Diagnostics& diagnostics_;
  int depth_;                                          // 0: the function on its own
  std::vector<Parameter> parameters_;                  // a function among them is not looked through
  std::map<std::string, Value> values_;
  std::set<std::string> completed_;                    // what a later statement has for its `default`
  std::set<std::pair<std::string, std::string>> equal_;  // what the text asserts: `assert_square(M == N)`
  std::map<std::string, std::vector<Dimension>> means_;  // names that an input's shape declares; `H = N/2` is none. A
                                                         // pack of what is called: dimensions of the caller

  void statements(const Function& f) {
    parameters_ = f.parameters;
    for (const Statement& s : f.statements)
      if (const auto* c = std::get_if<Contraction>(&s.node); c && c->default_value)
        if (const auto* name = std::get_if<Name>(&c->default_value->value)) completed_.insert(name->spelled());
    for (const Statement& s : f.statements)
      std::visit(Overloaded{[](std::monostate) {},
                            [&](const TupleAssignment& t) {
                              const Value value = value_of(t.value);
                              for (std::size_t k = 0; k < t.targets.size() && k < value.parts.size(); ++k)
                                values_[t.targets[k].name.spelled()] = value.parts[k];
                            },
                            [&](const Assignment& a) {
                              Value value = value_of(a.value);
                              if (value.shape) value.shape->where = a.target.span;
                              values_[a.target.name.spelled()] = std::move(value);
                            },
                            [&](const Contraction& c) {
                              contraction(c);
                              values_[c.target.name.spelled()].shape = shape_of(c.sizes, c.target.span);
                            }},
                 s.node);
  }

  Value value_named(const Name& name) const {
    const auto at = values_.find(name.spelled());
    return at == values_.end() ? Value{} : at->second;
  }

  // Nothing where a pack leaves open how many there are.
  std::optional<Shape> shape_of(const std::vector<Expr>& sizes, Span where) const {
    Shape shape{{}, where};
    for (const Expr& size : sizes) {
      const Dimension name = plain(size);
      const auto at = name ? means_.find(*name) : means_.end();
      if (at == means_.end() && pack(size)) return std::nullopt;
      if (at == means_.end()) shape.dimensions.emplace_back();
      else shape.dimensions.insert(shape.dimensions.end(), at->second.begin(), at->second.end());
    }
    return shape;
  }

  bool kept_apart(const std::string& a, const std::string& b) const { return a != b && (is_apart(a) || is_apart(b)); }
  bool is_apart(const std::string& dimension) const {
    return shared_.apart.contains(is_pack(dimension) ? dimension.substr(0, dimension.size() - 3) : dimension);
  }

  // ---- calls ----

  // An input's size names are what the argument has there. One that `dim` declares is itself and nothing else.
  void bind(const Function& f, const Input& input, const Shape& given) {
    const auto stands_for = [&](const std::string& name, const std::vector<Dimension>& dimensions) {
      const bool typed = &file_ == &shared_.file && shared_.apart.contains(name);
      const auto [at, is_new] = means_.emplace(name, typed ? std::vector{Dimension(name)} : dimensions);
      for (std::size_t k = 0; k < dimensions.size() && at->second.size() == dimensions.size(); ++k)
        if (const Dimension &known = at->second[k], &met = dimensions[k]; known && met && kept_apart(*known, *met))
          diagnostics_
              .report(given.where, messages::dimensions_mix, *known, *met,
                  fmt::format("they are both `{}` of `{}`", name, f.name->text))
              .label(input.span, "declared here");
    };
    const auto parts = parts_of(*input.sizes, given.dimensions);
    const bool empty_pack = given.dimensions.size() + 1 == input.sizes->size() &&
        std::count_if(input.sizes->begin(), input.sizes->end(), pack) == 1;
    for (const Expr& size : *input.sizes) {
      const Dimension name = plain(size);
      std::vector<Dimension> here;
      for (const Part& part : parts)
        if (part.index == &size) here.push_back(part.dimension);
      const bool known = is_pack(name) ? !here.empty() || empty_pack : !here.empty() && here[0] && !is_pack(here[0]);
      if (name && known) stands_for(*name, here);
    }
  }

  static std::string key(const Function& f, const std::vector<Value>& arguments) {
    std::string text = fmt::format("{}", static_cast<const void*>(&f));
    const auto add = [&](const auto& self, const Value& value) -> void {
      text += value.shape ? "(" : "?(";
      for (const Dimension& d : value.shape ? value.shape->dimensions : std::vector<Dimension>{})
        text += d.value_or("") + ",";
      for (const Value& part : value.parts) self(self, part);
      text += ")";
    };
    for (const Value& value : arguments) add(add, value);
    return text;
  }

  std::vector<Value> results_of(const Definition& definition, const std::vector<Value>& arguments, Span span) {
    const Function& f = *definition.function;
    if (depth_ >= most_nested) return {};
    const auto [known, is_new] = shared_.known.try_emplace(key(f, arguments));
    if (!is_new) return known->second;
    Diagnostics found;
    std::vector<Value> results = Dimensions(shared_, *definition.file, found, depth_ + 1).called(f, arguments);
    Diagnostics& told = depth_ == 0 ? shared_.in_calls : diagnostics_;
    for (Diagnostic each : found.all()) {
      if (!(each.span == span)) each.labels.push_back({span, "in this call"});
      told.add(std::move(each));
    }
    return known->second = std::move(results);         // references into a map stay
  }

  Value result_of(const Call& c, const Expr& e) {
    const auto* iterated =
        c.function.text == "iterate" && !c.parameters.empty() ? std::get_if<Name>(&c.parameters[0].value) : nullptr;
    std::vector<Value> arguments;
    for (const Expr& argument : c.arguments) arguments.push_back(value_of(argument));
    const Name& callee = iterated ? *iterated : c.function;
    if (std::any_of(parameters_.begin(), parameters_.end(), [&](const Parameter& p) { return p.name == callee; }))
      return {};
    const auto found = definitions(file_, callee);
    if (found.size() == 1) {
      Diagnostics unheard;                             // calls.cpp reports
      const Function& f = *found[0].function;
      const auto places = iterated ? std::nullopt : in_order(f, c, e.span(), unheard);
      if (!places && (!iterated || arguments.size() != f.inputs.size())) return {};
      std::vector<Value> inputs(f.inputs.size());       // nothing is known of what is not given
      for (std::size_t k = 0; places && k < inputs.size(); ++k)
        if (const Expr* given = (*places)[k])
          inputs[k] = arguments[static_cast<std::size_t>(given - c.arguments.data())];
      std::vector<Value> results = results_of(found[0], places ? inputs : arguments, e.span());
      for (Value& each : results)
        if (each.shape) each.shape->where = e.span();
      return results.size() == 1 ? std::move(results[0]) : Value{{}, std::move(results)};
    }
    const std::string& name = c.function.text;
    if (name == "tuple") return components(arguments) <= most_components ? Value{{}, std::move(arguments)} : Value{};
    if (name == "element") return component(arguments, c);
    if (name == "reshape" && !c.arguments.empty())
      return {shape_of({c.arguments.begin() + 1, c.arguments.end()}, e.span())};
    const bool first =
        dtype_named(name) || std::find(std::begin(keeps_shape), std::end(keeps_shape), name) != std::end(keeps_shape);
    if (first && !arguments.empty()) return std::move(arguments[0]);
    return function_named(name) || name == "clamp" ? meet(arguments, e.span()) : Value{};
  }

  static std::size_t components(const std::vector<Value>& values) {
    std::size_t all = values.size();
    for (const Value& value : values) all += components(value.parts);
    return all;
  }

  static Value component(const std::vector<Value>& arguments, const Call& c) {
    const auto* at = c.arguments.size() == 2 ? c.arguments[1].as<Number>() : nullptr;
    return at && at->integer < arguments[0].parts.size() ? arguments[0].parts[at->integer] : Value{};
  }

  // ---- contractions ----

  void contraction(const Contraction& c) {
    Uses uses;
    const Access target{c.target.name, c.element};
    const std::optional<Shape> known = shape_of(c.sizes, c.target.span);
    const Shape shape = known.value_or(Shape{{}, c.target.span});
    note(target, shape, uses);
    accesses(c.body, uses);
    // Reads are compared with each other first: of a swapped operand the read is wrong, not the target.
    for (auto& [index, all] : uses) {
      std::rotate(all.begin(), std::find_if(all.begin(), all.end(), [&](const Use& u) { return u.access != &target; }),
          all.end());
      for (const Use& other : all)
        if (other.dimension != all[0].dimension &&
            (kept_apart(other.dimension, all[0].dimension) || !is_meant(all, other, target, c, uses))) {
          report(index, all[0], other, uses);
          break;
        }
    }
    if (depth_ == 0) {
      look_for_strides(c);
      look_for_swapped(c);
    }
    for (const Constraint& k : c.constraints) equal(k, uses);
    const auto* name = c.default_value ? std::get_if<Name>(&c.default_value->value) : nullptr;
    if (const Value filled = name ? value_named(*name) : Value{}; filled.shape && known)
      both(shape, {filled.shape->dimensions, c.default_value->span}, "`default` fills the first with the second");
  }

  // A diagonal, `A[i, i]`; or a part: the left side says how far the index goes, another read goes as far, and no other
  // order of the indices would read everything. `Y[t, d: T, D] = =(X[t, d] + P[t, d])` takes the first T rows of a
  // longer table.
  bool is_meant(const std::vector<Use>& all, const Use& other, const Access& target, const Contraction& c,
      const Uses& uses) const {
    if (other.access == all[0].access) return true;
    const auto written = std::find_if(all.begin(), all.end(), [&](const Use& u) { return u.access == &target; });
    if (written == all.end()) return false;
    bool whole = c.aggregation == AggregationSyntax::Assign && c.body.as<Access>();
    for (const Use& use : all) {
      if (use.access == &target) continue;
      whole |= use.dimension == written->dimension;
      if (use.dimension == written->dimension) continue;
      // `C[i, j: M, N]` with B[N, K] read at `B[i, k]`
      const bool of_another = std::any_of(uses.begin(), uses.end(), [&](const auto& each) {
        return std::any_of(each.second.begin(), each.second.end(),
            [&](const Use& u) { return u.access == &target && u.dimension == use.dimension; });
      });
      if (of_another || other_order(use, dimensions_of(use), uses)) return false;
    }
    return whole;
  }

  std::vector<Dimension> dimensions_of(const Use& use) const {
    const Value value = value_named(use.access->tensor);
    return value.shape ? value.shape->dimensions : std::vector<Dimension>{};
  }

  // ---- index expressions beside the left side ----

  // `2*y + j` as 2 for y and 1 for j; nothing where it is more than a sum of multiples of indices, and of numbers.
  using Linear = std::map<std::string, std::int64_t>;
  static bool add_linear(const Expr& e, std::int64_t factor, Linear& out) {
    const auto number = [](const Expr& side) {
      const Number* n = side.as<Number>();
      return n && !n->is_float && n->integer < 1'000'000 ? std::optional(static_cast<std::int64_t>(n->integer))
                                                         : std::nullopt;
    };
    return e.match([&](const Number& n) { return !n.is_float; },
        [&](const Variable& v) {
          out[v.name.spelled()] += factor;
          return !v.name.upper;
        },
        [&](const Unary& u) { return u.op == Op::Neg && add_linear(u.operand, -factor, out); },
        [&](const Binary& b) {
          if (b.op == Op::Add) return add_linear(b.left, factor, out) && add_linear(b.right, factor, out);
          if (b.op == Op::Sub) return add_linear(b.left, factor, out) && add_linear(b.right, -factor, out);
          if (b.op != Op::Mul || factor > 1'000'000 || factor < -1'000'000) return false;
          if (const auto n = number(b.left)) return add_linear(b.right, factor * *n, out);
          if (const auto n = number(b.right)) return add_linear(b.left, factor * *n, out);
          return false;
        },
        [](const Access&) { return false; }, [](const Call&) { return false; }, [](const Select&) { return false; });
  }

  // Plain indices of the left side with the size names they have there.
  std::map<std::string, std::string> written(const Contraction& c) const {
    std::map<std::string, std::string> result;
    const Shape shape = shape_of(c.sizes, c.target.span).value_or(Shape{{}, c.target.span});
    if (!fits(c.element, shape.dimensions)) return result;
    for (std::size_t d = 0; d < c.element.size(); ++d) {
      const auto* v = c.element[d].as<Variable>();
      if (v && !v->name.upper && shape.dimensions[d]) result[v->name.spelled()] = *shape.dimensions[d];
    }
    return result;
  }

  template <class Visit> void each_read(const Expr& e, const Visit& visit) const {
    const auto go = [&](const Expr& inner) { each_read(inner, visit); };
    e.match([](const Number&) {}, [](const Variable&) {}, [&](const Unary& u) { go(u.operand); },
        [&](const Binary& b) { go(b.left), go(b.right); },
        [&](const Access& a) {
          const Value value = value_named(a.tensor);
          if (value.shape && fits(a.element, value.shape->dimensions)) visit(a, value.shape->dimensions);
        },
        [&](const Call& call) { std::for_each(call.arguments.begin(), call.arguments.end(), go); },
        [&](const Select& s) {
          go(s.condition), go(s.then);
          if (s.otherwise) go(*s.otherwise);
        });
  }

  // `O[y: H] = +(I[2*y + j])` with I[H]: past the half, nothing is read.
  void look_for_strides(const Contraction& c) {
    if (c.default_value || completed_.contains(c.target.name.spelled())) return;
    const auto left = written(c);
    each_read(c.body, [&](const Access& a, const std::vector<Dimension>& shape) {
      for (std::size_t d = 0; d < shape.size(); ++d) {
        Linear form;
        if (!shape[d] || !add_linear(a.element[d], 1, form)) continue;
        const auto strided = std::find_if(form.begin(), form.end(), [&](const auto& term) {
          return term.second > 1 && left.contains(term.first) && left.at(term.first) == *shape[d];
        });
        const bool forward = std::all_of(form.begin(), form.end(), [](const auto& term) { return term.second >= 0; });
        if (strided == form.end() || !forward || is_constrained(c, strided->first)) continue;
        const auto& [index, stride] = *strided;
        auto entry = diagnostics_.report(a.element[d].span(), messages::stride_too_far, print(a.element[d]),
            a.tensor.spelled(), std::to_string(stride), index, c.target.name.spelled());
        entry.label(c.target.span, fmt::format("`{}` ranges over `{}` here", index, *shape[d]))
            .hint(fmt::format(
                "the result has `({} - 1)/{} + 1` elements in that direction: write that size; where 0 is meant for the others, add `default 0`",
                *shape[d], stride));
      }
    });
  }

  static bool is_constrained(const Contraction& c, const std::string& index) {
    return std::any_of(c.constraints.begin(), c.constraints.end(), [&](const Constraint& k) {
      Linear names;
      for (const Expr* side : {&k.polynomial, &k.bound}) add_linear(*side, 1, names);
      return names.contains(index);
    });
  }

  // `O[y, x: H, W] = +(I[x + i, y + j] * …)` with I[H, W]: each index runs along the other's dimension.
  void look_for_swapped(const Contraction& c) {
    const auto left = written(c);
    each_read(c.body, [&](const Access& a, const std::vector<Dimension>& shape) {
      for (std::size_t d = 0; d < shape.size(); ++d)
        for (std::size_t e = d + 1; e < shape.size(); ++e)
          if (const auto indices = swapped(a, shape, d, e, left)) {
            diagnostics_
                .report(merged(a.element[d].span(), a.element[e].span()), messages::axes_swapped, indices->first,
                    indices->second, a.tensor.spelled(), *shape[d], *shape[e])
                .label(c.target.span,
                    fmt::format("`{}` ranges over `{}` here, `{}` over `{}`", indices->first, *shape[e],
                        indices->second, *shape[d]))
                .hint(fmt::format("write `{}`, or name the result's sizes in the other order", exchanged(a, d, e)));
            return;
          }
    });
  }

  // Where neither dimension is read at an index alone; that is W0210.
  static std::optional<std::pair<std::string, std::string>> swapped(const Access& a,
      const std::vector<Dimension>& shape, std::size_t d, std::size_t e,
      const std::map<std::string, std::string>& left) {
    if (!shape[d] || !shape[e] || *shape[d] == *shape[e] ||
        (a.element[d].as<Variable>() && a.element[e].as<Variable>()))
      return std::nullopt;
    const auto of = [&](std::size_t at, const std::string& dimension) {
      Linear form;
      std::optional<std::string> found;
      if (!add_linear(a.element[at], 1, form)) return found;
      for (const auto& [index, factor] : form)
        if (left.contains(index)) {
          if (found || left.at(index) != dimension) return std::optional<std::string>();
          found = index;
        }
      return found;
    };
    const auto first = of(d, *shape[e]), second = of(e, *shape[d]);
    return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
  }

  static std::string exchanged(const Access& a, std::size_t d, std::size_t e) {
    std::string list;
    for (std::size_t k = 0; k < a.element.size(); ++k)
      list += (k ? ", " : "") + print(a.element[k == d ? e : k == e ? d : k]);
    return fmt::format("{}[{}]", a.tensor.spelled(), list);
  }

  static Span merged(Span a, Span b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end), a.source}; }

  // `i == j` makes one index of two.
  void equal(const Constraint& k, const Uses& uses) {
    const auto *left = k.polynomial.as<Variable>(), *right = k.bound.as<Variable>();
    if (k.form != Constraint::Form::Equal || !left || !right) return;
    const auto a = uses.find(left->name.spelled()), b = uses.find(right->name.spelled());
    if (a == uses.end() || b == uses.end() || !kept_apart(a->second[0].dimension, b->second[0].dimension)) return;
    diagnostics_
        .report(k.span, messages::dimensions_mix, a->second[0].dimension, b->second[0].dimension,
            fmt::format("`{}` and `{}` are one index", a->first, b->first))
        .label(a->second[0].index, "this ranges over the first")
        .label(b->second[0].index, "this ranges over the second");
  }

  void note(const Access& access, const Shape& shape, Uses& uses) const {
    const bool whole = fits(access.element, shape.dimensions);
    for (const Part& part : parts_of(access.element, shape.dimensions)) {
      const auto* v = part.index->as<Variable>();
      if (!v || v->name.upper || !part.dimension) continue;
      const Name index = whole || !v->pack ? v->name : dimension(v->name, part.number);
      uses[index.spelled()].push_back(
          {access.tensor.spelled(), *part.dimension, part.index->span(), shape.where, &access});
    }
  }

  void accesses(const Expr& e, Uses& uses) const {
    const auto go = [&](const Expr& inner) { accesses(inner, uses); };
    e.match([](const Number&) {}, [](const Variable&) {}, [&](const Unary& u) { go(u.operand); },
        [&](const Binary& b) { go(b.left), go(b.right); },
        [&](const Access& a) {
          if (const Value value = value_named(a.tensor); value.shape) note(a, *value.shape, uses);
        },
        [&](const Call& c) { std::for_each(c.arguments.begin(), c.arguments.end(), go); },
        [&](const Select& s) {
          go(s.condition), go(s.then);
          if (s.otherwise) go(*s.otherwise);
        });
  }

  void report(const std::string& index, const Use& a, const Use& b, const Uses& uses) {
    if (kept_apart(a.dimension, b.dimension)) {
      diagnostics_
          .report(b.index, messages::dimensions_mix, a.dimension, b.dimension,
              fmt::format("index `{}` ranges over both", index))
          .label(a.declared, fmt::format("`{}` is declared here", a.tensor));
      return;
    }
    if (depth_ > 0) return;                             // names that one name of the callee stands for are compared
                                                        // before it runs
    auto entry = diagnostics_.report(b.index, messages::dimension, index, a.dimension, a.tensor, b.dimension, b.tensor);
    const auto shape = dimensions_of(b);
    std::string by;
    for (const Dimension& d : shape) by += (by.empty() ? "" : " by ") + d.value_or("…");
    entry.label(b.declared,
        by.empty() ? fmt::format("`{}` is declared here", b.tensor)
                   : fmt::format("`{}` is declared {} here", b.tensor, by));
    auto order = other_order(b, shape, uses);
    if (!order) order = other_order(a, dimensions_of(a), uses);
    if (order) entry.hint(fmt::format("`{}` reads every element", *order));
  }

  // The same indices in another order, in which each dimension is the one its index has elsewhere.
  static std::optional<std::string> other_order(const Use& use, const std::vector<Dimension>& shape, const Uses& uses) {
    std::vector<std::string> indices;
    for (const Expr& e : use.access->element) {
      const auto* v = e.as<Variable>();
      if (!v) return std::nullopt;
      indices.push_back(v->name.spelled());
    }
    const auto elsewhere = [&](const std::string& index, const std::string& dimension) {
      const auto at = uses.find(index);                // none where no dimension it stands for has a name
      return at != uses.end() && std::any_of(at->second.begin(), at->second.end(), [&](const Use& u) {
        return u.access != use.access && u.dimension == dimension;
      });
    };
    const std::vector<std::string> there = indices;
    std::sort(indices.begin(), indices.end());
    do {
      bool fits = shape.size() == indices.size() && indices != there;
      for (std::size_t d = 0; fits && d < indices.size(); ++d) fits = shape[d] && elsewhere(indices[d], *shape[d]);
      if (fits) return fmt::format("{}[{}]", use.tensor, fmt::join(indices, ", "));
    } while (indices.size() < 6 && std::next_permutation(indices.begin(), indices.end()));
    return std::nullopt;
  }

  // ---- elementwise ----

  // The dimensions of a whole value, aligned at the right.
  Value value_of(const Expr& e) {
    return e.match([&](const Number&) { return Value{Shape{{}, e.span()}}; },
        [&](const Variable& v) {
          // a size
          if (means_.contains(v.name.spelled()) && !values_.contains(v.name.spelled()))
            return Value{Shape{{}, e.span()}};
          Value value = value_named(v.name);
          if (value.shape) value.shape->where = e.span(), value.shape->name = v.name.spelled();
          return value;
        },
        [&](const Unary& u) { return value_of(u.operand); },
        [&](const Binary& b) { return meet({value_of(b.left), value_of(b.right)}, e.span()); },
        [](const Access&) { return Value{}; }, [&](const Call& c) { return result_of(c, e); },
        [&](const Select& s) {
          return s.otherwise ? meet({value_of(s.condition), value_of(s.then), value_of(*s.otherwise)}, e.span())
                             : Value{};
        });
  }

  static bool has_pack(const Shape& shape) {
    return std::any_of(shape.dimensions.begin(), shape.dimensions.end(), is_pack);
  }

  Value meet(const std::vector<Value>& operands, Span at) {
    std::optional<Shape> all;
    bool known = true;
    for (const Value& operand : operands) {
      known &= operand.shape.has_value() &&
          (!all || operand.shape->dimensions == all->dimensions || !(has_pack(*all) || has_pack(*operand.shape)));
      if (operand.shape && all && depth_ == 0) look_for_misaligned(*all, *operand.shape, at);
      if (operand.shape && all) all = both(*all, *operand.shape, "they are aligned");
      else if (operand.shape) all = operand.shape;
    }
    return known ? Value{all} : Value{};
  }

  void note_assertion(const Expr& e) {
    const auto* call = e.as<Call>();
    const auto* equation = call && call->function.text.starts_with("assert_") && call->arguments.size() == 1
        ? call->arguments[0].as<Binary>()
        : nullptr;
    const auto left = equation && equation->op == Op::Eq ? plain(equation->left) : std::nullopt,
               right = equation ? plain(equation->right) : std::nullopt;
    if (left && right) equal_.insert(std::minmax(*left, *right));
  }

  // [M, N] with [M]: the M meets the N, though there is another M. poly/broadcast sees more, but only where sizes are
  // names still.
  void look_for_misaligned(const Shape& a, const Shape& b, Span at) {
    if (has_pack(a) || has_pack(b)) return;
    const std::size_t rank = std::max(a.dimensions.size(), b.dimensions.size());
    const auto name = [&](const Shape& shape, std::size_t k) {
      return k + shape.dimensions.size() < rank ? Dimension() : shape.dimensions[k + shape.dimensions.size() - rank];
    };
    for (std::size_t k = 0; k < rank; ++k) {
      const Dimension left = name(a, k), right = name(b, k);
      if (!left || !right || *left == *right || kept_apart(*left, *right) ||
          equal_.contains(std::minmax(*left, *right)))
        continue;
      bool elsewhere = false;
      for (std::size_t j = 0; j < rank; ++j) elsewhere |= j != k && (name(a, j) == right || name(b, j) == left);
      if (!elsewhere) continue;
      diagnostics_.report(at, messages::misaligned, text_of(a), text_of(b), *left, *right)
          .label(a.where, "has shape " + text_of(a))
          .label(b.where, "has shape " + text_of(b))
          .hint(other_alignment(
              a.dimensions.size() < b.dimensions.size() ? a : b, a.dimensions.size() < b.dimensions.size() ? b : a))
          .hint(fmt::format(
              "where the two are always equal, say so in front: `Same = assert_equal({} == {});`", *left, *right));
      return;
    }
  }

  // `reshape(…, M, 1)` of [M] beside [M, N]: its sizes where they are in the longer shape, ones elsewhere.
  static std::string other_alignment(const Shape& shorter, const Shape& longer) {
    std::string sizes;
    std::size_t next = 0;
    for (const Dimension& d : longer.dimensions) {
      const bool mine = next < shorter.dimensions.size() && d && shorter.dimensions[next] == d;
      next += mine;
      sizes += (sizes.empty() ? "" : ", ") + (mine ? *d : "1");
    }
    if (next < shorter.dimensions.size() || next == longer.dimensions.size())
      return "a contraction says which index is meant: `O[i, j: M, N] = =(X[i, j] - Y[j, i]);`";
    if (shorter.name.empty())
      return fmt::format(
          "where the sizes of the same name are meant to meet, give the shorter one a name, `T = …;`, and write `reshape(T, {})`",
          sizes);
    return fmt::format(
        "where the sizes of the same name are meant to meet, write `reshape({}, {})`", shorter.name, sizes);
  }

  static std::string text_of(const Shape& shape) {
    std::string text;
    for (const Dimension& d : shape.dimensions) text += (text.empty() ? "" : ", ") + d.value_or("…");
    return "[" + text + "]";
  }

  Shape both(const Shape& a, const Shape& b, std::string_view how) {
    if (a.dimensions == b.dimensions) return a;
    if (has_pack(a) || has_pack(b))
      return both({behind_packs(a.dimensions), a.where}, {behind_packs(b.dimensions), b.where}, how);
    const Shape &longer = a.dimensions.size() >= b.dimensions.size() ? a : b,
                &shorter = a.dimensions.size() >= b.dimensions.size() ? b : a;
    Shape result = longer;
    const std::size_t ahead = longer.dimensions.size() - shorter.dimensions.size();
    for (std::size_t d = 0; d < shorter.dimensions.size(); ++d) {
      Dimension& mine = result.dimensions[ahead + d];
      const Dimension& other = shorter.dimensions[d];
      if (mine && other && kept_apart(*mine, *other))
        diagnostics_
            .report(
                b.where, messages::dimensions_mix, &longer == &a ? *mine : *other, &longer == &a ? *other : *mine, how)
            .label(a.where, "with this");
      if (!mine) mine = other;
    }
    return result;
  }
};

// A `dim` that names no size is a slip.
void unused(const File& file, const std::vector<Name>& declared, Diagnostics& diagnostics) {
  std::set<std::string> sizes;
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item))
      for (const Input& i : f->inputs)
        for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
          if (const auto* v = size.as<Variable>()) sizes.insert(v->name.spelled());
  for (const Name& name : declared) {
    if (sizes.contains(name.spelled())) continue;
    auto entry = diagnostics.report(name.span, messages::dimension_unused, name.spelled());
    if (const auto near = nearest(name.text, {sizes.begin(), sizes.end()}))
      entry.hint(fmt::format("did you mean `{}`?", *near));
  }
}

}  // namespace

void check_dimensions(const File& file, Diagnostics& diagnostics) {
  std::vector<Name> declared;
  std::set<std::string> apart;
  for (const auto& item : file.items)
    if (const auto* dim = std::get_if<Dim>(&item))
      for (const Name& name : dim->names) {
        declared.push_back(name);
        apart.insert(name.spelled());
      }
  Shared shared{file, apart};
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item)) Dimensions(shared, file, diagnostics).function(*f);
  // What a function has wrong on its own is not told again at its calls.
  const auto own = diagnostics.all();
  for (const Diagnostic& each : shared.in_calls.all())
    if (std::none_of(own.begin(), own.end(), [&](const Diagnostic& d) { return d.span == each.span; }))
      diagnostics.add(each);
  unused(file, declared, diagnostics);
}

}  // namespace tilec::lang
